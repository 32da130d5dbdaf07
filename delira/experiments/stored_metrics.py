"""Metrics of predictions that were stored, computed again without a network, and what files say of them."""

import contextlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import CheckpointError, MissingKeyError
from delira.experiments.fold_task import log_finished
from delira.io.container import read_tree, write_tree
from delira.metrics import MetricSet
from delira.metrics.scoring import lookup
from delira.runs import kept, results
from delira.runs.folder import RunFolder, loss_tolerated
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.files import publish


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


def write_metrics(fold: results.FoldResult, asked: Mapping[str, Any]) -> None:
    """Have ``result.zip`` of a fold say its metrics of now and what they were asked for; all else in it stays.

    It is left alone where it says them already, and where it is of another test.

    Parameters
    ----------
    fold, asked
        As :func:`results.write_fold` takes them.

    Raises
    ------
    CheckpointError, OSError
        If there is no such file, or it cannot be read or written.
    """
    if fold.path is None:
        return
    with results.opened_fold(fold.path, "fields", "asked") as parts:
        fields, before = parts["fields"], parts["asked"]
        is_other_test = any(before.get(name) != asked.get(name) for name in ("num_epochs", "keep"))
        is_said = is_asked_alike(before, asked) and are_equal(fields["metrics"], fold.metrics)
        targets = sorted({*before["targets"], *asked["targets"]})  # more than are read now do no harm
    if is_other_test or is_said:
        return
    fields = {name: value for name, value in fields.items() if name != "partial"} | {"metrics": fold.metrics}
    fields |= {"partial": list(fold.partial)} if fold.partial else {}
    tree = read_tree(fold.path / results.RESULT_FILE, is_mapped=True)
    tree |= {"fields": kept.pack(fields), "asked": kept.pack({**asked, "targets": targets})}
    publish(fold.path / results.RESULT_FILE, lambda file: write_tree(file, tree))


def is_asked_alike(before: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return True if a fold was asked for the same metrics, as far as files tell one function from another."""
    # an older run does not say its code
    return bool(before.get("code", asked["code"]) == asked["code"] and before["metrics"] == asked["metrics"])


def are_equal(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Return True if metrics have the same values; NaN equals NaN."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def correct_files(
    folder: RunFolder, folds: Sequence[results.FoldResult], asked: Mapping[str, Any], *, is_trial: bool
) -> None:
    """Have the files of a run say of its folds what this session computed: metrics may be others than were stored.

    Parameters
    ----------
    folder, folds
        The run, and what its result has of it.
    asked
        What the folds were asked for, as :func:`results.write_fold` takes it.
    is_trial
        Whether it is one of a search, of which nothing is read that the ledger does not show to have changed.
    """
    stated = {event.get("fold"): event.get("metrics") for event in folder.events() if event["event"] == "fold_finished"}
    for fold in folds:
        is_changed = fold.fold in stated and repr(stated[fold.fold]) != repr(fold.means())  # a NaN equals no other
        if is_changed or not is_trial:
            _correct_result(fold, asked)
        if is_changed:  # ``delira runs`` shows what the ledger says
            log_finished(folder, fold)


def _correct_result(fold: results.FoldResult, asked: Mapping[str, Any]) -> None:
    # what could not be stored at all is tested again if the run is continued, which was said
    unstored = contextlib.suppress(CheckpointError, FileNotFoundError)
    with loss_tolerated(f"the metrics of fold {fold.fold}"), unstored:
        write_metrics(fold, asked)
