"""A fit ends where its loss is no number."""

import numpy as np
import pytest
from scripted_values import scripted
from small_backends import build_kit

from delira.callbacks.decorators import on_criterion, on_step_training
from delira.errors import NonFiniteLossError
from delira.state import BATCH, DATA, LOSS, VALIDATION_DATA
from delira.training.callbacks import TerminateOnNaN


def poisoned(at, value=float("nan")):
    """Make the loss of one step, counted over all epochs, no number."""
    count = iter(range(100))

    @on_criterion
    def poison(state):
        if next(count) == at:
            state[LOSS] = state[LOSS] * value

    return poison


def counter(steps):
    @on_step_training
    def count(state):
        steps.append(state[BATCH])

    return count


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("metrics", [[], ["loss"]])
def test_a_trial_ends_at_the_very_step(fit, value, metrics):
    steps = []
    trial = fit.trial(poisoned(4, value), TerminateOnNaN(), counter(steps), metrics=metrics)
    history = trial.run(5)
    assert steps == [0, 1, 2, 0, 1]
    assert [record["epoch"] for record in history] == [1]


def test_the_guard_is_there_again_afterwards(torch_fit):
    trial = torch_fit.trial(TerminateOnNaN())
    config = trial.trainer.config
    trial.run(1)
    assert trial.trainer.config is config
    assert config.guards.nonfinite == "raise"
    with pytest.raises(NonFiniteLossError):
        torch_fit.trial(poisoned(1)).run(1)


def test_a_validation_that_is_no_number_ends_the_fit(torch_fit):
    trial = torch_fit.trial(TerminateOnNaN())
    trial.with_val_data(torch_fit.x, torch_fit.y * np.nan, 4)
    assert len(trial.run(5)) == 1


def test_another_value_can_be_watched(torch_fit):
    script = scripted("val_ratio", 1.0, float("inf"), 1.0)
    assert len(torch_fit.trial(script, TerminateOnNaN("ratio")).run(5)) == 2
    script = scripted("val_ratio", 1.0, float("inf"), 1.0)
    assert len(torch_fit.trial(script, TerminateOnNaN()).run(3)) == 3


def test_on_an_accelerator_losses_are_read_together(torch_fit, monkeypatch):
    steps, reads = [], []
    trial = torch_fit.trial(poisoned(1), TerminateOnNaN(), counter(steps), log_freq=2)
    monkeypatch.setattr("delira.callbacks.monitor._is_free", lambda device: False)
    read = trial.trainer.backend.arrays.read_scalars
    monkeypatch.setattr(trial.trainer.backend.arrays, "read_scalars", lambda v: reads.append(len(v)) or read(v))
    trial.run(5)
    assert steps == [0, 1]
    assert 2 in reads


def test_an_experiment_without_its_guard_ends_after_the_epoch(tmp_path, manager):
    kit = build_kit("torch")
    callbacks = [poisoned(1), TerminateOnNaN()]
    trainer = kit.trainer(tmp_path, callbacks=callbacks, nonfinite="ignore")
    trainer.train(5, manager())
    assert trainer.state.epoch == 1
    with pytest.raises(NonFiniteLossError):
        kit.trainer(tmp_path / "b", callbacks=[poisoned(1), TerminateOnNaN()]).train(5, manager())


def test_a_subclass_hears_the_end_of_an_epoch_once_and_validations_as_training(torch_fit):
    class Listening(TerminateOnNaN):
        heard = ()

        def on_step_training(self, state):
            super().on_step_training(state)
            self.heard = (*self.heard, state[DATA])

        def on_end_epoch(self, state):
            super().on_end_epoch(state)
            self.heard = (*self.heard, "epoch")

    listening = Listening()
    torch_fit.trial(listening).with_val_data(torch_fit.x, torch_fit.y, len(torch_fit.x)).run(1)
    assert listening.heard[-2:] == (VALIDATION_DATA, "epoch")
    assert listening.heard.count("epoch") == 1
