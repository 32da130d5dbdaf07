"""Closures of a trial that are made of state keys: what they read, what they differentiate, and what they update."""

import numpy as np
import pytest
from trial_makers import DIFFERENTIABLE, INPUTS, TARGETS, line, need, optimizer, squared_error, weights

import delira
from delira.errors import ConfigError, MissingKeyError
from delira.state import LOSS, MODEL, Y_PRED, X, state_key
from delira.training.callbacks import on_forward
from delira.trial import base_closure, combined_closure

BACKENDS = pytest.mark.parametrize("framework", DIFFERENTIABLE)
OPT, OUT, NOWHERE, OWN_LOSS = map(state_key, ("own_optimizer", "own_output", "nowhere", "own_loss"))


def descent(n_steps=1, rate=0.05, shift=0.0):
    """Gradient descent by hand on all points, in float64."""
    x, y, weight = INPUTS.astype("f8"), TARGETS.astype("f8") + shift, np.full((3, 1), 0.1)
    for _ in range(n_steps):
        weight = weight - rate * 2 / len(x) * x.T @ (x @ weight - y)
    return weight.ravel()


def trial_of(framework, closure, *, trials=True, under=None, callbacks=(), metrics=("loss",)):
    """A trial on all points with gradient descent, as the trial's optimizer, or under a key of the state."""
    net = line(framework)
    made = optimizer(framework, net, name="sgd")
    trial = delira.Trial(net, made if trials else None, squared_error, metrics, callbacks, 0, seed=0)
    if under is not None:
        trial.state[under] = optimizer(framework, net, name="sgd")
    return trial.with_train_data(INPUTS, TARGETS, 24).with_closure(closure)


@BACKENDS
@pytest.mark.parametrize("combine", [lambda closure: closure, combined_closure], ids=["alone", "combined"])
def test_an_optimizer_under_a_key_of_the_state_learns_and_is_stored(framework, combine):
    need(framework)
    trial = trial_of(framework, combine(base_closure(opt=OPT)), trials=False, under=OPT)
    trial.run(2)
    np.testing.assert_allclose(weights(framework, trial.state[MODEL]), descent(2), rtol=1e-5)
    assert list(trial.state_dict()["optimizer"]) == ["own_optimizer"]


@BACKENDS
def test_the_optimizer_under_the_key_updates_and_not_that_of_the_trial(framework):
    need(framework)
    trial = trial_of(framework, combined_closure(base_closure(optimizer=OPT)), under=OPT)
    trial.state["optimizer"] = optimizer(framework, trial.state[MODEL], rate=10.0, name="adam")
    trial.run(1)
    np.testing.assert_allclose(weights(framework, trial.state[MODEL]), descent(), rtol=1e-5)


def test_an_optimizer_that_the_trial_does_not_know_is_refused_instead_of_learning_nothing():
    need("torch")
    with pytest.raises(ConfigError, match=r"'own_optimizer', which is none of the trial's: it has none"):
        trial_of("torch", base_closure(optimizer=OPT), trials=False).run(1)
    hidden = base_closure(optimizer=OPT)
    with pytest.raises(ConfigError, match=r"Trial\(model, \{name: optimizer, \.\.\.\}\)"):
        trial_of("torch", lambda state: hidden(state), trials=False, under=OPT).run(1)
    with pytest.raises(ConfigError, match="none of the trial's: default"):  # and it is not that of the trial
        trial_of("torch", lambda state: hidden(state), under=OPT).run(1)


@BACKENDS
def test_a_closure_that_updates_by_itself_updates_once(framework):
    need(framework)
    trial = trial_of(framework, combined_closure(base_closure()))
    trial.run(1)
    np.testing.assert_allclose(weights(framework, trial.state[MODEL]), descent(), rtol=1e-5)


@BACKENDS
def test_a_closure_of_a_trial_without_an_optimizer_computes_and_updates_nothing(framework):
    need(framework)
    trial = trial_of(framework, base_closure(), trials=False)
    record = trial.run(1)[0]
    assert record["loss"] == pytest.approx(np.mean((INPUTS @ np.full((3, 1), 0.1) - TARGETS) ** 2), rel=1e-5)
    np.testing.assert_allclose(weights(framework, trial.state[MODEL]), 0.1, rtol=1e-6)


@BACKENDS
def test_the_prediction_is_under_the_key_that_was_given_and_under_no_other(framework):
    need(framework)
    trial = trial_of(framework, base_closure(y_pred=OUT), metrics=["mse"])
    with pytest.raises(MissingKeyError, match="the state has no 'y_pred'"):
        trial.run(1)
    assert trial.state[OUT].shape == (24, 1)


@BACKENDS
def test_the_prediction_of_one_closure_is_not_written_over_by_that_of_another(framework):
    need(framework)
    second = base_closure(lambda state: 0.0 * state[X], y_pred=OUT, criterion=lambda state: (state[OUT] ** 2).sum()
                          if framework != "tensorflow" else _sum(state[OUT]), loss=OWN_LOSS)  # fmt: skip
    trial = trial_of(framework, combined_closure(base_closure(), second), metrics=["mse"])
    expected = np.mean((INPUTS @ np.full((3, 1), 0.1) - TARGETS) ** 2)
    assert trial.run(1)[0]["mse"] == pytest.approx(expected, rel=1e-5)


def _sum(values):
    import tensorflow as tf

    return tf.reduce_sum(values**2)


@pytest.mark.parametrize("key", [OUT, Y_PRED])
def test_what_a_hook_makes_of_the_prediction_reaches_the_criterion_under_either_key(key):
    need("torch")

    @on_forward
    def shift(state):
        state[key] = state[key] + 2.0

    trial = trial_of("torch", base_closure(y_pred=OUT), callbacks=[shift])
    trial.run(1)
    np.testing.assert_allclose(weights("torch", trial.state[MODEL]), descent(shift=-2.0), rtol=1e-5)


def test_no_target_is_read_for_a_criterion_of_the_state():
    need("torch")

    def never(state):
        raise AssertionError("read")

    for y_true in (NOWHERE, never):
        closure = base_closure(y_true=y_true, criterion=lambda state: squared_error(state[Y_PRED], state["y_true"]))
        trial = trial_of("torch", closure)
        trial.run(1)
        np.testing.assert_allclose(weights("torch", trial.state[MODEL]), descent(), rtol=1e-5)
    with pytest.raises(MissingKeyError, match="'nowhere'"):
        trial_of("torch", base_closure(y_true=NOWHERE)).run(1)


def test_crit_and_opt_are_names_of_criterion_and_optimizer():
    need("torch")
    closure = base_closure(crit=lambda y_pred, y_true: squared_error(y_pred, y_true + 2.0), opt="default", loss=LOSS)
    trial = trial_of("torch", closure)
    trial.run(1)
    np.testing.assert_allclose(weights("torch", trial.state[MODEL]), descent(shift=2.0), rtol=1e-5, atol=1e-7)


def test_arguments_that_a_closure_does_not_have_are_refused_with_a_guess():
    with pytest.raises(TypeError, match=r"base_closure has no argument 'critt'; did you mean 'crit'\?"):
        base_closure(critt=squared_error)
    with pytest.raises(TypeError, match="got criterion twice: criterion= and crit="):
        base_closure(criterion=squared_error, crit=squared_error)
    with pytest.raises(TypeError, match="got optimizer twice: optimizer= and opt="):
        base_closure(optimizer=OPT, opt=OPT)
