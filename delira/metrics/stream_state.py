"""The state of a streaming metric between two of its updates, as a checkpoint tree."""

import copy
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.metrics.scoring import is_torchmetrics
from delira.utils.trees import iterate_leaves, map_leaves


def stream_state(metric: Any) -> dict[str, Any] | None:
    """The state of a streaming metric; ``None`` if it cannot be told.

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
        torch = sys.modules["torch"]
        for name, value in state["states"].items():
            setattr(metric, name, map_leaves(lambda array: torch.from_numpy(array.copy()).to(metric.device), value))
        metric._update_count, metric._computed = state["updates"], None
    elif hasattr(metric, "state_dict") and hasattr(metric, "load_state_dict"):
        metric.load_state_dict(dict(state))
    else:
        vars(metric).update(copy.deepcopy(dict(state)))


def is_plain(tree: Any) -> bool:
    """Whether a tree holds only numbers, texts, ``None`` and arrays of numbers."""
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
