"""Metrics of other libraries in a list of metrics: objects of torchmetrics, functions of scikit-learn."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError
from delira.metrics.scoring import PerSample, feed, is_torchmetrics
from delira.metrics.sklearn_metrics import AurocMetric, SklearnClassificationMetric
from delira.metrics.stream_state import load_stream_state, stream_state
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.criteria import threshold_of
from delira.metrics.tree.dataset import OverDataset
from delira.metrics.tree.labels import labels_of, same_shape, scores_of
from delira.metrics.tree.metric import Metric
from delira.metrics.tree.scores import one_score, probabilities, second_of_two
from delira.state import CRITERION
from delira.utils.arrays import ops_of, read_arrays
from delira.utils.trees import map_leaves

#: functions of scikit-learn that compare labels: scores are argmaxed, or compared with a threshold
OF_LABELS = {
    "accuracy_score", "adjusted_mutual_info_score", "adjusted_rand_score", "balanced_accuracy_score",
    "cohen_kappa_score", "completeness_score", "confusion_matrix", "f1_score", "fbeta_score",
    "fowlkes_mallows_score", "hamming_loss", "homogeneity_completeness_v_measure", "homogeneity_score",
    "jaccard_score", "matthews_corrcoef", "multilabel_confusion_matrix", "mutual_info_score",
    "normalized_mutual_info_score", "pair_confusion_matrix", "precision_score", "rand_score", "recall_score",
    "v_measure_score", "zero_one_loss",
}  # fmt: skip
#: that compare labels with probabilities: other scores go through a softmax or a sigmoid
OF_PROBABILITIES = {"brier_score_loss", "d2_brier_score", "d2_log_loss_score", "log_loss", "roc_auc_score"}
#: that compare labels with any scores
OF_SCORES = {
    "average_precision_score", "coverage_error", "dcg_score", "hinge_loss", "label_ranking_average_precision_score",
    "label_ranking_loss", "ndcg_score", "top_k_accuracy_score",
}  # fmt: skip
#: that compare numbers
OF_NUMBERS = {
    "d2_absolute_error_score", "d2_pinball_score", "d2_tweedie_score", "explained_variance_score", "max_error",
    "mean_absolute_error", "mean_absolute_percentage_error", "mean_gamma_deviance", "mean_pinball_loss",
    "mean_poisson_deviance", "mean_squared_error", "mean_squared_log_error", "mean_tweedie_deviance",
    "median_absolute_error", "r2_score", "root_mean_squared_error", "root_mean_squared_log_error",
}  # fmt: skip
_EXPECTS_CLASSES = {"log_loss", "d2_log_loss_score", "hinge_loss", "top_k_accuracy_score", "brier_score_loss"}


class SklearnMetric(OverDataset):
    """A function of scikit-learn, ``f(y_true, y_pred)``, of all predictions and targets of a pass.

    Functions of labels get labels: scores are argmaxed, or compared with the threshold of the criterion. Those of
    probabilities get probabilities: of other scores the softmax, or the sigmoid. Of two columns the second counts.

    Parameters
    ----------
    function
        Or a ``functools.partial`` of one.
    name
        What it is reported under; by default the function's own.
    pred_key, target_key
        Keys of the state.

    Raises
    ------
    ConfigError
        If it is not known what the function compares.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None, **keys: Any):
        self.function = function
        self.settings: dict[str, Any] = {}
        while isinstance(function, functools.partial):
            self.settings = {**function.keywords, **self.settings}
            function = function.func
        self.kind = function.__name__
        if self.kind not in OF_LABELS | OF_PROBABILITIES | OF_SCORES | OF_NUMBERS:
            raise ConfigError(
                f"it is not known what {self.kind} of scikit-learn compares, or it gives no numbers; use "
                f"lambda_metric({self.kind!r}, on_epoch=True)(lambda y_pred, y_true: ...)"
            )
        super().__init__(name or self.kind, **keys)
        self.is_logit = False

    def prepare(self, pred: Any, true: Any, state: Any) -> tuple[Any, Any]:
        """Labels for a function of labels; scores with the classes on the last axis, or one-dimensional ones."""
        criterion = state.get(CRITERION)
        self.is_logit = threshold_of(criterion) == 0.0
        if self.kind in OF_NUMBERS:
            return same_shape(self.name, pred, true)
        if self.kind not in OF_LABELS:
            return scores_of(self.name, pred, true)
        labels, true, n_classes = labels_of(self.name, pred, true, criterion)
        is_multilabel = n_classes == 2 and len(labels.shape) == 2 and tuple(labels.shape) == tuple(pred.shape)
        ops, shape = ops_of(labels), tuple(labels.shape) if is_multilabel and labels.shape[1] > 1 else (-1,)
        return ops.reshape(labels, shape), ops.reshape(true, shape)

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """The value of the function."""
        further: dict[str, Any] = {}
        if self.kind in OF_PROBABILITIES and (pred.ndim == 1 or true.ndim == 1):
            pred = probabilities(pred, self.is_logit)
        if self.kind in OF_PROBABILITIES | OF_SCORES and (pred.ndim, true.ndim) == (2, 1):
            further = self._for_classes(pred.shape[1])
            pred = second_of_two(pred) if self.kind in OF_PROBABILITIES else one_score(pred)
        return numbers(self.function(true, pred, **{**further, **self.settings}), self.name)

    def _for_classes(self, n_classes: int) -> dict[str, Any]:
        if self.kind in _EXPECTS_CLASSES:
            return {"labels": np.arange(n_classes)}  # a class may not occur in the targets
        return {"multi_class": "ovr"} if self.kind == "roc_auc_score" and n_classes > 2 else {}


class ArrayMetric(OverDataset):
    """A metric of delira's experiments, ``f(y_true, y_pred)``, of all predictions and targets of a pass.

    Parameters
    ----------
    function
        One over samples gives the mean of its values.
    name
        What it is reported under.
    """

    def __init__(self, function: Callable[..., Any], name: str):
        super().__init__(name)
        self.function = function

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """The value of the function, or the mean of its values."""
        if isinstance(self.function, PerSample):
            return np.mean([self.function(*sample) for sample in zip(true, pred, strict=True)])
        return self.function(true, pred)


class TorchMetric(Stateless):
    """An object of torchmetrics, updated for each batch with prediction and target, and computed at the end.

    Parameters
    ----------
    metric
        The object; with arrays of other frameworks it is given tensors on its own device.
    """

    def __init__(self, metric: Any):
        super().__init__(str(getattr(metric, "_get_name", lambda: type(metric).__name__)()))
        self.metric = metric

    def reset(self, state: Any) -> None:
        """Begin a pass."""
        self.metric.reset()

    def process(self, *args: Any) -> Any:
        """Update it."""
        pair = self.pair(args[0])
        if hasattr(pair[0], "requires_grad"):  # tensors of PyTorch
            if getattr(self.metric, "device", None) != pair[0].device:  # a collection has none
                self.metric.to(pair[0].device)
            self.metric.update(*pair)
        else:
            feed(self.metric, read_arrays(pair))

    def process_final(self, *args: Any) -> Any:
        """What it computes: a number, or numbers by name."""
        value = self.metric.compute()
        if isinstance(value, Mapping):
            return {f"{self.prefix}{name}": numbers(each, name) for name, each in value.items()}
        return numbers(value, self.name)

    def state_dict(self) -> dict[str, Any]:
        """Its states.

        Raises
        ------
        ConfigError
            If it is a wrapper, which does not show them.
        """
        state = stream_state(self.metric)
        if state is None:
            raise ConfigError(
                f"the metric {self.name} of torchmetrics does not show its state, so that a checkpoint within an "
                "epoch cannot keep it; write checkpoints at the end of epochs"
            )
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the states."""
        load_stream_state(self.metric, state)


def adapted(metric: Any) -> Metric | None:
    """The metric of a list that something of another library stands for; ``None`` if it is not of a known one."""
    if is_torchmetrics(metric) and not isinstance(metric, type):
        return TorchMetric(metric)
    inner = metric
    while isinstance(inner, functools.partial):
        inner = inner.func
    if str(getattr(inner, "__module__", "")).startswith("sklearn.") and hasattr(inner, "__name__"):
        return SklearnMetric(metric)
    if isinstance(metric, (SklearnClassificationMetric, AurocMetric, PerSample)):
        return ArrayMetric(metric, getattr(metric, "__name__", type(metric).__name__))
    if getattr(metric, "__module__", "") == "delira.metrics.functions":
        return ArrayMetric(metric, metric.__name__)
    return None


def numbers(value: Any, name: str) -> Any:
    """What a metric returned, as numbers.

    Raises
    ------
    DataError
        If it is something else.
    """
    leaf = value if isinstance(value, (int, float)) else map_leaves(lambda array: read_arrays([array])[0], value)
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise DataError(f"the metric {name!r} returned {type(value).__name__} {value!r:.60}, which is no number")
    return array
