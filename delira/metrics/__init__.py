"""Metrics: of experiments, exact over a data set, and of trials, a tree that sees batch by batch.

Functions over a data set are called as ``f(y_true, y_pred)``, scikit-learn's order; functions of a batch, in
:func:`lambda_metric`, as ``f(y_pred, y_true)``, that of a criterion.
"""

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
    MeanAbsoluteError,
    MeanSquaredError,
    MixupAcc,
    RootMeanSquaredError,
    TopKCategoricalAccuracy,
)
from delira.metrics.tree.adapters import SklearnMetric, TorchMetric
from delira.metrics.tree.aggregators import Max, Mean, Min, RootMean, RunningMean, RunningMetric, Std, ToDict, Var
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
from delira.metrics.tree.hanging import default_for_key, known_keys, max_, mean, min_, running_mean, std, to_dict, var
from delira.metrics.tree.metric import AdvancedMetric, Metric, MetricTree
from delira.metrics.tree.metric_list import MetricList
from delira.metrics.tree.moments import Weighted
from delira.metrics.tree.overlap import Dice, Hausdorff, IoU
from delira.metrics.tree.roots import BatchLambda, EpochLambda, lambda_metric
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.callbacks.profiler": "TimerMetric",
    },
)
