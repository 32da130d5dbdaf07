"""Closures of a trial: the standard one, the user's own, and one of several optimizers."""

import gc
import logging
import weakref

import numpy as np
import pytest
from kits import BACKENDS, TORCH, WEIGHT, linear_trial, quiet, tunable_trial

from delira import state as keys
from delira.callbacks.decorators import (
    add_to_loss,
    on_backward,
    on_criterion,
    on_forward,
    on_sample,
    on_step_training,
)
from delira.errors import ConfigError
from delira.state import GRADIENTS, LOSS, MODEL, Y_PRED, Y_TRUE, X
from delira.trial import base_closure, standard_closure


@BACKENDS
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
        _, trial = tunable_trial(kit, change, note, metrics=["loss", "mse"], rate=0.0)
        trial = trial if closure is None else trial.with_closure(closure)
        found.append(trial.with_train_data(x, y, 12, shuffle=False).run(1)[0])
    for values in seen:
        np.testing.assert_array_equal(values[0], 2 * x)
        np.testing.assert_array_equal(values[1], np.ones_like(y))
    for record in found:
        assert record["loss"] == pytest.approx(record["mse"], rel=1e-5)
        assert record["mse"] == pytest.approx(((2 * x @ WEIGHT - 1) ** 2).mean(), rel=1e-5)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("settings", [{}, {"mixed_precision": "bf16"}, {"gradient_accumulation_steps": 2}])
def test_a_standard_closure_is_the_step_as_it_comes_whatever_the_settings(kit, line, settings):
    weights = []
    for closure in (None, standard_closure):
        net, trial = (
            tunable_trial(kit, compiled=False, **settings) if kit.name != "torch" else tunable_trial(kit, **settings)
        )
        trial = trial if closure is None else trial.with_closure(closure)
        trial.with_train_data(*line, 5).run(2)
        weights.append(kit.weight(net))
    np.testing.assert_array_equal(*weights)


@BACKENDS
def test_a_closure_that_is_set_after_some_epochs_goes_on_from_there(kit, line):
    net, trial = tunable_trial(kit)
    trial.with_train_data(*line, 4).run(2)
    history = trial.with_closure(standard_closure).run(3)
    other, plain = tunable_trial(kit)
    wanted = plain.with_train_data(*line, 4).run(3)
    assert [record["loss"] for record in history] == pytest.approx([record["loss"] for record in wanted], rel=1e-6)
    np.testing.assert_allclose(kit.weight(net), kit.weight(other), rtol=1e-6)


@BACKENDS
def test_gradients_that_a_callback_leaves_out_are_applied(kit, blobs):
    def weights(callbacks, closure):
        net = kit.mlp()
        trial = quiet(net, kit.sgd(net, 0.1), kit.cross_entropy, [], callbacks, seed=1, compiled=False)
        (trial.with_closure(closure()) if closure else trial).with_train_data(*blobs, 8).run(1)
        return kit.weights(net)

    @on_backward
    def keep_one(state):
        name = sorted(state[GRADIENTS])[0]
        state[GRADIENTS] = {name: state[GRADIENTS][name]}

    for closure in (None, base_closure):
        for one, other in zip(weights([keep_one], closure).values(), weights([], closure).values(), strict=True):
            np.testing.assert_array_equal(one, other)


@TORCH
def test_a_closure_of_a_trial_that_is_gone_holds_no_network(kit, line):
    trial = linear_trial(kit).with_closure(standard_closure).with_train_data(*line, 6)
    trial.run(1)
    network = weakref.ref(trial.state[MODEL])
    del trial
    gc.collect()
    assert network() is None


@TORCH
def test_a_closure_by_hand_calls_the_hooks_and_is_told_what_it_left_out(kit, line, caplog):
    @add_to_loss
    def penalty(state):
        return 5.0

    def forgets(state):
        optimizer = state[keys.OPTIMIZER]
        optimizer.zero_grad()
        state[Y_PRED] = state[MODEL](state[keys.X])
        state[LOSS] = kit.mse(state[Y_PRED], state[Y_TRUE])
        state[LOSS].backward()

    def calls(state):
        state[keys.OPTIMIZER].zero_grad()
        state[Y_PRED] = state[MODEL](state[keys.X])
        state[keys.CALLBACK_LIST].on_forward(state)
        state[LOSS] = kit.mse(state[Y_PRED], state[Y_TRUE])
        state[keys.CALLBACK_LIST].on_criterion(state)
        state[LOSS].backward()

    losses = {}
    for closure in (forgets, calls, None):
        caplog.clear()
        trial = linear_trial(kit, penalty).with_train_data(*line, 6)
        losses[closure] = (trial.with_closure(closure) if closure else trial).run(1)[0]["loss"]
        told = "does not call on_criterion, so what FunctionCallback does there is left out" in caplog.text
        assert told is (closure is forgets)
        assert caplog.text.count("does not call") == told
    assert losses[calls] == pytest.approx(losses[None])
    assert losses[forgets] == pytest.approx(losses[None] - 5)
    with pytest.raises(AttributeError, match="no attribute 'on_nothing'"):
        _ = trial.callbacks.on_nothing


@BACKENDS
def test_a_standard_closure_is_also_made(kit, line):
    found, wanted = (
        trial.with_train_data(*line, 6).run(1)
        for trial in (linear_trial(kit).with_closure(standard_closure()), linear_trial(kit))
    )
    assert found[0]["loss"] == pytest.approx(wanted[0]["loss"], rel=1e-6)


@BACKENDS
def test_several_optimizers_need_a_closure(kit, line):
    nets = {"generator": kit.linear(np.zeros((3, 2))), "discriminator": kit.linear(np.zeros((3, 2)))}
    optimizers = {name: kit.sgd_of(net, 0.1) for name, net in nets.items()}
    with pytest.raises(ConfigError, match=r"with several optimizers \(generator, discriminator\).*with_closure"):
        quiet(kit.both(**nets), optimizers, kit.mse).with_train_data(*line).run(1)


@BACKENDS
def test_one_closure_of_several_optimizers_updates(kit, line):
    nets = {"generator": kit.linear(np.zeros((3, 2))), "discriminator": kit.linear(np.zeros((3, 2)))}
    optimizers = {name: kit.sgd_of(net, 0.1) for name, net in nets.items()}
    closure = base_closure(model=nets["generator"], criterion=kit.mse, optimizer="generator")
    quiet(kit.both(**nets), optimizers).with_closure(closure).with_train_data(*line, 6).run(1)
    assert kit.weight(nets["generator"]).any()
    assert not kit.weight(nets["discriminator"]).any()


@pytest.mark.parametrize("hook", [on_forward, on_criterion])
@pytest.mark.parametrize("kit", ["tensorflow", "jax"], indirect=True)
def test_who_keeps_a_step_from_being_compiled_is_named(kit, line, caplog, hook):
    @hook
    def look(state):
        pass

    net = kit.linear(np.zeros((3, 2)))
    with caplog.at_level(logging.WARNING, "delira"):
        quiet(net, kit.sgd(net, 0.1), kit.mse, callbacks=[look]).with_train_data(*line, 6).run(1)
    assert f"{hook.__name__} of <callback" in caplog.text
    assert "look" in caplog.text
