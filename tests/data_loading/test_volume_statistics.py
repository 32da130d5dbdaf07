"""What is told of volumes, and what follows from it."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, DictDataset, Patches
from delira.errors import ConfigError, DataError


def volumes(n=6, offset=100.0, spacing=True):
    """Cases of different sizes, with a foreground that is brighter."""
    found = []
    for number in range(n):
        rng = np.random.default_rng(number)
        shape = (20 + number, 64, 64)
        label = np.zeros(shape, np.int64)
        label[5:15, 10:40, 10:40] = 1
        label[8:10, 20:30, 20:30] = 2
        data = (rng.normal(0, 10, (1, *shape)) + offset * (label > 0)).astype(np.float32)
        found.append({"data": data, "label": label, **({"spacing": np.array([3.0, 1.0, 1.0])} if spacing else {})})
    return found


def test_a_fingerprint_tells_sizes_spacings_intensities_and_classes():
    cases = volumes()
    found = BaseDataManager(cases, 2).fingerprint()
    assert (found.n_cases, found.n_read, found.is_of_foreground) == (6, 6, True)
    assert found.sizes.tolist() == [[20, 64, 64], [22.5, 64, 64], [25, 64, 64]]
    assert found.spacings[1].tolist() == [3, 1, 1]
    foreground = np.concatenate([one["data"][0][one["label"] > 0] for one in cases])
    assert np.allclose(found.percentiles[0], np.percentile(foreground, [0.5, 50, 99.5]), atol=0.5)
    assert found.means[0] == pytest.approx(foreground.mean(), abs=0.2)
    assert found.stds[0] == pytest.approx(foreground.std(), abs=0.2)
    voxels = np.concatenate([one["label"].ravel() for one in cases])
    shares = np.bincount(voxels) / voxels.size
    assert found.classes == pytest.approx(dict(enumerate(shares)))


def test_it_is_the_same_each_time_and_that_of_the_cases_of_patches():
    cases = volumes()
    plain = BaseDataManager(cases, 2).fingerprint(limit=3)
    assert plain.n_read == 3
    for other in (BaseDataManager(cases, 2).fingerprint(limit=3), Patches(cases, (8, 8, 8)).statistics(limit=3)):
        assert str(other) == str(plain)
        assert np.array_equal(other.percentiles, plain.percentiles)


def test_without_labels_it_is_of_all_voxels():
    cases = [{key: value for key, value in one.items() if key == "data"} for one in volumes()]
    found = BaseDataManager(cases, 2).fingerprint()
    assert not found.is_of_foreground
    assert not found.classes
    assert found.spacings is None
    assert "all voxels" in str(found)


def test_it_prints_as_a_table_and_describe_shows_it():
    dataset = BaseDataManager(volumes(), 2).dataset
    text = str(dataset.statistics())
    assert text.splitlines() == [
        "volumes of 6 cases",
        "  size            20–22.5–25 × 64 × 64 voxels",
        "  spacing         3 × 1 × 1 mm",
        *[line for line in text.splitlines() if line.startswith("  intensity")],
        *[line for line in text.splitlines() if line.startswith("  classes         0: 90.2")],
        "  patches         16 × 64 × 64 suggested",
        "  normalisation   z-score: mean and standard deviation of each case",
    ]
    described = dataset.describe()
    assert str(described.volumes) == text
    assert text in str(described)
    assert text.splitlines()[1] in described._repr_html_()


def test_describe_tells_of_no_volumes_where_there_are_none():
    assert DictDataset({"data": np.zeros((4, 3, 8, 8)), "label": [0, 1, 0, 1]}).describe().volumes is None
    assert DictDataset({"data": np.zeros((4, 8)), "label": [0, 1, 0, 1]}).describe().volumes is None
    masks = DictDataset({"data": np.ones((4, 1, 8, 8)), "label": np.ones((4, 8, 8), int)}).describe()
    assert masks.volumes.sizes[1].tolist() == [8, 8]


@pytest.mark.parametrize(
    ("size", "spacing", "max_voxels", "expected"),
    [
        ((200, 200, 200), (1, 1, 1), 128**3, (128, 128, 128)),
        ((40, 64, 64), (1, 1, 1), 128**3, (32, 64, 64)),
        ((30, 512, 512), (5.0, 0.7, 0.7), 128**3, (16, 288, 288)),
        ((10, 512, 512), (5.0, 0.7, 0.7), 2**20, (8, 352, 368)),
    ],
)
def test_a_patch_is_as_large_as_allowed_and_like_a_case(size, spacing, max_voxels, expected):
    import dataclasses

    found = BaseDataManager(volumes(2), 2).fingerprint()
    made = dataclasses.replace(
        found, sizes=np.array([size] * 3, float), spacings=np.array([spacing] * 3, float)
    ).suggest_patch_size(max_voxels)
    assert np.prod(made) <= max_voxels
    assert made == expected


def test_a_patch_that_cannot_be_smaller_stays():
    found = BaseDataManager(volumes(2), 2).fingerprint()
    assert found.suggest_patch_size(1) == (16, 16, 16)
    assert found.suggest_patch_size(1, divisible_by=1) == (1, 1, 1)
    for wrong in ({"max_voxels": 0}, {"divisible_by": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            found.suggest_patch_size(**wrong)


def test_ct_is_normalised_by_all_cases_and_others_by_their_own():
    (other,) = BaseDataManager(volumes(), 2).fingerprint().suggest_normalisation()
    values = other(volumes(1)[0]["data"][0])
    assert other.kind == "z-score"
    assert values.dtype == np.float32
    assert abs(values.mean()) < 1e-4
    assert values.std() == pytest.approx(1, abs=1e-4)
    cases = volumes()
    for one in cases:
        one["data"][0, 0] = -1000
    found = BaseDataManager(cases, 2).fingerprint()
    (ct,) = found.suggest_normalisation()
    assert ct.kind == "ct"
    assert "CT: clip to" in str(found)
    values = ct(np.array([-1000.0, ct.mean, 1e6]))
    assert np.allclose(values, [(ct.low - ct.mean) / ct.std, 0, (ct.high - ct.mean) / ct.std], atol=1e-6)


def test_values_that_are_not_finite_are_passed_over():
    cases = volumes(2)
    cases[0]["data"][0, 0, 0, :5] = np.nan
    cases[0]["data"][0, 6, 12, 12] = np.inf
    found = BaseDataManager(cases, 2).fingerprint()
    assert np.isfinite([*found.percentiles.ravel(), *found.means, *found.minima]).all()


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"data": np.zeros((8, 8))}], r"sample 0 has the shape \(8, 8\) and dtype float64; a volume is an array"),
        ([{"scan": np.zeros((1, 8, 8))}], "sample 0 has no entry 'data'; name the one with the intensities"),
        ([{"data": np.zeros((1, 8, 8))}, {"data": np.zeros((2, 8, 8))}], r"sample 1 has the shape \(2, 8, 8\), but"),
        (
            [{"data": np.zeros((1, 8, 8)), "label": np.zeros((8, 8), int)}],
            "no voxel of the foreground has",
        ),
    ],
)
def test_what_is_no_volume_is_refused(samples, message):
    with pytest.raises(DataError, match=message):
        BaseDataManager(samples, 2).fingerprint()
