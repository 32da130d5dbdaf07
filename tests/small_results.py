"""Small cross-validations whose every number can be worked out by hand; their fixtures are in conftest.py."""

from types import SimpleNamespace

import numpy as np
import pytest

from delira.experiments.result import FoldResult, KFoldResult
from delira.metrics import MetricSet, accuracy, per_sample


@per_sample
def certainty(y_true, y_pred):
    return y_pred[y_true]


METRICS = {"accuracy": accuracy, "certainty": certainty}


def history(fold, n_epochs, **more):
    """Curves that are straight lines: fold f has ce = 1 - 0.1 epoch + 0.01 f."""
    return [
        {
            "epoch": epoch,
            "ce": 1 - 0.1 * epoch + 0.01 * fold,
            "accuracy": 0.1 * epoch,
            "lr": 0.1,
            "val_ce": 1.2 - 0.1 * epoch + 0.01 * fold,
            "val_accuracy": 0.08 * epoch,
            **more,
        }
        for epoch in range(1, n_epochs + 1)
    ]


def cross_validate(labels, scores, n_folds=4, metrics=None, **settings):
    """Interleaved folds: case i is tested in fold i % n_folds."""
    metrics = METRICS if metrics is None else metrics
    folds = []
    for number in range(n_folds):
        test = np.arange(number, len(labels), n_folds)
        train = np.setdiff1d(np.arange(len(labels)), test)
        metric_set = MetricSet(metrics, settings.get("metric_keys"))
        metric_set.update({"label": labels[test], "pred": scores[test]})
        folds.append(
            FoldResult(
                fold=number,
                train_indices=train[2:],
                val_indices=train[:2],
                test_indices=test,
                metrics=metric_set.compute(),
                predictions={"pred": scores[test]},
                targets={"label": labels[test]},
                history=history(number, 5 + number),
                best_epoch=3 + number,
                best_score=0.5,
                seconds=60.0 * number + 5,
            )
        )
    settings = {"name": "toy", "seed": 7, **settings}
    return KFoldResult(folds, len(labels), metrics, **settings)


@pytest.fixture
def data():
    generator = np.random.default_rng(11)
    labels = generator.integers(3, size=90)
    scores = generator.random((90, 3)).astype(np.float32)
    scores[np.arange(90), labels] += 0.4
    return SimpleNamespace(labels=labels, scores=scores / scores.sum(1, keepdims=True))


@pytest.fixture
def result(data):
    return cross_validate(data.labels, data.scores)


@pytest.fixture
def validate():
    return cross_validate
