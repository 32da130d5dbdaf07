"""Volumes on another grid, compared with nibabel and SimpleITK."""

import numpy as np
import pytest

from delira.data_loading import resample, resample_like
from delira.errors import ConfigError, DataError

BEFORE, AFTER = (3.0, 1.0, 1.2), (1.5, 1.4, 0.8)


def smooth(shape=(14, 25, 22)):
    """A volume without jumps."""
    z, y, x = np.indices(shape)
    return (np.sin(z / 3) + np.cos(y / 5) * np.sin(x / 4)).astype(np.float64)


def inside(array):
    """Without the border, where others go on otherwise; splines feel it for some voxels."""
    return array[3:-3, 3:-3, 3:-3] if min(array.shape) < 30 else array[12:-12, 12:-12, 12:-12]


@pytest.mark.parametrize("order", [0, 1, 3])
def test_inside_it_is_what_nibabel_makes(order):
    nibabel = pytest.importorskip("nibabel")
    from nibabel.processing import resample_from_to

    values = smooth((30, 45, 42))
    found = resample(values, BEFORE, AFTER, order=order)
    image = nibabel.Nifti1Image(values, np.diag([*BEFORE, 1]))
    theirs = resample_from_to(image, (found.shape, np.diag([*AFTER, 1])), order=order).get_fdata()
    if order == 0:  # half-way between two voxels rounding decides
        assert np.mean(inside(found) == inside(theirs)) > 0.9
    else:
        assert np.allclose(inside(found), inside(theirs), atol=1e-4 if order == 3 else 1e-9)


def test_inside_it_is_what_simple_itk_makes():
    itk = pytest.importorskip("SimpleITK")
    values = smooth()
    found = resample(values, BEFORE, AFTER, order=1)
    image = itk.GetImageFromArray(values)
    image.SetSpacing(BEFORE[::-1])
    theirs = itk.Resample(
        image, found.shape[::-1], itk.Transform(), itk.sitkLinear, (0, 0, 0), AFTER[::-1], (1, 0, 0, 0, 1, 0, 0, 0, 1)
    )
    assert np.allclose(inside(found), inside(itk.GetArrayFromImage(theirs)), atol=1e-6)


def test_a_volume_keeps_its_extent():
    found = resample(smooth((10, 10, 11)), (2, 1, 1), (1, 2, 0.1))
    assert found.shape == (19, 6, 101)  # 18, 9 and 10 mm
    assert resample(np.zeros(8), [0.7], [0.1]).shape == (50,)  # 49.000000000000007 steps


def test_what_is_on_the_grid_already_stays():
    values = smooth()
    assert np.array_equal(resample(values, BEFORE, BEFORE), values)
    for kind in ("image", "probability"):
        assert np.allclose(resample(values, (2, 2, 2), (1, 1, 1), kind)[::2, ::2, ::2], values)


@pytest.mark.parametrize("before", [(3.0, 1.0, 1.2), (0.7, 0.7, 5.0)])
@pytest.mark.parametrize("after", [(1.0, 1.0, 1.0), (2.2, 0.9, 1.7)])
def test_the_way_back_has_the_shape_that_it_came_from(before, after):
    for shape in ((14, 25, 22), (1, 7, 30)):
        values = smooth(shape)
        there = resample(values, before, after)
        back = resample_like(there, shape, after, before, "image")
        assert back.shape == shape
        if all(new < 1.3 * old for old, new in zip(before, after, strict=True)) and min(shape) > 8:
            assert np.abs(inside(back) - inside(values)).max() < 0.05


def test_labels_come_back_with_the_same_classes():
    z, y, x = np.indices((20, 24, 28))
    label = np.where((z - 10) ** 2 + (y - 12) ** 2 + (x - 14) ** 2 < 60, 3, 0)
    label[(z < 8) & (x < 9)] = 7
    there = resample(label, BEFORE, AFTER, "label")
    back = resample_like(there, label.shape, AFTER, BEFORE)
    assert {*np.unique(there)} == {*np.unique(back)} == {0, 3, 7}
    assert there.dtype == label.dtype
    for value in (3, 7):
        overlap = np.count_nonzero((back == value) & (label == value))
        assert 2 * overlap / (np.count_nonzero(back == value) + np.count_nonzero(label == value)) > 0.93
    nearest = resample(label, BEFORE, AFTER, "label", order=0)
    assert np.mean(nearest == there) > 0.97


def test_probabilities_stay_shares():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([1, 1, 1], (8, 9, 10)).transpose(3, 0, 1, 2).astype(np.float32)
    found = resample(shares, BEFORE, AFTER, "probability")
    assert found.shape[0] == 3
    assert found.min() >= 0
    assert np.allclose(found.sum(axis=0), 1, atol=1e-5)


def test_channels_are_resampled_alone_and_integers_become_numbers():
    values = (100 * smooth()).astype(np.int16)
    found = resample(np.stack([values, values[::-1]]), BEFORE, AFTER)
    assert found.dtype == np.float32
    assert np.array_equal(found[0], resample(values, BEFORE, AFTER))
    assert np.array_equal(found[1], resample(values[::-1], BEFORE, AFTER))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"spacing": (1, 1)}, ConfigError, "must have the same number of axes"),
        ({"spacing": (1, 0, 1)}, ConfigError, "spacing must list the mm between voxels along each axis"),
        ({"new_spacing": 1}, ConfigError, "new_spacing must list the mm"),
        ({"new_spacing": (1, 1, float("nan"))}, ConfigError, "new_spacing must list the mm"),
        ({"kind": "mask"}, ConfigError, "kind must be one of 'image', 'label', 'probability', got 'mask'"),
        ({"order": 6}, ConfigError, "order must be an integer from 0 to 5"),
        ({"order": True}, ConfigError, "order must be an integer from 0 to 5"),
        ({"kind": "label", "array": np.zeros((3, 3, 3), int), "order": 3}, ConfigError, "an integer from 0 to 1"),
        ({"array": np.zeros((3, 3))}, DataError, r"at least the 3 axes of spacing is needed, .* shape \(3, 3\)"),
        ({"kind": "label"}, DataError, "resamples classes, which are integers, got float64"),
        ({"array": np.full((3, 3, 3), np.nan)}, DataError, "NaN or infinite"),
        ({"array": np.full((3, 3, 3), "x")}, DataError, "resamples numbers, got <U1"),
    ],
)
def test_what_cannot_be_resampled_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        resample(**{"array": smooth((3, 3, 3)), "spacing": (1, 1, 1), "new_spacing": (2, 2, 2), **arguments})


def test_a_wrong_shape_to_go_back_to_is_refused():
    with pytest.raises(ConfigError, match="must have the same number of axes"):
        resample_like(np.zeros((3, 3), int), (3,), (1, 1), (2, 2))
    with pytest.raises(ConfigError, match=r"shape\[1\] must be an integer of at least 1"):
        resample_like(np.zeros((3, 3), int), (3, 0), (1, 1), (2, 2))
