"""Metrics over samples, computed for a batch: each by itself, those of one metric per class together."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import DataError
from delira.metrics.per_class import OfClass, PerClass, mean_of_values
from delira.metrics.scoring import as_number
from delira.utils.arrays import iterate_leaves, map_leaves


def computed_together(metrics: Mapping[str, Any], keys: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Name of the first metric -> names of all that are values of one metric per class, of the same entries.

    Parameters
    ----------
    metrics, keys
        Metrics by name, and the entries that each reads.
    """
    found: dict[str, list[str]] = {}
    for name, metric in metrics.items():
        if not isinstance(metric, (PerClass, OfClass)):
            continue
        key = _source(metric).key, keys[name]
        first = next((one for one in found if (_source(metrics[one]).key, keys[one]) == key), name)
        found.setdefault(first, []).append(name)
    return found


def _source(metric: Any) -> PerClass:
    return metric.metric if isinstance(metric, OfClass) else metric


def values_of_samples(members: Mapping[str, Any], arrays: Sequence[Any], start: int) -> dict[str, list[float]]:
    """Values of metrics over samples, of a batch, by name.

    Parameters
    ----------
    members
        One metric, or several of :func:`computed_together`, by name.
    arrays
        What they read, each of shape ``(batch, ...)``, or a tree of such.
    start
        Number of the first sample, for messages.

    Raises
    ------
    DataError
        If arrays have different numbers of samples, or a metric returns something that is not a number.
    """
    name, metric = next(iter(members.items()))
    lengths = {len(np.atleast_1d(leaf)) for array in arrays for _, leaf in iterate_leaves(array)}
    if len(lengths) != 1:
        raise DataError(f"metric {name!r} is called per sample, but its arrays have {sorted(lengths)} samples")
    samples = [
        [map_leaves(functools.partial(_take, position=position), array) for array in arrays]
        for position in range(*lengths)
    ]
    if isinstance(metric, (PerClass, OfClass)):
        rows = _of_classes(members, samples, start)
        return {one: [row[position] for row in rows] for position, one in enumerate(members)}
    found = (as_number(metric(*sample), name, f" for sample {start + at}") for at, sample in enumerate(samples))
    return {name: list(found)}


def _of_classes(members: Mapping[str, Any], samples: Sequence[Sequence[Any]], start: int) -> list[list[float]]:
    """One row for each sample: values of the members."""
    source = _source(next(iter(members.values())))
    is_all = any(isinstance(member, PerClass) for member in members.values())
    labels = [*source.labels] if is_all else [member.label for member in members.values()]
    rows = []
    for position, sample in enumerate(samples):
        try:
            values = source.values(*sample, labels=labels)
        except DataError as error:
            error.add_note(f"of sample {start + position} of the pass")
            raise
        rows.append([_value(member, labels, values) for member in members.values()])
    return rows


def _value(member: PerClass | OfClass, labels: list[int], values: np.ndarray) -> float:
    if isinstance(member, OfClass):
        return float(values[labels.index(member.label)])
    return mean_of_values(values, may_lack=True)


def _take(leaf: np.ndarray, position: int) -> Any:
    return np.atleast_1d(leaf)[position]
