"""What was predicted of cases by networks that did not see them: rounds of folds, and arrays by the index of a case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from delira.errors import DataError
from delira.metrics import gather
from delira.runs.kept import NotKept
from delira.runs.results import FoldResult
from delira.utils import arrays


class Rounds(NamedTuple):
    """The folds of a cross-validation, ordered by how often they test the cases."""

    kind: Literal["once", "repeats", "splits"]
    """``"once"``: no case is tested twice. ``"repeats"``: every round tests all cases once. ``"splits"``: some cases
    are tested more often than others, and each fold is a round."""
    folds: list[list[FoldResult]]
    """Of each round; no case is tested twice in one."""
    unfinished: list[FoldResult]
    """Folds of the last repeat, if it has not tested all cases."""

    @property
    def is_once(self) -> bool:
        """Return True if no case is tested twice, not even by an unfinished repeat."""
        return self.kind == "once" and not self.unfinished


def rounds_of(folds: Sequence[FoldResult], n_planned: int | None = None) -> Rounds:
    """Divide folds, in their order, into rounds in which no case is tested twice.

    Parameters
    ----------
    folds
        Of one cross-validation.
    n_planned
        How many folds it has when it is done; None: not known. Of one that is done no repeat is unfinished, however
        the cases of its splits fall.
    """
    rounds: list[list[FoldResult]] = []
    tested: list[set[int]] = []
    for fold in folds:
        cases = set(fold.test_indices.tolist())
        if not rounds or tested[-1] & cases:
            rounds.append([])
            tested.append(set())
        rounds[-1].append(fold)
        tested[-1] |= cases
    if len(rounds) < 2:
        return Rounds("once", rounds, [])
    if all(cases == tested[0] for cases in tested):
        return Rounds("repeats", rounds, [])
    is_done = n_planned is not None and len(folds) >= n_planned
    is_broken_off = all(cases == tested[0] for cases in tested[:-1]) and tested[-1] < tested[0]
    if not is_done and len(rounds[0]) > 1 and is_broken_off:
        return Rounds("repeats" if len(rounds) > 2 else "once", rounds[:-1], rounds[-1])
    return Rounds("splits", [[fold] for fold in folds], [])


@dataclass(eq=False, repr=False)
class OutOfFold:
    """Predictions for every case by a network that did not see it, aligned with the data set's indices.

    Each is that of a single network. A case tested several times (repeated k-fold) has the last of its predictions:
    their mean would be that of an ensemble, which is another model than the one that was tested. A case never tested
    has NaN, or zero where the type has no NaN: see ``mask``. An entry that does not have one row per case is None.
    """

    predictions: dict[str, Any]
    """Tree of arrays of shape ``(n_dataset, ...)``; object arrays where shapes differ between cases."""
    targets: dict[str, Any]
    """The same for the entries of the batches that the metrics read."""
    per_case: dict[str, np.ndarray]
    """Values of the metrics over samples, float64 of shape ``(n_dataset,)``."""
    fold: np.ndarray
    """The last fold in which a case was tested, int64 of shape ``(n_dataset,)``; -1: in none."""
    counts: np.ndarray
    """In how many folds it was tested, int64 of shape ``(n_dataset,)``."""

    @classmethod
    def from_folds(cls, folds: Sequence[FoldResult], n_samples: int, per_case: Sequence[str]) -> "OutOfFold":
        """Align the folds; ``per_case`` names the metrics that have one value per case."""
        fold_of, counts = np.full(n_samples, -1), np.zeros(n_samples, dtype=np.int64)
        for fold in folds:
            fold_of[fold.test_indices] = fold.fold
            np.add.at(counts, fold.test_indices, 1)
        values = [{name: fold.metrics[name] for name in per_case} for fold in folds]
        return cls(
            predictions=_kept("predictions", folds, counts),
            targets=_kept("targets", folds, counts),
            per_case=_aligned("metrics", values, folds, counts),
            fold=fold_of,
            counts=counts,
        )

    @property
    def mask(self) -> np.ndarray:
        """Which cases were tested, bool of shape ``(n_dataset,)``."""
        return self.counts > 0

    def __repr__(self) -> str:
        return f"OutOfFold({int(self.mask.sum())} of {len(self.mask)} cases, {list(self.predictions)})"


def _kept(what: str, folds: Sequence[FoldResult], counts: np.ndarray) -> dict[str, Any]:
    trees = [getattr(fold, what) for fold in folds]
    found = _aligned(what, trees, folds, counts)
    return next((NotKept(found) for tree in trees if isinstance(tree, NotKept)), found)


def _aligned(
    what: str, trees: Sequence[Mapping[str, Any]], folds: Sequence[FoldResult], counts: np.ndarray
) -> dict[str, Any]:
    """Put the rows of all folds where their cases are in the data set."""
    columns = [dict(arrays.iterate_leaves(tree)) for tree in trees]
    if not columns:
        return {}
    for fold, column in zip(folds, columns, strict=True):
        if column.keys() != columns[0].keys():
            changed = sorted(".".join(map(str, path)) for path in column.keys() ^ columns[0].keys())
            raise DataError(f"fold {fold.fold} and the first fold differ in the {what} {changed}")
    indices = [fold.test_indices for fold in folds]
    folder = next((Path(fold.path).parent for fold in folds if fold.path is not None), None)
    aligned = (_align([column[path] for column in columns], indices, counts, folder) for path in columns[0])
    return arrays.map_leaves(lambda leaf: next(aligned), trees[0])


def _align(
    parts: Sequence[Any], indices: Sequence[np.ndarray], counts: np.ndarray, folder: Path | None
) -> np.ndarray | None:
    parts = [np.asarray(part) for part in parts]
    if any(part.shape[:1] != where.shape for part, where in zip(parts, indices, strict=True)):
        return None
    shapes = {part.shape[1:] for part in parts}
    dtype = np.result_type(*(part.dtype for part in parts))
    if len(shapes) > 1 or dtype.hasobject:
        samples = np.full(len(counts), None, dtype=object)
        for part, where in zip(parts, indices, strict=True):
            for sample, index in zip(part, where, strict=True):
                samples[index] = sample
        return samples
    shape = (len(counts), *shapes.pop())
    try:  # beside what it is made of, where there is room for as much
        whole = gather.scratch_array(shape, dtype, gather.KEPT_BYTES, folder)
    except OSError:  # of a run that may be read only
        whole = gather.scratch_array(shape, dtype, gather.KEPT_BYTES)
    whole[counts == 0] = np.nan if np.issubdtype(dtype, np.inexact) else np.zeros((), dtype)
    for part, where in zip(parts, indices, strict=True):
        whole[where] = part
    return whole
