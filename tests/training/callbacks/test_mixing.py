"""What mixing callbacks make of a batch: each formula against numpy, in each framework."""

import numpy as np
import pytest
from mixing_batches import FRAMEWORKS, LABELS, a_step, converter, first, images
from scipy import special, stats

from delira.errors import ConfigError, DataError
from delira.state import MIXUP_LAMBDA, MIXUP_PERMUTATION, Y_TRUE, State, X
from delira.training.callbacks import (
    BCPlus,
    CutMix,
    Cutout,
    LabelSmoothingRegularisation,
    MixedTargets,
    Mixup,
    RandomErase,
    SamplePairing,
    bc_loss,
    mixup_loss,
)
from delira.training.callbacks.mixing import default_policy
from delira.training.callbacks.mixing.randomness import step_generator
from delira.utils.array_functions import cast, log, log_softmax, take
from delira.utils.arrays import ops_of

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


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    return request.param


@pytest.fixture
def convert(framework):
    return converter(framework)


def sampled(callback, x, y, **place):
    """The state after a callback has changed a batch."""
    state = a_step(callback, x, y, **place)
    callback.on_sample(state)
    return state


def one_hot(labels, n=3):
    return np.eye(n, dtype="f4")[labels]


# ------------------------------------------------------------------ randomness


def draw(callback=None, callbacks=None, **place):
    callback = callback or Mixup()
    return step_generator(a_step(callbacks or [callback], None, None, **place), callback).random(4).tolist()


def test_numbers_are_a_function_of_the_place_in_the_run():
    twins = [Mixup(), SamplePairing(), Mixup()]
    places = [{}, {"seed": 4}, {"fold": 1}, {"epoch": 2}, {"batch": 3}]
    drawn = [draw(**place) for place in places]
    drawn += [draw(SamplePairing()), draw(twins[2], twins)]
    assert len({tuple(numbers) for numbers in drawn}) == len(drawn)
    assert draw(twins[0], twins) == draw(twins[0], [twins[0], Cutout(1, 1)]) == drawn[0]


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


# ------------------------------------------------------------------ mixup


def test_mixup_is_the_weighted_mean_of_pairs(convert):
    x, y = np.random.default_rng(0).normal(size=(8, 3)).astype("f4"), LABELS
    state = sampled(Mixup(0.4), convert(x), convert(y))
    share, rows = float(state[MIXUP_LAMBDA]), np.asarray(state[MIXUP_PERMUTATION])
    assert np.asarray(state[MIXUP_LAMBDA]).dtype == np.float32
    assert np.asarray(state[MIXUP_LAMBDA]).shape == ()
    assert sorted(rows) == list(range(8))
    assert rows.tolist() != list(range(8))
    np.testing.assert_allclose(state[X], share * x + (1 - share) * x[rows], rtol=1e-5, atol=1e-6)
    one, other = state[Y_TRUE]
    np.testing.assert_array_equal(one, y)
    np.testing.assert_array_equal(other, y[rows])


def test_every_array_of_an_input_of_several_is_mixed(convert):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 3)).astype("f4"), rng.normal(size=(8, 2, 2)).astype("f4")
    state = sampled(Mixup(lam=0.3), (convert(a), {"b": convert(b)}), (convert(LABELS), convert(a)))
    rows = np.asarray(state[MIXUP_PERMUTATION])
    np.testing.assert_allclose(state[X][0], 0.3 * a + 0.7 * a[rows], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state[X][1]["b"], 0.3 * b + 0.7 * b[rows], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state[Y_TRUE].second[0], LABELS[rows])
    np.testing.assert_array_equal(state[Y_TRUE].second[1], a[rows])


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_lambda_is_of_the_beta_distribution(alpha):
    convert, callback = converter("torch"), Mixup(alpha)
    x = convert(np.zeros((2, 1), "f4"))
    shares = [float(sampled(callback, x, x, batch=batch)[MIXUP_LAMBDA]) for batch in range(300)]
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 0.01


def test_a_lambda_may_be_fixed():
    convert = converter("torch")
    x = convert(np.zeros((2, 1), "f4"))
    assert float(sampled(Mixup(lam=0.25), x, x)[MIXUP_LAMBDA]) == 0.25
    assert Mixup(lam=Mixup.RANDOM).lam == Mixup().lam
    assert Mixup.mixup_loss is mixup_loss


def test_the_loss_weighs_those_of_both_targets(convert):
    def loss(prediction, target):
        return ops_of(prediction).sum(prediction * target)

    prediction, one, other = convert(np.arange(3.0)), convert(np.ones(3)), convert(np.array([0.0, 2.0, 5.0]))
    state = State({"y_pred": prediction, Y_TRUE: MixedTargets(one, other), MIXUP_LAMBDA: convert(np.float32(0.25))})
    criterion = mixup_loss(loss)
    assert float(criterion(state)) == pytest.approx(0.25 * 3 + 0.75 * 12)
    state[Y_TRUE] = other
    assert float(criterion(state)) == float(criterion(prediction, other)) == 12
    with pytest.raises(ConfigError, match="mixed targets, but no callback that mixes is at work"):
        criterion(prediction, MixedTargets(one, other))
    with pytest.raises(ConfigError, match="mixup_loss takes a loss of predictions and targets, got 3"):
        mixup_loss(3)


def test_without_a_target_the_loss_gets_the_prediction_alone():
    state = State({"y_pred": np.arange(3.0), Y_TRUE: None})
    assert mixup_loss(lambda prediction: prediction.sum())(state) == 3


# ------------------------------------------------------------------ pairs of samples


def test_sample_pairing_is_the_mean_and_keeps_targets(convert):
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("f4")
    y = convert(LABELS)
    callback = SamplePairing(lambda state: True)
    state = sampled(callback, convert(x), y)
    rows = step_generator(a_step(callback, x, y), callback).permutation(8)
    np.testing.assert_allclose(state[X], (x + x[rows]) / 2, rtol=1e-6)
    assert state[Y_TRUE] is y


def test_samples_are_paired_where_the_policy_says_so():
    policy = default_policy(3, 12, 2, 1)
    assert [epoch for epoch in range(20) if policy({"epoch": epoch})] == [3, 4, 6, 7, 9, 10]
    standard = default_policy()
    assert [epoch for epoch in range(1000) if standard({"epoch": epoch})] == [
        epoch for epoch in range(100, 800) if epoch % 10 < 8
    ]
    x = converter("torch")(np.random.default_rng(0).normal(size=(8, 3)).astype("f4"))
    assert sampled(SamplePairing(), x, x, epoch=99)[X] is x
    assert sampled(SamplePairing(), x, x, epoch=100)[X] is not x


# ------------------------------------------------------------------ holes


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


# ------------------------------------------------------------------ parts of other images


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


# ------------------------------------------------------------------ between classes


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
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch', which is not installed")
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(6, 4)), requires_grad=True)
    soft = torch.tensor(rng.dirichlet(np.ones(4), 6))
    bc_loss(scores, soft).backward()
    np.testing.assert_allclose(scores.grad, (torch.softmax(scores, 1) - soft).detach() / 6, rtol=1e-6, atol=1e-9)


# ------------------------------------------------------------------ labels


def test_smooth_labels_are_those_of_the_paper(convert):
    for classes, given in ((3, LABELS), (-1, one_hot(LABELS))):
        callback = LabelSmoothingRegularisation(0.3, classes)
        state = sampled(callback, None, convert(given))
        np.testing.assert_allclose(state[Y_TRUE], 0.7 * one_hot(LABELS) + 0.1, rtol=1e-6)
        state = a_step(callback, None, convert(given))
        callback.on_sample_validation(state)
        np.testing.assert_array_equal(state[Y_TRUE], one_hot(LABELS))


def test_smooth_labels_of_pixels_have_the_framework_s_axis_of_classes(framework, convert):
    labels = np.random.default_rng(0).integers(0, 3, (4, 5, 6))
    found = np.asarray(sampled(LabelSmoothingRegularisation(0.3, 3), None, convert(labels))[Y_TRUE])
    expected = 0.7 * one_hot(labels) + 0.1
    np.testing.assert_allclose(found, np.moveaxis(expected, -1, 1) if framework == "torch" else expected, rtol=1e-6)


# ------------------------------------------------------------------ layouts and refusals


@pytest.mark.parametrize("is_first", [True, False])
def test_the_layout_may_be_said(framework, convert, is_first):
    array = np.ones((2, 6, 7, 8), "f4")
    holes = np.asarray(sampled(Cutout(1, 3, channels_first=is_first), convert(array), None)[X]) == 0
    assert holes.any()
    axis = 1 if is_first else -1
    assert (holes.all(axis) == holes.any(axis)).all()


def test_the_label_of_an_experiment_s_batch_is_found_among_others(convert):
    names = convert(np.arange(8))
    state = sampled(LabelSmoothingRegularisation(0.0, 3), None, {"label": convert(LABELS), "number": names})
    np.testing.assert_array_equal(state[Y_TRUE]["label"], one_hot(LABELS))
    assert state[Y_TRUE]["number"] is names


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mixup(0), "Mixup: alpha is a number above 0, got 0"),
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


# ------------------------------------------------------------------ operations


def test_operations_are_those_of_numpy(convert):
    array = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    rows = np.array([2, 0, 0])
    np.testing.assert_array_equal(take(convert(array), convert(rows)), array[rows])
    np.testing.assert_allclose(log(convert(abs(array))), np.log(abs(array)), rtol=1e-6)
    np.testing.assert_allclose(log_softmax(convert(array), 1), special.log_softmax(array, 1), rtol=1e-5)
    half = convert(array.astype("f2"))
    assert cast(convert(array), half).dtype == half.dtype
