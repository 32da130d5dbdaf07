"""Volumes of medical images, and the historic datasets of cases."""

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset, CachedDataset, LoadSample, Patches
from delira.data_loading.dataset import Nii3DCacheDataset, Nii3DCacheDatset, Nii3DLazyDataset
from delira.data_loading.load_utils import LoadSampleLabel
from delira.data_loading.nii import BaseLabelGenerator, load_nii, load_sample_nii, open_nii
from delira.errors import ConfigError, DataError, MissingBackendError, MissingKeyError

BUNDLED = {
    "anatomical.nii": ((25, 41, 33), np.int16),
    "example4d.nii.gz": ((2, 24, 96, 128), np.int16),
    "functional.nii": ((20, 3, 21, 17), np.float32),
    "reoriented_anat_moved.nii": ((22, 26, 21), np.float32),
    "resampled_anat_moved.nii": ((3, 21, 17), np.float32),
    "standard.nii.gz": ((7, 5, 4), np.uint8),
}


def bundled(name):
    """A file that comes with nibabel."""
    return str(Path(pytest.importorskip("nibabel").__file__).parent / "tests" / "data" / name)


def nifti(path, values, slope=None, inter=None):
    """Write an array of shape (x, y, z)."""
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(values, np.diag([2.0, 3.0, 4.0, 1.0]), dtype=values.dtype)
    image.header.set_slope_inter(slope, inter)
    image.to_filename(path)
    return str(path)


def volume(dtype=np.int16, shape=(4, 5, 6), seed=0):
    return np.random.default_rng(seed).uniform(0, 100, shape).astype(dtype)


def needs_both():
    for package in ("nibabel", "SimpleITK"):
        pytest.importorskip(package)


def same_with_both(path, monkeypatch):
    """The volume, read by each package while the other is hidden."""
    needs_both()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "SimpleITK", None)
        ours = load_nii(path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "nibabel", None)
        theirs = load_nii(path)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    # of a NaN in a NIfTI file SimpleITK makes a zero
    assert np.array_equal(np.nan_to_num(ours) if ours.dtype.kind == "f" else ours, theirs)
    return ours


# ------------------------------------------------------------------ one volume


@pytest.mark.parametrize("name", BUNDLED)
def test_a_real_volume_is_the_same_array_with_both_packages(name, monkeypatch):
    values = same_with_both(bundled(name), monkeypatch)
    assert (values.shape, values.dtype) == BUNDLED[name]
    assert np.isnan(values).any() == (name == "resampled_anat_moved.nii")


@pytest.mark.parametrize("ending", ["nii", "nii.gz", "hdr"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.int64, np.float32, np.float64])
def test_a_volume_that_was_written_comes_back_as_z_y_x(tmp_path, monkeypatch, dtype, ending):
    values = volume(dtype)
    if ending == "hdr":
        nibabel = pytest.importorskip("nibabel")
        path = str(tmp_path / "a.hdr")
        nibabel.Nifti1Pair(values, np.eye(4), dtype=dtype).to_filename(path)
    else:
        path = nifti(tmp_path / f"a.{ending}", values)
    loaded = same_with_both(path, monkeypatch)
    assert loaded.dtype == dtype
    assert (loaded == values.transpose(2, 1, 0)).all()


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 6, 1), (4, 5, 1, 1), (4, 5, 6, 3), (4, 5, 1, 3)])
def test_axes_beyond_the_third_come_first_unless_they_are_empty(tmp_path, monkeypatch, shape):
    loaded = same_with_both(nifti(tmp_path / "a.nii", volume(np.float32, shape)), monkeypatch)
    expected = list(shape)
    while len(expected) > 3 and expected[-1] == 1:
        expected.pop()
    assert loaded.shape == tuple(reversed(expected))


@pytest.mark.parametrize(("dtype", "expected"), [(np.int16, np.float32), (np.float32, np.float32), (float, float)])
@pytest.mark.parametrize(("slope", "inter"), [(0.137, 3.3), (1, -1024), (2.5, 0)])
def test_scaled_values_are_the_same_with_both_packages(tmp_path, monkeypatch, dtype, expected, slope, inter):
    stored = volume(dtype)
    loaded = same_with_both(nifti(tmp_path / "a.nii.gz", stored, slope, inter), monkeypatch)
    assert loaded.dtype == expected
    assert np.allclose(loaded, stored.T * slope + inter, rtol=1e-6)


def test_colours_are_a_last_axis(tmp_path, monkeypatch):
    colours = np.zeros((3, 4, 5), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    colours["G"] = volume(np.uint8, (3, 4, 5))
    loaded = same_with_both(nifti(tmp_path / "a.nii", colours), monkeypatch)
    assert loaded.shape == (5, 4, 3, 3)
    assert (loaded[..., 1] == colours["G"].T).all()
    assert loaded[..., 0].max() == 0


@pytest.mark.parametrize("hidden", ["nibabel", "SimpleITK"])
def test_an_array_is_the_users_own(tmp_path, monkeypatch, hidden):
    needs_both()
    path = nifti(tmp_path / "a.nii", volume())
    monkeypatch.setitem(sys.modules, hidden, None)
    loaded = load_nii(path)
    assert loaded.flags.c_contiguous
    assert loaded.flags.writeable
    assert loaded.dtype.isnative
    assert type(loaded) is np.ndarray
    before = Path(path).read_bytes()
    loaded += 1
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("ending", ["nrrd", "mha", "nii.gz"])
def test_what_simple_itk_wrote_is_read(tmp_path, ending):
    itk = pytest.importorskip("SimpleITK")
    values = volume(np.float32)
    path = str(tmp_path / f"a.{ending}")
    itk.WriteImage(itk.GetImageFromArray(values), path)
    assert (load_nii(path) == values).all()
    assert (load_nii(Path(path)) == values).all()


def test_what_simple_itk_refuses_is_read_by_nibabel(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    values = volume(np.float32)
    sheared = np.eye(4)
    sheared[0, 1] = 0.5
    images = {"sheared.nii": nibabel.Nifti1Image(values, sheared), "two.nii": nibabel.Nifti2Image(values, np.eye(4))}
    images["a.mgz"] = nibabel.MGHImage(values, np.eye(4))
    for name, image in images.items():
        image.to_filename(tmp_path / name)
        assert (load_nii(str(tmp_path / name)) == values.T).all()


@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.9])
def test_a_file_that_ends_too_early_is_named(tmp_path, ending, share):
    path = Path(nifti(tmp_path / f"a.{ending}", volume(np.float32, (30, 30, 30))))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=rf"a\.{ending}' cannot be read as a volume \(\w+\); is it damaged\?"):
        load_nii(str(path))


@pytest.mark.parametrize("ending", ["nii.gz", "mgz"])
@pytest.mark.parametrize("place", [0.5, -6])
def test_a_compressed_file_with_another_byte_is_named(tmp_path, ending, place):
    nibabel = pytest.importorskip("nibabel")
    path = tmp_path / f"a.{ending}"
    values = np.random.default_rng(0).normal(size=(20, 20, 20)).astype(np.float32)
    cls = nibabel.MGHImage if ending == "mgz" else nibabel.Nifti1Image
    cls(values, np.eye(4)).to_filename(path)
    assert (load_nii(path) == values.T).all()
    content = bytearray(path.read_bytes())
    content[place if place < 0 else int(place * len(content))] ^= 1  # in the voxels, or in the checksum
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.{ending}' cannot be read as a volume \(\w+\); is it damaged\?"):
        load_nii(path)


@pytest.mark.parametrize("name", ["text.nii", "text.nii.gz", "text.nrrd"])
def test_a_file_that_is_no_volume_is_named(tmp_path, name):
    pytest.importorskip("nibabel")
    pytest.importorskip("SimpleITK")
    (tmp_path / name).write_text("no volume " * 100)
    with pytest.raises(DataError, match=f"{name}' cannot be read as a volume"):
        load_nii(str(tmp_path / name))


def test_a_missing_file_is_the_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.nii"):
        load_nii(str(tmp_path / "missing.nii"))


@pytest.mark.parametrize(("name", "package"), [("a.nii.gz", "nibabel"), ("a.nrrd", "SimpleITK")])
def test_without_the_packages_it_is_said_what_to_install(tmp_path, monkeypatch, name, package):
    for missing in ("nibabel", "SimpleITK"):
        monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / name).touch()
    with pytest.raises(
        MissingBackendError, match=rf"{name}' needs the package '{package}', .*pip install 'delira\[medical\]'"
    ):
        load_nii(str(tmp_path / name))


# ------------------------------------------------------------------ cases


class Diagnosis(BaseLabelGenerator):
    def get_labels(self):
        return {"label": self.data["malignant"], "age": self.data.get("age", 0)}


def diagnosis(path):
    return {"label": json.loads(Path(path).read_text())["malignant"]}


def load_case(files, factor=1):
    """A load_fn that needs no package."""
    return {"data": np.stack([np.load(file) for file in files["img"]]) * factor, **diagnosis(files["label"])}


@pytest.fixture
def cases(tmp_path):
    """Three folders with two arrays and a diagnosis each, and a file beside them."""
    for number in (2, 0, 1):
        folder = tmp_path / f"case_{number}"
        folder.mkdir()
        for name in ("t1", "t2"):
            np.save(folder / f"{name}.npy", volume(shape=(2, 3, 4), seed=number))
        (folder / "label.json").write_text(json.dumps({"malignant": number % 2}))
    (tmp_path / "readme.txt").touch()
    return tmp_path


def test_the_name_as_it_was_spelt():
    assert Nii3DCacheDatset is Nii3DCacheDataset


@pytest.mark.parametrize("cls", [Nii3DLazyDataset, Nii3DCacheDatset])
@pytest.mark.parametrize("kind", [str, Path])
def test_each_folder_is_a_case(cases, cls, kind):
    dataset = cls(kind(cases), load_case, ["t1.npy", "t2.npy"], "label.json", factor=2)
    assert len(dataset) == 3
    assert dataset.labels().tolist() == [0, 1, 0]
    assert (dataset[2]["data"][1] == np.load(cases / "case_2" / "t2.npy") * 2).all()
    assert [os.path.relpath(file, cases) for file in dataset.get_subset([1])._files()] == [
        f"case_1/{name}" for name in ("t1.npy", "t2.npy", "label.json")
    ]
    assert pickle.loads(pickle.dumps(dataset))[1]["label"] == 1


def test_a_lazy_case_is_kept_as_its_paths(cases):
    dataset = Nii3DLazyDataset(str(cases), load_case, "t1.npy", "label.json")
    folder = cases / "case_0"
    assert dataset.get_sample_from_index(0) == {"img": [str(folder / "t1.npy")], "label": str(folder / "label.json")}
    expected = dataset.fingerprint()
    (folder / "label.json").write_text(json.dumps({"malignant": 1000}))
    assert dataset.fingerprint() != expected


@pytest.mark.parametrize("cls", [Nii3DLazyDataset, Nii3DCacheDataset])
def test_missing_files_of_cases_are_named(cases, cls):
    (cases / "case_1" / "t2.npy").unlink()
    (cases / "case_2" / "label.json").unlink()
    with pytest.raises(DataError, match=r"missing: \S*case_1/t2\.npy, \S*case_2/label\.json$"):
        cls(str(cases), load_case, ["t1.npy", "t2.npy"], "label.json")
    with pytest.raises(ConfigError, match=r"'.*readme\.txt' is no directory; pass one with a folder for each case"):
        cls(str(cases / "readme.txt"), load_case, ["t1.npy"], "label.json")
    with pytest.raises(ConfigError, match=r"case_0' has no folders; it needs one for each case"):
        cls(str(cases / "case_0"), load_case, ["t1.npy"], "label.json")


@pytest.mark.filterwarnings("ignore:.*deprecated.*LoadSampleLabel:DeprecationWarning")
def test_a_historic_sample_of_volumes(tmp_path):
    folder = tmp_path / "case"
    folder.mkdir()
    values = [volume(seed=seed) for seed in (0, 1)]
    mask = (values[0] > 50).astype(np.uint8)
    paths = [nifti(folder / f"{number}.nii.gz", one) for number, one in enumerate(values)]
    (folder / "label.json").write_text(json.dumps({"malignant": 1, "age": 71}))
    files = {"img": paths, "label": str(folder / "label.json"), "mask": nifti(folder / "mask.nii.gz", mask)}
    sample = load_sample_nii(files, Diagnosis)
    assert (sample["data"].shape, sample["data"].dtype) == ((2, 6, 5, 4), np.float32)
    assert np.allclose(sample["data"], np.stack(values).transpose(0, 3, 2, 1) / 511)
    assert sample["mask"].dtype == np.int64
    assert (sample["mask"] == mask.T).all()
    assert (sample["label"], sample["age"]) == (1, 71)
    dataset = Nii3DLazyDataset(str(tmp_path), load_sample_nii, ["0.nii.gz"], "label.json", label_load_cls=Diagnosis)
    assert dataset[0]["data"].shape == (1, 6, 5, 4)
    assert "mask" not in dataset[0]


@pytest.mark.filterwarnings("ignore:.*deprecated.*LoadSampleLabel:DeprecationWarning")
@pytest.mark.parametrize("largest", [1, 512])
def test_values_that_a_historic_sample_cannot_scale_are_refused(tmp_path, largest):
    path = nifti(tmp_path / "a.nii", np.full((2, 2, 2), largest, np.int16))
    with pytest.raises(
        DataError, match=rf"but found values from {largest} to {largest} in '.*a\.nii'; use LoadSample with norm_range"
    ):
        load_sample_nii({"img": path, "label": "none"}, Diagnosis)


def test_what_there_is_something_better_for_says_so(tmp_path):
    (tmp_path / "label.json").write_text(json.dumps({"malignant": 1}))
    with pytest.warns(DeprecationWarning, match="BaseLabelGenerator is deprecated; hand LoadSampleLabel a function"):
        assert Diagnosis(str(tmp_path / "label.json")).get_labels() == {"label": 1, "age": 0}
    with (
        pytest.warns(DeprecationWarning, match="load_sample_nii is deprecated; use LoadSampleLabel"),
        pytest.raises(FileNotFoundError, match=r"gone\.nii"),
    ):
        load_sample_nii({"img": "gone.nii", "label": "none"}, Diagnosis)


@pytest.mark.filterwarnings("ignore:.*deprecated.*LoadSampleLabel:DeprecationWarning")
def test_a_label_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "label.json").write_text("{malignant}")
    with pytest.raises(DataError, match=r"label file '.*label\.json' is no JSON: Expecting property name"):
        Diagnosis(str(tmp_path / "label.json"))
    with pytest.raises(TypeError, match="get_labels"):
        BaseLabelGenerator(str(tmp_path / "label.json"))


def test_what_is_better_does_the_same(tmp_path):
    for number in range(3):
        folder = tmp_path / f"case_{number}"
        folder.mkdir()
        nifti(folder / "t1.nii.gz", volume(seed=number))
        (folder / "label.json").write_text(json.dumps({"malignant": number % 2}))
    load = LoadSampleLabel({"data": ["t1.nii.gz"]}, load_nii, "label.json", diagnosis, {"normalize": ["data"]})
    batch = next(iter(BaseDataManager(BaseLazyDataset(str(tmp_path), load), batch_size=3)))
    assert batch["data"].shape == (3, 1, 6, 5, 4)
    assert batch["label"].tolist() == [0, 1, 0]
    assert (batch["data"].min(), batch["data"].max()) == (-1, 1)


# ------------------------------------------------------------------ where voxels lie


def turned(path, values=None, unit="mm"):
    """A volume whose axes are turned, with spacings of 2, 3 and 4 along the file's x, y and z."""
    nibabel = pytest.importorskip("nibabel")
    angle = np.deg2rad(20)
    rotation = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, -1]])
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = rotation * [2, 3, 4], [-50, 20, 7.5]
    image = nibabel.Nifti1Image(volume() if values is None else values, affine)
    image.header.set_xyzt_units(unit)
    image.to_filename(path)
    return affine


@pytest.mark.parametrize("hidden", ["nibabel", "SimpleITK"])
@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
def test_a_volume_tells_where_its_voxels_lie(tmp_path, monkeypatch, ending, hidden):
    needs_both()
    affine = turned(tmp_path / f"scan.1.{ending}")
    monkeypatch.setitem(sys.modules, hidden, None)
    loaded = load_nii(tmp_path / f"scan.1.{ending}", geometry=True)
    assert (loaded["data"] == load_nii(tmp_path / f"scan.1.{ending}")).all()
    assert np.allclose(loaded["spacing"], [4, 3, 2], rtol=1e-6)  # as the axes of the array: z, y, x
    assert np.allclose(loaded["affine"], affine, atol=1e-5)
    assert (loaded["affine"].dtype, loaded["spacing"].dtype) == (np.float64, np.float64)
    assert loaded["name"] == "scan.1"


@pytest.mark.parametrize("name", BUNDLED)
def test_the_geometry_of_a_real_volume_is_that_of_both_packages(name, monkeypatch):
    needs_both()
    path = bundled(name)
    ours = load_nii(path, geometry=True)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "nibabel", None)
        theirs = load_nii(path, geometry=True)
    assert np.allclose(ours["spacing"], theirs["spacing"], rtol=1e-5)
    assert np.allclose(ours["affine"], theirs["affine"], atol=1e-3)


def test_what_was_loaded_is_the_volume_again_when_it_is_written(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    turned(tmp_path / "a.nii.gz")
    loaded = load_nii(tmp_path / "a.nii.gz", geometry=True)
    nibabel.Nifti1Image(loaded["data"].T, loaded["affine"]).to_filename(tmp_path / "b.nii.gz")
    first, second = (nibabel.load(tmp_path / f"{name}.nii.gz") for name in "ab")
    assert np.allclose(first.affine, second.affine)
    assert np.array_equal(first.get_fdata(), second.get_fdata())


def test_other_units_than_millimetres_become_millimetres(tmp_path):
    turned(tmp_path / "a.nii", unit="micron")
    assert np.allclose(load_nii(tmp_path / "a.nii", geometry=True)["spacing"], [0.004, 0.003, 0.002])
    with pytest.raises(ConfigError, match="geometry must be True or False"):
        load_nii(tmp_path / "a.nii", geometry="yes")


# ------------------------------------------------------------------ parts of files


@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
@pytest.mark.parametrize("scaling", [(None, None), (0.5, 3)])
@pytest.mark.parametrize("shape", [(9, 8, 7), (9, 8, 7, 1), (9, 8, 7, 3)])
def test_a_part_of_a_volume_is_the_part_of_the_whole(tmp_path, ending, scaling, shape):
    path = nifti(tmp_path / f"a.{ending}", volume(shape=shape), *scaling)
    whole, opened = load_nii(path), open_nii(path)
    assert opened.shape == whole.shape
    part = opened.read((slice(1, 4), slice(2, 8), slice(8, 9)))
    assert np.array_equal(part, whole[..., 1:4, 2:8, 8:9])
    assert part.dtype == whole.dtype
    assert part.flags.c_contiguous
    assert np.array_equal(opened.read(), whole)


def test_of_an_uncompressed_volume_the_part_alone_is_read(tmp_path, monkeypatch):
    path = nifti(tmp_path / "a.nii", volume(np.float32, (64, 64, 64)))
    from nibabel import fileslice

    read = []
    plain = fileslice.read_segments

    def read_segments(file, segments, n_bytes, *more):
        read.append(n_bytes)
        return plain(file, segments, n_bytes, *more)

    monkeypatch.setattr(fileslice, "read_segments", read_segments)
    part = open_nii(path).read((slice(10, 14), slice(0, 8), slice(0, 8)))
    assert part.shape == (4, 8, 8)
    assert sum(read) < 4 * 64 * 64 * 4 * 2  # bytes: at most twice the slices of the part, of 64 slices


def test_colours_and_vectors_are_read_whole(tmp_path):
    colours = np.zeros((3, 4, 5), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    path = nifti(tmp_path / "a.nii", colours)
    assert open_nii(path).shape == load_nii(path).shape == (5, 4, 3, 3)


@pytest.fixture
def scans(tmp_path):
    """Three cases of two volumes and a mask, of different shapes."""
    for number in range(3):
        folder = tmp_path / f"case_{number}"
        folder.mkdir()
        shape = (12, 11, 10 + number)
        for seed, name in enumerate(("t1", "t2")):
            turned(folder / f"{name}.nii", volume(np.int16, shape, seed + 10 * number))
        nifti(folder / "mask.nii", (volume(shape=shape, seed=number) > 90).astype(np.uint8))
    return tmp_path


@pytest.mark.parametrize("cls", [Nii3DLazyDataset, Nii3DCacheDataset])
def test_cases_of_volumes_come_with_mask_geometry_and_name(scans, cls):
    dataset = cls(scans, img_files=["t1.nii", "t2.nii"], label_file="mask.nii")
    sample = dataset[1]
    assert sorted(sample) == ["affine", "data", "label", "name", "spacing"]
    assert (sample["data"].shape, sample["data"].dtype) == ((2, 11, 11, 12), np.float32)
    assert (sample["label"].shape, sample["label"].dtype) == ((11, 11, 12), np.int64)
    assert np.array_equal(sample["data"][1], load_nii(scans / "case_1" / "t2.nii"))
    assert np.allclose(sample["spacing"], [4, 3, 2])
    assert sample["name"] == "case_1"
    assert dataset.case_names == ["case_0", "case_1", "case_2"]
    assert dataset.get_subset([2]).case_names == ["case_2"]
    assert pickle.loads(pickle.dumps(dataset))[1]["name"] == "case_1"


def test_patches_of_volumes_are_read_from_their_files(scans, monkeypatch):
    lazy = Nii3DLazyDataset(scans, img_files=["t1.nii", "t2.nii"], label_file="mask.nii")
    cached = Nii3DCacheDataset(scans, img_files=["t1.nii", "t2.nii"], label_file="mask.nii")
    expected = list(Patches(cached, (4, 4, 4), 3))
    monkeypatch.setattr(LoadSample, "__call__", None)  # what loads a case as a whole
    for patch, other in zip(Patches(lazy, (4, 4, 4), 3), expected, strict=True):
        assert patch.keys() == other.keys()
        assert all(np.array_equal(patch[key], other[key]) for key in patch)
    assert {patch["data"].shape for patch in expected} == {(2, 4, 4, 4)}


def test_volumes_are_cached_on_disk_with_all_that_is_told_of_them(scans, tmp_path):
    dataset = Nii3DLazyDataset(scans, img_files=["t1.nii", "t2.nii"], label_file="mask.nii")
    cached = CachedDataset(dataset, tmp_path / "cache")
    assert cached.case_names == dataset.case_names
    assert np.array_equal(cached[1]["affine"], dataset[1]["affine"])
    assert cached[1]["name"] == "case_1"


def test_files_of_a_sample_tell_where_they_lie(scans):
    load = LoadSample({"data": ["t1.nii"], "label": "mask.nii"}, load_nii, geometry=True)
    sample = load(str(scans / "case_0"))
    assert np.allclose(sample["spacing"], [4, 3, 2])
    assert (sample["name"], sample["label"].shape) == ("case_0", (1, 10, 11, 12))
    assert load.entry_shapes(str(scans / "case_0")) == {key: np.shape(value) for key, value in sample.items()}
    assert "geometry=True" in repr(load)
    with pytest.raises(ConfigError, match="geometry=True needs sample_fn=load_nii"):
        LoadSample({"data": "a.npy"}, np.load, geometry=True)
    with pytest.raises(ConfigError, match=r"makes the entries .* of which sample_ext has \['name'\]"):
        LoadSample({"name": "a.nii"}, load_nii, geometry=True)


def test_labels_beside_volumes_come_with_each_part(scans):
    for folder in scans.iterdir():
        (folder / "label.json").write_text(json.dumps({"malignant": 1}))
    images = {"data": ["t1.nii"], "mask": "mask.nii"}
    load = LoadSampleLabel(images, load_nii, "label.json", diagnosis, {"normalize": ["data"]})
    dataset = BaseLazyDataset(str(scans), load)
    whole, box = dataset[0], (slice(0, 3), slice(1, 4), slice(2, 5))
    part = dataset.read_part(0, {"data": box, "mask": box})
    assert np.array_equal(part["data"], whole["data"][..., 0:3, 1:4, 2:5])  # normalised as a whole
    assert np.array_equal(part["mask"], whole["mask"][..., 0:3, 1:4, 2:5])
    assert part["label"] == 1
    assert dataset.entry_shapes(0) == {"data": (1, 10, 11, 12), "mask": (1, 10, 11, 12), "label": ()}
    assert dataset.read_part(0, {}, ["label"]) == {"label": 1}
    with pytest.raises(MissingKeyError, match="'scan'"):
        dataset.read_part(0, {}, ["scan"])


def test_a_loader_that_is_called_in_its_own_way_is_read_whole(scans):
    class Halved(LoadSample):
        def __call__(self, path):
            return {key: value[..., ::2] for key, value in super().__call__(path).items()}

    dataset = BaseLazyDataset(str(scans), Halved({"data": "t1.nii"}, load_nii))
    assert dataset.entry_shapes(0) == {"data": (1, 10, 11, 6)}


@pytest.mark.parametrize(
    ("items", "names"),
    [
        (["x/a.nii.gz", "x/b.nii"], ["a", "b"]),
        (["x/1/t1.nii", "x/2/t1.nii"], ["1/t1", "2/t1"]),
        (["u/1/t1.nii", "v/1/t1.nii", "v/2/t2.nii"], ["u/1/t1", "v/1/t1", "t2"]),
        ([("x/a_img.png", "y/a_seg.png")], ["a_img"]),
        ([{"img": ["x/c1/t1.nii", "x/c1/t2.nii"], "label": "x/c1/l.nii"}], ["c1"]),
        ([3, 4], ["0", "1"]),
        (["P01", "P02"], ["P01", "P02"]),
    ],
)
def test_cases_are_called_after_their_files(items, names):
    assert BaseLazyDataset(items, lambda item: {}).case_names == names
