"""Losses of the JAX backend."""

import numpy as np
import pytest
from loss_numbers import CASES, Case
from pairwise import every_second

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp  # noqa: E402

from delira.backends.jax import losses  # noqa: E402
from delira.errors import ConfigError, DataError  # noqa: E402

NAMES = ["BCEFocalLossJax", "BCEFocalLossLogitJax", "DiceLossJax", "DiceCELossJax", "TverskyLossJax"]


@pytest.mark.left_to_full(every_second(map(str, CASES)))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_loss_is_its_formula(case: Case):
    loss = getattr(losses, f"{case.loss}Jax")(**case.arguments)
    value = loss(np.float32(case.prediction), np.array(case.target))
    np.testing.assert_allclose(value, case.expected, rtol=2e-6, atol=2e-7)
    assert value.dtype == jnp.float32


@pytest.mark.parametrize("case", {case.loss: case for case in CASES}.values(), ids=str)
def test_the_loss_is_its_formula_when_it_is_compiled(case: Case):
    loss = jax.jit(getattr(losses, f"{case.loss}Jax")(**case.arguments))
    value = loss(np.float32(case.prediction), np.array(case.target))
    np.testing.assert_allclose(value, case.expected, rtol=2e-6, atol=2e-7)


@pytest.mark.left_to_full("Logit|DiceCE")
@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_the_slope(name):
    loss = jax.jit(getattr(losses, name)())
    logits = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    prediction = 1 / (1 + np.exp(-logits)) if name == "BCEFocalLossJax" else logits
    target = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])
    gradient = jax.grad(loss)(prediction, target)
    direction = np.random.default_rng(1).normal(size=prediction.shape).astype(np.float32)
    slope = (loss(prediction + 1e-2 * direction, target) - loss(prediction - 1e-2 * direction, target)) / 2e-2
    np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-2)


@pytest.mark.left_to_full("Logit|DiceCE")
@pytest.mark.sampled("values")
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_computed_in_float32(name, dtype):
    prediction = jnp.full((1, 2, 70_000), 0.5, dtype)  # the sum of 70000 entries is infinite in float16
    value, gradient = jax.value_and_grad(getattr(losses, name)())(prediction, np.zeros((1, 70_000), np.int64))
    assert value.dtype == jnp.float32
    assert np.isfinite(value)
    assert np.isfinite(gradient.astype(np.float32)).all()


@pytest.mark.sampled("half")
@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("extreme", [1e4, -1e4])
def test_extremes_have_finite_losses_and_gradients(name, extreme):
    prediction = np.full((1, 2, 3), float(extreme > 0) if name == "BCEFocalLossJax" else extreme, np.float32)
    step = jax.jit(jax.value_and_grad(getattr(losses, name)()))
    for target in (np.zeros((1, 2, 3)), np.ones((1, 2, 3))):
        value, gradient = step(prediction, target)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("number", [2, -1])
def test_a_class_without_channel_is_seen(number):
    assert np.isnan(losses.DiceCELossJax()(np.zeros((1, 2, 3), np.float32), np.array([[0, number, 1]])))


@pytest.mark.parametrize("name", NAMES)
def test_a_target_of_another_shape_is_refused(name):
    with pytest.raises(DataError, match=r"prediction has shape \(2, 3, 4\) and the target \(2, 5\)"):
        getattr(losses, name)()(np.zeros((2, 3, 4), np.float32), np.zeros((2, 5)))


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match=r"reduction must be .*, got 'median'"):
        losses.BCEFocalLossJax(reduction="median")
    with pytest.raises(ConfigError, match=r"activation must be .*, got 'relu'"):
        losses.DiceLossJax(activation="relu")
    with pytest.raises(ConfigError, match=r"activation must be .*, got None"):
        losses.DiceCELossJax(activation=None)
    with pytest.raises(ConfigError, match="alpha must be between 0 and 1"):
        losses.BCEFocalLossLogitJax(alpha=2)
    with pytest.raises(ConfigError, match="gamma must be at least 0, got -1"):
        losses.BCEFocalLossJax(gamma=-1)
    with pytest.raises(ConfigError, match="smooth must be at least 0"):
        losses.DiceCELossJax(smooth=-1.0)
    with pytest.raises(ConfigError, match="alpha and beta must be at least 0"):
        losses.TverskyLossJax(beta=-1)
    with pytest.raises(DataError, match="leaves nothing"):
        losses.TverskyLossJax(include_background=False)(np.zeros((1, 1, 3)), np.zeros((1, 1, 3)))
