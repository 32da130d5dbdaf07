"""What ends a fit: no improvement, and losses that are no numbers."""

import math

import numpy as np
import pytest
from small_rooms import build_room

from delira.errors import ConfigError, MissingKeyError, NonFiniteLossError
from delira.state import BATCH, EPOCH, LOSS, METRICS, PHASE, State
from delira.training.callbacks import Best, EarlyStopping, TerminateOnNaN
from delira.training.callbacks.decorators import on_criterion, on_end_epoch, on_step_training
from delira.training.callbacks.monitor import sign_of


@pytest.mark.parametrize(
    ("name", "is_larger_better"),
    [
        *((f"val_{name}", True) for name in (
            "acc", "binary_acc", "top_5_acc", "roc_auc_score", "pr_auc", "f1", "f1_score", "iou", "mean_iou", "dice",
            "precision", "recall", "kappa", "mcc", "r2", "balanced_accuracy",
        )),
        *((f"val_{name}", False) for name in (
            "loss", "mse", "mae", "rmse", "hausdorff", "calibration_error", "dice_loss", "nll",
        )),
    ],
)  # fmt: skip
def test_auto_knows_which_values_are_good(name, is_larger_better):
    assert sign_of("auto", name, "test") == (-1.0 if is_larger_better else 1.0)
    assert EarlyStopping(name).state_dict() == {"best": math.inf, "epochs_waited": 0}
    Best(monitor=name)


def test_auto_guesses_nothing():
    for name in ("something", "val_precision_mm", "previous_indices", "accuracy_std", "1-accuracy"):
        with pytest.raises(ConfigError, match=r"so say mode='min' \(also called 'lowest'\) or mode='max'"):
            sign_of("auto", name, "test")


def scripted(key, *values):
    left = list(values)

    @on_end_epoch
    def script(state):
        if state[PHASE] == "fit":
            state[METRICS] = {**state[METRICS], key: left.pop(0)}

    return script


def test_a_trial_stops_early(fit):
    history = fit.trial(scripted("val_acc", 0.1, 0.3, 0.2, 0.3, 0.4), EarlyStopping("val_acc", patience=2)).run(9)
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]


def test_evaluations_do_not_count(torch_fit):
    stopping = EarlyStopping(patience=9)
    trial = torch_fit.trial(scripted("val_loss", 1, 2, 2), stopping)
    trial.run(2)
    assert stopping.epochs_waited == 1
    for _ in range(2):
        trial.evaluate()
    assert stopping.epochs_waited == 1


def test_a_replay_is_stopped_too(torch_fit):
    trial = torch_fit.trial(scripted("val_loss", 1, 2, 3, 4))
    trial.run(4)
    seen = []

    @on_end_epoch
    def watch(state):
        seen.append(state[EPOCH])

    trial.replay([watch, EarlyStopping(patience=2)], verbose=0)
    assert seen == [0, 1, 2]


def test_steps_can_be_counted(torch_fit):
    steps, losses = [], iter([3.0, 2.0, 2.5, 2.5, 1.0])

    @on_step_training
    def watch(state):
        steps.append((state[EPOCH], state[BATCH]))
        state[METRICS] = {"running_loss": next(losses)}

    history = torch_fit.trial(watch, EarlyStopping("running_loss", patience=2, step_on_batch=True)).run(9)
    assert steps == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert len(history) == 1
    with pytest.raises(MissingKeyError, match="EarlyStopping watches 'val_loss' of steps, but no step had it"):
        torch_fit.trial(EarlyStopping(step_on_batch=True)).run(1)


def test_a_fit_that_goes_on_after_its_last_step_has_seen_the_value():
    state = State({METRICS: {}})
    for counted in ({"best": 0.5, "epochs_waited": 0}, {"best": math.inf, "epochs_waited": 1}):
        stopping = EarlyStopping("running_loss", patience=2, step_on_batch=True)
        with pytest.raises(MissingKeyError, match="no step had it"):
            stopping.on_end_training(state)
        stopping.load_state_dict(counted)
        stopping.on_end_training(state)


def test_the_historic_name_of_the_monitor_works():
    assert EarlyStopping(monitor_key="val_mse").monitor == "val_mse"


# ---- no numbers


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
    monkeypatch.setattr("delira.training.callbacks.terminate_on_nan._is_free", lambda device: False)
    read = trial.trainer.backend.arrays.read_scalars
    monkeypatch.setattr(trial.trainer.backend.arrays, "read_scalars", lambda v: reads.append(len(v)) or read(v))
    trial.run(5)
    assert steps == [0, 1]
    assert 2 in reads


def test_an_experiment_without_its_guard_ends_after_the_epoch(tmp_path, manager):
    room = build_room("torch")
    callbacks = [poisoned(1), TerminateOnNaN()]
    trainer = room.trainer(tmp_path, callbacks=callbacks, nonfinite="ignore")
    trainer.train(5, manager())
    assert trainer.state.epoch == 1
    with pytest.raises(NonFiniteLossError):
        room.trainer(tmp_path / "b", callbacks=[poisoned(1), TerminateOnNaN()]).train(5, manager())


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"EarlyStopping: mode must be one of .*, got 'up'"):
        EarlyStopping("loss", mode="up")
