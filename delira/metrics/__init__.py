"""Metrics: of experiments, exact over a data set, and of trials, a tree that sees batch by batch.

Functions over a data set are called as ``f(y_true, y_pred)``, scikit-learn's order; functions of a batch, in
:func:`lambda_metric`, as ``f(y_pred, y_true)``, that of a criterion.
"""

# names stand for the metrics that these have, and for those of the modules that they import
import delira.metrics.tree.counts
import delira.metrics.tree.metric_list
import delira.metrics.tree.overlap
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.callbacks.profiler": "TimerMetric",
        "delira.metrics.gather": "Gatherer Weighted",
        "delira.metrics.metric_set": "MetricSet kind_of score",
        "delira.metrics.scoring": "PerSample per_sample",
        "delira.metrics.of_volumes": "DicePerClass HausdorffPerClass IoUPerClass SurfaceDice VolumeError",
        "delira.metrics.of_arrays": (
            "AurocMetric SklearnAccuracyScore SklearnBalancedAccuracyScore SklearnClassificationMetric "
            "SklearnF1Score SklearnFBetaScore SklearnHammingLoss SklearnJaccardSimilarityScore SklearnLogLoss "
            "SklearnMatthewsCorrCoeff SklearnPrecisionScore SklearnRecallScore SklearnZeroOneLoss accuracy dice"
        ),
        "delira.metrics.tree.accuracies": (
            "BinaryAccuracy CategoricalAccuracy DefaultAccuracy MeanAbsoluteError MeanSquaredError MixupAcc "
            "RootMeanSquaredError TopKCategoricalAccuracy"
        ),
        "delira.metrics.tree.adapters": "SklearnMetric TorchMetric",
        "delira.metrics.tree.aggregators": "Max Mean Min RootMean RunningMean RunningMetric Std ToDict Var",
        "delira.metrics.tree.counts": (
            "BalancedAccuracy CohenKappa ConfusionMatrix FBeta MatthewsCorrCoef Precision Recall"
        ),
        "delira.metrics.tree.curves": "R2 CalibrationError PrAuc RocAuc RocAucScore",
        "delira.metrics.tree.hanging": (
            "BatchLambda EpochLambda default_for_key known_keys lambda_metric max_ mean min_ running_mean std to_dict "
            "var"
        ),
        "delira.metrics.tree.metric": "AdvancedMetric Metric MetricTree",
        "delira.metrics.tree.metric_list": "LR Epoch Loss MetricList",
        "delira.metrics.tree.overlap": "Dice Hausdorff IoU",
    },
)
