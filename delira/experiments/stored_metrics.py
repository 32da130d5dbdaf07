"""Metrics of predictions that were stored, computed again without a network."""

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from delira.errors import MissingKeyError
from delira.metrics import MetricSet
from delira.metrics.scoring import lookup
from delira.utils.arrays import iterate_leaves, map_leaves


def compute_metrics(metrics: MetricSet, outputs: Mapping[str, Any], batch_size: int) -> dict[str, np.ndarray] | None:
    """Metrics of stored predictions and targets, seen in the batches that they came in.

    Parameters
    ----------
    metrics
        What is computed.
    outputs
        ``predictions`` and ``targets``: trees of arrays of shape ``(n, ...)``.
    batch_size
        Samples of each batch but the last.

    Returns
    -------
    dict or None
        ``None`` if what a metric reads was not stored, or not as it came.
    """
    if not len(metrics):
        return {}
    values = {**outputs["predictions"], **outputs["targets"]}
    try:
        read = {entry: lookup(values, entry) for entry in metrics.entries}
    except MissingKeyError:
        return None
    leaves = [leaf for entry in read.values() for _, leaf in iterate_leaves(entry)]
    lengths = {len(leaf) for leaf in leaves}
    if len(lengths) != 1 or any(leaf.dtype.hasobject for leaf in leaves):
        return None
    needed = entries_of(values, metrics.entries)
    for start in range(0, lengths.pop(), batch_size):
        metrics.update(map_leaves(operator.itemgetter(slice(start, start + batch_size)), needed))
    return metrics.compute()


def entries_of(values: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    """Entries by name or dotted path; a path keeps the whole entry it begins with."""
    roots = {key if key in values else key.split(".", 1)[0] for key in wanted}
    return {key: value for key, value in values.items() if key in roots}
