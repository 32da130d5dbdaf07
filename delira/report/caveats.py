"""What a reader must know before the numbers: what happened to the run, and what is no number."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.report.summary import fold_values
from delira.runs.results import describe_guards

MAX_LISTED = 10
_LENGTH = 16
"""Characters of a fingerprint that are shown."""


def caveats(result: Any) -> list[str]:
    """Sentences about a result: its own warnings, interruptions, what the guards did, and values that are not finite.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    return [*result.warnings, *_interruptions(_facts(result)[1]), *_guarded(result), *_not_finite(result)]


def of_numbers(result: Any) -> list[str]:
    """Sentences about metrics that are not defined in a fold, and about means of folds without an interval.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    found = []
    for name, row in result.summary().items():
        if row["undefined"]:
            found.append(f"{name} is {row['undefined']}")
        elif row["note"] and row["has_oof"] and not result.without_intervals:
            found.append(f"{name} has no interval: {row['note']}")
    if left := result.rounds.unfinished:
        numbers = ", ".join(str(fold.fold) for fold in left)
        found.append(
            f"Fold {numbers}: of a repeat that has not tested all cases; such folds count in mean and SD over folds, "
            "and not in out-of-fold values"
        )
    return found


def fingerprints(result: object) -> list[tuple[str, str]]:
    """Return what tells data and splits from others, as rows of (name, text); empty without a folder."""
    found = _facts(result)[0].get("fingerprint")
    if not isinstance(found, Mapping):
        return []
    return [(f"{name} fingerprint", str(found[name])[:_LENGTH]) for name in ("data", "splits") if found.get(name)]


def _facts(result: Any) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """Manifest and ledger of the run, as far as there is one."""
    if result.path is None:
        return {}, ()
    from delira.runs.stored_run import read_facts

    return read_facts(Path(result.path))


def _interruptions(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences about the ledger of the run: it was continued, and with what changes."""
    resumed = [event for event in events if event["event"] == "resumed"]
    if not resumed:
        return []
    endings = (str(event.get("error", "")) for event in events if event["event"] == "broken_off")
    errors = dict.fromkeys(error.removesuffix(": ") for error in endings)  # Ctrl-C may come without words
    why = f" (broken off by {'; '.join(filter(None, [*errors][:3]))})" if any(errors) else ""
    times = "once" if len(resumed) == 1 else f"{len(resumed)} times"
    found = [f"The run was interrupted and continued {times}{why}."]
    for told, entry in (("It was continued with changes", "changes"), ("When it was continued", "remarks")):
        lists = [event[entry] for event in resumed if isinstance(event.get(entry), list)]
        if lines := dict.fromkeys(str(line) for lines in lists for line in lines):
            found.append(f"{told}: {'; '.join(lines)}")
    return found


def _place(result: Any, fold: Any) -> str:
    """Which fold a clause is about; a single training has none."""
    return "" if result.is_training else f"Fold {fold.fold}: "


def _guarded(result: Any) -> list[str]:
    """Sentences about folds in which updates were left out, or that went back to a checkpoint."""
    folds = [fold for fold in (*result.folds, *result.unfinished) if fold.guards]
    return _shortened([_place(result, fold) + clause for fold in folds for clause in describe_guards(fold.guards)])


def _not_finite(result: Any) -> list[str]:
    """Sentences about epochs and folds whose values are not finite."""
    found = []
    for fold in result.folds:
        bad: dict[str, list[Any]] = {}
        for position, entry in enumerate(fold.history):
            for key, value in entry.items():
                if value is not None and not np.all(np.isfinite(np.asarray(value, dtype=float))):
                    bad.setdefault(key, []).append(entry.get("epoch", position + 1))
        for key, epochs in bad.items():
            of = f"{len(epochs)} of {len(fold.history)} epochs, first in epoch {epochs[0]}"
            found.append(f"{_place(result, fold)}{key} is not finite in {of}")
    summary = result.summary()
    for name, values in fold_values(result).items():
        folds = [str(fold.fold) for fold, value in zip(result.folds, values, strict=True) if not np.isfinite(value)]
        if folds and not summary[name]["undefined"]:
            found.append(f"{name} is not finite in fold {', '.join(folds)}, so its mean and spread are no numbers")
    return _shortened(found)


def _shortened(found: list[str]) -> list[str]:
    n_more = len(found) - MAX_LISTED
    return found[:MAX_LISTED] + ([f"and {n_more} more of this kind"] if n_more > 0 else [])
