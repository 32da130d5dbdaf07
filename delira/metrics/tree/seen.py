"""What a pass is looked at for when it ends: targets that no class is, and predictions that are no finite numbers."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.errors import DataError
from delira.metrics.tree.moments import LARGE, MOST_BATCHES
from delira.utils.arrays import Array, ops_of, read_arrays, read_flat, shape_of

#: in the place of a predicted label where the scores are no finite numbers
LOST = int(np.iinfo(np.int32).min)
#: in the place of a number of classes: targets say yes or no, by anything from 0 to 1
YES_OR_NO = -1
#: so many samples are named
MOST_NAMED = 10


class _Kind(NamedTuple):
    """What is asked of the targets of a batch, and whether they were reduced to the answer on their device."""

    n_classes: int
    ignore_index: int | None
    is_large: bool

    def wrong(self, true: np.ndarray) -> np.ndarray:
        """Return which targets are none of the classes."""
        return true > 0 if self.is_large else wrong_labels(true, self.n_classes, self.ignore_index)

    def lost(self, scores: np.ndarray) -> np.ndarray:
        """Return which scores are no finite numbers."""
        return scores > 0 if self.is_large else ~np.isfinite(scores)

    def lost_of(self, true: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the same, of targets that count."""
        if self.is_large or self.ignore_index is None or true.shape != scores.shape:
            return self.lost(scores)
        return self.lost(scores) & (true != self.ignore_index)


class Seen:
    """The targets of a pass, and the scores that decided; both are read when it ends, and nothing waits before.

    Parameters
    ----------
    name
        Of the metric, for the message.
    what
        ``"target"``, or ``"prediction"`` for predicted labels.
    """

    def __init__(self, name: str, what: str = "target"):
        self._name, self._what = name, what
        self._pending: list[tuple[int, _Kind, Any, Any]] = []
        self._n_samples = 0
        #: positions in the pass, from 0, of samples whose prediction is not finite
        self.lost: list[int] = []

    def add(self, true: Array, scores: Array, n_classes: int, ignore_index: int | None = None) -> Any:
        """Take in a batch.

        Parameters
        ----------
        true
            Targets of shape ``(B, ...)``.
        scores
            What decided for each of them, e.g. the highest score, shape ``(B, ...)``; None if that cannot be told.
        n_classes
            Targets are whole numbers below it, and not below 0; 0: any whole number; or ``YES_OR_NO``.
        ignore_index
            The target that does not count.

        Returns
        -------
        array or None
            The targets, which nothing changes any more; None of many numbers.
        """
        shape = true.shape
        n_samples = shape[0] if shape else 1
        is_large = (n_samples if len(shape) == 1 else math.prod(shape)) > LARGE
        if is_large:
            true = _reduced_labels(true, n_classes, ignore_index)
            scores = None if scores is None else _reduced_scores(scores)
        else:  # of labels that somebody writes into there is a copy; scores were just computed
            true = ops_of(true).keep(true)
        self._pending.append((self._n_samples, _Kind(n_classes, ignore_index, is_large), true, scores))
        self._n_samples += n_samples
        if len(self._pending) >= MOST_BATCHES:
            self.check()
        return None if is_large else true

    def check(self) -> None:
        """Look at what came.

        Raises
        ------
        DataError
            If a target is none of the classes; it names the first.
        """
        groups: dict[Any, list[tuple[int, Any, Any]]] = {}
        pending, self._pending = self._pending, []
        for start, kind, true, scores in pending:
            groups.setdefault((kind, true.dtype, getattr(scores, "dtype", None)), []).append((start, true, scores))
        for (kind, *_), batches in groups.items():
            targets = [true for _, true, _ in batches]
            if kind.wrong(read_flat(targets)).any():  # all at once: nearly always there is nothing to find
                for (start, *_), true in zip(batches, read_arrays(targets), strict=True):
                    if (is_wrong := kind.wrong(true)).any():
                        name, is_known = self._name, not kind.is_large
                        refuse_label(name, true, is_wrong, kind.n_classes, start, is_known=is_known, what=self._what)
            if batches[0][2] is not None and kind.lost(read_flat([scores for *_, scores in batches])).any():
                arrays = iter(read_arrays([array for _, *pair in batches for array in pair]))
                for start, *_ in batches:
                    is_lost = kind.lost_of(next(arrays), next(arrays))
                    self.lost += (np.flatnonzero(by_sample(is_lost)) + start).tolist()
        self.lost.sort()

    def merge(self, other: "Seen") -> None:
        """Take in what another one has seen, as if it had come after."""
        self.check()
        other.check()
        self.lost += [self._n_samples + position for position in other.lost]
        self._n_samples += other._n_samples

    def state_dict(self) -> dict[str, Any]:
        """Return how many samples were seen, and which were lost."""
        self.check()
        return {"n_samples": self._n_samples, "lost": np.array(self.lost, dtype=np.int64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batches that a state has seen."""
        self._pending = []
        self._n_samples, self.lost = int(state["n_samples"]), np.asarray(state["lost"]).tolist()


def wrong_labels(true: np.ndarray, n_classes: int, ignore_index: int | None = None) -> np.ndarray:
    """Return which targets are none of the classes.

    Parameters
    ----------
    true
        Numbers.
    n_classes
        How many classes there are, from 0; 0: any whole number is one; or ``YES_OR_NO``.
    ignore_index
        The target that does not count.
    """
    if true.dtype.kind not in "iuf":
        return np.zeros(true.shape, bool)
    if n_classes == YES_OR_NO:
        is_right = (true >= 0) & (true <= 1)
    else:
        is_right = np.ones(true.shape, bool) if true.dtype.kind != "f" else true == np.floor(true)
        if n_classes:
            is_right &= (true >= 0) & (true < n_classes)
        elif true.dtype.kind == "f":
            is_right &= np.isfinite(true)
    return ~is_right if ignore_index is None else ~is_right & (true != ignore_index)


def refuse_label(
    name: str,
    true: np.ndarray,
    is_wrong: np.ndarray,
    n_classes: int,
    start: int = 0,
    *,
    is_known: bool = True,
    what: str = "target",
) -> None:
    """Refuse targets that no class is, naming the first.

    Parameters
    ----------
    name
        Of the metric.
    true
        Targets of shape ``(n, ...)``.
    is_wrong
        Which are refused.
    n_classes
        How many classes there are; 0: nobody knows; or ``YES_OR_NO``.
    start
        Position of the first of them in the pass.
    is_known
        Whether ``true`` holds the targets, and not only where they are wrong.
    what
        ``"prediction"`` if they are predicted labels.

    Raises
    ------
    DataError
        Always.
    """
    samples = np.flatnonzero(by_sample(is_wrong))
    label = f"the {what} {true[is_wrong][0]}" if is_known else f"a {what}"
    more = f", and {len(samples) - 1} more samples have such ones" if len(samples) > 1 else ""
    classes = f"none of the {n_classes} classes from 0 to {n_classes - 1}" if n_classes else "no whole number"
    if n_classes == YES_OR_NO:
        classes = "neither yes nor no (0 to 1)"
    cure = ", and name a target that does not count by ignore_index=, of the metric or of the loss"
    raise DataError(
        f"the metric {name!r} got {label} in sample {start + samples[0]}, which is {classes}{more}; number the "
        f"classes from 0{cure if what == 'target' else ''}"
    )


def by_sample(flags: np.ndarray) -> np.ndarray:
    """Return whether any flag of a sample is up, bool of shape ``(n,)``."""
    return np.asarray(flags.reshape(len(flags), -1).any(axis=1)) if flags.ndim else flags.reshape(1)


def named_samples(positions: Array) -> str:
    """Positions as a text, the first of them if there are many."""
    numbers = [int(position) for position in positions]
    more = f" and {len(numbers) - MOST_NAMED:,} more" if len(numbers) > MOST_NAMED else ""
    return ", ".join(map(str, numbers[:MOST_NAMED])) + more


def _reduced_labels(true: Array, n_classes: int, ignore_index: int | None) -> Any:
    """Of each sample whether a target is wrong, on the device, shape ``(B,)``; many numbers are not brought over."""
    ops = ops_of(true)
    shape = shape_of(true)
    if "bool" in str(true.dtype):
        return ops.reshape(ops.to_integer(true), (shape[0], -1))[:, 0] * 0
    values = true if ops.is_float(true) else ops.to_integer(true)
    is_wrong = (values < 0) | (values > 1) if n_classes == YES_OR_NO else values != values
    if n_classes != YES_OR_NO:
        if n_classes:
            is_wrong = is_wrong | (values < 0) | (values >= n_classes)
        if ops.is_float(true):
            is_wrong = is_wrong | ~ops.equal(values, ops.to_integer(values))
    if ignore_index is not None:
        is_wrong = is_wrong & (values != ignore_index)
    return ops.largest(ops.to_integer(ops.reshape(is_wrong, (shape[0], -1))), 1)


def _reduced_scores(scores: Array) -> Any:
    ops = ops_of(scores)
    rows = ops.reshape(~ops.is_finite(scores), (shape_of(scores)[0], -1))
    return ops.largest(ops.to_integer(rows), 1)
