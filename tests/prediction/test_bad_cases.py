"""Cases that cannot be predicted are named, skipped only if asked for, and nothing that is finished is lost."""

import contextlib
import errno
import logging
import os
import shutil

import numpy as np
import pytest
from pixel_networks import CALLS, Slices, images, pixel_run

import delira
from delira.errors import ConfigError, DataError
from delira.prediction import written
from delira.prediction.cases import check_inputs
from delira.training import Predictor


def bad_folder(tmp_path):
    """Six cases, of which four are not to be predicted."""
    folder, x = tmp_path / "in", images(6)
    folder.mkdir()
    np.save(folder / "a.npy", x[0])
    (folder / "b.npy").write_bytes(b"no array")
    np.save(folder / "c.npy", np.concatenate([x[2]] * 3))
    np.save(folder / "d.npy", x[3][..., None])
    np.savez(folder / "e.npz", image=x[4], mask=x[4])
    np.save(folder / "f.npy", x[5])
    return folder, x


BAD = {
    "b": ("'?b'?", None),
    "c": ("'c'", "3 channels"),
    "d": ("'d'", "axes"),
    "e": ("'e'", "'data'"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_case_that_cannot_be_predicted_is_named_and_the_finished_ones_stay(tmp_path, bad):
    fold = pixel_run(tmp_path / "run").folds[0]
    folder, _ = bad_folder(tmp_path)
    for other in {*BAD} - {bad}:
        next(folder.glob(f"{other}.*")).unlink()
    with pytest.raises((DataError, OSError, ValueError)) as told:
        delira.predict(fold, folder, out=tmp_path / "out")
    text = "\n".join([str(told.value), *getattr(told.value, "__notes__", [])])
    assert f"case '{bad}'" in text, text
    if BAD[bad][1]:
        assert isinstance(told.value, DataError)
        assert BAD[bad][1] in text
    assert (tmp_path / "out" / "a.npz").is_file()
    CALLS.clear()
    next(folder.glob(f"{bad}.*")).unlink()
    files = delira.predict(fold, folder, out=tmp_path / "out")
    assert [file.name for file in files] == ["a.npz", "f.npz"]
    assert len(CALLS) == 1


@pytest.mark.parametrize("way", ["out", "stream", "gathered"])
def test_they_are_left_out_if_asked_for_and_counted(tmp_path, way, caplog):
    fold = pixel_run(tmp_path / "run").folds[0]
    folder, x = bad_folder(tmp_path)
    caplog.set_level(logging.WARNING, "delira")
    if way == "out":
        files = delira.predict(fold, folder, out=tmp_path / "out", on_error="skip")
        assert [file.name for file in files] == ["a.npz", "f.npz"]
    elif way == "stream":
        assert [case.name for case in delira.predict(fold, folder, stream=True, on_error="skip")] == ["a", "f"]
    else:
        found = delira.predict(fold, folder, on_error="skip")["pred"]
        np.testing.assert_array_equal(found[:, 1], x[[0, 5], 0])
    told = [record.getMessage() for record in caplog.records if "not predicted" in record.getMessage()]
    assert len(told) == 1
    assert "4 cases" in told[0]
    for bad in BAD:
        assert f"{bad} (" in told[0]


class Breaks(Slices):
    def __getitem__(self, index):
        if index == 1:
            raise RuntimeError("a reader of the user's broke")
        return super().__getitem__(index)


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_a_data_set_that_breaks_is_named_and_skipped_alike(tmp_path, batch_size, caplog):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(4)
    data = Breaks(x, ["anna", "berta", "clara", "dora"])
    with pytest.raises(Exception, match="broke") as told:
        delira.predict(fold, data, out=tmp_path / "out", batch_size=batch_size)
    assert any("berta" in note for note in told.value.__notes__)
    files = delira.predict(fold, data, out=tmp_path / "out", batch_size=batch_size, on_error="skip")
    assert {file.stem for file in files} == {"anna", "clara", "dora"}
    assert "berta" in caplog.text


def test_what_the_network_raises_names_the_case(tmp_path):
    fold = pixel_run(tmp_path / "run").folds[0]
    network = fold.load_network()

    def call(x):
        if x.mean() > 100:
            raise RuntimeError("too bright")
        return {"pred": x}

    x = images(3)
    x[1] += 1000
    predictor = Predictor(network)
    predictor.forward = lambda prepared: call(prepared["data"])
    with pytest.raises(RuntimeError, match="too bright") as told:
        delira.predict(predictor, Slices(x, ["a", "b", "c"]), out=tmp_path / "out")
    assert any("'b'" in note or "case b" in note for note in told.value.__notes__)
    assert (tmp_path / "out" / "a.npz").is_file()


@pytest.mark.parametrize(
    ("learned", "found", "fits"),
    [
        ((1, 32, 32), (1, 64, 48), True),
        ((1, 32, 32), (3, 32, 32), False),
        ((64, 8, 8, 8), (64, 16, 16, 16), True),
        ((28, 28, 1), (64, 64, 1), True),  # channels last
        ((28, 28, 1), (64, 64, 3), False),
        ((20, 8), (35, 8), True),  # a sequence of vectors
        ((20, 8), (35, 9), False),
        ((20,), (20,), True),
        ((20,), (21,), False),
    ],
)
def test_channels_are_compared_and_sizes_are_not(learned, found, fits):
    with contextlib.nullcontext() if fits else pytest.raises(DataError, match=r"case 'a' has .* \(such as"):
        check_inputs("a", {"data": np.zeros((1, *found))}, {"data": learned})


def test_a_full_disk_ends_the_prediction_also_where_bad_cases_are_skipped(tmp_path, monkeypatch):
    def full(path, write):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    fold = pixel_run(tmp_path / "run").folds[0]
    monkeypatch.setattr(written, "publish", full)
    with pytest.raises(OSError, match="No space left"):
        delira.predict(fold, images(), out=tmp_path / "out", on_error="skip")


@pytest.mark.parametrize("combine", [None, "votes", "logits"])
def test_a_case_of_nan_has_no_label(tmp_path, combine):
    result = pixel_run(tmp_path / "run")
    ensemble, x = result.ensemble(combine=combine), images(3)
    x[1, 0, 0, 0] = np.nan
    with pytest.raises(DataError, match="case 1 is not a number"):
        ensemble.predict(x, keep="labels")
    assert np.isnan(ensemble.predict(x)["pred"]).any(axis=(1, 2, 3)).tolist() == [False, True, False]
    files = ensemble.predict(x, keep="labels", out=tmp_path / "out", on_error="skip")
    assert [file.name for file in files] == ["0.npz", "2.npz"]


def test_cases_that_are_there_already_are_told(tmp_path, caplog):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(3)
    first = delira.predict(fold, x[:2], out=tmp_path / "out")
    assert not caplog.records
    before = np.load(first[0])["pred"]
    assert delira.predict(fold, x, out=tmp_path / "out")[:2] == first
    assert not caplog.records, "they are of the same data"
    with pytest.raises(DataError, match=r"the case '0' is in .* already, predicted of other data"):
        delira.predict(fold, x + 1, out=tmp_path / "out")
    assert np.array_equal(np.load(first[0])["pred"], before)
    (tmp_path / "out" / "inputs.txt").unlink()
    delira.predict(fold, x + 1, out=tmp_path / "out")
    assert "3 of 3 cases are in" in caplog.text, "nobody knows of what data they are"


def test_files_that_are_others_now_are_refused_or_skipped(tmp_path, caplog):
    fold, folder = pixel_run(tmp_path / "run").folds[0], tmp_path / "in"
    folder.mkdir()
    for name, image in zip("abc", images(3), strict=True):
        np.save(folder / f"{name}.npy", image)
    files = delira.predict(fold, folder, out=tmp_path / "out")
    shutil.copytree(folder, tmp_path / "copied")
    assert delira.predict(fold, tmp_path / "copied", out=tmp_path / "out") == files
    np.save(folder / "b.npy", images(3)[1] + 1)
    with pytest.raises(DataError, match=r"the case 'b' is in .* already, predicted of other data"):
        delira.predict(fold, folder, out=tmp_path / "out")
    delira.predict(fold, folder, out=tmp_path / "out", on_error="skip")
    assert "1 case was not predicted: b (" in caplog.text
    files[1].unlink()
    assert len(delira.predict(fold, folder, out=tmp_path / "out")) == 3


def test_a_folder_in_which_nothing_was_predicted_says_so(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(1)
    with pytest.raises(DataError):
        delira.predict(fold, np.zeros((1, 7, 8, 8)), out=tmp_path / "out")
    with pytest.raises(ConfigError, match=r"none is written yet, so predictions\.json can be deleted"):
        delira.predict(fold, x, out=tmp_path / "out", keep="labels")
    (tmp_path / "out" / "predictions.json").unlink()
    delira.predict(fold, x, out=tmp_path / "out", keep="labels")
    with pytest.raises(ConfigError, match=r"name another folder$"):
        delira.predict(fold, x, out=tmp_path / "out")
