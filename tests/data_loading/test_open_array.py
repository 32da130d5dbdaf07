"""Arrays in files, read whole or in part."""

import numpy as np
import pytest

from delira.data_loading import BaseLazyDataset, LoadSample, Patches, load_array
from delira.data_loading.open_array import open_array
from delira.errors import ConfigError, DataError

VALUES = np.random.default_rng(0).random((2, 20, 30, 40)).astype(np.float32)
CHUNKS = (1, 10, 10, 10)
BOX = (slice(3, 9), slice(0, 4), slice(30, 40))


def write_npy(folder, values):
    np.save(folder / "a.npy", values)
    return "a.npy"


def write_npz(folder, values):
    np.savez(folder / "a.npz", scan=values, other=np.arange(5))
    return "a.npz/scan"


def write_compressed_npz(folder, values):
    np.savez_compressed(folder / "a.npz", scan=values)
    return "a.npz"


def write_zarr(folder, values):
    pytest.importorskip("zarr").create_array(str(folder / "a.zarr"), data=values, chunks=CHUNKS[-values.ndim :])
    return "a.zarr"


def write_group(folder, values):
    group = pytest.importorskip("zarr").create_group(str(folder / "a.zarr"))
    group.create_array("scan", data=values, chunks=CHUNKS[-values.ndim :])
    group.create_array("other", data=np.arange(5))
    return "a.zarr/scan"


def write_hdf5(folder, values):
    with pytest.importorskip("h5py").File(folder / "a.h5", "w") as file:
        file.create_dataset("scan", data=values, chunks=CHUNKS[-values.ndim :], compression="gzip")
        file.create_dataset("inner/other", data=np.arange(5))
    return "a.h5/scan"


WRITERS = [write_npy, write_npz, write_compressed_npz, write_zarr, write_group, write_hdf5]


@pytest.mark.parametrize("write", WRITERS)
def test_an_array_and_a_part_of_it(tmp_path, write):
    path = tmp_path / write(tmp_path, VALUES)
    assert np.array_equal(load_array(path), VALUES)
    assert load_array(str(path)).dtype == VALUES.dtype
    opened = open_array(path)
    assert opened.shape == VALUES.shape
    part = opened.read(BOX)
    assert np.array_equal(part, VALUES[:, 3:9, 0:4, 30:40])
    assert part.flags.writeable
    assert part.flags.owndata


@pytest.mark.parametrize("values", [np.asfortranarray(VALUES), VALUES.astype(">f4"), VALUES[..., :0], VALUES > 0.5])
@pytest.mark.parametrize("write", [write_npy, write_npz])
def test_arrays_of_any_layout(tmp_path, write, values):
    loaded = load_array(tmp_path / write(tmp_path, values))
    assert np.array_equal(loaded, values)
    assert loaded.dtype.isnative


@pytest.mark.parametrize("write", [write_npy, write_npz])
def test_of_what_is_stored_as_it_is_nothing_is_read_ahead(tmp_path, write):
    opened = open_array(tmp_path / write(tmp_path, VALUES))
    assert isinstance(opened._array, np.memmap)


@pytest.mark.parametrize("write", WRITERS)
def test_patches_of_cases_in_such_files(tmp_path, write):
    for number in range(2):
        folder = tmp_path / f"case_{number}"
        folder.mkdir()
        name = write(folder, VALUES[0] + number)
    dataset = BaseLazyDataset(str(tmp_path), LoadSample({"data": name}, load_array))
    expected = Patches([{"data": (VALUES[0] + number)[None]} for number in range(2)], (8, 8, 8), 2, foreground=0)
    for patch, other in zip(Patches(dataset, (8, 8, 8), 2, foreground=0), expected, strict=True):
        assert np.array_equal(patch["data"], other["data"])
    assert dataset.case_names == ["case_0", "case_1"]


def test_what_is_no_array_is_refused(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.arange(3), b=np.arange(4))
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "bad.npy").write_text("no array")
    (tmp_path / "bad.npz").write_text("no archive")
    np.save(tmp_path / "objects.npy", np.array([None, {}]), allow_pickle=True)
    for name, message in {
        "two.npz": r"two\.npz' holds 2 arrays; write the name behind the path, as .*two\.npz/NAME': a, b",
        "two.npz/c": r"two\.npz' holds no array 'c'",
        "a.txt": r"a\.txt' is no array that load_array knows, which are \.npy, \.npz, \.zarr, \.h5",
        "bad.npy": r"bad\.npy' cannot be read as an array",
        "bad.npz": r"bad\.npz' cannot be read as an array",
        "objects.npy": "cannot be read as an array",
    }.items():
        with pytest.raises(DataError, match=message):
            load_array(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"gone\.npy"):
        load_array(tmp_path / "gone.npy")
    with pytest.raises(ConfigError, match="path"):
        load_array(5)


def test_a_damaged_store_is_named(tmp_path):
    pytest.importorskip("h5py")
    pytest.importorskip("zarr")
    (tmp_path / "a.h5").write_text("no store")
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(DataError, match=r"a\.h5' cannot be read as HDF5"):
        load_array(tmp_path / "a.h5/scan")
    with pytest.raises(DataError, match=r"a\.zarr' is no zarr store"):
        load_array(tmp_path / "a.zarr")
