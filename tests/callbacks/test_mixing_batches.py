"""Batches that are mixed: their types, layouts and targets, the same in each framework, and what is refused."""

import numpy as np
import pytest
from mixing_batches import FRAMEWORKS, LABELS, converter, first, images, sampled
from scipy import special

from delira.callbacks.mixing import default_policy
from delira.errors import ConfigError, DataError
from delira.state import Y_TRUE, X
from delira.training.callbacks import (
    BCPlus,
    CutMix,
    Cutout,
    LabelSmoothingRegularisation,
    Mixup,
    RandomErase,
    SamplePairing,
)
from delira.utils.arrays import cast, log_softmax, ops_of

IMAGE_CALLBACKS = {
    "mixup": lambda: Mixup(),
    "pairing": lambda: SamplePairing(lambda state: True),
    "cutout": lambda: Cutout(2, 4, 0.25),
    "erase": lambda: RandomErase(2, 4),
    "cutmix": lambda: CutMix(1.0, 3),
    "cutmix with pairs": lambda: CutMix(1.0, mixup_loss=True),
    "between classes": lambda: BCPlus(classes=3),
    "between classes with pairs": lambda: BCPlus(mixup_loss=True),
}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kind", IMAGE_CALLBACKS)
def test_generators_of_others_are_left_alone_and_arrays_are_not_written_into(kind, framework, convert):
    callback, array, labels = IMAGE_CALLBACKS[kind](), images(framework), LABELS.copy()
    x, y = (convert(array), convert(labels)) if framework != "torch" else map(_shared, (array, labels))
    np.random.seed(5)
    before = np.random.get_state()[1].tolist(), array.copy()
    state = sampled(callback, x, y)
    assert before[0] == np.random.get_state()[1].tolist()
    np.testing.assert_array_equal(array, before[1])
    np.testing.assert_array_equal(labels, LABELS)
    assert type(state[X]) is type(x)
    assert state[X].dtype == x.dtype
    assert not np.array_equal(np.asarray(state[X]), array)


def _shared(array):
    import torch

    return torch.from_numpy(array)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kind", IMAGE_CALLBACKS)
def test_half_precision_stays_and_is_as_near_as_it_can_be(kind, framework, convert):
    array = images(framework)
    wide, half = (sampled(IMAGE_CALLBACKS[kind](), convert(array.astype(t)), convert(LABELS))[X] for t in ("f4", "f2"))
    assert "float16" in str(half.dtype)
    np.testing.assert_allclose(np.asarray(half, "f4"), np.asarray(wide), atol=0.02)


@pytest.mark.parametrize("kind", IMAGE_CALLBACKS)
def test_all_frameworks_get_the_same_numbers(kind):
    found = {}
    for framework in FRAMEWORKS:
        convert = converter(framework)
        state = sampled(IMAGE_CALLBACKS[kind](), convert(images(framework)), convert(LABELS))
        found[framework] = first(state[X], framework)
    for framework in FRAMEWORKS[1:]:
        np.testing.assert_allclose(found[framework], found["torch"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_first", [True, False])
def test_the_layout_may_be_said(framework, convert, is_first):
    array = np.ones((2, 6, 7, 8), "f4")
    holes = np.asarray(sampled(Cutout(1, 3, channels_first=is_first), convert(array), None)[X]) == 0
    assert holes.any()
    axis = 1 if is_first else -1
    assert (holes.all(axis) == holes.any(axis)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mixup(-1), "Mixup: alpha is a number of at least 0, got -1"),
        (lambda: Mixup(lam=1.5), "Mixup: lam is from 0 to 1, or RANDOM, got 1.5"),
        (lambda: CutMix(-1.0), "CutMix: alpha is a number above 0, got -1.0"),
        (lambda: CutMix(1.0, 1), "CutMix: classes is at least 2, or -1 for targets that are one-hot already, got 1"),
        (lambda: Cutout(0, 3), "Cutout: n_holes is a whole number of at least 1, got 0"),
        (lambda: RandomErase(1, 0), "RandomErase: length is a whole number of at least 1, got 0"),
        (lambda: SamplePairing(3), "SamplePairing: policy is a function of the state, got 3"),
        (lambda: default_policy(5, 4), "default_policy: start is at least 0"),
        (lambda: BCPlus(alpha=0), "BCPlus: alpha is a number above 0, got 0"),
        (lambda: LabelSmoothingRegularisation(1.5), "epsilon is from 0 to 1, got 1.5"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "x", "y", "message"),
    [
        (Mixup, np.ones((4, 3), "i8"), LABELS[:4], "Mixup computes with inputs of floating-point numbers, and X holds"),
        (Mixup, None, LABELS[:4], "and X holds NoneType; convert it"),
        (Mixup, np.ones((4, 3), "f4"), None, "Mixup changes targets, and the batch has none"),
        (lambda: Cutout(1, 1), np.ones((4, 3), "f4"), None, r"Cutout needs images .* got an array of shape \(4, 3\)"),
        (lambda: CutMix(1.0), np.ones((4, 3, 3, 3), "f4"), LABELS[:4], r"CutMix: targets of shape \(4,\) are no prob"),
    ],
)
def test_batches_that_do_not_fit_are_refused(make, x, y, message):
    convert = converter("torch")
    with pytest.raises(DataError, match=message):
        sampled(make(), *(value if value is None else convert(value) for value in (x, y)))


def test_targets_are_mixed_once():
    convert = converter("torch")
    state = sampled(LabelSmoothingRegularisation(0.1, 3), convert(np.ones((8, 3), "f4")), convert(LABELS))
    Mixup().on_sample(state)
    assert state[Y_TRUE].second.shape == (8, 3)
    for callback in (Mixup(), LabelSmoothingRegularisation(0.1)):
        with pytest.raises(ConfigError, match="comes after a callback that mixes targets; put it before that one"):
            callback.on_sample(state)


def test_targets_without_a_label_are_refused():
    x = converter("torch")(np.ones((4, 3), "f4"))
    with pytest.raises(DataError, match=r"one target, called 'label', and there are \['mask', 'weight'\]"):
        sampled(Mixup(), x, {"mask": x, "weight": x})


def test_operations_are_those_of_numpy(convert):
    array = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    rows = np.array([2, 0, 0])
    np.testing.assert_array_equal(ops_of(convert(array)).take(convert(array), convert(rows)), array[rows])
    np.testing.assert_allclose(ops_of(convert(array)).log(convert(abs(array))), np.log(abs(array)), rtol=1e-6)
    np.testing.assert_allclose(log_softmax(convert(array), 1), special.log_softmax(array, 1), rtol=1e-5)
    half = convert(array.astype("f2"))
    assert cast(convert(array), half).dtype == half.dtype
