"""The strings that stand for metrics."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

from delira.errors import ConfigError
from delira.metrics.tree.metric import Metric
from delira.utils.checks import check_texts
from delira.utils.suggest import did_you_mean

Registered = TypeVar("Registered")
#: string -> (metric or class of metrics, arguments of the class)
_DEFAULTS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}


def default_for_key(key: str, *args: Any, **kwargs: Any) -> Callable[[Registered], Registered]:
    """Let a string stand for a metric, in all lists of metrics from now on; a decorator.

    Parameters
    ----------
    key
        The string; what it stood for before is replaced.
    *args, **kwargs
        For the class, if one is decorated: each list gets an instance of its own. Of a metric each gets a copy.

    Examples
    --------
    >>> from delira.metrics import MetricList, lambda_metric, mean
    >>> @default_for_key("bias")
    ... @mean
    ... @lambda_metric("bias")
    ... def bias(y_pred, y_true):
    ...     return y_pred - y_true
    >>> MetricList(["bias"]).names
    ['bias']
    """
    check_texts("default_for_key", key=key)

    def register(metric: Registered) -> Registered:
        _DEFAULTS[key] = (metric, args, kwargs)
        return metric

    return register


def default_metric(key: str) -> Metric | Any:
    """Return a new instance, or a copy, of what a string stands for.

    Raises
    ------
    ConfigError
        If it stands for nothing.
    """
    if key not in _DEFAULTS:
        raise ConfigError(f"there is no metric {key!r}{did_you_mean(key, _DEFAULTS)}")
    metric, args, kwargs = _DEFAULTS[key]
    return metric(*args, **kwargs) if isinstance(metric, type) else copy.deepcopy(metric)


def known_keys() -> list[str]:
    """Return all strings that stand for a metric."""
    return sorted(_DEFAULTS)
