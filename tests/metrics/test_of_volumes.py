"""Overlap, distance and volume of each class of each case: as MONAI computes them, and what has no value."""

import math
import warnings

import numpy as np
import pytest

from delira.errors import ConfigError, DataError, MissingKeyError
from delira.metrics import DicePerClass, HausdorffPerClass, IoUPerClass, MetricSet, SurfaceDice, VolumeError, score
from delira.metrics.of_volumes import surface_distances

NAMES = ["background", "liver", "tumour", "vein"]
#: shape of the image, and mm of a voxel
GRIDS = {
    "2D": ((23, 17), (1.0, 1.0)),
    "2D, anisotropic": ((23, 17), (0.7, 2.5)),
    "3D": ((9, 14, 11), (1.0, 1.0, 1.0)),
    "3D, anisotropic": ((9, 14, 11), (3.0, 0.8, 1.1)),
}


def blobs(seed, shape, n_labels=4, missing=()):
    """A label map of boxes and of single voxels, some of them at the border."""
    generator = np.random.default_rng(seed)
    labels = np.zeros(shape, int)
    for label in range(1, n_labels):
        for _ in range(2):
            start = [generator.integers(0, size - 1) for size in shape]
            labels[tuple(slice(at, at + generator.integers(1, 7)) for at in start)] = label
    labels[generator.random(shape) < 0.02] = 1
    labels[np.isin(labels, missing)] = 0
    return labels


def one_hot(labels, n_labels=4):
    return np.moveaxis(np.eye(n_labels)[labels], -1, 1)


def of_monai(name, true, pred, spacing=None, **settings):
    """What MONAI gives for a batch of label maps: float64 of shape ``(B, 3)``."""
    pytest.importorskip("monai", reason="needs the package 'monai', which is not installed")
    import torch
    from monai import metrics

    pair = [torch.tensor(one_hot(labels)) for labels in (pred, true)]
    function = getattr(metrics, name)
    place = {} if spacing is None else {"spacing": spacing}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*pair, include_background=False, **place, **settings).numpy().astype(float)


def of_delira(metric, true, pred):
    return np.array([metric.values(*pair) for pair in zip(true, pred, strict=True)])


def batch(seed, shape, **settings):
    true = np.stack([blobs(10 * seed + at, shape, **settings) for at in range(3)])
    pred = np.stack([blobs(10 * seed + at + 5, shape) for at in range(3)])
    keep = np.random.default_rng(seed).random(true.shape) < 0.7  # so that they have something in common
    return true, np.where(keep, true, pred)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("missing", [(), (2,), (1, 2, 3)], ids=["all there", "one missing", "nothing there"])
def test_every_metric_is_that_of_monai(grid, seed, missing):
    shape, spacing = GRIDS[grid]
    true, pred = batch(seed, shape, missing=missing)
    pred[0][pred[0] == 3] = 0  # predicted nowhere in one case
    expected = {
        DicePerClass(NAMES): of_monai("compute_dice", true, pred),
        DicePerClass(NAMES, ignore_empty=False): of_monai("compute_dice", true, pred, ignore_empty=False),
        IoUPerClass(NAMES): of_monai("compute_iou", true, pred),
        IoUPerClass(NAMES, ignore_empty=False): of_monai("compute_iou", true, pred, ignore_empty=False),
        SurfaceDice(NAMES, (1.0, 0.0, 2.6), spacing): of_monai(
            "compute_surface_dice", true, pred, list(spacing), class_thresholds=[1.0, 0.0, 2.6]
        ),
    }
    largest = of_monai("compute_hausdorff_distance", true, pred, list(spacing))
    expected[HausdorffPerClass(NAMES, 100, spacing)] = largest
    for percentile in (50, 95):
        values = of_monai("compute_hausdorff_distance", true, pred, list(spacing), percentile=percentile)
        # torch.quantile of nothing but infinite distances is NaN or infinite, by the number of voxels
        expected[HausdorffPerClass(NAMES, percentile, spacing)] = np.where(np.isinf(largest), np.inf, values)
    for metric, values in expected.items():
        np.testing.assert_allclose(of_delira(metric, true, pred), values, rtol=2e-6, err_msg=repr(metric))


def test_the_background_counts_where_it_is_asked_for():
    true, pred = batch(3, (12, 13))
    metric = DicePerClass(NAMES, include_background=True)
    assert metric.names == tuple(NAMES)
    found = of_delira(metric, true, pred)
    np.testing.assert_allclose(found[:, 0], 2 * ((true == 0) & (pred == 0)).sum((1, 2)) / (
        (true == 0).sum((1, 2)) + (pred == 0).sum((1, 2))))  # fmt: skip
    np.testing.assert_array_equal(found[:, 1:], of_delira(DicePerClass(NAMES), true, pred))


def test_the_distance_of_two_known_masks_is_in_mm():
    true, pred = np.zeros((5, 9), int), np.zeros((5, 9), int)
    true[2, 1], pred[2, 5] = 1, 1
    assert HausdorffPerClass(2).values(true, pred).tolist() == [4.0]
    assert HausdorffPerClass(2, spacing=(1.0, 2.5)).values(true, pred).tolist() == [10.0]
    assert HausdorffPerClass(2, spacing=2.0).values(true, pred).tolist() == [8.0]
    named = HausdorffPerClass(2, spacing="mm")
    assert named.values(true, pred, np.array([1.0, 0.5])).tolist() == [2.0]
    assert named.values(true, pred, np.array(3.0)).tolist() == [12.0]
    assert SurfaceDice(2, 9.9, (1.0, 2.5)).values(true, pred).tolist() == [0.0]
    assert SurfaceDice(2, 10.0, (1.0, 2.5)).values(true, pred).tolist() == [1.0]


def test_distances_are_those_of_all_pairs_of_edge_voxels():
    one, other = (blobs(seed, (8, 9, 7)) > 0 for seed in (1, 2))
    spacing = np.array([2.0, 0.5, 1.3])

    def edge(mask):
        padded = np.pad(mask, 1)
        inner = np.ones_like(mask)
        for axis in range(3):
            for step in (-1, 1):
                inner &= np.roll(padded, step, axis)[1:-1, 1:-1, 1:-1]
        return np.argwhere(mask & ~inner) * spacing

    apart = np.linalg.norm(edge(one)[:, None] - edge(other)[None], axis=-1)
    found = surface_distances(one, other, spacing)
    np.testing.assert_allclose(np.sort(found[0]), np.sort(apart.min(axis=1)))
    np.testing.assert_allclose(np.sort(found[1]), np.sort(apart.min(axis=0)))


def test_errors_of_volumes_are_relative_or_in_ml():
    true, pred = np.zeros((2, 10, 10), int), np.zeros((2, 10, 10), int)
    true[0, :5], pred[0, :4], pred[1, :2] = 1, 1, 2  # 50 and 40 voxels, 0 and 20
    size = (5.0, 2.0, 2.0)  # 20 mm³
    np.testing.assert_allclose(VolumeError(3).values(true, pred), [0.2, np.nan])
    np.testing.assert_allclose(VolumeError(3, signed=True).values(true, pred), [-0.2, np.nan])
    np.testing.assert_allclose(VolumeError(3, "ml", size).values(true, pred), [0.2, 0.4])
    np.testing.assert_allclose(VolumeError(3, "ml", size, signed=True).values(true, pred), [-0.2, 0.4])
    np.testing.assert_allclose(VolumeError(3, "ml", "mm").values(true, pred, np.array(size)), [0.2, 0.4])


def test_a_class_in_only_one_mask_has_the_distance_that_was_said():
    true, pred = np.zeros((6, 6), int), np.zeros((6, 6), int)
    true[1:3], pred[4] = 1, 2
    assert HausdorffPerClass(4).values(true, pred).tolist()[:2] == [math.inf, math.inf]
    assert math.isnan(HausdorffPerClass(4).values(true, pred)[2])
    assert HausdorffPerClass(4, missing=8.5).values(true, pred)[:2].tolist() == [8.5, 8.5]
    assert np.isnan(HausdorffPerClass(4, missing=math.nan).values(true, pred)).all()
    assert SurfaceDice(4, 1).values(true, pred)[:2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(7, 5), (4, 7, 5)], ids=["2D", "3D"])
def test_scores_labels_and_one_hot_masks_say_the_same(shape):
    true, pred = blobs(1, shape), blobs(2, shape)
    generator = np.random.default_rng(0)
    scores = np.moveaxis(np.eye(4)[pred], -1, 0) + generator.uniform(0, 0.4, (4, *shape))
    expected = DicePerClass(4).values(true, pred)
    trues = [true, true[None], np.moveaxis(np.eye(4)[true], -1, 0), true.astype(np.float32)]
    preds = [pred, pred[None], np.moveaxis(np.eye(4, dtype=int)[pred], -1, 0), scores, pred.astype(float)]
    for one in trues:
        for other in preds:
            np.testing.assert_array_equal(DicePerClass(4).values(one, other), expected)
    last = DicePerClass(4, class_axis=-1)
    np.testing.assert_array_equal(last.values(true, np.moveaxis(scores, 0, -1)), expected)
    np.testing.assert_array_equal(last.values(true[..., None], np.moveaxis(scores, 0, -1)), expected)
    np.testing.assert_array_equal(last.values(true, scores), expected)  # only the first axis fits


def test_scores_that_fit_on_either_axis_are_refused_until_somebody_says_it():
    true, scores = np.zeros((4, 4), int), np.random.default_rng(0).random((4, 4, 4))
    with pytest.raises(DataError, match="may lie on the first or the last axis; make it with class_axis=1 or"):
        DicePerClass(4).values(true, scores)
    true[0, 0] = 1
    first, last = (DicePerClass(4, class_axis=axis).values(true, scores) for axis in (1, -1))
    np.testing.assert_array_equal(first, DicePerClass(4).values(true, scores.argmax(0)))
    np.testing.assert_array_equal(last, DicePerClass(4).values(true, scores.argmax(-1)))


def test_a_volume_of_as_many_slices_as_classes_is_read_as_labels():
    true, pred = blobs(1, (4, 8, 9)), blobs(2, (4, 8, 9))
    longer = [np.pad(labels, ((0, 1), (0, 0), (0, 0))) for labels in (true, pred)]
    expected = DicePerClass(4).values(*longer)
    np.testing.assert_array_equal(DicePerClass(4).values(true, pred), expected)


def test_a_spacing_of_three_numbers_makes_a_single_slice_a_volume():
    true, pred = np.zeros((1, 9, 9), int), np.zeros((1, 9, 9), int)
    true[0, 2:7, 2:7], pred[0, 3:5, 3:5] = 1, 1
    in_plane = HausdorffPerClass(2, 100).values(true, pred)
    np.testing.assert_array_equal(in_plane, HausdorffPerClass(2, 100, (1.0, 1.0)).values(true[0], pred[0]))
    of_volume = HausdorffPerClass(2, 95, (5.0, 1.0, 1.0)).values(true, pred)  # every voxel has no neighbour above
    assert of_volume != HausdorffPerClass(2, 95).values(true, pred)


def test_single_scores_are_compared_with_the_threshold():
    true = np.array([[0, 1], [1, 1]])
    scores = np.array([[[0.2, 0.7], [0.4, 0.9]]])
    assert DicePerClass(2, threshold=0.5).values(true, scores).tolist() == [0.8]
    assert DicePerClass(2, threshold=0.3).values(true, scores[0]).tolist() == [1.0]
    with pytest.raises(DataError, match=r"y_pred .* values like 0.2, which are no labels; of single scores say thres"):
        DicePerClass(2).values(true, scores)


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_a_case_whose_scores_are_not_finite_is_infinitely_bad(lost):
    true, scores = blobs(0, (6, 6)), np.random.default_rng(0).random((4, 6, 6))
    scores[1, 2, 3] = lost
    assert set(DicePerClass(4).values(true, scores)) == set(SurfaceDice(4, 1).values(true, scores)) == {-math.inf}
    assert set(HausdorffPerClass(4).values(true, scores)) == set(VolumeError(4).values(true, scores)) == {math.inf}
    assert DicePerClass(4)(true, scores) == -math.inf
    scores[1, 2, 3] = -math.inf  # a class may be ruled out
    assert np.isfinite(VolumeError(4).values(true, scores)).any()


def test_the_mean_over_classes_leaves_out_those_without_a_value():
    true, pred = np.array([[0, 1, 1, 0]]), np.array([[0, 1, 0, 3]])
    np.testing.assert_allclose(DicePerClass(4).values(true, pred), [2 / 3, np.nan, np.nan])
    assert DicePerClass(4)(true, pred) == pytest.approx(2 / 3)
    assert math.isnan(DicePerClass(4)(np.zeros((2, 2), int), np.zeros((2, 2), int)))
    arrays = np.stack([true, 0 * true]), np.stack([pred, 0 * pred])
    assert score(DicePerClass(4), arrays) == pytest.approx(2 / 3)


WRONG_SETTINGS = {
    r"DicePerClass: classes are the different names .* \['background', 'liver'\], or how many .* got 'liver'": (
        DicePerClass, ("liver",), {}),
    r"got 1$": (DicePerClass, (1,), {}),
    r"got \['a', 'a'\]": (DicePerClass, (["a", "a"],), {}),
    r"DicePerClass: an overlap does not depend on the spacing": (DicePerClass, (3,), {"spacing": (1, 1)}),
    r"DicePerClass: class_axis is 1 or -1, got 2": (DicePerClass, (3,), {"class_axis": 2}),
    r"threshold decides between two classes, got 3": (DicePerClass, (3,), {"threshold": 0.5}),
    r"ignore_empty": (DicePerClass, (3,), {"ignore_empty": 1}),
    r"HausdorffPerClass: percentile": (HausdorffPerClass, (3, 0), {}),
    r"Hausdorff.*: spacing is a positive number of mm .* got \(1, -1\)": (HausdorffPerClass, (3, 95, (1, -1)), {}),
    r"HausdorffPerClass: missing is a distance in mm, inf or nan, got -1": (HausdorffPerClass, (3,), {"missing": -1}),
    r"tolerance is one distance in mm, or one for each of the 2 classes \['1', '2'\], got 3": (
        SurfaceDice, (3, (1, 1, 1)), {}),
    r"SurfaceDice: tolerance": (SurfaceDice, (3, -1), {}),
    r"VolumeError: unit": (VolumeError, (3, "l"), {}),
    r"unit='ml' needs the size of a voxel: spacing=\(z, y, x\) in mm": (VolumeError, (3, "ml"), {}),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG_SETTINGS)
def test_wrong_settings_are_refused(message):
    metric, args, settings = WRONG_SETTINGS[message]
    with pytest.raises(ConfigError, match=message):
        metric(*args, **settings)


SQUARE = np.zeros((4, 5), int)
WRONG_CASES = {
    r"target of shape \(4, 5\) and a prediction of shape \(5, 4\) .* of 3 classes, \(3, \*spatial\), or labels": (
        DicePerClass(3), (SQUARE, SQUARE.T)),
    r"prediction of shape \(2, 4, 5\)": (DicePerClass(3), (SQUARE, np.zeros((2, 4, 5)))),
    r"has the labels 0 to 2, but y_true has labels from 0 to 255; ignore_index= is the label": (
        DicePerClass(3), (np.where(np.eye(4, 5) > 0, 255, 0), SQUARE)),
    r"but y_pred has labels from -1 to 0": (DicePerClass(3), (SQUARE, SQUARE - np.eye(4, 5, dtype=int))),
    r"y_true of shape \(4, 5\) with values like 0.5, which are no labels$": (DicePerClass(3), (SQUARE + 0.5, SQUARE)),
    r"y_true of the type <U1, which are no labels": (DicePerClass(3), (SQUARE.astype("U1"), SQUARE)),
    r"got the spacing \(1.0, 1.0, 1.0\) for masks with 2 axes; it needs one number for each axis": (
        HausdorffPerClass(3, spacing=(1, 1, 1)), (SQUARE, SQUARE)),
    r"got the spacing \(1.0, 2.0, 3.0\) for masks with 2 axes": (
        HausdorffPerClass(3, spacing="mm"), (SQUARE, SQUARE, np.array([1, 2, 3]))),
    r"needs positive numbers of shape \(B,\) or \(B, axes\) as 'mm', in mm, got array\(\[0, 1\]\)": (
        HausdorffPerClass(3, spacing="mm"), (SQUARE, SQUARE, np.array([0, 1]))),
    r"ml are of volumes, got masks of shape \(4, 5\); use unit='relative' for images": (
        VolumeError(3, "ml", (1, 1)), (SQUARE, SQUARE)),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG_CASES)
def test_what_cannot_be_compared_is_refused(message):
    metric, arrays = WRONG_CASES[message]
    with pytest.raises(DataError, match=message):
        metric(*arrays)


def test_an_error_names_the_case_of_the_pass():
    metrics = MetricSet({"dice": DicePerClass(3)})
    metrics.update({"label": np.zeros((4, 3, 3), int), "pred": np.zeros((4, 3, 3), int)})
    with pytest.raises(DataError, match="has the labels 0 to 2") as caught:
        metrics.update({"label": np.array([0, 7])[:, None, None] * np.ones((2, 3, 3)), "pred": np.zeros((2, 3, 3))})
    assert caught.value.__notes__[0] == "of sample 5 of the pass"
    assert "in metric 'dice'" in caught.value.__notes__[1]


def test_a_batch_without_the_spacing_is_refused_once_for_all_classes():
    metrics = MetricSet({"hd": HausdorffPerClass(NAMES, spacing="mm")})
    with pytest.raises(MissingKeyError, match="metric 'hd' reads 'mm', but") as caught:
        metrics.update({"label": SQUARE[None], "pred": SQUARE[None]})
    assert str(caught.value).count("reads 'mm'") == 1
