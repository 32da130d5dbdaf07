"""Two runs of the same compared bit for bit: epochs, weights, predictions and metrics, and where they first differ."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.errors import CheckpointError
from delira.runs.results import StoredFold, read_fold
from delira.runs.stored_run import FINISHED, HISTORY, StoredRun
from delira.runs.weight_hashes import read_hashes
from delira.utils import files
from delira.utils.arrays import iterate_leaves

#: entry of a difference between the weights, whose values are hashes
WEIGHTS = "weights"
_MISSING = "missing"


class Difference(NamedTuple):
    """One value that is not the same in two runs."""

    fold: int
    epoch: int | None
    """None: of the test, after the training."""
    entry: str
    """As the history names it, ``"weights"``, ``"metrics.error"`` or ``"predictions.pred[3]"``."""
    run: Any
    rerun: Any

    @property
    def relative(self) -> float | None:
        """How far apart two numbers are, as part of the larger one; None of what is no finite number."""
        are_numbers = all(isinstance(each, (int, float)) and math.isfinite(each) for each in (self.run, self.rerun))
        if not are_numbers or self.run == self.rerun:
            return None
        return float(abs(self.run - self.rerun) / max(abs(self.run), abs(self.rerun)))


@dataclass(kw_only=True)
class Comparison:
    """What was found in the folders of two runs."""

    epochs: int = 0
    """How many were compared, over all folds."""
    hashes: int = 0
    """After how many of them the weights were compared."""
    folds: list[int] = field(default_factory=list)
    """Numbers of those that were compared."""
    tested: list[int] = field(default_factory=list)
    """Those whose metrics were compared, too."""
    predicted: list[int] = field(default_factory=list)
    """Those of them whose predictions were kept, and compared."""
    firsts: list[Difference] = field(default_factory=list)
    """The first difference of each fold that differs."""
    largest: Difference | None = None
    """Of all numbers of epochs and metrics."""
    remarks: list[str] = field(default_factory=list)
    """What could not be compared, and why."""

    @property
    def is_equal(self) -> bool:
        """Return True if nothing differs, and there was something to compare."""
        return not self.firsts and self.epochs > 0


def compare_runs(run: StoredRun, rerun: StoredRun, folds: Iterable[int]) -> Comparison:
    """Compare what two runs left in their folders.

    Parameters
    ----------
    run
        The first one; if it did not finish, as far as it came.
    rerun
        The one that is to be the same.
    folds
        Numbers of the folds that are compared.
    """
    found = Comparison()
    for number in folds:
        found.folds.append(number)
        differences = [*_of_epochs(run, rerun, number, found), *_of_test(run, rerun, number, found)]
        found.firsts += differences[:1]
        far = [each for each in [found.largest, *differences] if each is not None and each.relative is not None]
        found.largest = max(far, key=lambda each: each.relative or 0.0, default=None)
    gone = sorted({*run.finished_folds} - {*run.fold_folders})
    if gone:
        found.remarks.append(f"the folders of folds {gone}, which have finished, are gone, so they are not compared")
    if found.epochs and not found.hashes:
        found.remarks.append("no hashes of the weights were recorded, so only numbers are compared")
    if found.tested and not found.predicted:
        found.remarks.append("the predictions were not kept, so only metrics are compared")
    return found


# ------------------------------------------------------------------ epochs


def _of_epochs(run: StoredRun, rerun: StoredRun, number: int, found: Comparison) -> Iterator[Difference]:
    then, now = (_epochs(each.fold_folders.get(number), found) for each in (run, rerun))
    hashes = [_hashes(each.fold_folders.get(number), found) for each in (run, rerun)]
    for epoch in sorted({*then, *now}):
        if epoch not in then and not _has_ended(run, number):
            continue  # it was broken off before
        if epoch not in then or epoch not in now:
            told = ["trained" if epoch in each else "not trained" for each in (then, now)]
            yield Difference(number, epoch, "epoch", *told)
            continue
        found.epochs += 1
        for entry in dict.fromkeys([*then[epoch], *now[epoch]]):
            values = [each[epoch].get(entry, _MISSING) for each in (then, now)]
            if not _is_same(*values):
                yield Difference(number, epoch, entry, *values)
        digests = [each.get(epoch) for each in hashes]
        if None not in digests:
            found.hashes += 1
            if digests[0] != digests[1]:
                yield Difference(number, epoch, WEIGHTS, *digests)


def _has_ended(run: StoredRun, number: int) -> bool:
    return run.state == FINISHED or number in run.finished_folds


def _epochs(folder: Path | None, found: Comparison) -> dict[int, dict[str, Any]]:
    """Return the epochs as they stand there, also lines that were changed: their values tell where."""
    if folder is None:
        return {}
    try:
        lines, n_lines = files.read_json_lines(folder / HISTORY)
    except OSError as error:
        found.remarks.append(f"{folder / HISTORY} cannot be read: {error}")
        return {}
    epochs = [line for line in lines if type(line.get("epoch")) is int]
    if lost := n_lines - len(epochs):
        found.remarks.append(f"{lost} of {n_lines} epochs in {folder / HISTORY} cannot be read")
    for line in epochs:
        if isinstance(line.get(files.CHECKSUM), str) and files.is_changed(line):
            where = f"epoch {line['epoch']} of {folder / HISTORY}"
            found.remarks.append(f"{where} was changed after it was written: its checksum is another one")
    return {line["epoch"]: {key: each for key, each in line.items() if key != files.CHECKSUM} for line in epochs}


def _hashes(folder: Path | None, found: Comparison) -> dict[int, str]:
    if folder is None:
        return {}
    hashes, lost = read_hashes(folder)
    found.remarks += [lost] if lost else []
    return hashes


def _is_same(left: object, right: object) -> bool:
    """Return True if two values of a history are the same: -0.0 is not 0.0, and NaN is NaN."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


# ------------------------------------------------------------------ the test


def _of_test(run: StoredRun, rerun: StoredRun, number: int, found: Comparison) -> Iterator[Difference]:
    """Metrics and predictions of a fold of a cross-validation; a single training has none."""
    if not run.has_folds or number not in run.finished_folds:
        return
    then, now = (_tested(each.fold_folders.get(number), found) for each in (run, rerun))
    if then is None or now is None:
        return
    found.tested.append(number)
    if told := [*_of_code(then.asked, now.asked)]:
        found.remarks += [line for line in told if line not in found.remarks]
    yield from _of_trees(number, "metrics", then.fields["metrics"], now.fields["metrics"])
    if then.outputs is None or now.outputs is None or not then.outputs["predictions"]:
        return
    found.predicted.append(number)
    for name in ("predictions", "targets"):
        yield from _of_trees(number, name, then.outputs[name], now.outputs[name])


def _of_code(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Say of which functions of the test the code is another one."""
    old, new = (files.mapping(files.mapping(asked.get("code")).get("functions")) for asked in (then, now))
    yield from (f"code: {name}, of the test, is another one" for name in old if name in new and old[name] != new[name])


def _tested(folder: Path | None, found: Comparison) -> StoredFold | None:
    try:
        return None if folder is None else read_fold(folder)
    except (CheckpointError, OSError) as error:
        found.remarks.append(f"its test is not compared: {error}")
        return None


def _of_trees(fold: int, what: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """For each array of a tree the first place at which it is another one."""
    left, right = (dict(iterate_leaves(tree)) for tree in (then, now))
    for place in dict.fromkeys([*left, *right]):
        name = ".".join([what, *map(str, place)])
        if place not in left or place not in right:
            told = ["there" if place in each else _MISSING for each in (left, right)]
            yield Difference(fold, None, name, *told)
            continue
        one, other = np.asarray(left[place]), np.asarray(right[place])
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            yield Difference(fold, None, name, *(f"{each.dtype} of shape {each.shape}" for each in (one, other)))
        elif (position := _first_other(one, other)) is not None:
            at = f"[{', '.join(map(str, position))}]" if one.size > 1 else ""
            yield Difference(fold, None, f"{name}{at}", one[position].item(), other[position].item())


def _first_other(one: np.ndarray, other: np.ndarray) -> Sequence[Any] | None:
    """Return where two arrays of a shape and type differ first, in bits; None: nowhere."""
    if one.dtype.hasobject:
        is_other = np.array([not _is_equal(*pair) for pair in zip(one.flat, other.flat, strict=True)], dtype=bool)
    else:
        bits = [np.ascontiguousarray(each).reshape(-1, 1).view(np.uint8) for each in (one, other)]
        is_other = (bits[0] != bits[1]).any(axis=1)
    places = np.flatnonzero(is_other)
    return tuple(map(int, np.unravel_index(places[0], one.shape))) if len(places) else None


def _is_equal(one: object, other: object) -> bool:
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
