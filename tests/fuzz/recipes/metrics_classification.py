"""Metrics of classes: accuracies, what follows from counts of labels, and what ranks or calibrates scores."""

import itertools

import numpy as np
import sklearn.metrics as sk
from fuzz_metrics import (
    CHANCES,
    LABELS,
    NO_AXIS,
    NO_INDEX,
    NO_LABELS,
    NO_LENGTH,
    NO_THRESHOLD,
    ONE_HOT,
    PROBABILITIES,
    SCORES,
    YES_NO,
    metric_entry,
    with_value,
)
from fuzz_values import INFINITE, NAN, NOT_A_CHOICE, NOT_A_COUNT, NOT_POSITIVE, NOT_POSITIVE_INT

#: scores of three classes that cannot be
NO_SCORES = [
    SCORES[:6],
    SCORES[:, :2],
    SCORES[:, :1],
    SCORES.T,
    SCORES[:, :, None],
    SCORES.astype(str),
    SCORES.astype(complex),
    SCORES.astype(object),
    SCORES[:0],
]
#: scores that are no finite numbers where it matters, or do not matter
NOT_FINITE_SCORES = [
    with_value(SCORES, NAN),
    with_value(SCORES, INFINITE, (4, 1)),
    with_value(SCORES, -INFINITE),
    with_value(SCORES, NAN, (4, 2), np.float64),
    with_value(SCORES, -INFINITE, (4, int(SCORES[4].argmin()))),
    SCORES.astype(np.float16),
    SCORES.astype(np.float64),
]
NO_YES = [
    with_value(YES_NO, 2),
    with_value(YES_NO, -1),
    with_value(YES_NO, 1.5, dtype=np.float32),
    with_value(YES_NO, NAN, dtype=np.float32),
    YES_NO.astype(str),
    YES_NO.astype(object),
    YES_NO.astype(complex),
    np.stack([YES_NO, YES_NO], 1),
    YES_NO[:6],
]
NO_CHANCES = [CHANCES[:6], CHANCES[:, None, None].repeat(2, 1), CHANCES.astype(str), CHANCES.astype(complex)]
NOT_FINITE_CHANCES = [with_value(CHANCES, NAN), with_value(CHANCES, INFINITE), with_value(CHANCES, -INFINITE)]
#: of one class of several, and of yes or no
CLASSES = {"true": [*NO_LABELS, *NO_LENGTH], "pred": NO_SCORES}
YES_OR_NO = {"true": NO_YES, "pred": NO_CHANCES}


def chosen(arguments):
    """Labels with the highest score; None if there is none."""
    pred = arguments["pred"]
    if pred.ndim > 1 and pred.shape[1] > 1:
        return None if not np.isfinite(pred.max(1)).all() else pred.argmax(1)
    pred = pred.reshape(-1)
    if pred.dtype.kind != "f":
        return pred
    limit = arguments.get("threshold")
    return None if not np.isfinite(pred).all() else (pred > (0.5 if limit is None else limit)).astype(int)


def by_labels(function, **fixed):
    """A function of scikit-learn of the labels that count, with the metric's settings."""

    def expected(arguments):
        true = np.asarray(arguments["true"])
        true = true.argmax(1) if true.ndim == 2 and true.shape[1] > 1 else true.reshape(-1)
        ignored = arguments.get("ignore_index", -100)
        counts = np.full(true.shape, True) if ignored is None else true != ignored
        pred = chosen({**arguments, "pred": arguments["pred"][counts]})
        if pred is None or not len(pred):
            return np.nan
        given = {name: arguments[name] for name in ("beta", "weights", "average") if arguments.get(name) is not None}
        if "average" in fixed and {*true, *pred} <= {0, 1}:
            given.setdefault("average", "binary")
        return function(true[counts], pred, **{**fixed, **given})

    return expected


def mean_recall(true, pred):
    """The mean over the classes that occur in the targets."""
    return np.mean([np.mean(pred[true == label] == label) for label in np.unique(true)])


def top(arguments):
    """Share of labels that are among the highest scores."""
    true, pred, k = arguments["true"], arguments["pred"], arguments.get("k", 5)
    counts = true != arguments.get("ignore_index", -100)
    if not np.isfinite(pred[counts].max(1)).all():
        return np.nan
    order = np.argsort(-np.nan_to_num(pred[counts], nan=-np.inf), axis=1, kind="stable")[:, :k]
    found = (order == true[counts][:, None]).any(1)
    return np.where(np.isnan(pred[counts]).any(1), np.nan, found).mean()


def counting(name, function, *, settings=None, right=None, free=(), **fixed):
    """Metrics that count labels, of several classes and of yes or no."""
    wrong = {"threshold": NO_THRESHOLD, "ignore_index": NO_INDEX, **(settings or {})}
    free = dict.fromkeys(free, "said by the other entry")
    of_classes = metric_entry(
        name,
        LABELS,
        SCORES,
        by_labels(function, **fixed),
        right={
            "pred": [*NOT_FINITE_SCORES, LABELS[::-1], PROBABILITIES],
            "true": [ONE_HOT, LABELS[:, None], LABELS.astype(np.uint8), LABELS.astype(np.float32)],
            "ignore_index": [2, None],
            **(right or {}),
        },
        wrong={**CLASSES, **wrong},
        free=free,
    )
    of_two = metric_entry(
        f"{name}#binary",
        YES_NO,
        CHANCES,
        by_labels(function, **fixed),
        right={
            "pred": [*NOT_FINITE_CHANCES, YES_NO[::-1], YES_NO[::-1].astype(bool)],
            "true": [YES_NO.astype(bool), YES_NO.astype(np.float32), YES_NO[:, None]],
            "threshold": [0.3, 0],
        },
        wrong={**YES_OR_NO, **wrong},
        free=free,
    )
    return [of_classes, of_two]


def area(function):
    """An area of scores, one class against all others, or of yes."""

    def expected(arguments):
        true, pred = np.asarray(arguments["true"]), arguments["pred"]
        if pred.ndim == 1:
            return function(true, pred) if np.isfinite(pred).all() else np.nan
        true = true.argmax(1) if true.ndim == 2 and true.shape[1] > 1 else true.ravel()
        if not np.isfinite(pred.max(1)).all():
            return np.nan
        shares = pred.astype(np.float64)
        if not np.allclose(shares.sum(1), 1, atol=1e-3) or (shares < 0).any():
            shares = np.exp(shares - shares.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
        return np.mean([function(true == label, shares[:, label]) for label in range(pred.shape[1])])

    return expected


def calibration(arguments):
    """Expected calibration error of equation 3."""
    true, pred, n_bins = arguments["true"], arguments["pred"].astype(np.float64), arguments.get("n_bins", 15)
    if not np.isfinite(pred.max(-1)).all():
        return np.nan
    if pred.ndim == 2:
        if not np.allclose(pred.sum(1), 1, atol=1e-3):
            pred = np.exp(pred - pred.max(1, keepdims=True))
            pred /= pred.sum(1, keepdims=True)
        pred, right = pred.max(1), pred.argmax(1) == true
    else:
        right = true > 0.5
    edges = np.linspace(0, 1, n_bins + 1)
    rows = [(pred > low) & (pred <= high) for low, high in itertools.pairwise(edges)]
    return sum(abs(right[row].mean() - pred[row].mean()) * row.mean() for row in rows if row.any())


def ranking(name, function, *, wrong=None, right=None, **more):
    return [
        metric_entry(
            name,
            LABELS,
            SCORES,
            function,
            right={"pred": [*NOT_FINITE_SCORES[:3], SCORES.astype(np.float64), PROBABILITIES], **(right or {})},
            wrong={**CLASSES, **(wrong or {})},
            **more,
        ),
        metric_entry(
            f"{name}#binary",
            YES_NO,
            CHANCES,
            function,
            right={"pred": [with_value(CHANCES, NAN)], "true": [YES_NO.astype(bool), YES_NO.astype(np.float32)]},
            wrong=YES_OR_NO,
            free=dict.fromkeys(wrong or {}, "said by the other entry"),
        ),
    ]


AVERAGES = [value for value in NOT_A_CHOICE if value is not None] + ["marco", "binary "]
ENTRIES = [
    metric_entry(
        "CategoricalAccuracy",
        LABELS,
        SCORES,
        by_labels(sk.accuracy_score),
        right={
            "pred": [*NOT_FINITE_SCORES, LABELS[::-1]],
            "true": [ONE_HOT, LABELS[:, None], LABELS.astype(np.uint8), LABELS.astype(np.float32)],
            "ignore_index": [2, None],
            "class_axis": [1, -1, None],
        },
        wrong={**CLASSES, "ignore_index": NO_INDEX, "class_axis": NO_AXIS},
    ),
    metric_entry(
        "TopKCategoricalAccuracy",
        LABELS,
        SCORES,
        top,
        k=2,
        right={
            "k": [1, 3, 5, np.int64(2)],
            "pred": NOT_FINITE_SCORES,
            "ignore_index": [2, None],
            "class_axis": [1, -1],
        },
        wrong={**CLASSES, "k": NOT_POSITIVE_INT, "ignore_index": NO_INDEX, "class_axis": NO_AXIS},
    ),
    metric_entry(
        "MixupAcc",
        LABELS,
        SCORES,
        by_labels(sk.accuracy_score),
        right={"pred": NOT_FINITE_SCORES, "class_axis": [1, -1]},
        wrong={**CLASSES, "class_axis": NO_AXIS},
    ),
    metric_entry(
        "BinaryAccuracy",
        YES_NO,
        CHANCES,
        by_labels(sk.accuracy_score),
        right={
            "pred": [*NOT_FINITE_CHANCES, YES_NO[::-1], CHANCES[:, None]],
            "true": [YES_NO.astype(bool), YES_NO[:, None]],
            "threshold": [0.3, 0, None],
        },
        wrong={**YES_OR_NO, "threshold": NO_THRESHOLD},
    ),
    *counting("BalancedAccuracy", mean_recall),
    *(
        entry
        for name, function in (("Precision", sk.precision_score), ("Recall", sk.recall_score))
        for entry in counting(
            name,
            function,
            average="macro",
            zero_division=0,
            settings={"average": AVERAGES},
            right={"average": ["micro", "weighted"]},
        )
    ),
    *counting(
        "FBeta",
        sk.fbeta_score,
        average="macro",
        beta=1.0,
        zero_division=0,
        settings={"average": AVERAGES, "beta": NOT_POSITIVE},
        right={"average": ["micro", "weighted"], "beta": [2, 0.5]},
    ),
    *counting("MatthewsCorrCoef", sk.matthews_corrcoef),
    *counting(
        "CohenKappa",
        sk.cohen_kappa_score,
        settings={"weights": [value for value in NOT_A_CHOICE if value is not None]},
        right={"weights": ["linear", "quadratic"]},
    ),
    *ranking(
        "RocAuc",
        area(sk.roc_auc_score),
        right={"true": [ONE_HOT, LABELS[:, None]]},
    ),
    *ranking("PrAuc", area(sk.average_precision_score), right={"true": [ONE_HOT, LABELS[:, None]]}),
    *ranking("CalibrationError", calibration, wrong={"n_bins": NOT_POSITIVE_INT}, right={"n_bins": [1, 5]}),
    metric_entry(
        "RocAucScore",
        LABELS,
        SCORES,
        area(sk.roc_auc_score),
        right={"one_hot_classes": [3, None]},
        wrong={
            **CLASSES,
            "one_hot_labels": ["yes", 2, NAN, [], False],
            "one_hot_offset": [*NOT_A_COUNT, 1, 7],
            "one_hot_classes": [*(value for value in NOT_POSITIVE_INT if value is not None), 2, 4],
        },
        says={"one_hot_labels": ["labels"], "one_hot_offset": ["target"]},
    ),
]
