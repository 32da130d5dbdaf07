"""What a script sets for the whole process: other processes compute by it, and a run that goes on is compared by it."""

import dataclasses
import os

import numpy as np
import pytest
from digests import digest
from problems import linear_problem
from small_backends import build_kit, toy_kit
from test_folds import kfold

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.execution import RayExecutor
from delira.runs.differences import find_differences
from delira.runs.folder import RunFolder
from delira.training.callbacks import AbstractCallback

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memory of Linux that has no name")

SET = {"default_dtype": "float64", "float32_matmul_precision": "medium", "deterministic_algorithms": "warns"}
KEPT = {"num_threads": 1, "num_splits": 2, "num_epochs": 1}


@pytest.fixture
def changed():
    """What a script may set of PyTorch, and of numpy."""
    torch = pytest.importorskip("torch", reason="is about settings of PyTorch")
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("medium")
    torch.use_deterministic_algorithms(True, warn_only=True)
    before = np.seterr(over="raise")
    yield torch
    np.seterr(**before)
    torch.set_default_dtype(torch.float32)
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(False)


class Told(AbstractCallback):
    """What the process of a fold, and the others that train it, computes by."""

    def __init__(self, folder):
        self.folder = folder

    def at_training_begin(self, trainer, **facts):
        torch = pytest.importorskip("torch")
        text = (
            f"{torch.get_default_dtype()} {torch.get_float32_matmul_precision()} "
            f"{torch.get_deterministic_debug_mode()} {np.geterr()['over']}"
        )
        (self.folder / f"{os.getpid()}").write_text(text)


def told(folder):
    """What processes said, and how many did."""
    files = [*folder.iterdir()]
    return {file.read_text() for file in files}, len(files)


def numbers():
    return BaseDataManager(linear_problem(8, 3, 7), 4)


def doubles():
    """A kit whose network computes by the default dtype, whatever it is given."""
    kit = build_kit("torch")

    class Doubles(kit.network):
        def forward(self, x):
            return {name: value.float() for name, value in super().forward(x.to(self.linear.weight.dtype)).items()}

    return dataclasses.replace(kit, network=Doubles)


def test_other_processes_compute_by_what_a_script_has_set(changed, tmp_path):
    kit = doubles()
    for name in ("here", "there", "together"):
        (tmp_path / f"told-{name}").mkdir()
    here = kfold(kit, tmp_path / "here", numbers(), Told(tmp_path / "told-here"), **KEPT)
    there = kfold(kit, tmp_path / "there", numbers(), Told(tmp_path / "told-there"), n_jobs=2, **KEPT)
    expected = {"torch.float64 medium 1 raise"}
    assert told(tmp_path / "told-here") == (expected, 1)
    assert told(tmp_path / "told-there") == (expected, 2)
    assert digest(there) == digest(here)
    kept = {**KEPT, "devices": 2, "device": "cpu", "folds": [0]}
    kfold(kit, tmp_path / "together", numbers(), Told(tmp_path / "told-together"), **kept)
    assert told(tmp_path / "told-together") == (expected, 2)

    stated = RunFolder(here.path).read_manifest()["process_settings"]
    assert {name: stated[name] for name in SET} == SET
    changed.set_float32_matmul_precision("highest")
    with pytest.raises(ConfigError, match='float32_matmul_precision: "medium" in the run, as usual now'):
        kfold(kit, tmp_path / "here", numbers(), resume=here.path, **KEPT)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_workers_of_ray_compute_by_what_a_script_has_set(changed, tmp_path):
    pytest.importorskip("ray", reason="needs Ray, see requirements/ray.txt")
    kit = doubles()
    (tmp_path / "told").mkdir()
    here = kfold(kit, tmp_path / "here", numbers(), **KEPT)
    with RayExecutor(n_jobs=2) as cluster:
        there = kfold(kit, tmp_path / "there", numbers(), Told(tmp_path / "told"), executor=cluster, **KEPT)
    assert told(tmp_path / "told")[0] == {"torch.float64 medium 1 raise"}
    assert digest(there) == digest(here)


def test_what_an_older_run_does_not_say_is_not_compared():
    now = {"model": "m", "fingerprint": {}, "process_settings": {"floatx": "float64"}}
    assert find_differences({"model": "m", "fingerprint": {}}, now) == {}
    lines = find_differences({**now, "process_settings": {}}, now)["process_settings"]
    assert lines == ['setting of the framework floatx: as usual in the run, "float64" now']


class SetAtEpoch(AbstractCallback):
    """Sets something for the whole process in an epoch of some folds, and says what each fold begins and ends with."""

    def __init__(self, folder, *folds):
        self.folder, self.folds = folder, folds

    def _tell(self, trainer):
        with open(self.folder / f"{trainer.fold}", "a") as file:
            file.write(pytest.importorskip("torch").get_float32_matmul_precision() + "\n")

    def at_training_begin(self, trainer, **facts):
        self._tell(trainer)

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if trainer.fold in self.folds and curr_epoch == 2:
            pytest.importorskip("torch").set_float32_matmul_precision("high")

    def at_training_end(self, trainer, **facts):
        self._tell(trainer)


@pytest.mark.parametrize("place", [{}, {"executor": "processes", "n_jobs": 1}])
def test_what_a_fold_sets_holds_within_it_wherever_it_runs(tmp_path, caplog, place):
    torch = pytest.importorskip("torch", reason="is about settings of PyTorch")
    kit, options = build_kit("torch"), {**KEPT, "num_epochs": 3, "num_splits": 3}
    (tmp_path / "told").mkdir()
    result = kfold(kit, tmp_path / "runs", numbers(), SetAtEpoch(tmp_path / "told", 0, 1), **options, **place)
    said = [(tmp_path / "told" / f"{fold}").read_text().split() for fold in range(3)]
    assert said == [["highest", "high"], ["highest", "high"], ["highest", "highest"]]
    assert torch.get_float32_matmul_precision() == "highest"
    assert caplog.text.count("fold 0 has changed settings of the whole process (float32_matmul_precision") == 1
    assert caplog.text.count("settings of the whole process") == 1
    assert len(result.folds) == 3


def test_a_network_that_sets_something_for_the_process_is_no_reason_to_begin_anew(tmp_path):
    torch = pytest.importorskip("torch", reason="is about settings of PyTorch")
    kit = build_kit("torch")

    class Sets(kit.network):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            torch.set_float32_matmul_precision("high")

    kit = dataclasses.replace(kit, network=Sets)
    some = kfold(kit, tmp_path, numbers(), folds=[0], **KEPT)
    assert torch.get_float32_matmul_precision() == "highest"
    rest = kfold(kit, tmp_path, numbers(), resume="auto", **KEPT)
    assert rest.path == some.path
    assert [fold.fold for fold in kfold(kit, tmp_path, numbers(), resume=some.path, **KEPT).folds] == [0, 1]


LEFT, RIGHT = (np.random.default_rng(seed).normal(size=300_000) for seed in (1, 2))


def dot(y_true, y_pred):
    """A metric of numpy's algebra, which adds up in another order with another number of threads."""
    return float(np.dot(LEFT, RIGHT)) + float(np.mean((y_true - y_pred) ** 2))


def test_metrics_and_fits_have_the_same_bits_wherever_they_are_computed(tmp_path):
    pytest.importorskip("skops", reason="checkpoints with an estimator need the package 'skops'")
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_info, threadpool_limits

    draw = np.random.default_rng(3)
    data = {"data": draw.normal(size=(240, 240)), "label": draw.normal(size=(240, 1))}
    options = {"metrics": {"dot": dot}, "metric_keys": {"dot": ("label", "pred")}, "num_splits": 2, "num_epochs": 1}
    options["preprocessing"] = {"data": PCA(3, random_state=0)}
    with threadpool_limits(2):  # as where nobody said OMP_NUM_THREADS, and cores are not shared out
        if max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1) < 2:
            pytest.skip("numpy's algebra has one thread")
        with_two = float(np.dot(LEFT, RIGHT))
        here = kfold(toy_kit(), tmp_path / "here", BaseDataManager(data, 40), **options)
    with threadpool_limits(1):
        assert float(np.dot(LEFT, RIGHT)) != with_two
    there = kfold(toy_kit(), tmp_path / "there", BaseDataManager(data, 40), n_jobs=2, resources={"cpus": 1}, **options)
    assert [fold.means() for fold in there.folds] == [fold.means() for fold in here.folds]
    assert digest(there) == digest(here)
