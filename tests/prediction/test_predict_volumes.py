"""Volumes with a geometry are predicted into volumes with the same, and those of another spacing are refused."""

import logging

import numpy as np
import pytest

import delira
from delira.data_loading import BaseDataManager, Nii3DLazyDataset, load_nii, resample
from delira.errors import DataError
from delira.prediction import written

nibabel = pytest.importorskip("nibabel")
torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchExperiment  # noqa: E402

SHAPE = (4, 6, 5)  # along (z, y, x)


class Voxels(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv3d(1, 3, 1)

    def forward(self, x):
        return {"pred": self.layer(x)}


def write(file, volume, x_spacing, shift=0.0):
    affine = np.array([[-x_spacing, 0.1, 0, 7 + shift], [0, 1.5, 0, 8], [0, 0, 4, 9], [0, 0, 0, 1.0]])
    file.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(volume.T, affine), file)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Six cases, and two folds that learned from them."""
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    for number in range(6):
        image, spacing = rng.normal(size=SHAPE).astype(np.float32), 1.5 + number / 50
        write(folder / "cases" / f"case_{number}" / "image.nii.gz", image, spacing, shift=number)
        write(folder / "cases" / f"case_{number}" / "mask.nii.gz", np.uint8(np.digitize(image, (-0.5, 0.5))), spacing)
    cases = Nii3DLazyDataset(folder / "cases", img_files="image.nii.gz", label_file="mask.nii.gz")
    result = PyTorchExperiment(
        {}, Voxels, n_epochs=2, name="voxels", save_path=folder / "runs", losses={"ce": torch.nn.CrossEntropyLoss()},
        optimizer_cls=torch.optim.SGD, optimizer_params={"lr": 0.1},
    ).kfold(BaseDataManager(cases, 2), num_splits=2, verbose=False)  # fmt: skip
    return folder, cases, result


def images_of(folder):
    return sorted((folder / "cases").glob("*/image.nii.gz"))


@pytest.mark.parametrize("kind", ["data set", "manager", "samples", "files"])
def test_what_has_an_affine_is_written_with_it(made, tmp_path, kind):
    folder, cases, result = made
    data = {
        "data set": lambda: cases,
        "manager": lambda: BaseDataManager(cases, 2),
        "samples": lambda: [{**load_nii(file, geometry=True), "name": file.parent.name} for file in images_of(folder)],
        "files": lambda: images_of(folder),
    }[kind]()
    if kind == "samples":
        data = [{**sample, "data": sample["data"][None]} for sample in data]
    batched = {} if kind == "manager" else {"batch_size": 2}
    files = result.ensemble().predict(data, out=tmp_path / "out", keep="labels", **batched)
    assert [file.name for file in files] == [f"case_{number}.nii.gz" for number in range(6)]
    expected = result.ensemble().predict({"data": np.stack([load_nii(file)[None] for file in images_of(folder)])})
    for file, image, own in zip(files, images_of(folder), expected["pred"], strict=True):
        written, like = nibabel.load(file), nibabel.load(image)
        np.testing.assert_allclose(written.affine, like.affine, atol=1e-6)
        np.testing.assert_array_equal(written.get_fdata().T, own.argmax(0))
        np.testing.assert_allclose(load_nii(file, geometry=True)["spacing"], load_nii(image, geometry=True)["spacing"])
        deviations = nibabel.load(file.parent / "spread.pred.sd" / file.name)
        assert deviations.shape == (*SHAPE[::-1], 3)
    assert delira.predict(result, data, out=tmp_path / "out", keep="labels", **batched) == files, "nothing is left"


def test_another_spacing_is_refused_by_name_unless_asked_for(made, tmp_path, caplog):
    _, _, result = made
    for number, spacing in enumerate((1.45, 3.0, 1.7)):
        write(tmp_path / "new" / f"new_{number}.nii.gz", np.zeros(SHAPE, np.float32), spacing)
    with pytest.raises(DataError, match=r"case 'new_1' has the spacing 4 × 1.5 × 3 mm .* to 4 × 1.5 × 1.6 mm"):
        delira.predict(result, tmp_path / "new", out=tmp_path / "out")
    assert (tmp_path / "out" / "new_0.nii.gz").is_file(), "what was finished stays"
    assert len(delira.predict(result, tmp_path / "new", any_spacing=True)["pred"]) == 3
    with caplog.at_level(logging.WARNING, "delira"):
        files = delira.predict(result, tmp_path / "new", out=tmp_path / "all", on_error="skip", batch_size=3)
    assert [file.name for file in files] == ["new_0.nii.gz", "new_2.nii.gz"], "the others of its batch are predicted"
    assert "1 case was not predicted: new_1 (DataError: case 'new_1' has the spacing" in caplog.text

    def resampled(batch):
        spacing = batch["spacing"] * (1, 1, 0.5)
        return {**batch, "data": resample(batch["data"], batch["spacing"][0], spacing[0]), "spacing": spacing}

    def resampled_with_affine(batch):
        return {**resampled(batch), "affine": batch["affine"] @ np.diag([0.5, 1, 1, 1])}

    (pred,) = delira.predict(result, tmp_path / "new" / "new_1.nii.gz", transforms=resampled)["pred"]
    assert pred.shape == (3, 4, 6, 9), "a transform that resamples cures it"
    how = {"transforms": resampled, "out": tmp_path / "resampled", "spread": False}
    with pytest.raises(
        DataError, match=r"the shape \(3, 4, 6, 9\), and the input \(4, 6, 5\).*change 'affine' as well"
    ):
        delira.predict(result, tmp_path / "new" / "new_1.nii.gz", **how)
    how = {"transforms": resampled_with_affine, "out": tmp_path / "finer", "spread": False}
    (file,) = delira.predict(result, tmp_path / "new" / "new_1.nii.gz", **how)
    np.testing.assert_allclose(load_nii(file, geometry=True)["spacing"], (4, 1.503, 1.5), rtol=1e-3)


def test_a_checkpoint_that_was_continued_knows_all_spacings(made):
    _, _, result = made
    for fold in result.folds:
        least, largest = delira.prediction.networks.read_network(fold.path).spacing
        np.testing.assert_allclose([least[:2], largest[:2]], [[4, 1.503], [4, 1.503]], atol=1e-2)
        assert 1.5 <= least[2] < largest[2] <= 1.61


def test_values_for_a_whole_volume_are_arrays(made, tmp_path):
    folder, _, _ = made

    class Score(Voxels):
        def forward(self, x):
            return {"pred": self.layer(x).mean((2, 3, 4))}

    sample = load_nii(images_of(folder)[0], geometry=True)
    (file,) = delira.predict(Score(), [{**sample, "data": sample["data"][None]}], out=tmp_path)
    assert file.name == "image.npz"
    with np.load(file) as case:
        assert case["pred"].shape == (3,)


def test_whole_numbers_are_written_as_they_are_or_refused(tmp_path):
    folder, where = written.Folder(tmp_path), written.Where(np.eye(4), SHAPE)
    labels = np.arange(np.prod(SHAPE)).reshape(SHAPE) - 3
    file = folder.write("a", {"pred": labels}, where)
    np.testing.assert_array_equal(np.asarray(nibabel.load(file).dataobj).T, labels)
    with pytest.raises(DataError, match="beyond 32 bits"):
        folder.write("b", {"pred": labels + 2**31}, where)
    assert not folder.has("b")


def test_a_damaged_line_of_inputs_is_left_alone(tmp_path):
    (tmp_path / "inputs.txt").write_bytes(b"\xff\xfe broken")
    folder, content = written.Folder(tmp_path), "0" * 64
    folder.write("a", {"pred": np.zeros(2)}, content=content)
    assert written.Folder(tmp_path).has("a", content)
    with pytest.raises(DataError, match="predicted of other data"):
        written.Folder(tmp_path).has("a", "1" * 64)
