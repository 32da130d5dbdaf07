"""Which way a score is better: the one place where delira knows it."""

import functools
import re
import sys
from collections.abc import Mapping
from typing import Any

from delira.errors import ConfigError
from delira.metrics.metric_set import SklearnFunction, TreeMetric
from delira.metrics.of_arrays import KNOWN_FUNCTIONS, SklearnClassificationMetric, accuracy, dice, sklearn_function
from delira.metrics.per_class import OfClass, PerClass
from delira.metrics.scoring import PerSample, is_torchmetrics
from delira.metrics.tree.accuracies import DefaultAccuracy
from delira.metrics.tree.adapters import ArrayMetric, SklearnMetric, TorchMetric
from delira.metrics.tree.aggregators import Std, Var
from delira.metrics.tree.hanging import default_metric, known_keys
from delira.metrics.tree.metric import Metric, MetricTree
from delira.utils.frameworks import LIBRARIES

#: spelling -> which score is good
MODES = {"min": "lowest", "lowest": "lowest", "max": "highest", "highest": "highest"}
AUTO = "auto"

#: endings of scikit-learn's functions, by its own rule
_SKLEARN_ENDINGS = (("_score", True), ("_corrcoef", True), ("_error", False), ("_loss", False), ("_deviance", False))
#: those that keep another one
_SKLEARN_EXCEPTIONS = {"davies_bouldin_score": False}

# ------------------------------------------------------------------ words in the names of values

_LARGER_WORDS = {
    "acc", "accuracy", "auc", "auroc", "auprc", "ap", "f1", "f2", "fbeta", "iou", "miou", "jaccard", "dice", "dsc",
    "precision", "recall", "sensitivity", "specificity", "kappa", "mcc", "corrcoef", "r2", "ssim", "psnr", "ndcg",
}  # fmt: skip
_SMALLER_WORDS = {
    "loss", "error", "err", "mse", "mae", "rmse", "msle", "rmsle", "mape", "nll", "bce", "crossentropy", "hausdorff",
    "hd95", "ece", "brier", "deviance", "perplexity", "wer", "cer",
}  # fmt: skip
#: words that leave the direction as it is
_NEUTRAL_WORDS = {
    "val", "train", "test", "running", "mean", "average", "avg", "median", "max", "macro", "micro", "weighted",
    "samples", "balanced", "top", "k", "score", "binary", "cat", "categorical", "sparse", "class", "multiclass",
    "multilabel", "roc", "pr", "log", "absolute", "squared", "root", "percentage", "cohen", "matthews", "mixup", "zero",
    "one", "cross", "entropy", "calibration", "beta", "coefficient", "index", "ovr", "ovo", "explained", "total",
    "epoch",
}  # fmt: skip
#: names of which the words alone say nothing
_WHOLE_NAMES = {
    "explained_variance": True, "cross_entropy": False, "negative_log_likelihood": False,
    "positive_likelihood_ratio": True, "negative_likelihood_ratio": False,
}  # fmt: skip


def as_mode(mode: object, setting: str = "val_score_mode") -> str:
    """``"lowest"``, ``"highest"`` or ``"auto"`` of any spelling.

    Raises
    ------
    ConfigError
        If it is none of them.
    """
    if mode == AUTO:
        return AUTO
    if not isinstance(mode, str) or mode not in MODES:
        raise ConfigError(f"{setting} must be one of {', '.join(map(repr, (AUTO, *MODES)))}, got {mode!r}")
    return MODES[mode]


def higher_is_better(metric: object, name: str = "") -> bool | None:
    """Return True if large values of a metric are good; ``None`` if nobody said so.

    What a metric says of itself, by a ``higher_is_better`` as torchmetrics' have, goes first. Those of delira,
    torchmetrics, scikit-learn and Keras are known, and losses of frameworks. Of anything else the name counts.

    Parameters
    ----------
    metric
        A metric of any kind that :class:`~delira.metrics.MetricSet` takes; ``None`` if there is only a name.
    name
        What it is reported under, with or without ``val_``.
    """
    if isinstance(metric, (PerClass, OfClass)):  # it says it, or has none; names of classes tell nothing
        return metric.higher_is_better
    known = _of_metric(metric, name.removeprefix("val_"))
    return named_direction(name) if known is None else known


def named_direction(name: str) -> bool | None:
    """Return True if large values are good of what is called so; ``None`` unless every word of the name is known.

    Examples
    --------
    >>> named_direction("val_top_5_acc"), named_direction("neg_mean_squared_error"), named_direction("dice_loss")
    (True, True, False)
    >>> named_direction("precision_mm") is named_direction("quality") is None
    True
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("IoU", "Iou"))
    words = [word for word in re.split(r"[^a-z0-9]+", apart.lower()) if word]
    whole = "_".join(word for word in words if word not in ("val", "train", "test", "running"))
    is_negated = whole.startswith("neg_")
    if is_negated:  # the scorers of scikit-learn: errors and losses, whose sign is changed
        words.remove("neg")
        whole = whole.removeprefix("neg_")
    is_larger = _by_words(words)
    if whole in _WHOLE_NAMES:
        is_larger = _WHOLE_NAMES[whole]
    elif whole in KNOWN_FUNCTIONS:
        is_larger = _by_rule_of_sklearn(whole)
    return (True if is_larger is False else None) if is_negated else is_larger


def _by_words(words: list[str]) -> bool | None:
    telling = [word for word in words if word in _LARGER_WORDS or word in _SMALLER_WORDS]
    rest = [word for word in words if word not in telling and word not in _NEUTRAL_WORDS]
    if not telling or words[0] == "1" or any(not word.isdecimal() for word in rest):
        return None
    directions = {word in _LARGER_WORDS for word in telling}
    if len(directions) > 1 and telling[-1] not in ("loss", "error"):  # "dice_loss" is a loss
        return None
    return telling[-1] in _LARGER_WORDS


def _by_rule_of_sklearn(name: str) -> bool | None:
    ending = next((known for ending, known in _SKLEARN_ENDINGS if name.endswith(ending)), None)
    return _SKLEARN_EXCEPTIONS.get(name, ending)


# ------------------------------------------------------------------ what is known of objects


def _of_metric(metric: object, name: str) -> bool | None:
    metric = _inner(metric)
    if isinstance(metric, MetricTree):
        if any(isinstance(child, (Std, Var)) for child in metric.children):
            return None
        metric = metric.root
    declared = getattr(metric, "higher_is_better", None)
    if isinstance(declared, bool):
        return declared
    if metric is accuracy or metric is dice or metric is dice.function:
        return True
    return _of_library(metric, name)


#: forms -> the attribute that has what gives the same number
_INSIDE: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (functools.partial, "func"),
    ((PerSample, SklearnFunction, SklearnMetric, ArrayMetric), "function"),
    (TorchMetric, "metric"),
    (DefaultAccuracy, "delegate"),
)


def _inner(metric: object) -> Any:
    """Return what is computed, out of the forms that give the same number."""
    while True:
        attribute = next((name for kinds, name in _INSIDE if isinstance(metric, kinds)), None)
        if attribute is not None and getattr(metric, attribute) is not None:
            metric = getattr(metric, attribute)
        elif isinstance(metric, SklearnClassificationMetric):
            metric = sklearn_function(getattr(metric, "function", None)) or metric.score_fn
        elif isinstance(metric, TreeMetric):
            metric = metric.metrics.trees[0]  # with its children, of which a deviation has no direction
        elif isinstance(metric, str) and metric in known_keys():
            metric = default_metric(metric)
        elif isinstance(metric, MetricTree) and not metric.children:
            metric = metric.root
        elif isinstance(metric, type) and issubclass(metric, Metric):
            try:
                metric = metric()  # type: ignore[call-arg]
            except TypeError:  # it needs arguments
                return None
        else:
            return metric


def _of_library(metric: object, name: str) -> bool | None:
    if hasattr(metric, "_score_func") and hasattr(metric, "_sign"):
        return True  # a scorer of scikit-learn, which turns errors and losses round
    own = getattr(metric, "__name__", "") or type(metric).__name__
    module = str(getattr(metric, "__module__", "") or "")
    package = module.partition(".")[0]
    if package == "sklearn" and sklearn_function(own) is metric:
        return _by_rule_of_sklearn(own)
    collections = getattr(sys.modules.get("torchmetrics"), "MetricCollection", Mapping)
    if is_torchmetrics(metric) and isinstance(metric, Mapping | collections):
        return _of_metric(metric[name], name) if name in metric else None
    if package == "torchmetrics":
        return _of_torchmetrics_function(metric, own)
    if (stated := getattr(metric, "_direction", None)) in ("up", "down") and package in LIBRARIES:
        return bool(stated == "up")
    has_losses = package in LIBRARIES or package == "delira"  # better the smaller they are, whatever they are given as
    is_loss = own.lower().replace("_", "").endswith(("loss", "error", "crossentropy", "nll"))
    return False if has_losses and is_loss and _is_original(metric, module, own) else None


def _of_torchmetrics_function(function: object, name: str) -> bool | None:
    """What the class says that computes the same, e.g. ``MulticlassAccuracy`` of ``multiclass_accuracy``."""
    if getattr(sys.modules.get("torchmetrics.functional"), name, None) is not function and not _is_original(
        function, str(function.__module__), name
    ):
        return None
    letters = name.replace("_", "").lower()
    for module in ("torchmetrics", "torchmetrics.classification", "torchmetrics.segmentation"):
        for other, cls in vars(sys.modules.get(module, object)).items():
            if other.lower() == letters and isinstance(getattr(cls, "higher_is_better", None), bool):
                return bool(cls.higher_is_better)
    return named_direction(name)


def _is_original(metric: object, module: str, name: str) -> bool:
    """Return True if it is the library's own: what is wrapped, by ``functools.wraps``, only looks like it."""
    if not isinstance(getattr(metric, "__name__", None), str):  # an object
        return True
    return getattr(sys.modules.get(module), name, None) is metric
