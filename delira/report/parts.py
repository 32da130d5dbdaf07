"""Cases that were tested together, a fold or a round of folds, and which of their entries metrics read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, MissingKeyError
from delira.metrics.scoring import DEFAULT_KEYS, keys_of, lookup
from delira.utils.arrays import iterate_leaves, map_leaves

if TYPE_CHECKING:
    from delira.experiments.result import KFoldResult


class Part(NamedTuple):
    """Cases that were tested together, each once."""

    folds: list[Any]
    """The folds that tested them."""
    cases: np.ndarray
    """Indices in the data set, int64 of shape ``(n,)``."""
    values: Mapping[str, Any]
    """Predictions and entries of the batches, trees of arrays of shape ``(n, ...)``."""
    per_case: Mapping[str, np.ndarray]
    """Values of the metrics over samples, float64 of shape ``(n,)``."""

    @property
    def name(self) -> str:
        """The fold, or how many folds they are."""
        return f"fold {self.folds[0].fold}" if len(self.folds) == 1 else f"{len(self.folds)} folds"


def folds_of(result: "KFoldResult") -> list[Part]:
    """Each fold by itself.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    return [
        Part(
            [fold],
            fold.test_indices,
            {**fold.predictions, **fold.targets},  # as in a MetricSet's update: the batch wins
            {name: values for name, values in fold.metrics.items() if result.is_per_case(name)},
        )
        for fold in result.folds
    ]


def rounds_of(result: "KFoldResult") -> list[Part]:
    """Rounds of folds in which no case is tested twice, with their cases in the order of the data set."""
    rounds = result.rounds
    if rounds.kind == "splits":
        return folds_of(result)
    parts = []
    for folds in rounds.folds:
        oof = result.oof if len(folds) == len(result.folds) else result.aligned(folds)
        mask, values = oof.mask, {**oof.predictions, **oof.targets}
        if not mask.all():
            values = map_leaves(lambda leaf: None if leaf is None else leaf[mask], values)  # noqa: B023
        per_case = {name: found[mask] for name, found in oof.per_case.items()}
        parts.append(Part(folds, np.flatnonzero(mask), values, per_case))
    return parts


def arrays_of(result: Any, name: str, part: Part) -> Sequence[Any]:
    """Return what a metric reads of the cases of a part, in the order of its arguments.

    Raises
    ------
    MissingKeyError
        If an entry was not kept, or does not have one row per case.
    """
    arrays = []
    for key in keys_of(result.metrics, result.metric_keys)[name]:
        array = lookup(part.values, key)
        if any(leaf is None or np.shape(leaf)[:1] != part.cases.shape for _, leaf in iterate_leaves(array)):
            raise MissingKeyError(f"the entry {key!r} does not have one row per case")
        arrays.append(map_leaves(np.asarray, array))
    return arrays


def target_of(result: Any, name: str, part: Part) -> Any:
    """Return the entry of the batch among what a metric reads; None if there is none."""
    for key in keys_of(result.metrics, result.metric_keys)[name]:
        if key.split(".", 1)[0] in part.folds[0].targets:
            return lookup(part.values, key)
    return None


def entry_pairs(result: "KFoldResult") -> list[tuple[str, ...]]:
    """Entries that metrics read, each once: those that are known here, those that the run names, the usual ones.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    try:
        keys = keys_of(result.metrics or {}, result.metric_keys)
    except ConfigError:  # metrics of a stored run that are not known here
        keys = {}
    named = [tuple(pair) for pair in (result.metric_keys or {}).values()]
    return list(dict.fromkeys([*keys.values(), *named, DEFAULT_KEYS]))


def true_and_predicted(oof: Any, pair: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the entry of the batch and the one of the predictions; None if a pair is not one of each.

    Parameters
    ----------
    oof
        An ``OutOfFold``.
    pair
        Entries, in any order.
    """
    targets = [key for key in pair if key.split(".", 1)[0] in oof.targets]
    outputs = [key for key in pair if key not in targets]
    return (targets[0], outputs[0]) if len(targets) == len(outputs) == 1 else None


def tests_of(result: Any) -> str:
    """What is counted on a page: cases, or, where cases are tested several times, the predictions of single networks.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    rounds = result.rounds
    return "cases" if rounds.kind == "once" else f"predictions, of {len(rounds.folds)} {rounds.kind}"
