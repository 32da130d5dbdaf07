"""Every metric with the number that it has to print of each kind of data, which is computed elsewhere."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import metric_values as by_hand
import numpy as np
import sklearn.metrics as sk
from metric_data import Data

import delira.metrics as dm
from delira.metrics import known_keys

# ------------------------------------------------------------------ cases


@dataclass(frozen=True)
class Case:
    """Metrics that are the same number, and this number."""

    #: as users give them: strings, classes, objects, functions
    metrics: tuple[Any, ...]
    expected: Callable[[Data], Any]
    #: what a trial reports it under
    name: str
    #: False: several numbers, which only a trial reports
    is_number: bool = True
    #: what a trial has by itself, and an experiment has not
    in_trial: bool = True
    #: where a prediction is no number
    of_nothing: float = np.nan

    def covers(self):
        return {name_of(metric) for metric in self.metrics}


def name_of(metric):
    """The public name of a metric."""
    if isinstance(metric, str):
        return metric
    if isinstance(metric, functools.partial):
        return f"sklearn.{metric.func.__name__}"
    if str(getattr(metric, "__module__", "")).startswith("sklearn."):
        return f"sklearn.{metric.__name__}"
    return getattr(metric, "__name__", None) or type(metric).__name__


def case(name, *metrics, is_number=True, in_trial=True):
    """A case of functions of data; a decorator's argument order, so that tables read from left to right."""
    return lambda expected: Case(metrics, expected, name, is_number, in_trial)


# ------------------------------------------------------------------ scikit-learn

#: the second argument of functions that compare, as test_foreign_metrics.py finds them
COMPARED = ("y_pred", "labels_pred", "y2", "y_score", "y_proba", "y_prob", "pred_decision")
#: what gives no numbers: a text, curves
NO_NUMBERS = {
    "classification_report", "confusion_matrix_at_thresholds", "det_curve", "metric_at_thresholds",
    "precision_recall_curve", "roc_curve",
}  # fmt: skip
#: gives several numbers
SEVERAL = {
    "class_likelihood_ratios", "confusion_matrix", "homogeneity_completeness_v_measure", "pair_confusion_matrix",
    "multilabel_confusion_matrix", "precision_recall_fscore_support",
}  # fmt: skip
#: of functions of labels, where all get the same ones
SOME = ("accuracy_score", "f1_score", "jaccard_score", "zero_one_loss")
AVERAGED = {"f1_score", "fbeta_score", "jaccard_score", "precision_score", "recall_score"}
RANKED = {"coverage_error", "dcg_score", "label_ranking_average_precision_score", "label_ranking_loss", "ndcg_score"}
OF_TABLES = {"accuracy_score", "hamming_loss", "zero_one_loss", "multilabel_confusion_matrix", *AVERAGED}


def functions_of_sklearn():
    """Its functions of a target and a prediction: of labels, of scores and of numbers."""
    found = {"labels": [], "scores": [], "numbers": []}
    for name in sorted({*sk.__all__} - NO_NUMBERS):
        function = getattr(sk, name)
        parameters = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
        if len(parameters) > 1 and parameters[1] in COMPARED:
            is_of_labels = parameters[1] in ("y_pred", "labels_pred", "y2")
            is_of_numbers = function.__module__.endswith("_regression")
            found["numbers" if is_of_numbers else "labels" if is_of_labels else "scores"].append(name)
    return found


SKLEARN = functions_of_sklearn()


def asked(name, **settings):
    """A function of scikit-learn as a user gives it."""
    settings |= {"beta": 2.0} if name == "fbeta_score" else {}
    return functools.partial(getattr(sk, name), **settings) if settings else getattr(sk, name)


def of_sklearn(name, arguments, **settings):
    """The case of a function that is to get certain arguments."""
    function = asked(name, **settings)
    return Case((function,), lambda data: function(*arguments(data)), name, name not in SEVERAL)


def flat_labels(data):
    return data.label.ravel(), data.said.ravel()


def takes_weights(name):
    return "sample_weight" in inspect.signature(getattr(sk, name)).parameters


def sklearn_labels(n_classes, *, of_tables=False, names=SKLEARN["labels"], **more):
    """Functions of labels; ``more``: weights of the samples, of those that take them."""
    found = []
    for name in names:
        is_left_out = name not in OF_TABLES if of_tables else name == "multilabel_confusion_matrix"
        if is_left_out or (n_classes > 2 and name == "class_likelihood_ratios") or (more and not takes_weights(name)):
            continue
        is_mean = n_classes > 2 or of_tables
        settings = {**more, **({"average": "macro", "zero_division": 0.0} if name in AVERAGED and is_mean else {})}
        found.append(of_sklearn(name, (lambda data: (data.label, data.said)) if of_tables else flat_labels, **settings))
    return found


def sklearn_scores(n_classes, *, are_columns, **more):
    """All functions of scores that take labels of so many classes and what is predicted for each; ``more`` as above."""
    found = []
    for name in SKLEARN["scores"]:
        function = getattr(sk, name)
        takes_labels = "labels" in inspect.signature(function).parameters
        if n_classes > 2 and not takes_labels and name in ("brier_score_loss", "d2_brier_score"):
            continue  # this version has it for two classes
        if (name in RANKED and not are_columns) or (more and not takes_weights(name)):
            continue
        settings = {**more, **({"k": n_classes - 1} if name == "top_k_accuracy_score" else {})}
        given = functools.partial(function, **settings) if settings else function
        found.append(Case((given,), functools.partial(_score, given, name, n_classes, are_columns), name))
    return found


def _score(function, name, n_classes, are_columns, data):
    """What the function says of what its documentation asks for."""
    chance, scores = data.chance, data.wide[data.counts].reshape(data.chance.shape)
    if name in RANKED:
        return function(np.eye(n_classes)[data.label], scores)
    if name == "hinge_loss":
        return function(data.label, scores[:, 1] - scores[:, 0] if are_columns and n_classes == 2 else scores)
    if n_classes == 2:
        return function(data.label, chance[:, 1] if are_columns else chance)
    if name == "roc_auc_score":
        return function(data.label, chance, multi_class="ovr")
    return function(data.label, scores if name in ("average_precision_score", "top_k_accuracy_score") else chance)


def sklearn_numbers(has_several, **more):
    """All functions of numbers, of one output or of several; ``more`` as above."""
    found = []
    for name in SKLEARN["numbers"]:
        if more and not takes_weights(name):
            continue
        if has_several and "multioutput" not in inspect.signature(getattr(sk, name)).parameters:
            continue
        if has_several and name in ("max_error", "d2_tweedie_score"):
            continue

        def arguments(data):
            shape = data.true.shape if has_several else (-1,)
            return data.true.astype("f8").reshape(shape), data.wide.reshape(shape)

        found.append(of_sklearn(name, arguments, **more))
    return found


# ------------------------------------------------------------------ delira


def of_labels(n_classes):
    """What counts labels, by strings and by classes, whose value is computed by hand."""
    average = {"average": "macro"} if n_classes > 2 else {}
    table = [
        (("precision", dm.Precision), by_hand.precision, "precision"),
        (("recall", dm.Recall), by_hand.recall, "recall"),
        (("f1", dm.FBeta, dm.SklearnMetric(functools.partial(sk.f1_score, **average), name="f1")), by_hand.f1, "f1"),
        ((dm.FBeta(2),), by_hand.f2, "f2"),
        (("confusion_matrix", dm.ConfusionMatrix), by_hand.matrix, "confusion_matrix"),
    ]
    found = [
        Case(metrics, functools.partial(_counted, value, n_classes), name, name != "confusion_matrix")
        for metrics, value, name in table
    ]
    return [
        *found,
        case("balanced_acc", "balanced_acc", "balanced_accuracy", dm.BalancedAccuracy)(
            lambda data: by_hand.balanced_accuracy(*flat_labels(data))
        ),
        case("cohen_kappa", "cohen_kappa", dm.CohenKappa)(lambda data: by_hand.cohen_kappa(*flat_labels(data))),
        case("mcc", "mcc", dm.MatthewsCorrCoef)(lambda data: by_hand.matthews(*flat_labels(data))),
    ]


def _counted(value, n_classes, data):
    return value(*flat_labels(data), n_classes)


def historic(n_classes, pred_logits, **more):
    """The classes named after functions of scikit-learn; ``more`` as above."""
    settings = {"average": "macro"} if n_classes > 2 else {}
    table = [
        (dm.SklearnAccuracyScore, sk.accuracy_score, {}),
        (dm.SklearnBalancedAccuracyScore, sk.balanced_accuracy_score, {}),
        (dm.SklearnF1Score, sk.f1_score, settings),
        (dm.SklearnFBetaScore, sk.fbeta_score, {**settings, "beta": 2.0}),
        (dm.SklearnHammingLoss, sk.hamming_loss, {}),
        (dm.SklearnJaccardSimilarityScore, sk.jaccard_score, settings),
        (dm.SklearnMatthewsCorrCoeff, sk.matthews_corrcoef, {}),
        (dm.SklearnPrecisionScore, sk.precision_score, settings),
        (dm.SklearnRecallScore, sk.recall_score, settings),
        (dm.SklearnZeroOneLoss, sk.zero_one_loss, {}),
    ]
    found = [
        Case(
            (cls(pred_logits=pred_logits, **settings, **more),),
            functools.partial(_of_labels, function, {**settings, **more}),
            cls.__name__,
        )
        for cls, function, settings in table
    ]
    own = dm.SklearnClassificationMetric(sk.matthews_corrcoef, pred_logits=pred_logits)
    return [*found, case(type(own).__name__, own)(lambda data: by_hand.matthews(*flat_labels(data)))]


def _of_labels(function, settings, data):
    return function(*flat_labels(data), **settings)


def ranks(name):
    """What ranks probabilities, and how far these may be trusted."""

    def scores(data):
        if name == "two_columns":
            return data.label, data.chance[:, 1]
        return (data.label.ravel(), data.chance.ravel()) if name == "yes_masks" else (data.label, data.chance)

    def calibration_error(data):
        return by_hand.calibration_error(*((data.label, data.chance) if name == "two_columns" else scores(data)))

    found = [
        case("roc_auc_score", "roc_auc", "roc_auc_score", dm.RocAuc)(lambda data: by_hand.roc_auc(*scores(data))),
        case("pr_auc", "pr_auc", dm.PrAuc)(lambda data: by_hand.pr_auc(*scores(data))),
    ]
    if name == "tables":
        return found
    return [*found, case("ece", "ece", "calibration_error", dm.CalibrationError)(calibration_error)]


def table_of(said):
    """Of labels: the same as a table of yes and no."""
    return case("roc_auc_score", dm.RocAucScore(one_hot_labels=said))(
        lambda data: by_hand.roc_auc(data.label, data.chance)
    )


def shares(*metrics, name="acc"):
    return case(name, *metrics)(lambda data: by_hand.accuracy(*flat_labels(data)))


CATEGORICAL = ("cat_acc", "cat_accuracy", dm.CategoricalAccuracy)
CHOSEN = ("acc", "accuracy", dm.DefaultAccuracy)
BINARY = ("binary_acc", "binary_accuracy", dm.BinaryAccuracy)
MIXUP = ("mixup_acc", dm.MixupAcc)


def tops(*ks):
    strings = {5: ("top_5_acc", "top_5_accuracy"), 10: ("top_10_acc", "top_10_accuracy")}
    return [
        case(f"top_{k}_acc", *strings.get(k, ()), dm.TopKCategoricalAccuracy(k))(
            lambda data, k=k: by_hand.top_k(data.label, data.pred[data.counts], k)
        )
        for k in ks
    ]


def probability_classes(n_classes):
    """The historic classes that take probabilities, or make them of logits."""
    return [
        case("SklearnLogLoss", dm.SklearnLogLoss())(
            lambda data: -np.mean(np.log(data.chance[np.arange(len(data.label)), data.label]))
        ),
        case("AurocMetric", dm.AurocMetric(range(n_classes)))(
            lambda data: by_hand.roc_auc(data.label, data.chance if n_classes > 2 else data.chance[:, 1])
        ),
    ]


def errors(*, is_chosen):
    own = ("acc", "accuracy") if is_chosen else ()
    return [
        case("mse", "mse", dm.MeanSquaredError, *own)(lambda data: np.mean((data.true - data.wide) ** 2)),
        case("mae", "mae", dm.MeanAbsoluteError)(lambda data: np.mean(abs(data.true - data.wide))),
        case("rmse", "rmse", dm.RootMeanSquaredError)(lambda data: by_hand.root_error(data.true, data.wide)),
        case("rmse", dm.RootMeanSquaredError(multioutput="raw_values"), is_number=False)(
            lambda data: np.squeeze(np.sqrt(np.mean((data.true - data.wide) ** 2, axis=0)))
        ),
        case("r2", "r2", dm.R2)(lambda data: by_hand.explained(data.true, data.wide)),
    ]


def of_masks(first, n_classes, **settings):
    """Overlaps and distances; ``first`` are further ways to name them."""
    labels = range(1, n_classes)
    found = []
    for name, cls, of_class in (("dice", dm.Dice, by_hand.dice_of), ("iou", dm.IoU, by_hand.iou_of)):

        def value(data, labels, ignore_empty, of_class=of_class):
            return by_hand.over_masks(of_class, data.label, data.said, labels, ignore_empty=ignore_empty)

        ways = {
            (True, False): (*([name] if first else []), cls(**settings)),
            (False, False): (cls(ignore_empty=False, **settings),),
            (True, True): (cls(include_background=True, **settings),),
        }
        found += [
            Case(
                metrics,
                functools.partial(value, labels=range(n_classes) if background else labels, ignore_empty=ignore),
                name,
            )
            for (ignore, background), metrics in ways.items()
        ]
    found += [
        case("hausdorff", *(["hausdorff"] if first else []), dm.Hausdorff(**settings))(
            lambda data: by_hand.hausdorff(data.label, data.said, n_classes)
        ),
        case("hausdorff_80", dm.Hausdorff(percentile=80, **settings))(
            lambda data: by_hand.hausdorff(data.label, data.said, n_classes, 80)
        ),
        case("hausdorff", dm.Hausdorff(spacing=(0.5, 2.0), **settings))(
            lambda data: by_hand.hausdorff(data.label, data.said, n_classes, spacing=[(0.5, 2.0)] * len(data.label))
        ),
    ]
    return found


def per_class(n_classes, size=(0.5, 2.0)):
    """Metrics with a value for each class: their means, which a trial does not compute."""
    spacing, labels = {"spacing": size}, range(1, n_classes)

    def masks(data):
        return data.label, data.said

    def sizes(data):
        return [size] * len(data.label)

    def overlap(of_class):
        return lambda data: by_hand.over_masks(of_class, *masks(data), labels)

    table = [
        (dm.DicePerClass(n_classes), overlap(by_hand.dice_of)),
        (dm.IoUPerClass(n_classes), overlap(by_hand.iou_of)),
        (dm.HausdorffPerClass(n_classes), lambda data: by_hand.hausdorff(*masks(data), n_classes, 95)),
        (
            dm.HausdorffPerClass(n_classes, 80, missing=9.0, **spacing),
            lambda data: by_hand.hausdorff(*masks(data), n_classes, 80, sizes(data), 9.0),
        ),
        (dm.SurfaceDice(n_classes, 1.0), lambda data: by_hand.surface_dice(*masks(data), n_classes, 1.0)),
        (
            dm.SurfaceDice(n_classes, 0.7, **spacing),
            lambda data: by_hand.surface_dice(*masks(data), n_classes, 0.7, sizes(data)),
        ),
        (dm.VolumeError(n_classes, signed=True), overlap(by_hand.volume_error)),
        (dm.VolumeError(n_classes), overlap(lambda first, second: abs(by_hand.volume_error(first, second)))),
    ]
    return [
        Case(
            *((metric,), value, type(metric).__name__),
            in_trial=False,
            of_nothing=-np.inf if metric.higher_is_better else np.inf,
        )
        for metric, value in table
    ]


def own_functions():
    """Functions and classes of users, which are called with labels as they are."""

    @dm.per_sample
    def per_sample(y_true, y_pred):
        return np.max(abs(y_true - y_pred)) + 1.0

    def dataset(y_true, y_pred):
        return np.corrcoef(y_true.ravel(), y_pred.ravel())[0, 1]

    @dm.lambda_metric("lambda_metric", on_epoch=True)
    def of_pass(y_pred, y_true):
        return np.median(np.asarray(abs(y_true - y_pred)))

    @dm.lambda_metric("BatchLambda")
    def of_batch(y_pred, y_true):
        return abs(y_pred - y_true)

    @dm.lambda_metric("means")
    def of_means(y_pred, y_true):  # one number for a batch, the mean of it
        return np.mean(np.asarray(y_pred - y_true))

    def value(function):
        return lambda data: function(data.true.astype("f8"), data.wide)

    return [
        case("per_sample", per_sample)(
            value(
                lambda true, said: np.mean([abs(one - other).max() + 1 for one, other in zip(true, said, strict=True)])
            )
        ),
        case("dataset", dataset, in_trial=False)(
            value(lambda true, said: np.corrcoef(true.ravel(), said.ravel())[0, 1])
        ),
        case("lambda_metric", of_pass)(value(lambda true, said: np.median(abs(true - said)))),
        case("BatchLambda", of_batch)(value(lambda true, said: np.mean(abs(true - said)))),
        case("means", of_means)(value(lambda true, said: np.mean(said - true))),
    ]


ACCURACY = shares(dm.accuracy, name="accuracy")

CASES: dict[str, list[Case]] = {
    "classes": [
        shares(*CATEGORICAL, *CHOSEN), shares(*MIXUP, name="mixup_acc"), ACCURACY, *tops(1, 2, 5), *of_labels(4),
        *historic(4, True), *ranks("classes"), table_of(True), *probability_classes(4), *sklearn_labels(4),
        *sklearn_scores(4, are_columns=True),
    ],
    "two_columns": [
        shares(*CATEGORICAL, *CHOSEN), ACCURACY, *of_labels(2), *historic(2, True), *ranks("two_columns"),
        *probability_classes(2), *sklearn_labels(2), *sklearn_scores(2, are_columns=True),
    ],
    "many_classes": [shares(*CATEGORICAL, *CHOSEN), *tops(5, 10)],
    "rare_classes": [
        shares(*CATEGORICAL), ACCURACY, *of_labels(5), *historic(5, True), *ranks("rare_classes"),
        *probability_classes(5)[:1], *sklearn_labels(5, names=SOME),
    ],
    "ignored": [
        shares(*CATEGORICAL, *CHOSEN), *tops(1, 2), *of_labels(4), *sklearn_labels(4, names=SOME),
        *sklearn_scores(4, are_columns=True),
    ],
    "one_hot": [
        shares(*CATEGORICAL, *CHOSEN), ACCURACY, *tops(2), *of_labels(3), *ranks("one_hot"),
        *sklearn_labels(3, names=SOME), *sklearn_scores(3, are_columns=True),
    ],
    "probabilities": [
        shares(*CATEGORICAL), ACCURACY, *tops(2), *of_labels(4), *historic(4, True), *ranks("probabilities"),
        *probability_classes(4), *sklearn_labels(4, names=SOME), *sklearn_scores(4, are_columns=True),
    ],
    "logits": [
        shares(*BINARY, *CHOSEN, name="binary_acc"), *of_labels(2), *ranks("logits"), *sklearn_labels(2),
        *sklearn_scores(2, are_columns=False),
    ],
    "chances": [
        shares(*BINARY, name="binary_acc"), *of_labels(2), *ranks("chances"), *sklearn_labels(2, names=SOME),
        *sklearn_scores(2, are_columns=False),
    ],
    "labels": [shares(*CATEGORICAL), ACCURACY, *of_labels(3), *historic(3, False), *sklearn_labels(3)],
    "tables": [
        shares(*BINARY, *CHOSEN, name="binary_acc"), *ranks("tables"), table_of(False),
        *sklearn_labels(2, of_tables=True),
    ],
    "positive_numbers": [*errors(is_chosen=True), *sklearn_numbers(False), *own_functions()],
    "several_numbers": [*errors(is_chosen=True), *sklearn_numbers(True), *own_functions()],
    "pixels": [
        shares(*CATEGORICAL, *CHOSEN), ACCURACY, *of_labels(3), *of_masks(True, 3), *per_class(3),
        *sklearn_labels(3, names=SOME),
        case("dice", dm.dice)(lambda data: by_hand.dice_of_samples(data.label, data.said)),
    ],
    "steps": [
        shares(*CATEGORICAL, *CHOSEN), ACCURACY, *of_labels(3), *sklearn_labels(3, names=SOME),
        case("dice", dm.dice)(lambda data: by_hand.dice_of_samples(data.label, data.said)),
    ],
    "yes_masks": [shares(*BINARY, *CHOSEN, name="binary_acc"), *of_labels(2), *of_masks(True, 2), *ranks("yes_masks")],
    "label_masks": [
        ACCURACY, *of_labels(3), *of_masks(False, 3, num_classes=3),
        case("dice", dm.dice)(lambda data: by_hand.dice_of_samples(data.label, data.said)),
    ],
}  # fmt: skip

#: the strings that stand for a metric before any test adds its own
STRINGS = frozenset(known_keys())
