"""Acceptance cases 5 to 8 of the Trial: callbacks, keys, errors."""

import traceback

import numpy as np
import pytest
from kits import WEIGHT, case, descend, quiet

import delira
from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import (
    add_to_loss,
    on_backward,
    on_criterion,
    on_end_epoch,
    on_init,
    on_sample,
    on_start,
    on_start_epoch,
    on_start_training,
    on_step_training,
    once,
    once_per_epoch,
    only_if,
    traceable,
)
from delira.state import CRITERION, EPOCH, GRADIENTS, LOSS, MODEL, OPTIMIZER, Y_PRED, Y_TRUE, X


@case(5)
def test_ac_05_a_callback_replaces_input_target_and_loss(kit, line):
    x, y = line

    @on_sample
    def double(state):
        state[X], state[Y_TRUE] = 2 * state[X], 3 * state[Y_TRUE]

    @on_criterion
    def weigh(state):
        state[LOSS] = 0.5 * state[LOSS]

    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [double, weigh])
    history = trial.with_train_data(x, y, batch_size=12, shuffle=False).run(3)
    losses, weight = descend(WEIGHT, [(2 * x, 3 * y)] * 3, 0.025)
    np.testing.assert_allclose([record["loss"] for record in history], losses / 2, rtol=1e-4)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)


@pytest.mark.sampled("values")
@case(5)
@pytest.mark.parametrize("moment", [on_start, on_start_training, on_step_training, on_end_epoch])
def test_ac_05_another_optimizer_updates_from_then_on(kit, line, moment):
    """Steps of rate 0.05 until the callback has run in the second epoch, of 0.001 after it."""
    x, y = line
    net = kit.linear(WEIGHT)

    @moment
    def swap(state):
        if state[EPOCH] == (0 if moment is on_start else 1):
            state[OPTIMIZER] = kit.sgd(net, 0.001)

    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, callbacks=[swap])
    trial.with_train_data(x, y, batch_size=6, shuffle=False).run(4)
    n_before = {on_start: 0, on_start_training: 2, on_step_training: 3, on_end_epoch: 4}[moment]
    batches = [(x[:6], y[:6]), (x[6:], y[6:])] * 4
    _, weight = descend(WEIGHT, batches[:n_before], 0.05)
    _, weight = descend(weight, batches[n_before:], 0.001)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)


@case(5)
def test_ac_05_another_criterion_and_model_are_used_from_then_on(kit, line):
    x, y = line
    first, second = kit.linear(WEIGHT), kit.linear(-WEIGHT)

    @on_end_epoch
    def swap(state):
        if state[EPOCH] == 0:
            state[MODEL], state[OPTIMIZER] = second, kit.sgd(second, 0.05)
            state[CRITERION] = lambda pred, true: 2 * kit.mse(pred, true)

    trial = quiet(first, kit.sgd(first, 0.05), kit.mse, ["loss"], [swap])
    history = trial.with_train_data(x, y, batch_size=12, shuffle=False).run(3)
    one, first_weight = descend(WEIGHT, [(x, y)], 0.05)
    two, second_weight = descend(-WEIGHT, [(x, y)] * 2, 0.1)
    np.testing.assert_allclose([record["loss"] for record in history], [*one, *2 * two], rtol=1e-4)
    np.testing.assert_allclose(kit.weight(first), first_weight, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(kit.weight(second), second_weight, rtol=1e-4, atol=1e-6)


@case(6)
def test_ac_06_a_function_is_a_callback_alone_stacked_and_conditionally(kit, line):
    seen = {name: [] for name in ("alone", "stacked", "first", "first_in_epoch", "even")}

    @on_init
    @on_start_epoch
    @on_end_epoch
    def stacked(state):
        seen["stacked"].append(state.get(EPOCH))

    @on_step_training
    def alone(state):
        seen["alone"].append(state[keys.BATCH])

    @on_step_training
    @once
    def first(state):
        seen["first"].append(state[keys.BATCH])

    @once_per_epoch
    @on_step_training
    def first_in_epoch(state):
        seen["first_in_epoch"].append((state[EPOCH], state[keys.BATCH]))

    @only_if(lambda state: state[keys.BATCH] % 2 == 0)
    @on_step_training
    def even(state):
        seen["even"].append(state[keys.BATCH])

    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.01), kit.mse, [], [stacked, [alone, [first]], first_in_epoch, even])
    trial.with_train_data(*line, batch_size=4).run(2)
    assert seen == {
        "alone": [0, 1, 2] * 2, "stacked": [None, 0, 0, 1, 1], "first": [0], "first_in_epoch": [(0, 0), (1, 0)],
        "even": [0, 2, 0, 2],
    }  # fmt: skip


@case(6)
def test_ac_06_methods_remember_for_each_object(kit, line):
    class Log(Callback):
        def __init__(self, wanted):
            self.wanted, self.seen, self.once_seen = wanted, [], []

        @only_if(lambda self, state: state[keys.BATCH] == self.wanted)
        def on_step_training(self, state):
            self.seen.append(state[keys.BATCH])

        @once
        def on_start_epoch(self, state):
            self.once_seen.append(state[EPOCH])

    logs = [Log(0), Log(2)]
    net = kit.linear(WEIGHT)
    quiet(net, None, kit.mse, [], logs).with_train_data(*line, batch_size=4).run(2)
    assert [log.seen for log in logs] == [[0, 0], [2, 2]]
    assert [log.once_seen for log in logs] == [[0], [0]]


@case(7)
def test_ac_07_keys_of_one_text_differ(kit, line):
    one, two, builtin = delira.state_key("ac_07"), delira.state_key("ac_07"), delira.state_key("loss")
    assert len({one, two}) == 2
    assert builtin != LOSS
    net = kit.state_module(
        {"p": WEIGHT}, lambda net, x, state: _store(state, {one: 1.0, two: 2.0, builtin: 3.0}, x @ net.p)
    )
    trial = quiet(net, None, kit.mse, ["loss", one, two, builtin]).with_val_data(*line, batch_size=4)
    values = trial.evaluate()
    assert [values[f"val_{key}"] for key in (one, two, builtin)] == [1.0, 2.0, 3.0]
    x, y = line
    np.testing.assert_allclose(values["val_loss"], ((x @ WEIGHT - y) ** 2).mean(), rtol=1e-5)


def _store(state, values, result):
    state.update(values)
    return result


class OwnError(Exception):
    """Of the user."""


@pytest.mark.sampled("pairs")
@case(8)
@pytest.mark.parametrize("where", ["model", "criterion", "callback"])
@pytest.mark.parametrize("kind", [OwnError, TypeError])
def test_ac_08_an_error_arrives_as_it_is_after_one_call(kit, line, where, kind):
    calls = []

    def fail_here(place):
        if place == where:
            calls.append(place)
            raise kind("on purpose")

    def compute(net, x, state):
        fail_here("model")
        return x @ net.p

    def criterion(state):
        fail_here("criterion")
        return kit.mse(state[Y_PRED], state[Y_TRUE])

    ended = []

    class Look(Callback):
        def on_criterion(self, state):
            fail_here("callback")

        def on_end(self, state):
            ended.append(True)

    net = kit.state_module({"p": WEIGHT}, compute)
    trial = quiet(net, kit.sgd(net, 0.01), criterion, [], [Look()]).with_train_data(*line, batch_size=4)
    with pytest.raises(kind, match="on purpose") as caught:
        trial.run(1)
    assert caught.type is kind
    assert calls == [where]
    assert "fail_here" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert ended == [True]


@case(5)
def test_ac_05_a_number_that_a_callback_sets_counts_in_compiled_steps_too(kit, line):
    x, y = line
    factor = delira.state_key("ac_05_factor")

    @on_start_epoch
    def anneal(state):
        state[factor] = 1.0 + state[EPOCH]

    def criterion(state):
        return state[factor] * kit.mse(state[Y_PRED], state[Y_TRUE])

    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.0), criterion, ["loss"], [anneal]).with_train_data(x, y, batch_size=12)
    losses = [record["loss"] for record in trial.run(3)]
    np.testing.assert_allclose(losses, np.array([1, 2, 3]) * ((x @ WEIGHT - y) ** 2).mean(), rtol=1e-5)


@case(5)
def test_ac_05_gradients_that_a_callback_sets_are_applied(kit, line):
    x, y = line

    @traceable
    @on_backward
    def halve(state):
        for name, gradient in state[GRADIENTS].items():
            state[GRADIENTS][name] = gradient / 2

    net = kit.linear(WEIGHT)
    quiet(net, kit.sgd(net, 0.1), kit.mse, [], [halve]).with_train_data(x, y, batch_size=12, shuffle=False).run(2)
    np.testing.assert_allclose(kit.weight(net), descend(WEIGHT, [(x, y)] * 2, 0.05)[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kit", ["tensorflow"], indirect=True)
def test_what_layers_of_keras_add_is_in_the_loss(kit, line):
    import keras

    x, y = line
    dense = keras.layers.Dense(2, use_bias=False, kernel_regularizer=keras.regularizers.L2(0.5))
    net = keras.Sequential([keras.layers.Input((3,)), dense])
    dense.kernel.assign(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse, ["loss"]).with_train_data(x, y, batch_size=12)
    record = trial.run(1)[0]
    error = x @ WEIGHT - y
    np.testing.assert_allclose(record["loss"], (error**2).mean() + 0.5 * (WEIGHT**2).sum(), rtol=1e-4)
    slope = 2 * x.T @ error / error.size + WEIGHT
    np.testing.assert_allclose(dense.kernel.numpy(), WEIGHT - 0.1 * slope, rtol=1e-3, atol=1e-6)


@case(5)
def test_ac_05_add_to_loss_changes_training_and_validation(kit, line):
    x, y = line

    @add_to_loss
    def more(state):
        return kit.sum(state[Y_PRED] ** 2)

    net = kit.linear(WEIGHT)
    trial = quiet(net, None, kit.mse, ["loss"], [more]).with_train_data(x, y, 12).with_val_data(x, y, 12)
    record = trial.run(1)[0]
    expected = ((x @ WEIGHT - y) ** 2).mean() + ((x @ WEIGHT) ** 2).sum()
    np.testing.assert_allclose([record["loss"], record["val_loss"]], expected, rtol=1e-5)
