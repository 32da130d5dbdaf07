"""What a trial computes: networks, optimizers and criteria that are set, and what they are replaced by."""

import functools
import sys

import numpy as np
import pytest
from kits import BACKENDS, DIFFERENTIABLE, TORCH, WEIGHT, linear_trial, quiet

from delira import state as keys
from delira.callbacks.decorators import (
    on_criterion,
    on_end_epoch,
    on_forward,
    on_sample,
    on_start_epoch,
    on_step_training,
)
from delira.errors import ConfigError
from delira.state import BATCH, EPOCH, MODEL, OPTIMIZER, Y_PRED, Y_TRUE
from delira.training.callbacks import StepLR


@pytest.mark.sampled("pairs")
@BACKENDS
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
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    first, second = (torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5)) for _ in range(2))
    _check_mode(first, second.eval(), lambda net: torch.optim.SGD(net.parameters(), 0.0), kit, line)
    assert not second.training  # as it was


@pytest.mark.parametrize("kit", ["tensorflow"], indirect=True)
def test_a_model_that_is_set_in_the_midst_of_an_epoch_learns(kit, line):
    keras = pytest.importorskip("keras", reason="the tensorflow backend needs the package keras")
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


class Losses:
    """Criteria as methods: of the state, and of a prediction and a target."""

    def __init__(self, mse):
        self.mse = mse

    def of_state(self, state):
        return self.mse(state[Y_PRED], state[Y_TRUE])

    def of_pair(self, prediction, target):
        return self.mse(prediction, target)

    def weighted(self, state, weight):
        return weight * self.of_state(state)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("kind", ["method of the state", "method of a pair", "partial of the state", "compiled pair"])
def test_a_criterion_may_be_a_method_a_partial_or_a_compiled_function(kit, line, kind):
    losses = Losses(kit.mse)
    criterion = {
        "method of the state": losses.of_state,
        "method of a pair": losses.of_pair,
        "partial of the state": functools.partial(losses.weighted, weight=1.0),
    }.get(kind)
    if criterion is None:
        backend = type(kit).__name__
        if backend == "TorchKit":
            pytest.skip("torch.compile needs a compiler of C++")
        compile_ = sys.modules["jax"].jit if backend == "JaxKit" else sys.modules["tensorflow"].function
        criterion = compile_(losses.of_pair)
    found, wanted = (linear_trial(kit, criterion=one).with_train_data(*line, 6).run(1) for one in (criterion, kit.mse))
    assert found[0]["loss"] == pytest.approx(wanted[0]["loss"], rel=1e-6)


@BACKENDS
def test_what_the_user_sets_between_two_calls_is_in_use_in_the_next(kit, line):
    trial = linear_trial(kit).with_train_data(*line, 6).with_val_data(*line, 6)
    trial.run(1)
    trial.state[MODEL] = kit.linear(np.zeros((3, 2), "f4"))
    np.testing.assert_array_equal(kit.numpy(trial.predict(data_key=keys.VALIDATION_DATA)), 0)
    assert trial.evaluate()["val_loss"] == pytest.approx((line[1] ** 2).mean(), rel=1e-5)
    trial.state[keys.OPTIMIZER] = kit.sgd(trial.state[MODEL], 0.25)
    rates = []
    trial.callbacks.append(on_step_training(lambda state: rates.extend(trial.trainer.learning_rates())))
    trial.run(2)
    assert kit.weight(trial.state[MODEL]).any()


@pytest.mark.parametrize("kit", ["torch", "tensorflow"], indirect=True)
def test_another_network_without_an_optimizer_of_its_weights_is_refused(kit, line):
    @on_end_epoch
    def swap(state):
        state[MODEL] = kit.linear(np.zeros((3, 2), "f4"))

    trial = linear_trial(kit, swap).with_train_data(*line, 6)
    with pytest.raises(ConfigError, match="none of them is one of the"):
        trial.run(2)
    trial = linear_trial(kit).with_train_data(*line, 6).with_test_data(line[0], 6)
    trial.run(1)
    trial.state[MODEL] = kit.linear(np.zeros((3, 2), "f4"))
    np.testing.assert_array_equal(kit.numpy(trial.predict()), 0)
    with pytest.raises(ConfigError, match="none of them is one of the"):
        trial.run(2)


@pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)
def test_a_schedule_begins_anew_with_another_optimizer(kit, line):
    net, rates = kit.linear(np.zeros((3, 2))), []
    other = kit.tunable_sgd(net, 1.0)

    @on_start_epoch
    def swap(state):
        if state[EPOCH] == 3:
            state[OPTIMIZER] = other

    @on_end_epoch
    def note(state):
        rates.append(trial.learning_rates()[0])

    callbacks = [swap, note, StepLR(2, 0.5)]
    trial = quiet(net, kit.tunable_sgd(net, 0.1), kit.mse, ["loss"], callbacks).with_train_data(*line, batch_size=6)
    trial.run(7)
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 1.0, 1.0, 0.5, 0.5], rtol=1e-6)
