"""scikit-learn's metrics with the historic names, its functions in lists of metrics, and torchmetrics'."""

import functools

import numpy as np
import sklearn.metrics as sk
from fuzz_cases import Entry
from fuzz_metrics import (
    CHANCES,
    LABELS,
    N_CLASSES,
    NO_LABELS,
    ONE_HOT,
    PROBABILITIES,
    SCORES,
    YES_NO,
    metric_entry,
    with_value,
)
from fuzz_values import INFINITE, NAN, NOT_A_BOOL, NOT_A_TEXT, NOT_CALLABLE, STRANGE

#: in the place of scores
NO_SCORES = [SCORES[:6], SCORES[:, :2], SCORES[:, 0], SCORES.T, SCORES.astype(str), SCORES.astype(complex), SCORES[:0]]
NO_TARGETS = [*NO_LABELS[:6], *NO_LABELS[7:], LABELS[:6], None]
SAID = {
    "true": ["label", "target", "y_true"],
    "pred": ["score", "y_pred", "prediction", "target 2 in sample 1, which is n"],
    "average": ["average"],
}
NO_AVERAGE = ["marco", "", 5, NAN, [], STRANGE, "binary", None]
#: scores are no labels, and labels are no scores
NO_LOGITS = {"gt_logits": [*NOT_A_BOOL, True], "pred_logits": [*NOT_A_BOOL, False]}


def historic(name, true, pred, expected, *, part="", settings=None, **more):
    """The entry of a metric with a historic name: it is made, and called with the data as functions are."""

    def call(*, true, pred, **settings):
        return resolve(name)(**settings)(true, pred)

    return Entry(
        name=f"delira.metrics.{name}{part}",
        good=lambda folder: {"true": true, "pred": pred, **(settings or {})},
        make=call,
        expected=expected,
        says=SAID,
        **more,
    )


def of_labels(function, **fixed):
    """The same by scikit-learn, of labels."""

    def expected(arguments):
        true, pred = arguments["true"], arguments["pred"]
        settings = {name: arguments[name] for name in ("average", "beta") if name in arguments}
        true = true.argmax(1) if arguments.get("gt_logits") else true
        if pred.dtype.kind == "f" and not np.isfinite(pred.max(-1)).all():
            return np.nan
        pred = pred.argmax(1) if arguments.get("pred_logits", True) else pred
        return function(true.reshape(-1), pred.reshape(-1), **{**fixed, **settings})

    return expected


def named(name, function, *, averages=False, **fixed):
    """One with a historic name: of scores, and of labels."""
    average = {"average": "macro"} if averages else {}
    right = {"average": ["micro", "weighted"]} if averages else {}
    wrong = {"average": NO_AVERAGE} if averages else {}
    expected = of_labels(function, **fixed)
    of_scores = historic(
        name,
        LABELS,
        SCORES,
        expected,
        settings=average,
        right={
            "pred": [with_value(SCORES, NAN), with_value(SCORES, INFINITE), SCORES.astype(np.float16), PROBABILITIES],
            "true": [LABELS[:, None], LABELS.astype(np.uint8), LABELS.astype(np.float32)],
            **right,
        },
        wrong={"true": NO_TARGETS, "pred": NO_SCORES, **NO_LOGITS, "nonsense": [1], **wrong},
    )
    of_one_hot = historic(
        name,
        ONE_HOT,
        LABELS[::-1],
        expected,
        part="#labels",
        settings={"gt_logits": True, "pred_logits": False, **average},
        right={"pred": [LABELS, LABELS.astype(np.float64), with_value(LABELS, NAN, dtype=np.float32)]},
        wrong={
            "true": [LABELS, ONE_HOT[:6], ONE_HOT.astype(str), with_value(ONE_HOT, NAN)],
            "pred": [LABELS[:6], CHANCES, LABELS.astype(complex), LABELS.astype(str)],
        },
    )
    return [of_scores, of_one_hot]


def resolve(name):
    from delira import metrics

    return getattr(metrics, name)


def losses(arguments):
    """Log loss of the probabilities."""
    true, pred = arguments["true"].ravel(), arguments["pred"].astype(np.float64)
    if not np.isfinite(pred.max(-1)).all():
        return np.nan
    if pred.ndim == 2 and not np.allclose(pred.sum(1), 1, atol=1e-3):
        pred = np.exp(pred - pred.max(1, keepdims=True))
    pred = pred / pred.sum(1, keepdims=True) if pred.ndim == 2 else pred
    return sk.log_loss(true, pred, labels=[0, 1, 2][: 2 if pred.ndim == 1 else 3])


def areas(arguments):
    """Area of the columns as they are, each class against all others."""
    true, pred = arguments["true"].ravel(), arguments["pred"]
    if not np.isfinite(pred.max(-1)).all():
        return np.nan
    if pred.ndim == 1:
        return sk.roc_auc_score(true, pred)
    return sk.roc_auc_score(np.eye(N_CLASSES)[true], pred)


def function_of_labels(arguments):
    """A function of scikit-learn in a list of metrics."""
    function = arguments.get("function", sk.accuracy_score)
    true, pred = arguments["true"], arguments["pred"]
    if not np.isfinite(pred.max(1)).all():
        return np.nan
    kind = getattr(function, "func", function)
    if kind in (sk.log_loss, sk.roc_auc_score):
        shares = np.exp(pred.astype(np.float64))
        shares /= shares.sum(1, keepdims=True)
        return function(true, shares, **({"multi_class": "ovr"} if kind is sk.roc_auc_score else {"labels": [0, 1, 2]}))
    return function(true, pred.argmax(1))


def torch_accuracy(**settings):
    import torchmetrics

    return torchmetrics.classification.MulticlassAccuracy(N_CLASSES, average="micro", **settings)


def of_torchmetrics(metric):
    return resolve("TorchMetric")(torch_accuracy() if metric is None else metric)


macro_f1 = functools.partial(sk.f1_score, average="macro")
ENTRIES = [
    *named("SklearnAccuracyScore", sk.accuracy_score),
    *named("SklearnBalancedAccuracyScore", sk.balanced_accuracy_score),
    *named("SklearnF1Score", sk.f1_score, averages=True),
    *named("SklearnFBetaScore", sk.fbeta_score, averages=True, beta=1.0),
    *named("SklearnHammingLoss", sk.hamming_loss),
    *named("SklearnJaccardSimilarityScore", sk.jaccard_score, averages=True),
    *named("SklearnMatthewsCorrCoeff", sk.matthews_corrcoef),
    *named("SklearnPrecisionScore", sk.precision_score, averages=True),
    *named("SklearnRecallScore", sk.recall_score, averages=True),
    *named("SklearnZeroOneLoss", sk.zero_one_loss),
    historic(
        "SklearnClassificationMetric",
        LABELS,
        SCORES,
        lambda arguments: of_labels(arguments["score_fn"])(arguments),
        settings={"score_fn": sk.accuracy_score},
        right={"score_fn": [sk.zero_one_loss, sk.hamming_loss, macro_f1], "pred": [with_value(SCORES, NAN)]},
        wrong={"score_fn": [*NOT_CALLABLE, None], "true": NO_TARGETS, "pred": NO_SCORES, **NO_LOGITS},
        own=["score_fn"],
    ),
    historic(
        "SklearnLogLoss",
        LABELS,
        SCORES,
        losses,
        right={"pred": [PROBABILITIES, with_value(SCORES, NAN), SCORES.astype(np.float64)], "true": [LABELS[:, None]]},
        wrong={"true": NO_TARGETS, "pred": [*NO_SCORES[:2], *NO_SCORES[3:]], **NO_LOGITS, "nonsense": [1]},
    ),
    historic(
        "SklearnLogLoss",
        YES_NO,
        CHANCES,
        losses,
        part="#binary",
        right={"pred": [with_value(CHANCES, NAN), CHANCES.astype(np.float64)]},
        wrong={
            "true": [
                with_value(YES_NO, 2),
                with_value(YES_NO, -1),
                YES_NO[:6],
                with_value(YES_NO, NAN, dtype=np.float32),
            ],
            "pred": [with_value(CHANCES, 1.5), with_value(CHANCES, -0.5), CHANCES.astype(str)],
        },
    ),
    historic(
        "AurocMetric",
        LABELS,
        SCORES,
        areas,
        settings={"classes": (0, 1, 2)},
        right={
            "pred": [PROBABILITIES, with_value(SCORES, NAN)],
            "true": [LABELS[:, None], LABELS.astype(np.uint8)],
            "classes": [[0, 1, 2], range(3), np.arange(3)],
        },
        wrong={
            "true": [*NO_TARGETS],
            "pred": NO_SCORES,
            "classes": ["x", 5, NAN, [], [0], (0, 1), (0, 1, 2, 3), None, STRANGE, (0, 1, 1), "abc"],
            "nonsense": [1],
            "average": ["marco", 5],
        },
    ),
    historic(
        "AurocMetric",
        YES_NO,
        CHANCES,
        areas,
        part="#binary",
        right={"pred": [with_value(CHANCES, NAN)], "true": [YES_NO.astype(bool)]},
        wrong={
            "true": [with_value(YES_NO, 2), YES_NO[:6], YES_NO.astype(str), with_value(YES_NO, 0.5, dtype=np.float32)],
            "pred": [CHANCES[:6], CHANCES.astype(str), CHANCES.astype(complex)],
        },
    ),
    metric_entry(
        "SklearnMetric",
        LABELS,
        SCORES,
        function_of_labels,
        function=sk.accuracy_score,
        right={
            "function": [macro_f1, sk.balanced_accuracy_score, sk.log_loss, sk.roc_auc_score, sk.zero_one_loss],
            "pred": [with_value(SCORES, NAN), SCORES.astype(np.float64)],
            "true": [LABELS.astype(np.uint8), LABELS.astype(np.float32)],
            "name": ["own", None],
        },
        wrong={
            "function": [*NOT_CALLABLE, None, sk.roc_curve, sk.silhouette_score, len],
            "true": [*NO_LABELS, LABELS[:6], None],
            "pred": [SCORES[:6], SCORES[:, :2], SCORES.T, SCORES.astype(str), SCORES.astype(complex)],
            "name": [*(value for value in NOT_A_TEXT), ""],
        },
        says={"function": ["scikit-learn"]},
    ),
    metric_entry(
        "TorchMetric",
        LABELS,
        SCORES,
        lambda arguments: np.mean(arguments["pred"].argmax(1) == arguments["true"]),
        make=of_torchmetrics,
        metric=None,
        in_experiment=False,
        needs="torchmetrics",
        right={"pred": [PROBABILITIES, SCORES.astype(np.float64)]},
        wrong={"metric": [5, NAN, [], "x", STRANGE, int, sk.accuracy_score]},
        says={"metric": ["torchmetrics"]},
    ),
]
