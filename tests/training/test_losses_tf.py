"""Losses of the TensorFlow backend."""

import numpy as np
import pytest
from loss_numbers import CASES, Case

tf = pytest.importorskip("tensorflow")

from delira.backends.tensorflow import losses  # noqa: E402
from delira.errors import ConfigError, DataError  # noqa: E402

NAMES = ["BCEFocalLossTf", "BCEFocalLossLogitTf", "DiceLossTf", "DiceCELossTf", "TverskyLossTf"]


def _slopes(loss, prediction, target):
    prediction = tf.convert_to_tensor(prediction)
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        value = loss(prediction, target)
    return value, tape.gradient(value, prediction)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_loss_is_its_formula(case: Case):
    loss = getattr(losses, f"{case.loss}Tf")(**case.arguments)
    value = loss(np.float32(case.prediction), np.array(case.target))
    np.testing.assert_allclose(value, case.expected, rtol=2e-6, atol=2e-7)
    assert value.dtype == tf.float32


@pytest.mark.parametrize("case", {case.loss: case for case in CASES}.values(), ids=str)
def test_the_loss_is_its_formula_when_it_is_compiled(case: Case):
    compiled = tf.function(getattr(losses, f"{case.loss}Tf")(**case.arguments))
    prediction, target = tf.constant(case.prediction, tf.float32), tf.constant(case.target)
    free = [tf.TensorSpec([None, *value.shape[1:]], value.dtype) for value in (prediction, target)]  # any batch size
    value = compiled.get_concrete_function(*free)(prediction, target)
    np.testing.assert_allclose(value, case.expected, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_the_slope(name):
    loss = getattr(losses, name)()
    logits = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    prediction = 1 / (1 + np.exp(-logits)) if name == "BCEFocalLossTf" else logits
    target = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])
    _, gradient = _slopes(loss, prediction, target)
    direction = np.random.default_rng(1).normal(size=prediction.shape).astype(np.float32)
    slope = (loss(prediction + 1e-2 * direction, target) - loss(prediction - 1e-2 * direction, target)) / 2e-2
    np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-2)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_computed_in_float32(name, dtype):
    prediction = tf.fill((1, 2, 70_000), tf.constant(0.5, dtype))  # the sum of 70000 entries is infinite in float16
    value, gradient = _slopes(getattr(losses, name)(), prediction, np.zeros((1, 70_000), np.int64))
    assert value.dtype == tf.float32
    assert np.isfinite(value)
    assert np.isfinite(tf.cast(gradient, tf.float32)).all()


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("extreme", [1e4, -1e4])
def test_extremes_have_finite_losses_and_gradients(name, extreme):
    prediction = np.full((1, 2, 3), float(extreme > 0) if name == "BCEFocalLossTf" else extreme, np.float32)
    for target in (np.zeros((1, 2, 3)), np.ones((1, 2, 3))):
        value, gradient = _slopes(getattr(losses, name)(), prediction, target)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("number", [2, -1])
def test_a_class_without_channel_is_seen(number):
    assert np.isnan(losses.DiceCELossTf()(np.zeros((1, 2, 3), np.float32), np.array([[0, number, 1]])))


@pytest.mark.parametrize("name", NAMES)
def test_a_target_of_another_shape_is_refused(name):
    with pytest.raises(DataError, match=r"prediction has shape \(2, 3, 4\) and the target \(2, 5\)"):
        getattr(losses, name)()(np.zeros((2, 3, 4), np.float32), np.zeros((2, 5)))


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match=r"reduction must be .*, got 'median'"):
        losses.BCEFocalLossTf(reduction="median")
    with pytest.raises(ConfigError, match=r"activation must be .*, got 'relu'"):
        losses.DiceLossTf(activation="relu")
    with pytest.raises(ConfigError, match=r"activation must be .*, got None"):
        losses.DiceCELossTf(activation=None)
    with pytest.raises(ConfigError, match="alpha must be between 0 and 1"):
        losses.BCEFocalLossLogitTf(alpha=2)
    with pytest.raises(ConfigError, match="gamma must be at least 0, got -1"):
        losses.BCEFocalLossTf(gamma=-1)
    with pytest.raises(ConfigError, match="smooth must be at least 0"):
        losses.DiceCELossTf(smooth=-1.0)
    with pytest.raises(ConfigError, match="alpha and beta must be at least 0"):
        losses.TverskyLossTf(beta=-1)
    with pytest.raises(DataError, match="leaves nothing"):
        losses.TverskyLossTf(include_background=False)(np.zeros((1, 1, 3)), np.zeros((1, 1, 3)))
