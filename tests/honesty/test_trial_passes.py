"""What a trial's passes report, where they stop, what a broken-off one leaves, and what is said of mistakes."""

import logging
import os
import signal

import numpy as np
import pytest
from trial_makers import DIFFERENTIABLE, INPUTS, TARGETS, line_trial, need

from delira.callbacks.imaging import FromState, MakeGrid
from delira.errors import TrainingInterrupted
from delira.metrics import MetricList, lambda_metric
from delira.state import BATCH, EPOCH, INPUT, LOSS, STOP_TRAINING, Y_PRED
from delira.training.callbacks import ManifoldMixup, on_end_epoch, on_step_training, on_step_validation
from delira.trial import base_closure

BACKENDS = pytest.mark.parametrize("framework", DIFFERENTIABLE)


def warned(caplog, text):
    return [one.getMessage() for one in caplog.records if text in one.getMessage()]


# ------------------------------------------------------------------ evaluate()

IMAGES = np.linspace(0, 1, 4 * 16, dtype="f4").reshape(4, 1, 4, 4)


def image_trial(*callbacks):
    torch = pytest.importorskip("torch")
    import delira

    net = torch.nn.Conv2d(1, 1, 1)
    made = torch.optim.SGD(net.parameters(), 0.1)
    trial = delira.Trial(net, made, torch.nn.MSELoss(), ["loss"], callbacks, 0, seed=0)
    return trial.with_data(IMAGES, IMAGES, IMAGES, IMAGES, IMAGES, batch_size=4)


def test_callbacks_of_validations_look_at_evaluations_of_the_validation_data_and_at_no_others():
    seen = []
    for name in ("on_val", None):
        callback = FromState(INPUT).with_handler(lambda picture, state: seen.append((state["phase"], state["data"])))
        trial = image_trial(callback.on_val() if name else callback)
        trial.evaluate()
        trial.evaluate(data_key="train_data")
        trial.predict()
        trial.predict(data_key="validation_data")
        assert set(seen) == {("evaluate", "validation_data")}
        seen.clear()


def test_an_evaluation_leaves_the_files_of_the_fit_as_they_are(tmp_path):
    trial = image_trial(MakeGrid(INPUT, 4).on_val().to_file(tmp_path / "grid_{epoch}.png"))
    trial.run(1)
    (first,) = tmp_path.iterdir()
    before = first.read_bytes()
    trial.evaluate()
    assert first.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid_0.png", "grid_0_evaluate.png"]


# ------------------------------------------------------------------ STOP_TRAINING


def stop_at(hook, batch, seen):
    @hook
    def stop(state):
        seen.append(state[BATCH])
        if state[BATCH] == batch:
            state[STOP_TRAINING] = True

    return stop


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("endless", [False, True])
def test_a_validation_stops_at_the_step_that_asked_for_it(framework, endless, caplog):
    need(framework)
    seen, batches = [], [(INPUTS[at : at + 4], TARGETS[at : at + 4]) for at in range(0, 24, 4)]
    trial = line_trial(framework, [stop_at(on_step_validation, 2, seen)], seed=0).with_val_generator(batches)
    trial = trial.for_inf_val_steps() if endless else trial
    (record,) = trial.run(3)
    assert seen == [0, 1, 2]
    assert record["validation_steps"] == 3
    assert bool(warned(caplog, "was stopped by STOP_TRAINING after 3 of 6 batches")) is not endless


@pytest.mark.parametrize("endless", [False, True])
def test_an_evaluation_stops_at_the_step_that_asked_for_it(endless):
    need("torch")
    drawn, seen = [], []

    class Drawn(list):
        def __iter__(self):
            for at, batch in enumerate(super().__iter__()):
                drawn.append(at)
                yield batch

    batches = Drawn((INPUTS[at : at + 4], TARGETS[at : at + 4]) for at in range(0, 24, 4))
    trial = line_trial("torch", [stop_at(on_step_validation, 2, seen)], seed=0).with_val_generator(batches)
    trial = trial.for_inf_val_steps() if endless else trial
    expected = np.mean((INPUTS[:12].astype("f8") @ np.full((3, 1), 0.1) - TARGETS[:12]) ** 2)
    assert trial.evaluate()["val_loss"] == pytest.approx(expected, rel=1e-5)
    assert seen == drawn == [0, 1, 2]


def test_an_endless_training_that_is_stopped_is_validated_as_a_whole():
    need("torch")
    seen = []
    trial = line_trial("torch", [stop_at(on_step_training, 2, seen)], seed=0).for_inf_train_steps()
    (record,) = trial.with_val_data(INPUTS, TARGETS, 4).run(2)
    assert seen == [0, 1, 2]
    assert (record["train_steps"], record["validation_steps"]) == (3, 6)


# ------------------------------------------------------------------ killed in a validation


@pytest.mark.parametrize("how", ["killed", "signal"])
def test_a_run_that_is_broken_off_in_a_validation_ends_with_the_same_history(how, tmp_path):
    need("torch")

    def trial(path, *callbacks):
        made = line_trial("torch", callbacks, ["loss", "mse"], seed=0, save_path=path, save_freq_steps=5)
        return made.with_val_data(INPUTS[:12], TARGETS[:12], 5)

    @on_step_validation
    def die(state):
        if (state[EPOCH], state[BATCH]) == (1, 1):
            if how == "killed":
                raise RuntimeError("as if it was killed")
            os.kill(os.getpid(), signal.SIGTERM)

    whole = trial(tmp_path / "whole").run(3)
    with pytest.raises((RuntimeError, TrainingInterrupted)):
        trial(tmp_path / "broken", die).run(3)
    assert trial(tmp_path / "broken").run(3) == whole
    assert {"running_loss", "running_mse"} <= whole[1].keys()


# ------------------------------------------------------------------ layers


def test_depth_one_is_depth_one():
    torch = pytest.importorskip("torch")
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU()))
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), inner)
    mixup = ManifoldMixup()
    assert mixup.get_selected_layers(net) == ["0", "1"]
    assert mixup.at_depth(1).get_selected_layers(net) == ["1.0", "1.1"]
    assert mixup.at_depth(2).get_selected_layers(net) == ["1.1.0"]
    assert mixup.at_depth(None).get_selected_layers(net) == ["0", "1", "1.0", "1.1", "1.1.0"]


# ------------------------------------------------------------------ what is said


@BACKENDS
def test_a_closure_that_changes_no_weight_is_told_of_once(framework, caplog):
    need(framework)
    caplog.set_level(logging.WARNING, "delira")

    def forgets(state):
        state[Y_PRED] = state["model"](state["x"])
        state[LOSS] = 0.0 * state[Y_PRED][0, 0]

    trial = line_trial(framework, how="sgd", seed=0).with_closure(forgets)
    if framework == "torch":
        trial.state["optimizer"] = None
    trial.run(2)
    assert len(warned(caplog, "has changed no weight")) == 1
    caplog.clear()
    line_trial(framework, seed=0).with_closure(base_closure()).run(2)
    line_trial(framework, seed=0).run(1)
    assert not warned(caplog, "has changed no weight")


def test_two_metrics_of_one_name_are_told_of(caplog):
    def error(y_pred, y_true):
        return (y_pred - y_true) ** 2

    one, two = lambda_metric("error")(error), lambda_metric("error")(lambda y_pred, y_true: abs(y_pred - y_true))
    MetricList([one, two])
    (message,) = warned(caplog, "two metrics are called")
    assert "'error', and only the later one is reported" in message
    caplog.clear()
    MetricList(["loss", "mse", "mae", "acc", "cat_acc", "cat_accuracy"])
    assert not warned(caplog, "two metrics are called 'cat")


@pytest.mark.parametrize("hook", [on_step_training, on_end_epoch])
def test_a_misspelt_key_is_told_of_once_with_the_right_one(hook, caplog):
    need("torch")

    @hook
    def stop(state):
        state["stop_trainning"] = True
        state["what I call mine"] = 1

    line_trial("torch", [stop], seed=0).run(2)
    (message,) = warned(caplog, "nobody reads")
    assert "'stop_trainning', which nobody reads; did you mean 'stop_training'?" in message
