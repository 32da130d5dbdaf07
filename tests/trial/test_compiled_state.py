"""Compiled steps and the state: they follow it, and what cannot be part of them runs beside them."""

import logging

import numpy as np
import pytest
from kits import BACKENDS, WEIGHT, quiet, tunable_trial

from delira.callbacks.decorators import (
    add_to_loss,
    on_forward,
    on_sample,
    on_start_epoch,
    traceable,
)
from delira.state import BATCH, EPOCH, LOSS, Y_PRED, X, state_key

compiled_backends = pytest.mark.parametrize("kit", ["tensorflow", "jax"], indirect=True)
ARRAYS = np.ones((8, 3), "f4"), np.zeros((8, 2), "f4")


def losses_of(kit, *callbacks, epochs=3):
    """The loss that callbacks add to 0 in each epoch; the weights stay 0."""
    net = kit.linear(np.zeros((3, 2)))
    trial = quiet(net, kit.sgd([net], 0.0), kit.mse, ["loss"], callbacks).with_train_data(*ARRAYS, batch_size=4)
    return [record["loss"] for record in trial.run(epochs)], trial


class Tracings:
    """Counts how often the Python of a step runs."""

    def __init__(self):
        self.number = 0
        self.callback = traceable(on_forward(self.count))

    def count(self, state):
        self.number += 1


@pytest.mark.sampled("values")
@compiled_backends
@pytest.mark.parametrize("kind", ["array", "numpy", "tuple"])
def test_a_step_follows_an_array_of_the_state(kit, kind):
    key, tracings = state_key("factor"), Tracings()

    @on_start_epoch
    def follow(state):
        value = np.float32(state[EPOCH]) * np.ones(2, "f4")
        state[key] = {"array": kit.array(value), "numpy": value, "tuple": (kit.array(value), kit.array(value))}[kind]

    @traceable
    @add_to_loss
    def add(state):
        value = state[key]
        return kit.mean(value[1] if kind == "tuple" else value)

    losses, _ = losses_of(kit, follow, add, tracings.callback, epochs=5)
    assert losses == [0, 1, 2, 3, 4]
    assert tracings.number <= 4  # as a constant, then as an input: not once more for each value


@compiled_backends
def test_a_step_follows_an_array_that_is_written_into(kit):
    key, array = state_key("written_into"), np.zeros(1, "f4")

    @on_start_epoch
    def write(state):
        array[:] = state[EPOCH]
        state[key] = array

    @traceable
    @add_to_loss
    def add(state):
        return kit.sum(state[key])

    assert losses_of(kit, write, add)[0] == [0, 1, 2]


@compiled_backends
def test_on_sample_runs_beside_a_compiled_step(kit, caplog):
    key, tracings, seen = state_key("number"), Tracings(), []

    @on_sample
    def sample(state):
        seen.append((float(kit.numpy(state[X]).sum()), state[BATCH]))
        state[X] = state[X] * 0 + 2
        state[key] = kit.array(np.float32(state[BATCH]))

    @traceable
    @add_to_loss
    def add(state):
        return state[key] + kit.mean(state[X])

    with caplog.at_level(logging.WARNING, "delira"):
        losses, trial = losses_of(kit, sample, add, tracings.callback)
    assert losses == [2.5, 2.5, 2.5]
    assert not caplog.messages
    assert seen == [(12.0, 0), (12.0, 1)] * 3  # values, each time as they came
    assert tracings.number <= 2
    assert float(kit.numpy(trial.state[key])) == 1
    assert (kit.numpy(trial.state[X]) == 2).all()


@compiled_backends
def test_a_hook_that_needs_python_makes_the_steps_eager_and_says_so(kit, caplog):
    seen = []

    @on_sample
    def sample(state):
        seen.append(("sample", float(kit.numpy(state[X]).sum())))

    @on_forward
    def forward(state):
        seen.append(("forward", float(kit.numpy(kit.detached(state[Y_PRED])).sum())))

    with caplog.at_level(logging.WARNING, "delira"):
        losses_of(kit, sample, forward, epochs=1)
    assert [name for name, _ in seen] == ["sample", "forward"] * 2
    assert len([message for message in caplog.messages if "traceable" in message]) == 1


@compiled_backends
def test_what_a_step_writes_is_there_afterwards(kit):
    key, seen = state_key("kept"), []

    @traceable
    @add_to_loss
    def add(state):
        state[key] = state[Y_PRED] + 1
        return kit.sum(state[key]) * 0

    @on_start_epoch
    def look(state):
        seen.append(key in state and float(kit.numpy(state[key]).sum()))

    _, trial = losses_of(kit, add, look, epochs=2)
    assert seen == [False, 8.0]
    assert float(trial.state[LOSS]) == 0


@compiled_backends
def test_a_step_follows_the_weights_of_another_network(kit):
    """A teacher, say, which learns elsewhere."""
    key, teacher = state_key("teacher"), kit.linear(np.zeros((3, 2)))

    @on_start_epoch
    def learn(state):
        state[key] = teacher
        kit.set_linear(teacher, np.full((3, 2), float(state[EPOCH]), "f4"))

    @traceable
    @add_to_loss
    def add(state):
        return kit.sum(state[key](state[X])) + kit.sum(state[Y_PRED]) * 0

    assert losses_of(kit, learn, add)[0] == [0, 24, 48]


COMPILED = pytest.mark.parametrize("kit", ["tensorflow", "jax"], indirect=True)


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


def losses_of_reading(kit, value_of, read):
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
    assert losses_of_reading(kit, value_of, read) == wanted


@COMPILED
def test_a_compiled_step_follows_a_dict_that_is_written_into(kit):
    settings = {"weight": 0.0}

    def value_of(epoch):
        settings["weight"] = float(epoch)
        return settings

    assert losses_of_reading(kit, value_of, lambda state, key: state[key]["weight"]) == [0, 1, 2, 3]


@COMPILED
def test_an_array_of_the_state_may_get_another_number_of_axes(kit):
    assert losses_of_reading(kit, lambda e: np.ones((2,) * e, "f4"), lambda s, k: kit.sum(s[k])) == [1, 2, 4, 8]


@BACKENDS
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
    _, trial = tunable_trial(kit, count, rate=0.0)
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

    _, trial = tunable_trial(kit, look)
    trial.state["best_of_second_look"] = float("nan")
    trial.with_train_data(*line, 1).run(3)
    assert len(tracings) <= 2
