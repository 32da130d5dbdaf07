"""What a cross-validation keeps of its predictions: each value and type of it, once on disk and once in memory."""

import logging
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from problems import linear_problem, mae
from small_backends import toy_kit

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, MissingKeyError
from delira.io.container import read_tree, write_tree
from delira.metrics import per_sample
from delira.metrics.tree.criteria import Criterion
from delira.training import KFoldResult
from delira.training.scores import kept_as

WAYS = ("labels", "probabilities", "logits")


@per_sample
def hit(y_true, y_pred):
    return float((np.asarray(y_pred).argmax(0) == y_true).mean())


def share(y_true, y_pred):
    return float((np.asarray(y_pred).argmax(1) == y_true).mean())


def volumes(n=8, side=6):
    drawn = np.random.default_rng(0)
    label = drawn.integers(0, 3, (n, side, side))
    return {"data": (label[:, None] + drawn.normal(size=(n, 1, side, side))).astype(np.float32), "label": label}


def torch_experiment(path):
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchExperiment

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 3, 1)

        def forward(self, x):
            return {"pred": self.conv(x)}

    return PyTorchExperiment(
        {"fixed": {"model": {}, "training": {"losses": {"ce": torch.nn.CrossEntropyLoss()}, "num_epochs": 1}}},
        Net, name="kept", save_path=path, key_mapping={"x": "data"}, optimizer_cls=torch.optim.SGD,
        optimizer_params={"lr": 0.1}, seed=1,
    )  # fmt: skip


def kfold(path, **how):
    data = BaseDataManager(volumes(), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch_experiment(path).kfold(
            data, {"hit": hit, "share": share}, num_splits=2,
            metric_keys=dict.fromkeys(("hit", "share"), ("label", "pred")), val_split=None, **how,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [None, "float16", "float32"])
@pytest.mark.parametrize("keep", WAYS)
def test_predictions_are_kept_as_asked_and_metrics_are_those_of_the_network(tmp_path, keep, dtype):
    plain = kfold(tmp_path / "plain")
    logits = plain.oof.predictions["pred"]
    found = kfold(tmp_path / "other", keep_predictions=keep, predictions_dtype=dtype)
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    expected = {
        "labels": logits.argmax(1), "logits": logits, "probabilities": shifted / shifted.sum(1, keepdims=True),
    }[keep]  # fmt: skip
    kept = found.oof.predictions["pred"]
    assert kept.dtype == (np.uint8 if keep == "labels" else np.dtype(dtype or "float32"))
    np.testing.assert_allclose(kept, expected, rtol=2e-3 if dtype == "float16" else 1e-6, atol=1e-4)
    for one, other in zip(plain.folds, found.folds, strict=True):
        assert all(np.array_equal(one.metrics[name], other.metrics[name]) for name in ("hit", "share"))
    again = KFoldResult.load(found.path, metrics={"hit": hit, "share": share})
    np.testing.assert_array_equal(again.oof.predictions["pred"], kept)
    assert found.summary()["hit"]["ci_low"] == plain.summary()["hit"]["ci_low"]
    note = found.summary()["share"]["note"]
    assert (f"keep_predictions={keep!r}" in note) == (keep != "logits" or dtype == "float16")


def test_outputs_in_trees_are_made_what_is_asked_for_and_unknown_ones_stay():
    scores, known = np.random.default_rng(0).normal(size=(2, 3, 4, 4)), Criterion("ce", "categorical", output="logits")
    outputs = {"heads": {"organ": scores, "features": scores}, "scales": [scores, scores[..., ::2, ::2]]}
    names = ("heads.organ", "scales.0", "scales.1")
    found = kept_as(outputs, "labels", (4, 4), dict.fromkeys(names, known))
    np.testing.assert_array_equal(found["heads"]["organ"], scores.argmax(1))
    assert found["heads"]["features"] is scores
    assert [one.shape for one in found["scales"]] == [(2, 4, 4), (2, 2, 2)]


def test_nothing_is_kept_and_who_asks_for_it_is_told_so(tmp_path):
    plain = kfold(tmp_path / "plain")
    found = kfold(tmp_path / "none", keep_predictions=False)
    for result in (found, KFoldResult.load(found.path, metrics={"hit": hit, "share": share})):
        with pytest.raises(MissingKeyError, match="keep_predictions=False"):
            result.oof.predictions["pred"]
        with pytest.raises(MissingKeyError, match="keep_predictions=False"):
            result.folds[0].targets["label"]
        assert result.summary()["hit"]["oof"] == plain.summary()["hit"]["oof"]
        assert "keep_predictions=False" in result.summary()["share"]["note"]
        assert Path(result.to_html(tmp_path / "page.html")).exists()
    assert [*np.load(found.folds[0].path / "predictions.npz")] == ["indices"]


def test_a_run_that_is_continued_reads_what_it_kept_and_tests_again_what_it_did_not(tmp_path):
    first = kfold(tmp_path, keep_predictions="labels")
    stamps = [(fold.path / "result.zip").stat().st_mtime_ns for fold in first.folds]
    same = kfold(tmp_path, keep_predictions="labels", resume=first.path)
    assert stamps == [(fold.path / "result.zip").stat().st_mtime_ns for fold in same.folds]
    np.testing.assert_array_equal(same.oof.predictions["pred"], first.oof.predictions["pred"])
    other = kfold(tmp_path, resume=first.path)
    np.testing.assert_array_equal(other.oof.predictions["pred"].argmax(1), first.oof.predictions["pred"])
    assert other.folds[0].kept_as == ""


@pytest.mark.parametrize(
    ("given", "named"), [({"keep_predictions": "label"}, "keep_predictions"), ({"predictions_dtype": "int8"}, "dtype")]
)
def test_what_cannot_be_kept_is_refused_before_the_run(tmp_path, given, named):
    with pytest.raises(ConfigError, match=named):
        kfold(tmp_path, **given)


def test_what_a_run_is_going_to_write_is_said_before_it_trains(tmp_path, caplog):
    caplog.set_level(logging.INFO, "delira")
    kfold(tmp_path, keep_predictions="probabilities")
    said = [record.getMessage() for record in caplog.records if "will take about" in record.getMessage()]
    bytes_of_all = 8 * 3 * 36 * 4 + 8 * 36 * 8  # and the labels, int64
    assert len(said) == 1
    assert f"8 cases will take about {bytes_of_all / 1000:.3g} KB" in said[0]


def test_a_folder_of_before_is_read(tmp_path):
    """Then each array was in the result, and the predictions in a second file."""
    first = kfold(tmp_path)
    for fold in first.folds:
        tree = read_tree(fold.path / "result.zip")
        parts = {"predictions": fold.predictions, "targets": fold.targets}
        packed = {name: [[key, {"array": np.array(one)}] for key, one in part.items()] for name, part in parts.items()}
        tree["outputs"] = {"dict": [[name, {"dict": pairs}] for name, pairs in packed.items()]}
        tree["fields"]["dict"] = [pair for pair in tree["fields"]["dict"] if pair[0] != "kept_as"]
        with (fold.path / "result.zip").open("wb") as file:
            write_tree(file, tree)
        (fold.path / "predictions.npz").unlink()
    again = KFoldResult.load(first.path)
    np.testing.assert_array_equal(again.oof.predictions["pred"], first.oof.predictions["pred"])


def test_predictions_of_another_test_are_not_taken_for_those_of_the_result(tmp_path, caplog):
    first, second = kfold(tmp_path / "a"), kfold(tmp_path / "b", num_epochs=2)
    (first.folds[0].path / "predictions.npz").write_bytes((second.folds[0].path / "predictions.npz").read_bytes())
    again = KFoldResult.load(first.path)
    assert "of another time" in caplog.text
    assert any("holds no predictions" in text for text in again.problems)


def test_every_backend_keeps_as_asked(tmp_path):
    kit = toy_kit()
    data = BaseDataManager(linear_problem(12, 3), 4)

    def run(name, **how):
        return kit.experiment(tmp_path / name).kfold(data, {"mae": mae}, 1, 2, val_split=None, **how)

    plain, half, none = run("plain"), run("half", predictions_dtype="float16"), run("none", keep_predictions=False)
    kept = half.oof.predictions["pred"]
    assert kept.dtype == np.float16
    np.testing.assert_array_equal(kept, plain.oof.predictions["pred"].astype(np.float16))
    assert not none.oof.predictions
    for other in (half, none):
        assert [fold.means() for fold in other.folds] == [fold.means() for fold in plain.folds]


@pytest.mark.parametrize("keep", ["labels", "probabilities"])
def test_an_estimator_keeps_as_asked(tmp_path, keep):
    pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    linear_model = pytest.importorskip("sklearn.linear_model")
    from delira.models import SklearnEstimator
    from delira.training import SklearnExperiment

    drawn = np.random.default_rng(0)
    arrays = {"data": drawn.normal(size=(30, 4)).astype(np.float32), "label": np.arange(30) % 3}

    def run(name, **how):
        params = {"fixed": {"model": {"estimator": linear_model.LogisticRegression()}, "training": {"num_epochs": 1}}}
        experiment = SklearnExperiment(
            params, SklearnEstimator, name="one", save_path=tmp_path / name, output="probabilities"
        )
        return experiment.kfold(BaseDataManager(arrays, 5), {"share": share}, num_splits=2, val_split=None, **how)

    plain, found = run("plain"), run("other", keep_predictions=keep)
    scores, kept = plain.oof.predictions["pred"], found.oof.predictions["pred"]
    np.testing.assert_array_equal(kept, scores if keep == "probabilities" else scores.argmax(1))


def estimators(path, name):
    linear = pytest.importorskip("sklearn.linear_model")
    pytest.importorskip("skops")
    from delira.training import SklearnExperiment

    drawn = np.random.default_rng(0)
    label = drawn.normal(size=24) if name == "LinearRegression" else np.arange(24) % 3
    params = {"fixed": {"model": {}, "training": {"num_epochs": 1}}}
    data = BaseDataManager({"data": drawn.normal(size=(24, 4)), "label": label}, 6)
    return SklearnExperiment(params, getattr(linear, name), name="one", save_path=path), data


@pytest.mark.parametrize(
    ("name", "keep"),
    [
        ("RidgeClassifier", "probabilities"),
        ("LinearRegression", "probabilities"),
        ("LinearRegression", "labels"),
        ("LogisticRegression", "logits"),
    ],
)
def test_what_no_estimator_of_its_kind_says_is_refused_before_it_learns(tmp_path, name, keep, monkeypatch):
    experiment, data = estimators(tmp_path, name)
    monkeypatch.setattr(experiment.model_cls, "fit", lambda *args: pytest.fail("it has learned"))
    for output in (None, "probabilities"):
        with pytest.raises(ConfigError, match=f"keep_predictions='{keep}'.*no {keep}"):
            experiment.kfold(data, num_splits=2, val_split=None, keep_predictions=keep, output=output)


def test_probabilities_of_an_estimator_need_no_word_of_the_user(tmp_path):
    experiment, data = estimators(tmp_path, "LogisticRegression")
    plain = experiment.kfold(data, num_splits=2, val_split=None)
    found = experiment.kfold(data, num_splits=2, val_split=None, keep_predictions="probabilities")
    np.testing.assert_array_equal(found.oof.predictions["pred"], plain.oof.predictions["pred"])
    np.testing.assert_allclose(found.oof.predictions["pred"].sum(1), 1)


MEASURE = textwrap.dedent("""
    import re, sys, threading, time, warnings
    import numpy as np, torch
    from delira.data_loading import BaseDataManager, BaseLazyDataset
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchExperiment
    from delira.metrics import per_sample

    warnings.simplefilter("ignore")
    folder, keep = sys.argv[1], {"none": False}.get(sys.argv[2], sys.argv[2])

    def anonymous():
        return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1000

    def load(index):
        drawn = np.random.default_rng(index)
        data = drawn.normal(size=(1, 96, 96, 96)).astype(np.float32)
        return {"data": data, "label": (data[0] > 0).astype(np.uint8)}

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv3d(1, 4, 1)

        def forward(self, x):
            return {"pred": self.conv(x)}

    def loss(pred, label):
        return torch.nn.functional.cross_entropy(pred, label.long())

    @per_sample
    def hit(y_true, y_pred):
        return float((y_pred.argmax(0) == y_true).mean())

    peak, is_over = [0.0], threading.Event()

    def watch():
        while not is_over.is_set():
            peak[0] = max(peak[0], anonymous())
            time.sleep(0.002)

    experiment = PyTorchExperiment(
        {"fixed": {"model": {}, "training": {"losses": {"ce": loss}, "num_epochs": 1}}}, Net, name="large",
        save_path=folder, key_mapping={"x": "data"}, optimizer_cls=torch.optim.SGD, optimizer_params={"lr": 0.1},
        seed=1, output="logits",
    )
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    result = experiment.kfold(
        BaseDataManager(BaseLazyDataset(range(24), load), 1), {"hit": hit}, num_splits=3, val_split=None,
        metric_keys={"hit": ("label", "pred")}, keep_predictions=keep, groups_key="",
    )
    if keep:
        assert result.oof.predictions["pred"].shape == (24, 4, 96, 96, 96)
        print("sum", float(result.oof.predictions["pred"][3].sum()), file=sys.stderr)
    is_over.set()
    thread.join()
    print(result.path, peak[0])
""")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for its memory")
def test_large_probabilities_are_on_disk_once_and_not_in_memory(tmp_path):
    pytest.importorskip("torch")
    peaks = {}
    for keep in ("none", "probabilities"):
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(tmp_path), keep], capture_output=True, text=True, check=False,
            # what the allocator of C keeps of freed arrays differs by 65 MB from run to run: it gives them back
            env={**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "1000000"},
        )  # fmt: skip
        assert not done.returncode, done.stderr[-2000:]
        path, peak = done.stdout.split()[-2:]
        peaks[keep] = float(peak)
    n_bytes = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    kept = 24 * 96**3 * (4 * 4 + 1)  # probabilities, and labels as they came
    print(f"{n_bytes / kept:.4f} of the bytes that are kept, {peaks} MB")
    assert n_bytes <= 1.05 * kept
    assert peaks["probabilities"] - peaks["none"] <= 60
