"""Metrics that are exact over a data set: functions, metrics over samples, streaming objects.

Functions are called as ``f(y_true, y_pred)``, scikit-learn's order.
"""

from delira.metrics.functions import accuracy, dice
from delira.metrics.gather import Gatherer
from delira.metrics.metric_set import MetricSet
from delira.metrics.scoring import PerSample, kind_of, per_sample, score
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

__all__ = [
    "AurocMetric",
    "Gatherer",
    "MetricSet",
    "PerSample",
    "SklearnAccuracyScore",
    "SklearnBalancedAccuracyScore",
    "SklearnClassificationMetric",
    "SklearnF1Score",
    "SklearnFBetaScore",
    "SklearnHammingLoss",
    "SklearnJaccardSimilarityScore",
    "SklearnLogLoss",
    "SklearnMatthewsCorrCoeff",
    "SklearnPrecisionScore",
    "SklearnRecallScore",
    "SklearnZeroOneLoss",
    "accuracy",
    "dice",
    "kind_of",
    "per_sample",
    "score",
]
