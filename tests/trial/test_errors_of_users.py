"""Errors of the user's code arrive as they are, and a loss that is no number ends the fit."""

import numpy as np
import pytest
from kits import BACKENDS, TORCH, WEIGHT, quiet, tunable_trial

from delira.callbacks.decorators import (
    on_criterion,
    on_step_training,
    traceable,
)
from delira.state import BATCH, LOSS, Y_PRED, state_key
from delira.training.callbacks import (
    TerminateOnNaN,
)


@TORCH
@pytest.mark.parametrize("takes_state", [True, False])
def test_b07_an_error_of_the_model_arrives_as_it_is_and_nothing_is_called_again(kit, line, takes_state):
    calls = []

    def compute(net, x, state=None):
        calls.append(state is not None)
        if len(calls) == 3:
            raise TypeError("of the model")
        return x @ net.w

    net = (kit.state_module if takes_state else kit.module)({"w": WEIGHT}, compute)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse).with_train_data(*line, batch_size=3)
    with pytest.raises(TypeError, match=r"^of the model(\n|$)"):
        trial.run(1)
    assert calls == [takes_state] * 3


@TORCH
def test_b09_an_error_of_a_criterion_of_the_state_arrives_as_it_is(kit, line):
    calls = []

    def fail(state):
        calls.append(state[Y_PRED].shape)
        return len(5)

    net = kit.linear(WEIGHT)
    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        quiet(net, kit.sgd(net, 0.05), fail).with_train_data(*line, batch_size=12).run(1)
    assert calls == [(12, 2)]


@BACKENDS
def test_b09_a_criterion_with_an_optional_target_is_given_the_prediction(kit, line):
    def size(y_pred, y_true=None):
        return kit.mse(y_pred, 0 * y_pred) if y_true is None else kit.mse(y_pred, y_true)

    x, y = line
    net = kit.linear(WEIGHT)
    assert quiet(net, None, size, ["loss"]).with_val_data(x, y, 12).evaluate() == pytest.approx(
        {"val_loss": ((x @ WEIGHT - y) ** 2).mean()}, rel=1e-5
    )


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("metrics", [["loss"], []])
def test_b28_a_loss_that_is_no_number_stops_the_fit_at_its_batch(kit, metrics):
    x, y = np.ones((20, 3), "f4"), np.ones((20, 2), "f4")
    y[3] = np.nan
    net, seen = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        seen.append(state[BATCH])

    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, metrics, [TerminateOnNaN(), note])
    assert trial.with_train_data(x, y, batch_size=1, shuffle=False).run(3) == []
    assert seen == [0, 1, 2, 3]


@BACKENDS
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

    net, trial = tunable_trial(kit, fail)
    trial.with_train_data(*line, 4)
    with pytest.raises(ZeroDivisionError, match="inside"):
        trial.run(2)
    is_broken.clear()
    assert len(trial.run(2)) == 2
    other, plain = tunable_trial(kit)
    plain.with_train_data(*line, 4).run(2)
    np.testing.assert_allclose(kit.weight(net), kit.weight(other), rtol=1e-6)
