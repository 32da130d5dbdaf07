"""``delira predict``: new cases by a run of a script, whose network only the script knows."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import delira
from delira import cli
from delira.cli.imports import import_all
from delira.errors import ConfigError

ROOT = Path(__file__).parents[2]
SCRIPT = """\
import sys

import numpy as np
from shape_of_all import N_FEATURES

from delira.data_loading import BaseDataManager
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, mean_squared_error


class Line(ToyNetwork):
    pass


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    data = rng.normal(size=(12, N_FEATURES))
    ToyExperiment(
        {"model": {"n_features": N_FEATURES}}, Line, n_epochs=1, name="lines", save_path="runs",
        losses={"mse": mean_squared_error}, optimizer_cls=ToySGD, optimizer_params={"lr": 0.05},
    ).kfold(BaseDataManager({"data": data, "label": data.sum(1, keepdims=True)}, 4), num_splits=2, verbose=False)
    np.savez("new.npz", rng.normal(size=(4, N_FEATURES)))
"""


def in_a_process(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, the script that made it, and four new cases in files of their own."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "train_lines.py").write_text(SCRIPT)
    (folder / "shape_of_all.py").write_text("N_FEATURES = 3\n")
    done = in_a_process(folder, "train_lines.py")
    assert done.returncode == 0, done.stderr
    (folder / "new").mkdir()
    for number, case in enumerate(np.load(folder / "new.npz")["arr_0"]):
        np.save(folder / "new" / f"case_{number}.npy", case)
    return folder


@pytest.fixture
def ask(made, tmp_path, monkeypatch, capsys):
    """Exit code, what was printed, and what was said, in a copy that may be changed."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "made"))

    def run(*words):
        code = cli.main(["predict", *words])
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in words else out, err

    return run


@pytest.fixture(autouse=True)
def without_the_script():
    """Each test imports it anew."""
    yield
    for name in ("train_lines", "shape_of_all"):
        sys.modules.pop(name, None)


WORDS = ("runs/lines", "new", "--out", "told", "--import", "train_lines.py")


def test_a_script_is_imported_and_each_case_is_a_file(made, tmp_path):
    out = tmp_path / "told"
    done = in_a_process(made, "-m", "delira", "predict", "runs/lines", "new", "--out", str(out), "--import",
                        "train_lines.py", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["predicted"], told["found"], told["skipped"]) == (4, 0, {})
    assert told["files"] == [str(out / f"case_{number}.npz") for number in range(4)]
    assert len(list((made / "runs" / "lines").iterdir())) == 1, "what trains in the script did not run"
    objects = import_all([str(made / "train_lines.py")])
    run = made / "runs" / "lines"
    expected = delira.predict(run, np.load(made / "new.npz")["arr_0"], objects=objects)
    found = [np.load(file) for file in told["files"]]
    np.testing.assert_allclose([one["pred"] for one in found], expected["pred"])
    np.testing.assert_allclose([one["spread.pred.sd"] for one in found], expected["spread"]["pred"]["sd"])


def test_a_class_that_is_not_imported_is_named_with_the_option(ask):
    code, _, err = ask(*WORDS[:4])
    assert code == 2
    assert "network Line of the module __main__, which is not imported" in err
    assert "--import SCRIPT.py" in err
    assert not Path("told").exists()


def test_finished_cases_are_not_done_again(ask):
    assert ask(*WORDS)[:2] == (0, "predicted  4\nfound      0\nfolder     told\n")
    Path("told/case_1.npz").unlink()
    before = Path("told/case_0.npz").stat().st_mtime_ns
    code, told, err = ask(*WORDS, "--json")
    assert code == 0
    assert (told["predicted"], told["found"]) == (1, 3)
    assert "3 of 4 cases are there already" in err
    assert Path("told/case_0.npz").stat().st_mtime_ns == before
    assert ask(*WORDS)[0] == 0, "nothing is left to do"
    Path("new/case_2.npy").write_bytes(b"another file")
    code, _, err = ask(*WORDS)
    assert code == 1
    assert "the case 'case_2' is in 'told' already, predicted of other data" in err


def test_a_case_that_cannot_be_read_is_named_and_skipped_only_if_asked_for(ask):
    Path("new/case_1.npy").write_bytes(b"damaged")
    code, told, err = ask(*WORDS, "--json")
    assert code == 1
    assert "the case 'case_1' cannot be read (new/case_1.npy)" in told["error"]
    assert told["error"] in err
    assert Path("told/case_0.npz").is_file(), "what was finished stays"
    code, told, _ = ask(*WORDS, "--json", "--skip")
    assert code == 0
    assert (told["predicted"], told["found"], [*told["skipped"]]) == (2, 1, ["case_1"])
    code, text, _ = ask(*WORDS, "--skip")
    assert code == 0
    assert "skipped    1\n  case_1: DataError: the case 'case_1' cannot be read" in text


def test_another_model_is_refused_in_the_same_folder(ask):
    assert ask(*WORDS)[0] == 0
    for more, what in (
        (("--no-spread",), "spread=True, now False"),
        (("--window", "2"), "inference=None, now"),
        (("--flip", "0"), "tta=None, now"),
    ):
        code, _, err = ask(*WORDS, *more)
        assert code == 2
        assert what in err


def test_several_files_are_cases_of_a_batch_and_modules_are_imported_too(ask):
    files = [f"new/case_{number}.npy" for number in range(3)]
    words = ("runs/lines", *files, "--out", "told", "--import", "train_lines", "--batch-size", "2", "--no-spread")
    code, told, _ = ask(*words, "--json")
    assert code == 0
    assert len(told["files"]) == 3
    with np.load(told["files"][2]) as case:
        assert [*case] == ["pred"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("runs/lines", "nowhere", "--out", "told"), "there is no file or folder 'nowhere'"),
        (("runs/lines", "new", "new/case_0.npy", "--out", "told"), "name one folder, or files"),
        ((*WORDS[:4], "--import", "nowhere.py"), "--import nowhere.py: there is no such file"),
        ((*WORDS[:4], "--import", "no_such_module"), "--import no_such_module: ModuleNotFoundError"),
        ((*WORDS, "--window", "wide"), "--window wide"),
        ((*WORDS, "--flip", "up"), "--flip up: it is the axes in space"),
        ((*WORDS, "--window", "8", "--inference", "none"), "name one of them"),
        ((*WORDS, "--batch-size", "0"), "--batch-size must be at least 1"),
        (("nothing", "new", "--out", "told"), "there is no run, fold or checkpoint 'nothing'"),
    ],
)
def test_misuse_is_named(ask, words, what):
    code, _, err = ask(*words)
    assert code == 2
    assert what in err


def test_a_script_does_not_take_the_place_of_another_module(tmp_path):
    (tmp_path / "json.py").write_text("")
    (tmp_path / "ends.py").write_text("raise SystemExit('needs a package')")
    path = [*sys.path]
    with pytest.raises(ConfigError, match="another module 'json'"):
        import_all([str(tmp_path / "json.py")])
    with pytest.raises(ConfigError, match="SystemExit: needs a package"):
        import_all([str(tmp_path / "ends.py")])
    assert "ends" not in sys.modules
    assert sys.path == path
