"""What was found when somebody looked at the Trial again: one test for each fault."""

import copy
import pickle

import numpy as np
import pytest
from kits import DIFFERENTIABLE, WEIGHT, quiet

from delira import state as keys
from delira.errors import ConfigError, DataError
from delira.state import BATCH, EPOCH, LOSS, Y_PRED, Y_TRUE, X, state_key
from delira.training.callbacks import ExponentialLR
from delira.training.callbacks.decorators import (
    add_to_loss,
    on_criterion,
    on_end_training,
    on_forward,
    on_sample,
    on_start_epoch,
    on_step_training,
    traceable,
)
from delira.trial import standard_closure

ROOMS = pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)
COMPILED = pytest.mark.parametrize("kit", ["tensorflow", "jax"], indirect=True)
TORCH = pytest.mark.parametrize("kit", ["torch"], indirect=True)


def linear(kit, *callbacks, metrics=("loss",), rate=0.05, **settings):
    net = kit.linear(WEIGHT)
    return net, quiet(net, kit.tunable_sgd(net, rate), kit.mse, metrics, callbacks, **settings)


class Unsized:
    """Batches that can be gone through again, but not counted."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


# ---- a compiled step and the state


class Box:
    def __init__(self, value):
        self.value = value


def _if_it_is_there(state, key):
    if key in state:
        return state[key]
    return 0.0


NOTHING = object()
#: name -> (what is in the state in an epoch, what a hook makes of it, what the loss is in four epochs)
VALUES = {
    "dict": (lambda e: {"weight": float(e)}, lambda s, k: s[k]["weight"], [0, 1, 2, 3]),
    "list": (lambda e: [float(e)], lambda s, k: s[k][0], [0, 1, 2, 3]),
    "object": (lambda e: Box(float(e)), lambda s, k: s[k].value, [0, 1, 2, 3]),
    "function": (lambda e: lambda: float(e), lambda s, k: s[k](), [0, 1, 2, 3]),
    "mixed": (lambda e: {"a": np.float32(e), "n": e}, lambda s, k: s[k]["a"] + s[k]["n"], [0, 2, 4, 6]),
    "none": (lambda e: None if e < 2 else float(e), lambda s, k: s[k] or 0.0, [0, 0, 2, 3]),
    "missing": (lambda e: NOTHING if e < 2 else float(e), lambda s, k: s.get(k) or 0.0, [0, 0, 2, 3]),
    "in": (lambda e: NOTHING if e < 2 else float(e), _if_it_is_there, [0, 0, 2, 3]),
    "gone": (lambda e: NOTHING if e > 1 else 1.0 + e, lambda s, k: s.get(k, 0.0), [1, 2, 0, 0]),
    "no array any more": (
        lambda e: np.full(1, e, "f4") if e < 2 else float(e),
        lambda s, k: s[k][0] if hasattr(s[k], "shape") else s[k],
        [0, 1, 2, 3],
    ),
}


def losses_of(kit, value_of, read):
    """The losses of four epochs to which a traced hook adds what it reads of the state."""
    key = state_key("value_of_second_look")

    @on_start_epoch
    def put(state):
        value = value_of(state[EPOCH])
        state.pop(key, None) if value is NOTHING else state.update({key: value})

    @traceable
    @add_to_loss
    def add(state):
        return kit.sum(state[Y_PRED]) * 0 + read(state, key)

    net = kit.linear(np.zeros((3, 2)))
    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, ["loss"], [put, add])
    trial.with_train_data(np.ones((8, 3), "f4"), np.zeros((8, 2), "f4"), 4)
    return [record["loss"] for record in trial.run(4)]


@pytest.mark.sampled("values")
@COMPILED
@pytest.mark.parametrize("name", VALUES)
def test_a_compiled_step_follows_whatever_it_reads_of_the_state(kit, name):
    value_of, read, wanted = VALUES[name]
    assert losses_of(kit, value_of, read) == wanted


@COMPILED
def test_a_compiled_step_follows_a_dict_that_is_written_into(kit):
    settings = {"weight": 0.0}

    def value_of(epoch):
        settings["weight"] = float(epoch)
        return settings

    assert losses_of(kit, value_of, lambda state, key: state[key]["weight"]) == [0, 1, 2, 3]


@COMPILED
def test_an_array_of_the_state_may_get_another_number_of_axes(kit):
    assert losses_of(kit, lambda e: np.ones((2,) * e, "f4"), lambda s, k: kit.sum(s[k])) == [1, 2, 4, 8]


@ROOMS
def test_a_step_reads_what_the_step_before_has_written(kit, line):
    carried = state_key("carried")

    @traceable
    @add_to_loss
    def count(state):
        before = state.get(carried)
        mean = kit.mean(state[Y_PRED]) * 0
        state[carried] = kit.detached(mean) + 1 if before is None else kit.detached(before) + 1
        return mean if before is None else mean + kit.detached(before)

    x, y = line
    _, trial = linear(kit, count, rate=0.0)
    records = trial.with_train_data(x, y, 4, shuffle=False).run(2)
    own = ((x @ WEIGHT - y) ** 2).mean()
    np.testing.assert_allclose([record["loss"] - own for record in records], [1, 4], rtol=1e-5)  # 0 1 2, 3 4 5


@COMPILED
def test_no_number_does_not_compile_the_step_anew_each_time(kit, line, caplog):
    tracings = []

    @traceable
    @on_forward
    def look(state):
        tracings.append(state["best_of_second_look"])

    _, trial = linear(kit, look)
    trial.state["best_of_second_look"] = float("nan")
    trial.with_train_data(*line, 1).run(3)
    assert len(tracings) <= 2


@ROOMS
def test_a_fit_goes_on_after_an_error_inside_of_a_step(kit, line):
    key, is_broken = state_key("kept_of_second_look"), [True]

    @traceable
    @on_criterion
    def fail(state):
        before = state.get(key)
        state[key] = kit.mean(state[Y_PRED])
        if is_broken:
            raise ZeroDivisionError("inside")
        if before is not None:
            state[LOSS] = state[LOSS] + kit.detached(before) * 0

    net, trial = linear(kit, fail)
    trial.with_train_data(*line, 4)
    with pytest.raises(ZeroDivisionError, match="inside"):
        trial.run(2)
    is_broken.clear()
    assert len(trial.run(2)) == 2
    other, plain = linear(kit)
    plain.with_train_data(*line, 4).run(2)
    np.testing.assert_allclose(kit.weight(net), kit.weight(other), rtol=1e-6)


# ---- what callbacks set


@pytest.mark.sampled("pairs")
@ROOMS
@pytest.mark.parametrize("what", ["model", "optimizer", "criterion"])
@pytest.mark.parametrize("hook", [on_sample, on_forward, on_criterion, on_step_training])
def test_what_hooks_of_a_step_set_is_used_from_then_on(kit, line, hook, what):
    x, y = line
    net, other = kit.linear(WEIGHT), kit.linear(2 * WEIGHT)
    frozen = kit.sgd(other if what == "model" else net, 0.0)

    def tenfold(prediction, target):
        return 10 * kit.mse(prediction, target)

    @hook
    def swap(state):
        if state[EPOCH] == 1 and int(state[BATCH]) == 0:
            if what == "criterion":
                state[keys.CRITERION] = tenfold
                return
            state[keys.OPTIMIZER] = frozen
            if what == "model":
                state[keys.MODEL] = other

    trial = quiet(net, kit.sgd(net, 0.001), kit.mse, ["loss"], [swap])
    losses = [record["loss"] for record in trial.with_train_data(x, y, 4, shuffle=False).run(3)]
    if what == "criterion":
        assert losses[2] > 9 * ((x @ kit.weight(net) - y) ** 2).mean()
    elif what == "model":
        assert losses[2] == pytest.approx(((2 * x @ WEIGHT - y) ** 2).mean(), rel=1e-5)
    else:
        assert losses[2] == pytest.approx(((x @ kit.weight(net) - y) ** 2).mean(), rel=1e-5)


@TORCH
def test_a_network_that_is_set_in_the_midst_of_an_epoch_learns(kit, line):
    torch = pytest.importorskip("torch", reason="the torch room needs the package torch")
    first, second = (torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5)) for _ in range(2))
    _check_mode(first, second.eval(), lambda net: torch.optim.SGD(net.parameters(), 0.0), kit, line)
    assert not second.training  # as it was


@pytest.mark.parametrize("kit", ["tensorflow"], indirect=True)
def test_a_model_that_is_set_in_the_midst_of_an_epoch_learns(kit, line):
    keras = pytest.importorskip("keras", reason="the tensorflow room needs the package keras")
    layers = keras.layers
    first, second = (
        keras.Sequential([layers.Input((3,)), layers.Dense(2), layers.Dropout(0.5)]) for _ in range(2)
    )  # fmt: skip
    _check_mode(first, second, lambda net: keras.optimizers.SGD(0.0), kit, line)


def _check_mode(first, second, optimizer_of, kit, line):
    """Dropout works before and after a network was replaced by another one."""
    dropped = []

    @on_step_training
    def swap(state):
        dropped.append(bool((kit.numpy(state[Y_PRED]) == 0).any()))
        if state[keys.MODEL] is first:
            state[keys.MODEL], state[keys.OPTIMIZER] = second, optimizer_of(second)

    quiet(first, optimizer_of(first), kit.mse, (), [swap]).with_train_data(*line, 6).run(3)
    assert dropped == [True] * 6


@ROOMS
def test_what_on_sample_makes_of_a_batch_is_what_a_closure_learns_and_what_is_measured(kit, line):
    seen, found = [], []

    @on_sample
    def change(state):
        state[X], state[Y_TRUE] = state[X] * 2, state[Y_TRUE] * 0 + 1

    @on_step_training
    def note(state):
        seen.append((kit.numpy(state[X]), kit.numpy(state[Y_TRUE])))

    x, y = line
    for closure in (None, standard_closure):
        _, trial = linear(kit, change, note, metrics=["loss", "mse"], rate=0.0)
        trial = trial if closure is None else trial.with_closure(closure)
        found.append(trial.with_train_data(x, y, 12, shuffle=False).run(1)[0])
    for values in seen:
        np.testing.assert_array_equal(values[0], 2 * x)
        np.testing.assert_array_equal(values[1], np.ones_like(y))
    for record in found:
        assert record["loss"] == pytest.approx(record["mse"], rel=1e-5)
        assert record["mse"] == pytest.approx(((2 * x @ WEIGHT - 1) ** 2).mean(), rel=1e-5)


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("settings", [{}, {"mixed_precision": "bf16"}, {"gradient_accumulation_steps": 2}])
def test_a_standard_closure_is_the_step_as_it_comes_whatever_the_settings(kit, line, settings):
    weights = []
    for closure in (None, standard_closure):
        net, trial = linear(kit, compiled=False, **settings) if kit.name != "torch" else linear(kit, **settings)
        trial = trial if closure is None else trial.with_closure(closure)
        trial.with_train_data(*line, 5).run(2)
        weights.append(kit.weight(net))
    np.testing.assert_array_equal(*weights)


@ROOMS
def test_a_closure_that_is_set_after_some_epochs_goes_on_from_there(kit, line):
    net, trial = linear(kit)
    trial.with_train_data(*line, 4).run(2)
    history = trial.with_closure(standard_closure).run(3)
    other, plain = linear(kit)
    wanted = plain.with_train_data(*line, 4).run(3)
    assert [record["loss"] for record in history] == pytest.approx([record["loss"] for record in wanted], rel=1e-6)
    np.testing.assert_allclose(kit.weight(net), kit.weight(other), rtol=1e-6)


@ROOMS
def test_a_schedule_of_two_trials_is_refused(kit, line):
    schedule = ExponentialLR(0.5)
    first, second = (linear(kit, schedule)[1].with_train_data(*line, 4) for _ in range(2))
    first.run(1)
    second.run(1)
    with pytest.raises(ConfigError, match="ExponentialLR was given to another trial or trainer since"):
        first.run(2)


@TORCH
def test_a_trial_that_was_in_use_is_not_copied(kit, line):
    """A copy would go on with the state, and the network, of the original."""
    net, trial = linear(kit)
    twin = copy.deepcopy(trial.with_train_data(*line, 4))
    twin.run(1)
    np.testing.assert_array_equal(kit.weight(net), WEIGHT)
    trial.run(1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ConfigError, match="neither copied nor pickled; make a new one"):
            copied(trial)


# ---- data


def _pairs(line, size=4):
    x, y = line
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


@ROOMS
def test_a_loader_draws_from_data_that_nobody_can_count(kit, line):
    def load(state):
        state[X], y = next(state[keys.ITERATOR])
        state[Y_TRUE] = y * 0

    x = line[0]
    _, trial = linear(kit, rate=0.0)
    record = trial.with_train_generator(Unsized(_pairs(line))).with_loader(load).run(1)[0]
    assert record["train_steps"] == 3
    assert record["loss"] == pytest.approx(((x @ WEIGHT) ** 2).mean(), rel=1e-5)


@ROOMS
def test_a_loader_without_targets_leaves_none_of_the_batch_before(kit, line):
    def load(state):
        batch = next(state[keys.ITERATOR])
        if state[keys.DATA] == keys.TEST_DATA:
            state[X] = batch
        else:
            state[X], state[Y_TRUE] = batch

    x = line[0]
    net, trial = linear(kit)
    trial.with_loader(load).with_train_generator(_pairs(line)).with_test_generator([x, x[:3]]).run(1)
    np.testing.assert_allclose(kit.numpy(trial.predict()), np.concatenate([x, x[:3]]) @ kit.weight(net), rtol=1e-4)
    assert trial.state[Y_TRUE] is None


def _drawn(kit, line, seen, **data):
    @on_step_training
    def note(state):
        seen.append(int(np.flatnonzero(np.isclose(line[0][:, 0], kit.numpy(state[X])[0, 0]))[0]))

    _, trial = linear(kit, note, rate=0.0)
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


@ROOMS
def test_a_prediction_of_nothing_says_so(kit, line):
    _, trial = linear(kit)
    for empty in ([], iter(())):
        with pytest.raises(DataError, match="there was no batch to predict"):
            trial.with_test_generator(empty).predict()


@ROOMS
def test_predictions_that_are_one_number_a_batch_come_as_a_list(kit, line):
    x = line[0]
    net = kit.module({"w": WEIGHT}, lambda net, x: kit.mean(x @ net.w))
    found = quiet(net).with_test_generator([x[:3], x[3:], x[4:]]).predict()
    wanted = [(part @ WEIGHT).mean() for part in (x[:3], x[3:], x[4:])]
    np.testing.assert_allclose([float(one) for one in found], wanted, rtol=1e-4, atol=1e-6)


@ROOMS
def test_a_target_may_be_one_number(kit, line):
    x = line[0]
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.0), lambda p, t: kit.mean((p - t) ** 2), ["loss"])
    record = trial.with_train_generator([(x[:3], 3.0), (x[3:], 4.0)]).run(1)[0]
    losses = [((x[:3] @ WEIGHT - 3) ** 2).mean(), ((x[3:] @ WEIGHT - 4) ** 2).mean()]
    assert record["loss"] == pytest.approx(np.average(losses, weights=[3, 9]), rel=1e-5)


@TORCH
def test_an_epoch_that_is_stopped_at_its_end_is_recorded_though_nobody_can_count_its_batches(kit, line):
    @on_end_training
    def stop(state):
        state[keys.STOP_TRAINING] = True

    _, trial = linear(kit, stop)
    assert [record["train_steps"] for record in trial.with_train_generator(Unsized(_pairs(line))).run(3)] == [3]


@TORCH
def test_the_history_of_a_folder_is_there_before_and_in_a_run(kit, line, tmp_path):
    lengths = []

    @on_start_epoch
    def note(state):
        lengths.append(len(state[keys.HISTORY]))

    linear(kit, save_path=tmp_path)[1].with_train_data(*line, 4).run(2)
    trial = linear(kit, note, save_path=tmp_path)[1].with_train_data(*line, 4)
    assert len(trial.history) == 2
    trial.run(4)
    assert lengths == [2, 3]


@pytest.mark.parametrize("kit", ["sklearn"], indirect=True)
def test_a_pipeline_learns_from_labels(kit, blobs):
    pytest.importorskip("sklearn", reason="the sklearn room needs the package scikit-learn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline, plain = (make_pipeline(StandardScaler(), LogisticRegression()) for _ in range(2))
    x, labels = blobs
    record = quiet(pipeline, metrics=["acc"]).with_train_data(x, labels, 7, shuffle=False).run()[0]
    assert record["acc"] == plain.fit(x, labels).score(x, labels)
    np.testing.assert_array_equal(pipeline.predict_proba(x), plain.predict_proba(x))
