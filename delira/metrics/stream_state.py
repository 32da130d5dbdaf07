"""The state of a streaming metric between two of its updates, as a checkpoint tree."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.metrics.scoring import is_torchmetrics
from delira.utils.arrays import as_tensor, ops_of
from delira.utils.trees import iterate_leaves, map_leaves


def stream_state(metric: object) -> dict[str, Any] | None:
    """Return the state of a streaming metric; ``None`` if it cannot be told.

    A metric with ``state_dict`` and ``load_state_dict`` is asked, one of torchmetrics shows its states, and of
    any other the attributes are taken, if all of them are plain numbers, texts and arrays.
    """
    if is_torchmetrics(metric):
        return _state_of_torchmetrics(metric)
    if hasattr(metric, "state_dict") and hasattr(metric, "load_state_dict"):
        return dict(metric.state_dict())
    attributes = getattr(metric, "__dict__", None)
    if attributes is None or not is_plain(attributes):
        return None
    return copy.deepcopy(attributes)


def load_stream_state(metric: Any, state: Mapping[str, Any]) -> None:
    """Give a streaming metric the state that :func:`stream_state` told."""
    if is_torchmetrics(metric):
        for name, value in state["states"].items():
            setattr(metric, name, map_leaves(lambda array: as_tensor(array.copy(), metric.device), value))
        metric._update_count, metric._computed = state["updates"], None
    elif hasattr(metric, "state_dict") and hasattr(metric, "load_state_dict"):
        metric.load_state_dict(dict(state))
    else:
        vars(metric).update(copy.deepcopy(dict(state)))


def merge_streams(name: str, metric: Any, other: Any) -> None:
    """Let a streaming metric take in what another one has seen, as if its batches had come after.

    A metric with ``merge`` is asked. Of one of torchmetrics the states are joined that are sums, extremes, or
    everything that was seen.

    Parameters
    ----------
    name
        What it is called.
    metric, other
        Two of the same kind; ``other`` stays as it is.

    Raises
    ------
    ConfigError
        If it does not say how, both are one object, or objects of different classes.
    """
    if metric is other or type(metric) is not type(other):
        what = "the same object" if metric is other else f"a {type(other).__name__}"
        raise ConfigError(
            f"the metric {name!r} cannot be merged with {what}: each part of a pass needs a {type(metric).__name__} of "
            "its own"
        )
    if not is_torchmetrics(metric) and callable(getattr(metric, "merge", None)):
        metric.merge(other)
        return
    if not is_torchmetrics(metric) or _state_of_torchmetrics(metric) is None:
        raise ConfigError(
            f"the metric {name!r}, a {type(metric).__name__}, cannot take in what another one has seen: it has no "
            "method merge(other)"
        )
    joined = {}
    for key, how in metric._reductions.items():
        theirs = map_leaves(lambda tensor: tensor.to(metric.device), getattr(other, key))
        joined[key] = _joined(getattr(how, "__name__", ""), getattr(metric, key), theirs)
        if joined[key] is None:
            raise ConfigError(
                f"the metric {name!r}, a {type(metric).__name__} of torchmetrics, cannot take in what another one has "
                f"seen: it does not say how its state {key!r} is joined"
            )
    vars(metric).update(joined)
    metric._update_count, metric._computed = metric._update_count + other._update_count, None


def _joined(how: str, own: Any, theirs: Any) -> Any:
    """Two states of torchmetrics as one, by the name of the function that reduces them; None if none is known."""
    if isinstance(own, list):
        return [*own, *theirs] if how in ("", "dim_zero_cat") else None
    xp = ops_of(own).xp
    known = {"dim_zero_sum": xp.add, "dim_zero_max": xp.maximum, "dim_zero_min": xp.minimum}
    return known[how](own, theirs) if how in known else None


def is_plain(tree: object) -> bool:
    """Return True if a tree holds only numbers, texts, ``None`` and arrays of numbers."""
    for _, leaf in iterate_leaves(tree):
        if isinstance(leaf, (np.ndarray, np.generic)):
            if leaf.dtype.kind not in "biufc" or leaf.dtype.isbuiltin == 2:
                return False
        elif leaf is not None and not isinstance(leaf, (bool, int, float, str)):
            return False
    return True


def _state_of_torchmetrics(metric: Any) -> dict[str, Any] | None:
    if not hasattr(metric, "metric_state") or any(True for _ in metric.children()):  # wrappers keep it in others
        return None
    states = map_leaves(lambda tensor: tensor.detach().cpu().numpy().copy(), dict(metric.metric_state))
    return {"states": states, "updates": metric._update_count} if is_plain(states) else None
