"""Metrics: of experiments, exact over a data set, and of trials, a tree that sees batch by batch.

Functions over a data set are called as ``f(y_true, y_pred)``, scikit-learn's order; functions of a batch, in
:func:`lambda_metric`, as ``f(y_pred, y_true)``, that of a criterion.
"""

from typing import TYPE_CHECKING, Any

from delira.metrics.forms import kind_of, score
from delira.metrics.functions import accuracy, dice
from delira.metrics.gather import Gatherer
from delira.metrics.metric_set import MetricSet
from delira.metrics.scoring import PerSample, per_sample
from delira.metrics.sklearn_metrics import (
    AurocMetric,
    SklearnAccuracyScore,
    SklearnBalancedAccuracyScore,
    SklearnClassificationMetric,
    SklearnF1Score,
    SklearnFBetaScore,
    SklearnHammingLoss,
    SklearnJaccardSimilarityScore,
    SklearnLogLoss,
    SklearnMatthewsCorrCoeff,
    SklearnPrecisionScore,
    SklearnRecallScore,
    SklearnZeroOneLoss,
)
from delira.metrics.tree.accuracies import (
    BinaryAccuracy,
    CategoricalAccuracy,
    DefaultAccuracy,
    MixupAcc,
    TopKCategoricalAccuracy,
)
from delira.metrics.tree.adapters import SklearnMetric, TorchMetric
from delira.metrics.tree.aggregators import Max, Mean, Min, RootMean, Std, ToDict, Var
from delira.metrics.tree.basics import LR, Epoch, Loss
from delira.metrics.tree.counts import (
    BalancedAccuracy,
    CohenKappa,
    ConfusionMatrix,
    FBeta,
    MatthewsCorrCoef,
    Precision,
    Recall,
)
from delira.metrics.tree.curves import R2, CalibrationError, PrAuc, RocAuc, RocAucScore
from delira.metrics.tree.hanging import max_, mean, min_, running_mean, std, to_dict, var
from delira.metrics.tree.lambdas import EpochLambda, lambda_metric
from delira.metrics.tree.metric import AdvancedMetric, Metric, MetricTree
from delira.metrics.tree.metric_list import MetricList
from delira.metrics.tree.moments import Weighted
from delira.metrics.tree.overlap import Dice, Hausdorff, IoU
from delira.metrics.tree.registry import default_for_key, known_keys
from delira.metrics.tree.regression import MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError
from delira.metrics.tree.roots import BatchLambda
from delira.metrics.tree.running import RunningMean, RunningMetric

if TYPE_CHECKING:
    from delira.training.callbacks import TimerMetric as TimerMetric

__all__ = [
    "LR",
    "R2",
    "AdvancedMetric",
    "AurocMetric",
    "BalancedAccuracy",
    "BatchLambda",
    "BinaryAccuracy",
    "CalibrationError",
    "CategoricalAccuracy",
    "CohenKappa",
    "ConfusionMatrix",
    "DefaultAccuracy",
    "Dice",
    "Epoch",
    "EpochLambda",
    "FBeta",
    "Gatherer",
    "Hausdorff",
    "IoU",
    "Loss",
    "MatthewsCorrCoef",
    "Max",
    "Mean",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "MetricList",
    "MetricSet",
    "MetricTree",
    "Min",
    "MixupAcc",
    "PerSample",
    "PrAuc",
    "Precision",
    "Recall",
    "RocAuc",
    "RocAucScore",
    "RootMean",
    "RootMeanSquaredError",
    "RunningMean",
    "RunningMetric",
    "SklearnAccuracyScore",
    "SklearnBalancedAccuracyScore",
    "SklearnClassificationMetric",
    "SklearnF1Score",
    "SklearnFBetaScore",
    "SklearnHammingLoss",
    "SklearnJaccardSimilarityScore",
    "SklearnLogLoss",
    "SklearnMatthewsCorrCoeff",
    "SklearnMetric",
    "SklearnPrecisionScore",
    "SklearnRecallScore",
    "SklearnZeroOneLoss",
    "Std",
    "TimerMetric",
    "ToDict",
    "TopKCategoricalAccuracy",
    "TorchMetric",
    "Var",
    "Weighted",
    "accuracy",
    "default_for_key",
    "dice",
    "kind_of",
    "known_keys",
    "lambda_metric",
    "max_",
    "mean",
    "min_",
    "per_sample",
    "running_mean",
    "score",
    "std",
    "to_dict",
    "var",
]


def __getattr__(name: str) -> Any:
    # as it is a callback, too, it lies beside these, which need the metrics
    if name == "TimerMetric":
        from delira.training.callbacks import TimerMetric

        return TimerMetric
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
