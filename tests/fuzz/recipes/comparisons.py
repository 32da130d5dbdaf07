"""Comparisons of results: which, in what, by what."""

import functools

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_COUNT, STRANGE
from small_results import cross_validate

LABELS = np.arange(60) // 5 % 2


@functools.cache
def method(strength, name):
    """A result of two classes, told apart more or less well."""
    from delira.metrics import accuracy

    score = 1 / (1 + np.exp(-np.random.default_rng(3).normal(size=60) - strength * (2 * LABELS - 1)))
    scores = np.stack([1 - score, score], axis=1).astype(np.float32)
    return cross_validate(LABELS, scores, n_folds=5, metrics={"accuracy": accuracy}, name=name)


def of_pair(folder=None):
    return {"results": [method(0.2, "plain"), method(2.0, "wide")], "n_resamples": 100}


def of_datasets(folder):
    return {"datasets": {name: [method(0.2, "plain"), method(2.0, "wide")] for name in "abcd"}}


NOT_RESULTS = ["x", 5, NAN, None, [], [5], STRANGE]
NOT_A_METRIC = ["f1", 5, NAN, [], STRANGE, True]
NOT_A_LEVEL = ["x", NAN, 0, 1, -0.5, [], STRANGE, True]

ENTRIES = [
    Entry(
        name="delira.compare",
        good=of_pair,
        use=lambda found, folder: ([*found.metrics], found.differences[0].mean > 0, len(str(found)) > 200),
        expected=lambda arguments: (["accuracy"], arguments.get("baseline") != "wide", True),
        right={
            "metric": [None, "accuracy", ["accuracy"]],
            "baseline": [None, "plain", "wide"],
            "rope": [0.0, 0.05, {"accuracy": 0.02}],
            "alpha": [0.01, np.float64(0.1)],
            "seed": [0, np.int64(4)],
            "n_resamples": [100, np.int64(150)],
        },
        wrong={
            "results": [*NOT_RESULTS, [method], "nowhere"],
            "metric": NOT_A_METRIC,
            "baseline": ["other", 5, NAN, [], STRANGE],
            "direction": ["up", 5, NAN, [], STRANGE, {"f1": "highest"}],
            "rope": ["x", NAN, -0.1, [], STRANGE, True, {"f1": 0.1}, {"accuracy": "x"}],
            "alpha": NOT_A_LEVEL,
            "seed": NOT_A_COUNT,
            "n_resamples": [*NOT_A_COUNT, 0, 99],
        },
        says={"results": ["compare", "result"], "metric": ["metric"], "baseline": ["result"]},
        is_slow=True,
    ),
    Entry(
        name="delira.compare_datasets",
        good=of_datasets,
        use=lambda found, folder: len(str(found)) > 100,
        expected=lambda arguments: True,
        right={"metric": [None, "accuracy"], "alpha": [0.05, 0.1]},
        wrong={
            "datasets": ["x", 5, NAN, None, [], {}, {"a": []}, STRANGE],
            "metric": NOT_A_METRIC,
            "direction": ["up", 5, NAN, [], STRANGE],
            "alpha": NOT_A_LEVEL,
        },
        says={"datasets": ["compare_datasets", "data set", "result"], "metric": ["metric"]},
        is_slow=True,
    ),
]
