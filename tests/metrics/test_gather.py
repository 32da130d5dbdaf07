"""Batches become arrays: every key, every nested leaf, in memory or in a file."""

import gc
import os
import tempfile

import numpy as np
import pytest

from delira.errors import DataError
from delira.metrics import Gatherer
from delira.metrics.gather import scratch_array


def gather(*batches, **settings):
    gatherer = Gatherer(**settings)
    for batch in batches:
        gatherer.append(batch)
    return gatherer.result()


def random_batches(sizes=(4, 4, 3), shape=(2, 5)):
    generator = np.random.default_rng(0)
    return [
        {
            "pred": generator.normal(size=(n, *shape)).astype(np.float32),
            "aux": {"heads": [generator.integers(9, size=n), generator.random((n, 1)) > 0.5]},
        }
        for n in sizes
    ]


def test_every_key_is_concatenated_not_only_the_first():
    # delira 0.4 returned inside its loop: all but the first key stayed lists (defect 46)
    first, second = {"a": np.zeros((2, 3)), "b": np.arange(2)}, {"a": np.ones((1, 3)), "b": np.array([7])}
    result = gather(first, second)
    assert list(result) == ["a", "b"]
    np.testing.assert_array_equal(result["a"], [[0, 0, 0], [0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(result["b"], [0, 1, 7])


@pytest.mark.parametrize("limit_bytes", [1 << 30, 0, 200])
def test_nested_leaves_keep_their_place_type_and_order(limit_bytes):
    batches = random_batches()
    result = gather(*batches, limit_bytes=limit_bytes)
    assert list(result) == ["pred", "aux"]
    assert list(result["aux"]) == ["heads"]
    assert isinstance(result["aux"]["heads"], list)
    for position in range(2):
        expected = np.concatenate([batch["aux"]["heads"][position] for batch in batches])
        assert result["aux"]["heads"][position].dtype == expected.dtype
        np.testing.assert_array_equal(result["aux"]["heads"][position], expected)
    np.testing.assert_array_equal(result["pred"], np.concatenate([batch["pred"] for batch in batches]))
    assert result["pred"].dtype == np.float32


def test_batches_without_any_entry_are_an_empty_result_and_no_entry_may_join_them():
    assert gather({}, {}) == {}
    with pytest.raises(DataError, match="differ in the entries"):
        gather({}, {"a": np.zeros(2)})


def test_scalars_become_one_row_per_batch():
    np.testing.assert_array_equal(gather({"loss": np.float32(1)}, {"loss": 2.0})["loss"], [1, 2])


def test_a_reused_buffer_does_not_change_what_was_gathered():
    buffer, gatherer = np.zeros(2), Gatherer()
    for value in (1, 2):
        buffer[:] = value
        gatherer.append({"a": buffer})
    np.testing.assert_array_equal(gatherer.result()["a"], [1, 1, 2, 2])


def test_nothing_gathered_is_an_empty_dictionary():
    assert Gatherer().result() == {}


def test_batches_without_samples_are_fine():
    for limit_bytes in (1 << 30, 0):
        assert gather({"a": np.zeros((0, 3))}, limit_bytes=limit_bytes)["a"].shape == (0, 3)


def test_results_can_be_asked_for_between_batches():
    for limit_bytes in (1 << 30, 100):
        gatherer = Gatherer(limit_bytes)
        for number in range(1, 5):
            gatherer.append({"a": np.full((3, 2), number, dtype=np.int16)})
            expected = np.repeat(np.arange(1, number + 1), 3)
            np.testing.assert_array_equal(gatherer.result()["a"][:, 1], expected)


def test_small_predictions_stay_in_memory_and_large_ones_become_memory_maps():
    batch = {"a": np.ones((2, 4)), "b": np.ones(2)}
    assert not isinstance(gather(batch, limit_bytes=80)["a"], np.memmap)
    result = gather(batch, batch, limit_bytes=80)
    assert isinstance(result["a"], np.memmap)
    assert isinstance(result["b"], np.memmap)
    assert result["a"].shape == (4, 4)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.slow
def test_the_temporary_file_has_no_name_and_goes_with_the_array(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def maps():
        with open("/proc/self/maps") as file:
            return file.read().count(str(tmp_path))

    result = gather({"a": np.arange(1000.0)}, limit_bytes=0)
    gc.collect()  # the gatherer is gone, the array still works
    assert list(tmp_path.iterdir()) == []
    assert maps() == 1
    assert result["a"][-1] == 999
    del result
    gc.collect()
    assert maps() == 0


@pytest.mark.parametrize("limit_bytes", [1 << 30, 0])
def test_different_shapes_give_one_array_per_sample(limit_bytes):
    result = gather(
        {"seg": np.ones((2, 3, 4)), "id": np.arange(2)}, {"seg": np.zeros((1, 5, 6))}
        | {"id": np.array([2])}, limit_bytes=limit_bytes,
    )  # fmt: skip
    assert result["seg"].dtype == object
    assert [sample.shape for sample in result["seg"]] == [(3, 4), (3, 4), (5, 6)]
    assert result["seg"][0].sum() == 12
    np.testing.assert_array_equal(result["id"], [0, 1, 2])


@pytest.mark.parametrize("limit_bytes", [1 << 30, 0, 40])
def test_different_types_are_promoted_as_numpy_does(limit_bytes):
    result = gather({"a": np.array([1, 2])}, {"a": np.array([0.5])}, limit_bytes=limit_bytes)
    np.testing.assert_array_equal(result["a"], [1, 2, 0.5])
    names = gather({"n": np.array(["a"])}, {"n": np.array(["long name"])}, limit_bytes=limit_bytes)
    assert names["n"].tolist() == ["a", "long name"]


def test_python_objects_never_go_to_a_file():
    samples = np.array([{"id": 1}, None], dtype=object)
    result = gather({"meta": samples}, {"meta": samples}, limit_bytes=0)
    assert result["meta"].tolist() == [{"id": 1}, None] * 2


def test_an_entry_that_appears_or_disappears_is_refused():
    gatherer = Gatherer()
    gatherer.append({"a": np.zeros(2)})
    with pytest.raises(DataError, match=r"batch 2 and the batches before it differ in the entries \['b.0'\]"):
        gatherer.append({"a": np.zeros(2), "b": [np.zeros(2)]})


def test_a_full_disk_names_the_folder_and_the_cure(monkeypatch):
    class FullDisk:
        def __init__(self, dir):
            pass

        def write(self, content):
            raise OSError(28, "No space left on device")

        def close(self):
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", FullDisk)
    with pytest.raises(OSError, match="No space") as caught:
        gather({"a": np.zeros(3)}, limit_bytes=0)
    assert "TMPDIR" in caught.value.__notes__[0]


def test_a_scratch_array_is_a_file_only_above_the_limit():
    small, large = (scratch_array((4, 2), np.dtype(np.float32), limit) for limit in (32, 31))
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    large[:] = 3
    assert large.sum() == 24
