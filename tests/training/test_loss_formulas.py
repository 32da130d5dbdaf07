"""The formulas of the losses of all backends, on arrays of numpy."""

import types

import numpy as np
import pytest
from loss_numbers import CASES
from scipy import special

from delira.errors import ConfigError, DataError
from delira.training import loss_formulas
from delira.utils.arrays import ops_of_type


class OfNumpy(loss_formulas.CalledLoss):
    ops = ops_of_type(np.ndarray)
    nn = types.SimpleNamespace(sigmoid=special.expit, softmax=special.softmax, log_softmax=special.log_softmax)
    log_sigmoid = staticmethod(special.log_expit)

    @staticmethod
    def one_hot(numbers, n_channels, like):
        return np.moveaxis(np.eye(n_channels, dtype=like.dtype)[numbers.astype(int)], -1, 1)


def loss(name, **arguments):
    body = {"_dice_cls": type("Dice", (loss_formulas.DiceLoss, OfNumpy), {})}
    return type(name, (getattr(loss_formulas, name), OfNumpy), body)(**arguments)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_loss_is_its_formula(case):
    value = loss(case.loss, **case.arguments)(np.array(case.prediction, np.float64), np.array(case.target))
    assert np.shape(value) == np.shape(case.expected)
    np.testing.assert_allclose(value, case.expected, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 4)])
def test_class_numbers_are_masks(shape):
    prediction = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float16)
    numbers = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])
    masks = OfNumpy.one_hot(numbers, 3, prediction)
    for name in ("BCEFocalLossLogit", "DiceLoss", "TverskyLoss", "DiceCELoss"):
        value = loss(name)(prediction, numbers.reshape(shape))
        assert value == loss(name)(prediction, masks)
        assert value.dtype == np.float32


def test_a_probability_in_half_precision_stays_off_0():
    focal = loss("BCEFocalLoss", gamma=0)
    assert focal(np.zeros((1, 1), np.float16), np.ones((1, 1))) == pytest.approx(14 * np.log(2))


@pytest.mark.parametrize("target", [np.zeros((2, 5)), np.zeros((2, 1, 5)), np.zeros(2), np.zeros((3, 4))])
def test_a_target_of_another_shape_is_refused(target):
    with pytest.raises(DataError, match=r"prediction has shape \(2, 3, 4\) and the target"):
        loss("DiceLoss")(np.zeros((2, 3, 4)), target)


def test_settings_outside_their_range_are_refused():
    for name, arguments, message in (
        ("BCEFocalLoss", {"alpha": 2}, "alpha must be between 0 and 1"),
        ("BCEFocalLossLogit", {"gamma": -1}, "gamma must be at least 0"),
        ("DiceLoss", {"reduction": "median"}, "reduction must be 'none'"),
        ("DiceLoss", {"activation": "relu"}, "activation must be 'auto', 'softmax', 'sigmoid' or None"),
        ("DiceCELoss", {"activation": None}, "activation must be 'auto', 'softmax' or 'sigmoid'"),
        ("TverskyLoss", {"smooth": -1}, "smooth must be at least 0"),
        ("TverskyLoss", {"beta": -1}, "alpha and beta must be at least 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            loss(name, **arguments)
    with pytest.raises(DataError, match="leaves nothing"):
        loss("DiceLoss", include_background=False)(np.zeros((1, 1, 3)), np.zeros((1, 1, 3)))
