from delira.callbacks.profiler import TimerMetric as TimerMetric
from delira.metrics.gather import Gatherer as Gatherer
from delira.metrics.gather import Weighted as Weighted
from delira.metrics.metric_set import kind_of as kind_of
from delira.metrics.metric_set import MetricSet as MetricSet
from delira.metrics.metric_set import score as score
from delira.metrics.of_arrays import accuracy as accuracy
from delira.metrics.of_arrays import AurocMetric as AurocMetric
from delira.metrics.of_arrays import dice as dice
from delira.metrics.of_arrays import SklearnAccuracyScore as SklearnAccuracyScore
from delira.metrics.of_arrays import SklearnBalancedAccuracyScore as SklearnBalancedAccuracyScore
from delira.metrics.of_arrays import SklearnClassificationMetric as SklearnClassificationMetric
from delira.metrics.of_arrays import SklearnF1Score as SklearnF1Score
from delira.metrics.of_arrays import SklearnFBetaScore as SklearnFBetaScore
from delira.metrics.of_arrays import SklearnHammingLoss as SklearnHammingLoss
from delira.metrics.of_arrays import SklearnJaccardSimilarityScore as SklearnJaccardSimilarityScore
from delira.metrics.of_arrays import SklearnLogLoss as SklearnLogLoss
from delira.metrics.of_arrays import SklearnMatthewsCorrCoeff as SklearnMatthewsCorrCoeff
from delira.metrics.of_arrays import SklearnPrecisionScore as SklearnPrecisionScore
from delira.metrics.of_arrays import SklearnRecallScore as SklearnRecallScore
from delira.metrics.of_arrays import SklearnZeroOneLoss as SklearnZeroOneLoss
from delira.metrics.of_volumes import DicePerClass as DicePerClass
from delira.metrics.of_volumes import HausdorffPerClass as HausdorffPerClass
from delira.metrics.of_volumes import IoUPerClass as IoUPerClass
from delira.metrics.of_volumes import SurfaceDice as SurfaceDice
from delira.metrics.of_volumes import VolumeError as VolumeError
from delira.metrics.scoring import per_sample as per_sample
from delira.metrics.scoring import PerSample as PerSample
from delira.metrics.tree.accuracies import BinaryAccuracy as BinaryAccuracy
from delira.metrics.tree.accuracies import CategoricalAccuracy as CategoricalAccuracy
from delira.metrics.tree.accuracies import DefaultAccuracy as DefaultAccuracy
from delira.metrics.tree.accuracies import MeanAbsoluteError as MeanAbsoluteError
from delira.metrics.tree.accuracies import MeanSquaredError as MeanSquaredError
from delira.metrics.tree.accuracies import MixupAcc as MixupAcc
from delira.metrics.tree.accuracies import RootMeanSquaredError as RootMeanSquaredError
from delira.metrics.tree.accuracies import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from delira.metrics.tree.adapters import SklearnMetric as SklearnMetric
from delira.metrics.tree.adapters import TorchMetric as TorchMetric
from delira.metrics.tree.aggregators import Max as Max
from delira.metrics.tree.aggregators import Mean as Mean
from delira.metrics.tree.aggregators import Min as Min
from delira.metrics.tree.aggregators import RootMean as RootMean
from delira.metrics.tree.aggregators import RunningMean as RunningMean
from delira.metrics.tree.aggregators import RunningMetric as RunningMetric
from delira.metrics.tree.aggregators import Std as Std
from delira.metrics.tree.aggregators import ToDict as ToDict
from delira.metrics.tree.aggregators import Var as Var
from delira.metrics.tree.counts import BalancedAccuracy as BalancedAccuracy
from delira.metrics.tree.counts import CohenKappa as CohenKappa
from delira.metrics.tree.counts import ConfusionMatrix as ConfusionMatrix
from delira.metrics.tree.counts import FBeta as FBeta
from delira.metrics.tree.counts import MatthewsCorrCoef as MatthewsCorrCoef
from delira.metrics.tree.counts import Precision as Precision
from delira.metrics.tree.counts import Recall as Recall
from delira.metrics.tree.curves import CalibrationError as CalibrationError
from delira.metrics.tree.curves import PrAuc as PrAuc
from delira.metrics.tree.curves import R2 as R2
from delira.metrics.tree.curves import RocAuc as RocAuc
from delira.metrics.tree.curves import RocAucScore as RocAucScore
from delira.metrics.tree.hanging import BatchLambda as BatchLambda
from delira.metrics.tree.hanging import default_for_key as default_for_key
from delira.metrics.tree.hanging import EpochLambda as EpochLambda
from delira.metrics.tree.hanging import known_keys as known_keys
from delira.metrics.tree.hanging import lambda_metric as lambda_metric
from delira.metrics.tree.hanging import max_ as max_
from delira.metrics.tree.hanging import mean as mean
from delira.metrics.tree.hanging import min_ as min_
from delira.metrics.tree.hanging import running_mean as running_mean
from delira.metrics.tree.hanging import std as std
from delira.metrics.tree.hanging import to_dict as to_dict
from delira.metrics.tree.hanging import var as var
from delira.metrics.tree.metric import AdvancedMetric as AdvancedMetric
from delira.metrics.tree.metric import Metric as Metric
from delira.metrics.tree.metric import MetricTree as MetricTree
from delira.metrics.tree.metric_list import Epoch as Epoch
from delira.metrics.tree.metric_list import Loss as Loss
from delira.metrics.tree.metric_list import LR as LR
from delira.metrics.tree.metric_list import MetricList as MetricList
from delira.metrics.tree.overlap import Dice as Dice
from delira.metrics.tree.overlap import Hausdorff as Hausdorff
from delira.metrics.tree.overlap import IoU as IoU

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
    "DicePerClass",
    "Epoch",
    "EpochLambda",
    "FBeta",
    "Gatherer",
    "Hausdorff",
    "HausdorffPerClass",
    "IoU",
    "IoUPerClass",
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
    "SurfaceDice",
    "TimerMetric",
    "ToDict",
    "TopKCategoricalAccuracy",
    "TorchMetric",
    "Var",
    "VolumeError",
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
