"""Images with holes, and with boxes of others: pixel by pixel."""

import numpy as np
import pytest
from mixing_batches import LABELS, a_step, converter, first, images, one_hot, sampled
from scipy import stats

from delira.callbacks.mixing.mixed import step_generator
from delira.state import MIXUP_LAMBDA, MIXUP_PERMUTATION, Y_TRUE, X
from delira.training.callbacks import (
    CutMix,
    Cutout,
    RandomErase,
)


def holes_by_hand(rng, n, shape, n_holes, length):
    """Where holes are, pixel by pixel."""
    mask = np.zeros((n, *shape), bool)
    for _ in range(n_holes):
        centres = [rng.integers(0, size, n) for size in shape]
        for image in range(n):
            begins = [int(centre[image]) - length // 2 for centre in centres]
            for place in np.ndindex(*shape):
                mask[(image, *place)] |= all(b <= p < b + length for b, p in zip(begins, place, strict=True))
    return mask


@pytest.mark.parametrize(("n_holes", "length", "shape"), [(1, 4, (10, 12)), (3, 5, (10, 12)), (2, 3, (4, 6, 5))])
def test_cutout_puts_a_constant_into_holes(framework, convert, n_holes, length, shape):
    callback = Cutout(n_holes, length, 0.5)
    array = images(framework, shape=shape)
    state = sampled(callback, convert(array), convert(LABELS))
    rng = step_generator(a_step(callback, None, None), callback)
    mask = holes_by_hand(rng, 8, shape, n_holes, length)[:, None]
    np.testing.assert_array_equal(first(state[X], framework), np.where(mask, 0.5, first(array, framework)))
    assert len(np.unique(mask.reshape(8, -1), axis=0)) > 1  # each image has its own


def test_random_erase_puts_noise_into_holes(framework, convert):
    callback, array = RandomErase(2, 5), images(framework, n=60)
    state = sampled(callback, convert(array), convert(np.zeros(60)))
    mask = holes_by_hand(step_generator(a_step(callback, None, None), callback), 60, (10, 12), 2, 5)
    mask = np.broadcast_to(mask[:, None], (60, 3, 10, 12))
    found, before = first(state[X], framework), first(array, framework)
    np.testing.assert_array_equal(found[~mask], before[~mask])
    assert stats.kstest(found[mask], "uniform").pvalue > 0.01
    assert len(np.unique(found[mask])) > 0.99 * mask.sum()  # each pixel and channel its own


def test_a_hole_may_be_anywhere():
    callback, counts = Cutout(1, 2), np.zeros((6, 7))
    x = converter("torch")(np.ones((50, 1, 6, 7), "f4"))
    for batch in range(40):
        counts += (np.asarray(sampled(callback, x, None, batch=batch)[X]) == 0).sum((0, 1))
    inner = counts[:-1, :-1]  # a hole of length 2 reaches the last row and column by one centre only
    assert inner.min() > 0.7 * inner.max()
    assert counts[-1, :-1].min() > 0.3 * inner.max()


def is_a_box(mask):
    return not mask.any() or mask[np.ix_(mask.any(1), mask.any(0))].all()


@pytest.mark.parametrize("has_pairs", [False, True])
def test_cutmix_puts_boxes_of_others_in_and_weighs_labels_by_the_kept_area(framework, convert, has_pairs):
    callback = CutMix(1.0, -1 if has_pairs else 3, has_pairs)
    shares = []
    for batch in range(6):
        array = images(framework)
        state = sampled(callback, convert(array), convert(LABELS), batch=batch)
        rows, before = np.asarray(state[MIXUP_PERMUTATION]), first(array, framework)
        found, others = first(state[X], framework), before[rows]
        is_other = (found != before).all(1)
        moved = rows != np.arange(8)
        np.testing.assert_array_equal(found, np.where(is_other[:, None], others, before))
        kept = 1 - is_other.mean((1, 2))
        share = np.asarray(state[MIXUP_LAMBDA])
        assert all(is_a_box(mask) for mask in is_other[moved])
        if has_pairs:
            assert share.shape == ()
            np.testing.assert_allclose(np.broadcast_to(share, 8)[moved], kept[moved], rtol=1e-6)
            np.testing.assert_array_equal(state[Y_TRUE].second, LABELS[rows])
        else:
            np.testing.assert_allclose(share[moved], kept[moved], rtol=1e-6)
            weighted = share[:, None] * one_hot(LABELS) + (1 - share)[:, None] * one_hot(LABELS[rows])
            np.testing.assert_allclose(state[Y_TRUE], weighted, rtol=1e-6)
        shares += kept[moved].tolist()
    assert len(set(shares)) > 2


def test_a_box_of_cutmix_has_the_sides_of_the_paper():
    callback = CutMix(1.0, mixup_loss=True)
    x = np.arange(2.0, dtype="f4")[:, None, None, None] * np.ones((1, 1, 30, 40), "f4")
    rng_of = lambda batch: step_generator(a_step(callback, None, None, batch=batch), callback)  # noqa: E731
    for batch in range(20):
        state = sampled(callback, converter("torch")(x), converter("torch")(np.arange(2)), batch=batch)
        rng = rng_of(batch)
        rows, share = rng.permutation(2), rng.beta(1.0, 1.0, 1)[0]
        centre = [int(rng.integers(0, size, 1)[0]) for size in (30, 40)]
        inside = np.ones((30, 40), bool)
        for axis, size in enumerate((30, 40)):
            length = int(np.sqrt(1 - share) * size)
            places = np.arange(size)
            along = (places >= centre[axis] - length // 2) & (places < centre[axis] - length // 2 + length)
            inside &= along[:, None] if axis == 0 else along
        np.testing.assert_array_equal(state[X][:, 0], np.where(inside, x[rows, 0], x[:, 0]))
