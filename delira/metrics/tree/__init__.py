"""The metric tree: metrics of batches, what hangs on them, and lists of them, for arrays of any framework."""

from delira.metrics.tree.accuracies import (
    BinaryAccuracy,
    CategoricalAccuracy,
    DefaultAccuracy,
    MixupAcc,
    TopKCategoricalAccuracy,
)
from delira.metrics.tree.adapters import SklearnMetric, TorchMetric
from delira.metrics.tree.aggregators import (
    Max,
    Mean,
    Min,
    RootMean,
    RunningMean,
    Std,
    ToDict,
    Var,
    max_,
    mean,
    min_,
    running_mean,
    std,
    to_dict,
    var,
)
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
from delira.metrics.tree.curves import R2, CalibrationError, PrAuc, RocAuc
from delira.metrics.tree.lambdas import EpochLambda, lambda_metric
from delira.metrics.tree.metric import AdvancedMetric, Metric, MetricTree
from delira.metrics.tree.metric_list import MetricList
from delira.metrics.tree.moments import Weighted
from delira.metrics.tree.overlap import Dice, Hausdorff, IoU
from delira.metrics.tree.registry import default_for_key, known_keys
from delira.metrics.tree.regression import MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError
from delira.metrics.tree.roots import BatchLambda

__all__ = [
    "LR",
    "R2",
    "AdvancedMetric",
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
    "MetricTree",
    "Min",
    "MixupAcc",
    "PrAuc",
    "Precision",
    "Recall",
    "RocAuc",
    "RootMean",
    "RootMeanSquaredError",
    "RunningMean",
    "SklearnMetric",
    "Std",
    "ToDict",
    "TopKCategoricalAccuracy",
    "TorchMetric",
    "Var",
    "Weighted",
    "default_for_key",
    "known_keys",
    "lambda_metric",
    "max_",
    "mean",
    "min_",
    "running_mean",
    "std",
    "to_dict",
    "var",
]
