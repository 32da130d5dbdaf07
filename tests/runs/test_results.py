"""The file of a finished fold: predictions of every kind come back, and what is no fold is refused."""

import dataclasses

import numpy as np
import pytest
from digests import digest
from small_backends import toy_kit

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError
from delira.io.container import write_tree
from delira.metrics import per_sample
from delira.runs import results
from delira.runs.results import RESULT_FILE, read_fold
from delira.utils.files import publish


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"format": 1},
        {"format": 1, "fields": {}, "outputs": {}, "callbacks": {}, "asked": {}},
        {"format": 1, "fields": {"dict": [[1]]}, "outputs": None, "callbacks": None, "asked": None},
        {"format": 1, "fields": {"dict": [["fold", 1]]}, "outputs": None, "callbacks": None, "asked": None},
        {"format": 1, "fields": {"objects": [1, 2], "shape": [3]}, "outputs": None, "callbacks": None, "asked": None},
    ],
)
def test_a_file_that_is_no_fold_is_refused_as_such(tmp_path, tree):
    publish(tmp_path / RESULT_FILE, lambda file: write_tree(file, tree))
    with pytest.raises(CheckpointError, match=r"result\.zip"):
        read_fold(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [("loss", "0.5", "the 'loss' '0.5', which is no number"), (0.5, 1.0, "the name 0.5"), ("epoch", "1", "no epoch")],
)
def test_a_history_that_is_none_is_refused_where_it_is_read(tmp_path, manager, key, value, named):
    result = toy_kit().experiment(tmp_path, training={"num_epochs": 1}).kfold(manager(12), num_splits=2)
    fold = result.folds[0]
    results.write_fold(dataclasses.replace(fold, history=[{**fold.history[0], key: value}]), {}, {})
    with pytest.raises(CheckpointError, match=named):
        read_fold(fold.path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("raw_statistics", 0.5), ("raw_statistics", [5]), ("best_score", "0.5"), ("train_indices", [0, 1])],
)
def test_a_field_of_another_kind_is_refused_where_it_is_read(tmp_path, manager, field, value):
    result = toy_kit().experiment(tmp_path, training={"num_epochs": 1}).kfold(manager(12), num_splits=2)
    fold = result.folds[0]
    setattr(fold, field, value)
    results.write_fold(fold, {}, {})
    with pytest.raises(CheckpointError, match=field):
        read_fold(result.folds[0].path)


def toy_net(outputs):
    """A network of the toy backend with more outputs."""

    class Net(toy_kit().network):
        def __call__(self, x):
            found = super().__call__(x)
            return {**found, **outputs(np.asarray(x), found["pred"])}

    return Net


def cross_validate_toy(path, cls, data, metrics, **options):
    experiment = toy_kit().experiment(path, training={"save_freq": 1, "num_epochs": 2}, cls=cls)
    return experiment.kfold(data, metrics, num_splits=3, check_duplicates=False, **options)


def named(n=12, **more):
    rng = np.random.default_rng(3)
    label = rng.normal(size=(n, 1))
    return {"data": rng.normal(size=(n, 3)), "label": label, "number": np.arange(n), **more}


TREES = {
    "nested": lambda x, pred: {"more": {"a": pred * 2, "b": [pred, (pred.astype(np.float32), pred > 0)]}},
    "texts": lambda x, pred: {"name": np.array([f"case {value:.3f}" for value in pred[:, 0]])},
    "objects": lambda x, pred: {
        "name": np.array([None if value > 0 else "negative" for value in pred[:, 0]], dtype=object),
        "number": np.array([np.float32(value) for value in pred[:, 0]], dtype=object),
    },
    "ragged": lambda x, pred: {"mask": np.zeros((len(pred), len(pred)), dtype=np.int16)},
    "dates": lambda x, pred: {"when": np.full(len(pred), "2026-11-21", dtype="datetime64[D]")},
    "complex": lambda x, pred: {"z": pred * 1j, "$odd": pred, "half": pred.astype(np.float16)},
    "infinite": lambda x, pred: {"nothing": pred * np.nan, "much": pred + np.inf},
    "records": lambda x, pred: {"record": np.zeros(len(pred), dtype=[("a", "i4"), ("b", "f8")])},
}


@pytest.mark.parametrize("kind", TREES)
def test_predictions_of_every_kind_come_back(tmp_path, kind):
    cls = toy_net(TREES[kind])
    data = BaseDataManager(named(13), 4)
    first = cross_validate_toy(tmp_path, cls, data, {"rmse": rmse})
    again = cross_validate_toy(tmp_path, cls, data, {"rmse": rmse}, resume=first.path)
    assert digest(again) == digest(first)
    assert (read_fold(first.folds[0].path).outputs is None) == (kind == "records")


def test_labels_that_are_texts_come_back(tmp_path):
    texts = np.array(["benign", "malignant", "unknown"])[np.arange(12) % 3]
    keys = {"rmse": ("label", "pred"), "share": ("name",)}
    metrics = {"rmse": rmse, "share": per_sample(lambda name: float(name == "benign"))}
    for kind, column in {"str": texts, "object": texts.astype(object)}.items():
        data = BaseDataManager(named(12, name=column), 4)
        first = cross_validate_toy(tmp_path / kind, toy_kit().network, data, metrics, metric_keys=keys)
        again = cross_validate_toy(
            tmp_path / kind, toy_kit().network, data, metrics, metric_keys=keys, resume=first.path
        )
        assert digest(again) == digest(first)
        assert again.folds[0].targets["name"].tolist() == first.folds[0].targets["name"].tolist()
