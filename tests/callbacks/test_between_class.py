"""Between-class mixing and its loss, as the paper has them."""

import numpy as np
import pytest
from mixing_batches import LABELS, a_step, images, one_hot, sampled
from scipy import special

from delira.state import MIXUP_LAMBDA, MIXUP_PERMUTATION, Y_TRUE, X
from delira.training.callbacks import (
    BCPlus,
    bc_loss,
)


@pytest.mark.parametrize("has_pairs", [False, True])
def test_between_class_mixing_is_that_of_the_paper(framework, convert, has_pairs):
    array = images(framework) * np.linspace(0.5, 3, 8, dtype="f4")[:, None, None, None]
    state = sampled(BCPlus(has_pairs, classes=-1 if has_pairs else 3), convert(array), convert(LABELS))
    rows = np.asarray(state[MIXUP_PERMUTATION])
    r = np.broadcast_to(np.asarray(state[MIXUP_LAMBDA], "f8"), 8)
    x = array.astype("f8") - array.astype("f8").mean((1, 2, 3), keepdims=True)
    deviation = x.std((1, 2, 3))
    p = (1 / (1 + deviation / deviation[rows] * (1 - r) / r))[:, None, None, None]
    expected = (p * x + (1 - p) * x[rows]) / np.sqrt(p**2 + (1 - p) ** 2)
    np.testing.assert_allclose(state[X], expected, rtol=1e-4, atol=1e-5)
    if has_pairs:
        assert np.asarray(state[MIXUP_LAMBDA]).shape == ()
        np.testing.assert_array_equal(state[Y_TRUE].second, LABELS[rows])
    else:
        mixed = r[:, None] * one_hot(LABELS) + (1 - r)[:, None] * one_hot(LABELS[rows])
        np.testing.assert_allclose(state[Y_TRUE], mixed, rtol=1e-5)


def test_between_class_mixing_of_images_of_one_value_is_finite(convert, framework):
    array = np.ones_like(images(framework))
    assert np.asarray(sampled(BCPlus(classes=3), convert(array), convert(LABELS))[X]).tolist() == (0 * array).tolist()


def test_between_class_validation_has_zero_mean_and_one_hot_targets(framework, convert):
    array = images(framework)
    state = a_step(BCPlus(classes=3), convert(array), convert(LABELS))
    BCPlus(classes=3).on_sample_validation(state)
    np.testing.assert_allclose(state[X], array - array.mean((1, 2, 3), keepdims=True), atol=1e-5)
    np.testing.assert_array_equal(state[Y_TRUE], one_hot(LABELS))


@pytest.mark.sampled("values")
@pytest.mark.parametrize("shape", [(8, 3), (8, 4, 5, 3)])
def test_the_loss_is_the_divergence_from_the_targets(framework, convert, shape):
    rng = np.random.default_rng(0)
    scores, soft = (5 * rng.normal(size=shape)).astype("f4"), rng.dirichlet(np.ones(3), shape[:-1]).astype("f4")
    soft[0, ..., :] = one_hot(np.zeros(shape[1:-1], int))  # 0 * log(0) is 0
    labels = rng.integers(0, 3, shape[:-1])
    place = (lambda array: np.moveaxis(array, -1, 1)) if framework == "torch" else (lambda array: array)
    divergence = special.rel_entr(soft.astype("f8"), special.softmax(scores.astype("f8"), -1)).sum(-1).mean()
    assert float(bc_loss(convert(place(scores)), convert(place(soft)))) == pytest.approx(divergence, rel=1e-5)
    of_labels = -np.take_along_axis(special.log_softmax(scores.astype("f8"), -1), labels[..., None], -1).mean()
    assert float(bc_loss(convert(place(scores)), convert(labels))) == pytest.approx(of_labels, rel=1e-5)


def test_the_gradient_of_the_loss_is_right():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(6, 4)), requires_grad=True)
    soft = torch.tensor(rng.dirichlet(np.ones(4), 6))
    bc_loss(scores, soft).backward()
    np.testing.assert_allclose(scores.grad, (torch.softmax(scores, 1) - soft).detach() / 6, rtol=1e-6, atol=1e-9)
