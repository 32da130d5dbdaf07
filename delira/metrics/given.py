"""What is given as a metric: the one place that tells metrics of all libraries apart."""

from collections.abc import Callable
from typing import Literal

from delira.metrics.scoring import PerSample, is_stream, is_torchmetrics
from delira.metrics.sklearn_metrics import (
    KNOWN_FUNCTIONS,
    AurocMetric,
    SklearnClassificationMetric,
    is_known,
    is_of_sklearn,
    unwrapped,
)
from delira.metrics.tree.metric import Metric
from delira.state import StateKey

Given = Literal[
    "torchmetrics", "key", "name", "metric", "class", "of arrays", "scikit-learn", "other scikit-learn", "stream",
    "function", "nothing",
]  # fmt: skip


def _is_of_arrays(given: object) -> bool:
    is_object = isinstance(given, (SklearnClassificationMetric, AurocMetric, PerSample))
    return is_object or getattr(given, "__module__", "") == "delira.metrics.functions"


def _is_other_sklearn(given: object) -> bool:
    name = getattr(unwrapped(given)[0], "__name__", None)
    return is_of_sklearn(given) and name is not None and name not in KNOWN_FUNCTIONS


#: what it may be, and how that is told; what comes first counts
_TABLE: tuple[tuple[Given, Callable[[object], bool]], ...] = (
    ("torchmetrics", is_torchmetrics),  # an object of it, or a class
    ("key", lambda given: isinstance(given, StateKey)),  # of the state of a trial
    ("name", lambda given: isinstance(given, str)),  # that stands for a metric of a trial
    ("metric", lambda given: isinstance(given, Metric)),  # of a trial
    ("class", lambda given: isinstance(given, type) and issubclass(given, Metric)),
    ("of arrays", _is_of_arrays),  # delira's own, of all targets and predictions
    ("scikit-learn", is_known),
    ("other scikit-learn", _is_other_sklearn),  # of which nobody knows what it compares
    ("stream", is_stream),  # sees batches
    ("function", lambda given: callable(given) and not isinstance(given, type)),
)


def what_is(given: object) -> Given:
    """Return what is given as a metric; ``"nothing"`` if it can be none."""
    return next((what for what, fits in _TABLE if fits(given)), "nothing")
