"""Learning-rate schedules by one name on every backend: the rates of PyTorch's own, kept over runs and checkpoints."""

import math

import numpy as np
import pytest
from small_backends import build_kit

from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import on_end_epoch, on_step_training
from delira.errors import ConfigError
from delira.state import METRICS
from delira.training.callbacks import (
    CosineAnnealingLR,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    StepLR,
    TorchScheduler,
    WarmupCosine,
)

CASES = {
    "LambdaLR": (lambda **k: LambdaLR(lambda n: 1 / (n + 1), **k), {"lr_lambda": lambda n: 1 / (n + 1)}),
    "StepLR": (lambda **k: StepLR(2, 0.5, **k), {"step_size": 2, "gamma": 0.5}),
    "MultiStepLR": (lambda **k: MultiStepLR([1, 4], **k), {"milestones": [1, 4]}),
    "ExponentialLR": (lambda **k: ExponentialLR(0.9, **k), {"gamma": 0.9}),
    "CosineAnnealingLR": (lambda **k: CosineAnnealingLR(5, 0.01, **k), {"T_max": 5, "eta_min": 0.01}),
    "CyclicLR": (
        lambda **k: CyclicLR(0.02, 0.2, 2, 1, "triangular2", **k),
        {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 2, "step_size_down": 1, "mode": "triangular2"},
    ),
}


def rates_of_torch(name, params, n):
    """The first ``n`` rates."""
    torch = pytest.importorskip("torch", reason="the comparison is with PyTorch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    more = {"cycle_momentum": False} if name in ("CyclicLR", "OneCycleLR") else {}
    schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **params, **more)
    rates = []
    for _ in range(n):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


class Rates(Callback):
    """Keeps the rate with which each step updates, as the trainer says it."""

    def __init__(self):
        self.steps, self.epochs = [], []

    def _rate(self, trainer):
        return trainer.backend.optimizers.learning_rates(trainer.optimizers)["lr"]

    def at_epoch_begin(self, trainer, **facts):
        self.epochs.append(self._rate(trainer))

    def at_iter_begin(self, trainer, **facts):
        self.steps.append(self._rate(trainer))


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", CASES)
def test_rates_of_epochs_are_those_of_pytorch(fit, name):
    make, params = CASES[name]
    rates = Rates()
    fit.trial(rates, make()).run(7)
    np.testing.assert_allclose(rates.epochs, rates_of_torch(name, params, 7), rtol=1e-5)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", CASES)
def test_rates_of_steps_are_those_of_pytorch(fit, name):
    make, params = CASES[name]
    rates = Rates()
    fit.trial(rates, make(step_on_batch=True)).run(2)
    np.testing.assert_allclose(rates.steps, rates_of_torch(name, params, 6), rtol=1e-5)


def test_one_cycle_is_that_of_pytorch(fit):
    rates = Rates()
    fit.trial(rates, OneCycleLR(0.5, total_steps=9, pct_start=0.4)).run(3)
    wanted = rates_of_torch("OneCycleLR", {"max_lr": 0.5, "total_steps": 9, "pct_start": 0.4}, 8)
    np.testing.assert_allclose(rates.steps[:8], wanted, rtol=1e-4)


def test_warm_up_and_cosine_follow_their_formulas(fit):
    rates = Rates()
    fit.trial(rates, WarmupCosine(3, 7, final_factor=0.1)).run(3)
    rising = [0.1 * n / 4 for n in (1, 2, 3)]
    falling = [0.1 * (0.1 + 0.9 * (1 + math.cos(math.pi * n / 4)) / 2) for n in range(5)]
    np.testing.assert_allclose(rates.steps, [*rising, *falling, 0.01], rtol=1e-5)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", CASES)
def test_a_schedule_goes_on_over_runs_and_checkpoints(fit, tmp_path, name):
    make, params = CASES[name]
    wanted = rates_of_torch(name, params, 6)
    rates = Rates()
    trial = fit.trial(rates, make())
    trial.run(3)
    kept = trial.save(tmp_path / "kept")
    trial.run(6)
    np.testing.assert_allclose(rates.epochs, wanted, rtol=1e-5)
    rates = Rates()
    fit.trial(rates, make()).load(kept).run(6)
    np.testing.assert_allclose(rates.epochs, wanted[3:], rtol=1e-5)


def test_evaluations_do_not_step(fit):
    rates = Rates()
    trial = fit.trial(rates, StepLR(1))
    for epochs in (1, 2, 3):
        trial.run(epochs)
        trial.evaluate()
    np.testing.assert_allclose(rates.epochs, [0.1, 0.01, 0.001], rtol=1e-5)


def scripted(key, *values):
    left = list(values)

    @on_end_epoch
    def script(state):
        state[METRICS] = {**state[METRICS], key: left.pop(0)}

    return script


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("key", "sign"), [("val_score_loss", 1), ("val_acc", -1)])
def test_the_rate_falls_on_a_plateau(fit, key, sign):
    rates = Rates()
    values = [sign * value for value in (5.0, 4.0, 4.5, 4.5, 3.0, 3.5, 3.5, 1.0)]
    fit.trial(scripted(key, *values), rates, ReduceLROnPlateau(key, patience=1, factor=0.5)).run(8)
    np.testing.assert_allclose(rates.epochs, [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025], rtol=1e-5)


def test_a_plateau_of_steps_is_seen_too(fit):
    values = iter([5.0, 6.0, 6.0, 1.0, 2.0, 2.0])

    @on_step_training
    def script(state):
        state[METRICS] = {"running_loss": next(values)}

    rates = Rates()
    plateau = ReduceLROnPlateau("running_loss", patience=1, factor=0.5, step_on_batch=True)
    fit.trial(script, rates, plateau, metrics=[]).run(2)
    np.testing.assert_allclose(rates.steps, [0.1, 0.1, 0.1, 0.05, 0.05, 0.05], rtol=1e-5)


def test_any_schedule_of_pytorch_works(torch_fit):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    rates = Rates()
    builder = lambda optimizer: torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)  # noqa: E731
    torch_fit.trial(rates, TorchScheduler(builder)).run(4)
    wanted = rates_of_torch("PolynomialLR", {"total_iters": 4}, 4)
    np.testing.assert_allclose(rates.epochs, wanted)


def test_a_schedule_of_pytorch_is_refused_elsewhere(fit):
    if fit.backend != "torch":
        complaint = f"works with PyTorch, not in the backend '{fit.backend}'; use a schedule of"
        with pytest.raises(ConfigError, match=complaint):
            fit.trial(TorchScheduler(object)).run(1)


def test_an_experiment_has_them_too(tmp_path, manager):
    kit = build_kit("torch")
    rates = Rates()
    kit.trainer(tmp_path, callbacks=[rates, StepLR(2)]).train(5, manager())
    np.testing.assert_allclose(rates.epochs, [0.1, 0.1, 0.01, 0.01, 0.001])


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"CyclicLR: mode must be 'triangular', .*, got 'square'"):
        CyclicLR(0.1, 0.2, mode="square")
    with pytest.raises(ConfigError, match="warmup_steps is at least 0 and below total_steps, got 5 and 5"):
        WarmupCosine(5, 5)
