"""Windows that are too large, and saved ensembles of which something is missing or was changed, through the doors."""

import json
import shutil

import numpy as np
import pytest
from pixel_networks import images, pixel_run

import delira
from delira.errors import CheckpointError, ConfigError, DataError


def network_of_neighbours():
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork

    class Neighbours(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv = torch.nn.Conv3d(1, 3, 3, padding=1)

        def forward(self, x):
            return {"pred": self.conv(x)}

    return Neighbours().eval()


@pytest.mark.parametrize("padding", ["constant", "replicate"])
@pytest.mark.parametrize("size", [(8, 8, 8), (4, 9, 12), (16, 4, 4)])
def test_windows_larger_than_a_volume_pad_it_as_monai_does(size, padding):
    torch = pytest.importorskip("torch")
    inferers = pytest.importorskip("monai.inferers")
    network, x = network_of_neighbours(), images(2, (5, 9, 7))
    with torch.no_grad():
        expected = inferers.sliding_window_inference(
            torch.as_tensor(x), size, 2, lambda part: network(part)["pred"], overlap=0.5, mode="gaussian",
            padding_mode=padding,
        )  # fmt: skip
    window = delira.SlidingWindow(size, padding=padding)
    found = delira.predict(network, {"data": x}, inference=window)["pred"]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_they_are_refused_where_nothing_is_to_be_padded_naming_both_shapes_and_the_case(tmp_path):
    fold = pixel_run(tmp_path / "run").folds[0]
    with pytest.raises(DataError, match=r"\(9, 9\).*\(5, 4\)") as told:
        delira.predict(fold, images(2), inference=delira.SlidingWindow(9, padding=None), out=tmp_path / "out")
    assert "of case" in "".join(told.value.__notes__)


@pytest.fixture
def saved(tmp_path):
    """An ensemble of two that was saved, and whose run is gone."""
    result = pixel_run(tmp_path / "run")
    folder = result.ensemble(weights=[1, 3], combine="logits").save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "run")
    return folder


DOORS = [delira.load_ensemble, lambda folder: delira.predict(folder, images())]


def test_what_was_saved_needs_the_run_no_more(saved):
    together = delira.load_ensemble(saved)
    assert (together.weights, together.combine) == ([0.25, 0.75], "logits")
    np.testing.assert_allclose(together.predict(images())["pred"][:, 1], images()[:, 0], rtol=1e-6)
    with pytest.raises(ConfigError, match="ensemble"):
        together.save(saved)


@pytest.mark.parametrize("door", DOORS)
def test_a_member_that_is_missing_is_named(saved, door):
    for file in (saved / "member_01" / "checkpoints").iterdir():
        file.unlink()
    with pytest.raises(CheckpointError, match=r"'fold_01'.*missing"):
        door(saved)
    shutil.rmtree(saved / "member_01")
    with pytest.raises(CheckpointError, match=r"'fold_01'.*missing"):
        door(saved)


def test_a_member_that_is_damaged_is_named(saved):
    (file,) = (saved / "member_01" / "checkpoints").iterdir()
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(CheckpointError, match="member_01"):
        delira.predict(saved, images())


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "of another version"])
def test_a_list_of_members_that_is_damaged_is_told(saved, door, damage):
    file = saved / "ensemble.json"
    content = json.loads(file.read_text())
    text = {
        "cut": file.read_text()[:-20], "emptied": "", "of another version": json.dumps({**content, "format": 2}),
        "changed": file.read_text().replace("0.75", "0.70"),
    }[damage]  # fmt: skip
    assert text != file.read_text()
    file.write_text(text)
    with pytest.raises(CheckpointError, match=r"ensemble\.json"):
        door(saved)


@pytest.mark.parametrize(
    "how",
    [
        {"folds": [2]},
        {"folds": [0, 5]},
        {"weights": [1]},
        {"weights": [0, 0]},
        {"weights": [1, -1]},
        {"combine": "median"},
    ],
)
def test_an_ensemble_of_what_is_not_there_is_refused(tmp_path, how):
    result = pixel_run(tmp_path)
    for door in (result.ensemble, lambda **how: delira.load_ensemble(result.path, **how)):
        with pytest.raises(ConfigError, match=next(iter(how))):
            door(**how)
