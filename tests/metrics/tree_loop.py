"""What the tests of the metric tree share: arrays of every framework, and the calls of a trial in their order."""

from typing import Any

import numpy as np
import pytest

from delira.metrics import MetricList
from delira.state import CRITERION, EPOCH, LOSS, Y_PRED, Y_TRUE, State, X

FRAMEWORKS = ("numpy", "torch", "tensorflow", "jax")


def converter(framework: str) -> Any:
    """Function that makes arrays of a framework out of arrays of numpy."""
    if framework == "numpy":
        return np.array
    kit = pytest.importorskip(framework, reason=f"the {framework} backend needs the package {framework!r}")
    if framework == "jax":
        return kit.numpy.asarray
    return kit.tensor if framework == "torch" else kit.constant


def one_pass(metrics: Any, batches: Any, *, data_key: Any = None, is_training: bool = True, **entries: Any) -> Any:
    """What a trial calls in one pass.

    Parameters
    ----------
    batches
        Pairs of prediction and target, or dictionaries of further entries of the state.

    Returns
    -------
    (reported, final)
        What each batch gave, and the pass.
    """
    metrics = metrics if isinstance(metrics, MetricList) else MetricList(metrics)
    state = State({CRITERION: entries.pop("criterion", None), EPOCH: 0})
    if is_training:
        metrics.train()
    else:
        metrics.eval(data_key)
    metrics.reset(state)
    reported = []
    for batch in batches:
        if not isinstance(batch, dict):
            batch = {Y_PRED: batch[0], Y_TRUE: batch[1], X: batch[0]}
        state.update(batch)
        reported.append(metrics.process(state))
    return reported, metrics.process_final(state)


def split(convert: Any, *arrays: np.ndarray, size: int = 10) -> list[tuple[Any, ...]]:
    """Ragged batches: the last one is smaller."""
    return [tuple(convert(array[start : start + size]) for array in arrays) for start in range(0, len(arrays[0]), size)]


def losses(values: list[Any], sizes: list[int]) -> list[dict[Any, Any]]:
    """Batches with these losses, over so many samples."""
    return [{LOSS: value, X: np.zeros((size, 2))} for value, size in zip(values, sizes, strict=True)]


class MSELoss:
    """Criteria are known by the name of their class."""


class CrossEntropyLoss:
    """Criteria are known by the name of their class."""


class BCEWithLogitsLoss:
    """Criteria are known by the name of their class."""
