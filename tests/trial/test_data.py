"""The data of a trial: arrays, tensors, loaders with and without a length, generators of the user's."""

import sys

import numpy as np
import pytest
from kits import BACKENDS, TORCH, WEIGHT, linear_trial, quiet, tunable_trial

from delira import state as keys
from delira.callbacks.decorators import (
    on_end_training,
    on_step_training,
    on_step_validation,
)
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.state import BATCH, OPTIMIZER, STOP_TRAINING, Y_PRED, Y_TRUE, X, state_key
from delira.trial.data import TrialData


@TORCH
def test_arrays_come_in_batches_of_one_and_start_no_process(kit, line):
    process = pytest.importorskip("psutil", reason="processes are counted by the package psutil").Process()
    sizes, before, after = [], set(process.children(recursive=True)), set()

    @on_step_training
    @on_step_validation
    def note(state):
        sizes.append(len(state[X]))
        after.update(process.children(recursive=True))

    trial = linear_trial(kit, note).with_train_data(*line).with_val_data(*line).with_test_data(line[0])
    trial.run(1)
    trial.predict()
    assert sizes == [1] * 36
    assert after <= before


@BACKENDS
def test_a_batch_to_predict_may_be_two_inputs(kit, line):
    """A network that needs both of a tuple of two is given both; its target is not known (4.3)."""
    x = line[0]

    class Both(kit.module):
        pass

    def call(self, a, b):
        return a @ self.w - b @ self.w

    for name in ("forward", "call", "__call__"):
        if name in vars(kit.module):
            setattr(Both, name, call)
    net = Both({"w": WEIGHT}, None)
    wanted = (x - 2 * x[::-1]) @ WEIGHT
    pairs = [(x[start : start + 4], (2 * x[::-1])[start : start + 4]) for start in (0, 4, 8)]
    for batches in (pairs, [(pair,) for pair in pairs], [(pair, None) for pair in pairs], list(map(list, pairs))):
        found = kit.numpy(quiet(net).with_test_generator(batches).predict())
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    one = quiet(kit.linear(WEIGHT)).with_test_generator([(x, x)])  # ... and one that needs one is given one
    np.testing.assert_allclose(kit.numpy(one.predict()), x @ WEIGHT, rtol=1e-5)


@pytest.mark.parametrize("kit", ["tensorflow"], indirect=True)
def test_a_functional_model_of_keras_takes_several_inputs_and_targets(kit, line):
    keras = pytest.importorskip("keras")
    x, y = line
    a, b = keras.Input((3,)), keras.Input((3,))
    net = keras.Model([a, b], [keras.layers.Dense(2)(a + b), keras.layers.Dense(1)(a)])
    wanted = [value.numpy() for value in net([x, 2 * x])]

    def criterion(pa, pb, ta, tb):
        return kit.mse(pa, ta) + kit.mse(pb, tb)

    for test in (((x, 2 * x), None), (x, 2 * x)):
        found = quiet(net).with_test_generator([test]).predict()
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
    trial = quiet(net, kit.sgd(net, 0.01), criterion, ["loss"])
    history = trial.with_train_generator([((x, 2 * x), (y, y[:, :1]))]).run(20)
    assert history[-1]["loss"] < history[0]["loss"]
    first = ((wanted[0] - y) ** 2).mean() + ((wanted[1] - y[:, :1]) ** 2).mean()
    assert history[0]["loss"] == pytest.approx(first, rel=1e-5)


@TORCH
def test_a_tuple_of_arrays_is_not_stacked(kit, line):
    x, y = line
    with pytest.raises(ConfigError, match="are one array, got a tuple of 2; several inputs or targets come as batches"):
        linear_trial(kit).with_test_data((x, x))
    with pytest.raises(ConfigError, match="are one array, got a tuple of 2"):
        linear_trial(kit).with_train_data(x, (y, y))


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("is_first", [True, False])
def test_543_steps_hold_whether_they_are_said_before_the_data_or_after(kit, line, is_first):
    x, y = line
    trial = linear_trial(kit, rate=0.0)
    if is_first:
        trial.for_steps(2, 5, 1)
    trial.with_train_data(x, y, 4).with_val_data(x, y, 4).with_test_data(x, 4)
    if not is_first:
        trial.for_steps(2, 5, 1)
    (record,) = trial.run(1)
    assert (record["train_steps"], record["validation_steps"]) == (2, 5)
    assert len(trial.predict()) == 4
    trial.for_steps(train_steps=1)
    assert [record["train_steps"] for record in trial.run(2)] == [2, 1]


@TORCH
@pytest.mark.parametrize("steps", [0, -2, 2.5, True, "2", float("inf"), None])
def test_145_no_steps_and_no_data_are_refused_in_words(kit, steps):
    if steps is None:
        trial = linear_trial(kit)
        for attempt, words in (
            (trial.run, "there is nothing to fit to; give training data"),
            (trial.evaluate, "there are no validation data to evaluate"),
            (trial.predict, "there are no test data to predict"),
        ):
            with pytest.raises(ConfigError, match=words):
                attempt()
        return
    for method in ("for_train_steps", "for_val_steps", "for_test_steps"):
        with pytest.raises(ConfigError, match="steps must be a positive whole number, or -1 for no end, got"):
            getattr(linear_trial(kit), method)(steps)
    with pytest.raises(DataError, match="gave no batch"):
        linear_trial(kit).with_train_generator([]).run(1)


@BACKENDS
def test_370_epochs_of_any_number_of_steps_never_run_out_of_data(kit, line):
    x, y = line
    batches = [(x[:4], y[:4]), (x[4:8], y[4:8]), (x[8:], y[8:])]
    for steps in (1, 2, 3, 5, 7):
        history = linear_trial(kit).with_train_generator(batches, steps).with_val_generator(batches, steps).run(4)
        assert [record["train_steps"] for record in history] == [steps] * 4
        assert [record["validation_steps"] for record in history] == [steps] * 4


@TORCH
def test_370_what_can_be_gone_through_once_says_so_and_stops_with_no_stop_iteration(kit, line):
    trial = linear_trial(kit).with_train_generator(iter([line, line]))
    with pytest.raises(DataError, match="the training data gave no batch in epoch 2"):
        trial.run(2)
    assert len(trial.history) == 1


@BACKENDS
def test_525_a_loader_of_the_users_goes_on_over_the_epochs_too(kit, line):
    x, y = line
    batches, seen = [{"in": x[start : start + 4], "out": y[start : start + 4]} for start in (0, 4, 8)], []

    def load(state):
        batch = next(state[keys.ITERATOR])
        state[X], state[Y_TRUE] = batch["in"], batch["out"]

    @on_step_training
    def note(state):
        seen.append(float(kit.numpy(state[X])[0, 0]))

    linear_trial(kit, note).with_train_generator(batches, steps=2).with_loader(load).with_inf_train_loader().run(3)
    np.testing.assert_allclose(seen, x[[0, 4, 8, 0, 4, 8], 0])


@BACKENDS
def test_374_any_data_set_can_be_evaluated_and_predicted_under_its_name(kit, line):
    x, y = line
    trial = linear_trial(kit, metrics=["loss", "mse"]).with_train_data(x[:6], y[:6], 4).with_val_data(x[6:], y[6:], 4)
    trial.with_test_generator([(2 * x, y)])
    for key, name, inputs, targets in (
        (keys.TRAIN_DATA, "train", x[:6], y[:6]),
        (keys.VALIDATION_DATA, "val", x[6:], y[6:]),
        (keys.TEST_DATA, "test", 2 * x, y),
    ):
        loss = pytest.approx(((inputs @ WEIGHT - targets) ** 2).mean(), rel=1e-5)
        assert trial.evaluate(data_key=key) == {f"{name}_loss": loss, f"{name}_mse": loss}
        found = kit.numpy(trial.predict(data_key=key))
        if key != keys.TRAIN_DATA:
            np.testing.assert_allclose(found, inputs @ WEIGHT, rtol=1e-4, atol=1e-5)
        assert found.shape == targets.shape


def test_batches_of_a_data_manager_pass_by_one_call_each():
    """What an epoch calls for each batch is paid at every step: it makes a batch of it, and that is all."""
    manager, calls = BaseDataManager({"data": np.ones((12, 3)), "label": np.ones(12)}, 4), []
    data = TrialData(manager, None, keys.State())
    own = sys.modules[TrialData.__module__].__file__

    def note(frame, event, _argument):
        if event == "call" and frame.f_code.co_filename == own and frame.f_back.f_code.co_name == "epoch":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        n_batches = len([*data.epoch(0, 0, 1)])
    finally:
        sys.setprofile(None)
    assert n_batches == 3
    assert calls == ["as_batch"] * n_batches


def batches_of(x, y, size):
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


class Unsized:
    """Batches that can be gone through again and again, but not counted."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("kind", ["list", "arrays", "unsized"])
def test_b04_an_infinite_loader_goes_on_over_the_epochs(kit, kind):
    x, y = np.repeat(np.arange(5.0, dtype="f4")[:, None], 3, axis=1), np.zeros((5, 2), "f4")
    net, seen = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        seen.append(int(kit.numpy(state[X])[0, 0]))

    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, callbacks=[note])
    if kind == "arrays":
        trial.with_train_data(x, y, batch_size=1, shuffle=False, steps=2)
    else:
        batches = batches_of(x, y, 1)
        trial.with_train_generator(batches if kind == "list" else Unsized(batches), steps=2)
    history = trial.with_inf_train_loader().run(4)
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2]
    assert [record["train_steps"] for record in history] == [2] * 4


@BACKENDS
def test_b05_endless_evaluations_and_predictions_go_on_until_they_are_stopped(kit, line):
    x, y = line
    net, seen = kit.linear(WEIGHT), []

    @on_step_validation
    def stop(state):
        seen.append(state[BATCH])
        state[STOP_TRAINING] = len(seen) == 7

    trial = quiet(net, None, kit.mse, ["loss"], [stop]).with_val_data(x, y, batch_size=4).with_test_data(x, 4)
    trial.for_inf_val_steps().for_inf_test_steps()
    losses = [((a @ WEIGHT - b) ** 2).mean() for a, b in batches_of(x, y, 4)]
    assert trial.evaluate()["val_loss"] == pytest.approx(np.mean((losses * 3)[:7]), rel=1e-5)
    assert seen == list(range(7))
    seen.clear()
    np.testing.assert_allclose(kit.numpy(trial.predict()), (np.concatenate([x] * 3) @ WEIGHT)[:28], rtol=1e-5)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("steps", [None, 2, 5])
def test_b06_a_loader_without_a_length_is_trained_validated_and_predicted(kit, line, steps):
    x, y = line
    net, n = kit.linear(WEIGHT), steps or 3
    order = (batches_of(x, y, 4) * 2)[:n]
    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, ["loss"]).with_train_generator(Unsized(batches_of(x, y, 4)), steps)
    trial.with_val_generator(Unsized(batches_of(x, y, 4)), steps)
    trial.with_test_generator(Unsized([part for part, _ in batches_of(x, y, 4)]), steps)
    (record,) = trial.run(1)
    wanted = np.mean([((a @ WEIGHT - b) ** 2).mean() for a, b in order])
    assert (record["train_steps"], record["validation_steps"]) == (n, n)
    assert [record["loss"], record["val_loss"]] == pytest.approx([wanted, wanted], rel=1e-5)
    np.testing.assert_allclose(kit.numpy(trial.predict()), np.concatenate([a for a, _ in order]) @ WEIGHT, rtol=1e-5)


def _pairs(line, size=4):
    x, y = line
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


@BACKENDS
def test_a_loader_draws_from_data_that_nobody_can_count(kit, line):
    def load(state):
        state[X], y = next(state[keys.ITERATOR])
        state[Y_TRUE] = y * 0

    x = line[0]
    _, trial = tunable_trial(kit, rate=0.0)
    record = trial.with_train_generator(Unsized(_pairs(line))).with_loader(load).run(1)[0]
    assert record["train_steps"] == 3
    assert record["loss"] == pytest.approx(((x @ WEIGHT) ** 2).mean(), rel=1e-5)


@BACKENDS
def test_a_loader_without_targets_leaves_none_of_the_batch_before(kit, line):
    def load(state):
        batch = next(state[keys.ITERATOR])
        if state[keys.DATA] == keys.TEST_DATA:
            state[X] = batch
        else:
            state[X], state[Y_TRUE] = batch

    x = line[0]
    net, trial = tunable_trial(kit)
    trial.with_loader(load).with_train_generator(_pairs(line)).with_test_generator([x, x[:3]]).run(1)
    np.testing.assert_allclose(kit.numpy(trial.predict()), np.concatenate([x, x[:3]]) @ kit.weight(net), rtol=1e-4)
    assert trial.state[Y_TRUE] is None


def _drawn(kit, line, seen, **data):
    @on_step_training
    def note(state):
        seen.append(int(np.flatnonzero(np.isclose(line[0][:, 0], kit.numpy(state[X])[0, 0]))[0]))

    _, trial = tunable_trial(kit, note, rate=0.0)
    source = data.get("source")
    trial = trial.with_train_data(*line, 2, steps=2) if source is None else trial.with_train_generator(source, steps=2)
    return trial.with_inf_train_loader()


@TORCH
def test_an_evaluation_of_training_data_does_not_move_their_endless_loader(kit, line):
    seen = []
    trial = _drawn(kit, line, seen, source=_pairs(line, 1)[:5])
    trial.run(1)
    trial.evaluate(data_key=keys.TRAIN_DATA)
    trial.run(3)
    assert seen == [0, 1, 2, 3, 4, 0]


@TORCH
@pytest.mark.parametrize("source", [None, "list", "unsized"])
def test_an_endless_loader_goes_on_where_it_was_after_a_resume(kit, line, source):
    pairs = _pairs(line, 1)[:5]
    batches = {"list": pairs, "unsized": Unsized(pairs)}.get(source)
    plain, resumed = [], []
    _drawn(kit, line, plain, source=batches).run(5)
    first = _drawn(kit, line, resumed, source=batches)
    first.run(2)
    again = _drawn(kit, line, resumed, source=batches).load_state_dict(first.state_dict())
    again.load_state_dict(again.state_dict())  # ... and if it is stored once more before it goes on
    again.run(5)
    assert resumed == plain


@TORCH
def test_an_epoch_that_is_stopped_at_its_end_is_recorded_though_nobody_can_count_its_batches(kit, line):
    @on_end_training
    def stop(state):
        state[keys.STOP_TRAINING] = True

    _, trial = tunable_trial(kit, stop)
    assert [record["train_steps"] for record in trial.with_train_generator(Unsized(_pairs(line))).run(3)] == [3]


@BACKENDS
def test_data_without_targets_and_data_that_end(kit, line):
    net, key = kit.linear(np.zeros((3, 2))), state_key("no_target")
    seen = []

    def criterion(state):
        seen.append(state["y_true"])
        return kit.sum(state[Y_PRED] ** 2)

    quiet(net, kit.sgd(net, 0.1), criterion).with_train_data(line[0], batch_size=6).run(1)
    assert set(map(type, seen)) == {type(None)}
    assert key not in quiet(net).state
    batches = iter([line])
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse).with_train_generator(batches, steps=1)
    trial.run(1)
    with pytest.raises(DataError, match="gives its batches once"):
        trial.run(2)
    with pytest.raises(DataError, match="validation data gave no batch"):
        quiet(net, kit.sgd(net, 0.1), kit.mse).with_train_data(*line).with_val_generator([]).run(1)
    assert OPTIMIZER in trial.state
