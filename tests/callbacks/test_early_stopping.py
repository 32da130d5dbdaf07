"""A fit ends where its score no longer improves."""

import math

import pytest
from scripted_values import scripted

from delira.callbacks.decorators import on_end_epoch, on_step_training
from delira.errors import ConfigError, MissingKeyError
from delira.state import BATCH, EPOCH, METRICS, State
from delira.training.callbacks import EarlyStopping


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


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"EarlyStopping: mode must be one of .*, got 'up'"):
        EarlyStopping("loss", mode="up")
