"""Keeps hashes of the cases that a run trains and validates on, before it does: scores of an ensemble refuse these."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager
from delira.data_loading._content import with_progress
from delira.data_loading.case_hashes import are_alike_again, hashes_of, names_of_cases, too_far_away
from delira.errors import noting
from delira.runs.folder import loss_tolerated
from delira.runs.seen_cases import ROLES, SeenCases
from delira.training.run import own_generators
from delira.training.trainer import BaseNetworkTrainer


def keep_of_folds(
    folder: Path, trainer: BaseNetworkTrainer, cases: BaseDataManager, splits: Sequence[Any], allow_changes: bool
) -> None:
    """Keep what all folds of a cross-validation see.

    Parameters
    ----------
    folder
        Of the run; what is there already is not computed again.
    trainer
        Of a fold, which knows what its network reads.
    cases
        The data that are divided.
    splits
        The parts of each fold.
    allow_changes
        Whether the run may be continued with other data.
    """
    parts = {number: {"training": split.train, "validation": split.val} for number, split in enumerate(splits)}
    _keep(folder, trainer, [cases], parts, allow_changes)


def keep_of_run(folder: Path, trainer: BaseNetworkTrainer, data: Sequence[Any], allow_changes: bool) -> None:
    """Keep what a single training sees.

    Parameters
    ----------
    folder, trainer, allow_changes
        As of :func:`keep_of_folds`.
    data
        That of training and validation; None: there is none.
    """
    parts, start = {}, 0
    for role, one in zip(ROLES, data, strict=True):
        n_cases = len(one.whole_cases().dataset) if isinstance(one, BaseDataManager) else 0
        parts[role] = np.arange(start, start + n_cases)
        start += n_cases
    _keep(folder, trainer, [one for one in data if one is not None], {trainer.fold: parts}, allow_changes)


def _keep(
    folder: Path,
    trainer: BaseNetworkTrainer,
    data: Sequence[Any],
    folds: Mapping[int, Mapping[str, np.ndarray | None]],
    allow_changes: bool,
) -> None:
    before = SeenCases.read(folder)
    if before is not None and not allow_changes and folds.keys() <= before.folds.keys():
        return
    entries = sorted({*trainer.key_mapping.values()})
    with own_generators(trainer.backend), noting("while each case was read once, for its hash, before the training"):
        names, hashes, unknown = _read(data, entries, bool(trainer.config.logging.verbose))
    plain = {number: {role: _places(part) for role, part in parts.items()} for number, parts in folds.items()}
    if unknown:
        names, hashes, plain = [], [], {number: {role: [] for role in parts} for number, parts in plain.items()}
    found = SeenCases(entries=entries, names=names, hashes=hashes, folds=plain, unknown=unknown)
    with loss_tolerated("which cases the run sees"):
        (found if before is None else before.joined(found)).write(folder)


def _places(part: np.ndarray | None) -> list[int]:
    return [] if part is None else part.tolist()


def _read(data: Sequence[Any], entries: Sequence[str], is_shown: bool) -> tuple[list[str], list[str], str]:
    """Names and hashes of all cases, or why there are none."""
    names: list[str] = []
    hashes: list[str] = []
    for one in data:
        if not isinstance(one, BaseDataManager):
            return [], [], f"its data were a {type(one).__name__}, whose cases cannot be read one by one"
        if reason := too_far_away(one):
            return [], [], reason
        start = len(hashes)
        names += names_of_cases(one)
        hashes += [""] * (len(names) - start)
        read: Iterable[tuple[int, str | None]] = hashes_of(one, entries)
        if is_shown:  # where it takes its time, and gone when the training begins
            read = with_progress(read, "Hashing cases", total=len(names) - start, delay=2, leave=False)
        for number, found in read:
            if found is None:
                return [], [], f"a transform made the entries {entries} that its network reads; its data lack one"
            hashes[start + number] = found
        if not are_alike_again(one, entries, hashes[start:]):
            what = "so none is known again; let transforms draw"
            return [], [], f"its data set gives other contents each time that a case is read, {what}"
    return names, hashes, ""
