"""Cycles, one cycle, and warm-up: the rates of PyTorch's own."""

import numpy as np
import pytest
from rates_of_fits import of_torch

from delira.callbacks.abstract_callback import Callback
from delira.training.callbacks import CyclicLR, OneCycleLR

CYCLES = {
    "fn of cycles": {"step_size_up": 2, "scale_fn": lambda cycle: 0.5 ** (cycle - 1)},
    "fn of steps": {"step_size_up": 2, "step_size_down": 1, "scale_fn": lambda n: 0.9**n, "scale_mode": "iterations"},
}
ONE_CYCLES = {
    "lines": {"total_steps": 9, "anneal_strategy": "linear"},
    "three phases": {"total_steps": 9, "three_phase": True},
    "three phases of lines": {"epochs": 3, "steps_per_epoch": 3, "three_phase": True, "anneal_strategy": "linear"},
    "no rise": {"total_steps": 9, "pct_start": 0.0},
    "no fall": {"total_steps": 9, "pct_start": 1.0},
    "two long phases of three": {"total_steps": 9, "pct_start": 0.8, "three_phase": True},
}


class Rates(Callback):
    def __init__(self):
        self.seen = []

    def at_iter_begin(self, trainer, **facts):
        self.seen.append(trainer.backend.optimizers.learning_rates(trainer.optimizers)["lr"])


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", CYCLES)
def test_cycles_take_a_function_of_their_height(fit, name):
    rates = Rates()
    fit.trial(rates, CyclicLR(0.02, 0.2, step_on_batch=True, **CYCLES[name])).run(4)
    wanted = of_torch("CyclicLR", {"base_lr": 0.02, "max_lr": 0.2, "cycle_momentum": False, **CYCLES[name]}, 12)
    np.testing.assert_allclose(rates.seen, np.array(wanted)[:, 0], rtol=1e-5)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", ONE_CYCLES)
def test_one_cycle_has_the_ways_of_pytorch_and_stays_at_its_end(fit, name):
    rates = Rates()
    fit.trial(rates, OneCycleLR(0.5, **ONE_CYCLES[name])).run(4)
    wanted = np.array(of_torch("OneCycleLR", {"max_lr": 0.5, "cycle_momentum": False, **ONE_CYCLES[name]}, 9))[:, 0]
    np.testing.assert_allclose(rates.seen, [*wanted, *3 * [wanted[-1]]], rtol=1e-4)


def test_one_cycle_stays_at_its_end_after_a_resume(fit, tmp_path):
    trial = fit.trial(OneCycleLR(0.5, total_steps=5))
    trial.run(2)
    kept = trial.save(tmp_path / "kept")
    rates = Rates()
    fit.trial(rates, OneCycleLR(0.5, total_steps=5)).load(kept).run(3)
    np.testing.assert_allclose(rates.seen, 3 * [0.5 / 25 / 1e4], rtol=1e-4)
