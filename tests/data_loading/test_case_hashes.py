"""Cases are known again by their contents: of another type, in another order, cut into patches or read by workers."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset, CachedDataset, Patches
from delira.data_loading.case_hashes import _CHUNK, hash_case, hashes_of

IMAGE = np.arange(24, dtype=np.uint8).reshape(1, 4, 6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, ">f4", np.float16])
def test_the_same_numbers_of_another_type_are_the_same_case(dtype):
    same = np.asfortranarray(IMAGE.astype(dtype))
    assert hash_case({"data": same, "label": 1}, ["data"]) == hash_case({"data": IMAGE, "label": 2}, ["data"])


@pytest.mark.parametrize(
    "other",
    [{"data": IMAGE + 1}, {"data": IMAGE[0]}, {"data": IMAGE.reshape(1, 6, 4)}, {"data": IMAGE.astype(str)}],
    ids=["values", "axes", "shape", "texts"],
)  # fmt: skip
def test_other_contents_are_another_case(other):
    assert hash_case(other, ["data"]) != hash_case({"data": IMAGE}, ["data"])


def test_minus_zero_trees_texts_and_what_is_missing():
    assert hash_case({"x": np.float32(-0.0)}, ["x"]) == hash_case({"x": 0}, ["x"])
    assert hash_case({"x": {"a": [1, 2]}}, ["x"]) == hash_case({"x": {"a": np.array([1.0, 2.0])}}, ["x"])
    assert hash_case({"x": ["ab", "c"]}, ["x"]) != hash_case({"x": ["a", "bc"]}, ["x"])
    assert hash_case({"x": 1}, ["x", "y"]) is None


def test_the_hash_of_a_long_array_does_not_depend_on_its_parts():
    rows = np.random.default_rng(0).random((3, _CHUNK // 2), dtype=np.float32)
    assert hash_case({"data": rows}, ["data"]) == hash_case({"data": rows.astype(np.float64)}, ["data"])


def cases(n=5):
    rng = np.random.default_rng(3)
    return [
        {"data": rng.random((1, 4 + i, 6)), "label": np.ones((4 + i, 6), int), "patient": f"P{i}"} for i in range(n)
    ]


def expected(n=5):
    return [(i, hash_case(case, ["data"])) for i, case in enumerate(cases(n))]


def load(index):
    return cases()[index]


@pytest.mark.parametrize("workers", [0, 1])
def test_each_case_is_hashed_as_its_dataset_gives_it(workers, tmp_path):
    lazy = BaseLazyDataset(range(5), load)
    doubled = BaseDataManager(lazy, 1, workers, transforms=lambda batch: {**batch, "data": batch["data"] * 2})
    assert [*hashes_of(doubled, ["data"])] == expected()
    subset = doubled.get_subset([3, 1])
    assert [one for _, one in hashes_of(subset, ["data"])] == [expected()[3][1], expected()[1][1]]
    cached = CachedDataset(lazy, tmp_path / "cache")
    assert [*hashes_of(BaseDataManager(cached), ["data"])] == expected()


def test_of_patches_whole_cases_are_hashed():
    patches = BaseDataManager(Patches(cases(), (2, 2), per_case=3), 4)
    assert [*hashes_of(patches, ["data"])] == expected()


def test_arrays_are_read_many_at_once():
    batch = {"data": np.random.default_rng(0).random((700, 3)), "label": np.zeros(700)}
    found = [*hashes_of(BaseDataManager(batch, 7), ["data"])]
    assert found == [(i, hash_case({"data": row}, ["data"])) for i, row in enumerate(batch["data"])]


def broken(index):
    if index == 2:
        raise OSError("torn")
    return cases()[index]


def test_a_case_that_cannot_be_read_is_left_out_only_if_the_manager_does_so():
    lazy = BaseLazyDataset(range(5), broken)
    with pytest.warns(UserWarning, match="left out"):
        found = [*hashes_of(BaseDataManager(lazy, bad_samples="skip"), ["data"])]
    assert found == [one for one in expected() if one[0] != 2]
    with pytest.raises(OSError, match="torn") as caught:
        [*hashes_of(BaseDataManager(lazy), ["data"])]
    assert any("sample 2" in note for note in caught.value.__notes__)


def test_global_generators_are_left_as_they_were():
    np.random.seed(4)
    before = np.random.get_state()[1].copy()
    noisy = BaseLazyDataset(range(3), lambda index: {"data": np.random.random(3)})
    first, second = ([*hashes_of(BaseDataManager(noisy), ["data"])] for _ in range(2))
    assert first == second
    assert (np.random.get_state()[1] == before).all()
