"""Estimators of scikit-learn as networks: what they predict, against the estimators themselves."""

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_BOOL, STRANGE, Fresh

RANDOM = np.random.default_rng(5)
INPUTS = RANDOM.normal(size=(12, 3))
CLASSES = np.arange(12) % 3


def classifier(**params):
    """A linear classifier."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(**params)


def made(module, name, **params):
    """An estimator, made when it is needed."""
    import importlib

    return Fresh(name, lambda: getattr(importlib.import_module(f"sklearn.{module}"), name)(**params))


def learned(network, folder):
    """Scores and classes after learning all samples at once, or nothing where it does not learn."""
    network.learn(INPUTS, CLASSES, batch=network.is_incremental)
    return network(INPUTS)


def scores(network, folder):
    """What it predicts as ``pred``."""
    return np.asarray(learned(network, folder)["pred"], dtype=float)


def by_hand(arguments):
    """The same by the estimator alone."""
    return classifier().fit(INPUTS, CLASSES).predict_proba(INPUTS)


def regression_by_hand(arguments):
    """The predictions of the estimator alone."""
    from sklearn.base import clone

    return clone(arguments["estimator"]).fit(INPUTS, CLASSES).predict(INPUTS)


ENTRIES = [
    Entry(
        name="delira.models.SklearnEstimator",
        good=lambda folder: {"estimator": classifier()},
        use=scores,
        expected=by_hand,
        right={
            "target": ["label", "mask", None],
            "classes": [None, [0, 1, 2], np.arange(3), (0, 1, 2)],
            "partial_fit": [None, False],
            "trusted": [(), ["mine.Thing"], {"mine.Thing"}, [np.dtype]],
        },
        wrong={
            "estimator": [
                5,
                None,
                "LogisticRegression",
                STRANGE,
                [],
                {},
                int,
                made("preprocessing", "StandardScaler"),
                made("impute", "SimpleImputer"),
                Fresh("a class", lambda: type(classifier())),
            ],
            "target": [5, 1.5, NAN, [], ["label"], {}, STRANGE, True, b"label", ""],
            "classes": [5, "abc", NAN, STRANGE, [], [0, 0, 1], [0, NAN, 1], [[0, 1], [2, 3]], {"a": 1}, {0, 1}, True],
            "partial_fit": [*NOT_A_BOOL, True, "no"],
            "trusted": ["mine.Thing", 5, NAN, [5], [None], STRANGE, {"a": 1}, None, [""], True],
        },
        says={"estimator": ["scikit-learn", "no predict", "pass an instance"]},
        needs="sklearn",
    ),
    Entry(
        name="delira.models.SklearnEstimator#regression",
        good=lambda folder: {"estimator": made("linear_model", "Ridge").make()},
        use=scores,
        expected=regression_by_hand,
        right={
            "estimator": [
                made("linear_model", "LinearRegression"),
                made("tree", "DecisionTreeRegressor", random_state=0),
                made("neighbors", "KNeighborsRegressor", n_neighbors=2),
                made("ensemble", "RandomForestRegressor", n_estimators=3, random_state=1),
            ]
        },
        wrong={"estimator": [made("decomposition", "PCA"), made("cluster", "DBSCAN")]},
        says={"estimator": ["no predict"]},
        needs="sklearn",
    ),
    Entry(
        name="delira.models.SklearnEstimator#labels",
        good=lambda folder: {"labels": CLASSES},
        make=lambda labels: fitted_on(labels),
        expected=lambda arguments: classifier().fit(INPUTS, np.ravel(arguments["labels"])).predict_proba(INPUTS),
        right={
            "labels": [CLASSES[:, None], CLASSES.astype(np.uint8), np.array(["a", "b", "c"])[CLASSES], CLASSES == 1]
        },
        needs="sklearn",
    ),
]


def fitted_on(labels):
    """Scores after learning labels."""
    from delira.models import SklearnEstimator

    network = SklearnEstimator(classifier())
    network.learn(INPUTS, np.asarray(labels), batch=False)
    return np.asarray(network(INPUTS)["pred"])
