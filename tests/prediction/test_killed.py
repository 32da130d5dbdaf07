"""A prediction, or a test of a fold, that was killed goes on where it was, and nobody sees it in what is written."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import delira
from delira.data_loading import AbstractDataset, BaseDataManager, SequentialSampler
from delira.testing import ToyExperiment, ToyNetwork, ToySGD

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that nobody can catch")

N_CASES = 12
#: run by another process: a function of this file with what follows
SCRIPT = (
    "import sys; sys.path[:0] = sys.argv[1:3]; import test_killed; getattr(test_killed, sys.argv[3])(*sys.argv[4:])"
)
#: one is set by whoever kills: where each case that is loaded is noted
NOTES = "DELIRA_TEST_LOADED"


class Slow(ToyNetwork):
    """Scores of two classes for each voxel, after a while."""

    def __init__(self):
        super().__init__(n_features=1)

    def __call__(self, x):
        if NOTES in os.environ:
            time.sleep(0.005)
        x = np.asarray(x, dtype=np.float64)
        return {"pred": np.concatenate([0 * x, np.sin(x)], axis=1)}

    @staticmethod
    def closure(model, data_dict, optimizers, **how):
        """It learns nothing."""
        return {"loss": 0.0}, model(data_dict["data"])


class Cases(AbstractDataset):
    """Images of one channel that are loaded one by one, and noted."""

    def __init__(self, n=N_CASES, shape=(320, 320)):
        super().__init__(None, None)
        self.n, self.shape = n, shape

    def __getitem__(self, index):
        if index >= self.n:
            raise IndexError(index)
        if (notes := os.environ.get(NOTES)) is not None:
            with Path(notes).open("a") as file:
                file.write(f"{index}\n")
        data = np.random.default_rng(index).normal(size=(1, *self.shape)).astype(np.float32)
        return {"data": data, "label": np.zeros(1)}

    def __len__(self):
        return self.n


def experiment(path):
    return ToyExperiment(
        {"fixed": {"model": {}, "training": {"num_epochs": 1}}}, Slow, name="killed", save_path=path, seed=0,
        optimizer_cls=ToySGD, optimizer_params={"lr": 0.0}, logging_type=None, verbose=False, output="logits",
    )  # fmt: skip


def cross_validate(path, n=N_CASES, shape=(320, 320)):
    """Folds whose predictions do not fit into the memory that is left to them."""
    data = BaseDataManager(Cases(n, shape), 1, sampler_cls=SequentialSampler)
    return experiment(path).kfold(
        data,
        num_splits=2,
        val_split=None,
        random_seed=0,
        groups_key="",
        keep_predictions="probabilities",
        resume="auto",
    )


def predict(run, data, out):
    """All folds as one, or the first alone."""
    folds = sorted(Path(run).glob("fold_*"))
    return delira.predict([*folds] if "nifti" in data else folds[0], data, out=out, batch_size=1)


def started(function, *arguments, notes):
    here = Path(__file__).parent
    command = [sys.executable, "-c", SCRIPT, str(here), str(here.parent), function, *map(str, arguments)]
    root = str(Path(delira.__file__).parents[1])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths, NOTES: str(notes)}, stderr=subprocess.PIPE)


def killed_when(process, count, wanted, delay):
    """Kill a process some time after something has come; whether it was still there."""
    while process.poll() is None and count() < wanted:
        time.sleep(0.0005)
    time.sleep(delay)
    was_there = process.poll() is None
    process.kill()
    _, said = process.communicate()
    assert was_there or process.returncode == 0, said.decode()
    return was_there


def content(folder):
    """Bytes of every file in a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def number_of_files(folder):
    return sum(len(files) for _, _, files in os.walk(folder))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run, and where volumes and arrays to predict are."""
    folder = tmp_path_factory.mktemp("trained")
    result = cross_validate(folder / "run", n=4, shape=(6, 40, 50))
    (folder / "arrays").mkdir()
    for number in range(N_CASES):
        np.save(folder / "arrays" / f"case_{number:02d}.npy", Cases(N_CASES, (6, 40, 50))[number]["data"])
    try:
        import nibabel
    except ImportError:
        return result, folder
    (folder / "nifti").mkdir()
    for number in range(N_CASES):
        values = Cases(N_CASES, (6, 40, 50))[number]["data"][0].T
        volume = nibabel.Nifti1Image(values, np.diag([0.7, 0.8, 2.5, 1.0]))
        nibabel.save(volume, folder / "nifti" / f"case_{number:02d}.nii.gz")
    return result, folder


def check_prediction(run, kind, seed, tmp_path, n_kills=1):
    """Kill a prediction at moments that a seed says, let it go on each time, and compare."""
    result, folder = run
    if not (folder / kind).is_dir():
        pytest.skip("needs nibabel")
    expected = folder / f"expected_{kind}"
    if not expected.exists():
        predict(result.path, str(folder / kind), expected)
    drawn, out = random.Random(seed), tmp_path / "out"
    n_files = len(content(expected))
    for _ in range(n_kills):
        process = started("predict", result.path, folder / kind, out, notes=tmp_path / "notes")
        wanted = number_of_files(out) + drawn.randint(0, max(1, (n_files - number_of_files(out)) // 2))
        killed_when(process, lambda: number_of_files(out), wanted, drawn.uniform(0, 0.03))
        there = content(out) if out.is_dir() else {}
        whole = {name: one for name, one in there.items() if name in content(expected) and name != "inputs.txt"}
        assert all(one == content(expected)[name] for name, one in whole.items()), "half a file has its name"
    files = predict(result.path, str(folder / kind), out)
    assert [file.name for file in files] == [file.name for file in predict(result.path, str(folder / kind), expected)]
    assert content(out) == content(expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_prediction_that_was_killed_goes_on(run, seed, tmp_path):
    check_prediction(run, "arrays", seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("kind", ["arrays", "nifti"])
def test_a_prediction_goes_on_wherever_it_was_killed(run, kind, seed, tmp_path):
    """Twenty times, in each of which it is killed twice."""
    check_prediction(run, kind, seed, tmp_path, n_kills=2)


def kept(result):
    return [dict(np.load(fold.path / "predictions.npz")) for fold in result.folds]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return kept(cross_validate(tmp_path_factory.mktemp("undisturbed")))


def check_test_of_folds(undisturbed, moments, delays, tmp_path):
    notes = tmp_path / "notes"
    for moment, delay in zip(moments, delays, strict=True):
        notes.unlink(missing_ok=True)
        process = started("cross_validate", tmp_path / "run", notes=notes)
        killed_when(process, lambda: notes.read_text().count("\n") if notes.exists() else 0, moment, delay)
    result = cross_validate(tmp_path / "run")
    assert len([*(tmp_path / "run").rglob("manifest.json")]) == 1, "it went on, and began no other run"
    for one, other in zip(kept(result), undisturbed, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    again = delira.training.KFoldResult.load(result.path)
    for fold, other in zip(again.folds, undisturbed, strict=True):
        np.testing.assert_array_equal(fold.predictions["pred"], other["predictions/pred"])
    names = {path.name for fold in result.folds for path in fold.path.iterdir()}
    assert not [name for name in names if "partial" in name or name.endswith((".tmp", "~"))], names


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_test_of_a_fold_that_was_killed_keeps_the_same_predictions(undisturbed, seed, tmp_path):
    drawn = random.Random(seed)
    # 6 cases are learned from, one is looked at, and 6 are tested; then the other fold
    moments = sorted(drawn.sample(range(6, 22), 2))
    check_test_of_folds(undisturbed, moments, [drawn.uniform(0, 0.05) for _ in moments], tmp_path)


def test_the_test_of_a_fold_goes_on(undisturbed, tmp_path):
    check_test_of_folds(undisturbed, [10], [0.0], tmp_path)
