"""Where the time of a run went: seconds of each phase in each fold."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.report.panels import time_panel
from delira.report.section import Section
from delira.report.table import Seconds, Share, Table
from delira.utils.foreign import read_json
from delira.utils.seal import unsealed

FILE = "timings.json"
_VERSION = 1
#: phases in the order in which they are shown; colours that the page does not change, told apart in light and dark
COLOURS = {
    "data": "#c8553d",
    "transfer": "#cc79a7",
    "forward": "#56b4e9",
    "backward": "#1b6ca8",
    "step": "#1b6ca8",
    "update": "#3d5a99",
    "validation": "#009e73",
    "checkpoint": "#e69f00",
    "test": "#7fb685",
    "other": "#9aa1aa",
}


def timings_of(fold: Any) -> tuple[dict[str, float], str]:
    """Seconds by phase, and a note about them; empty where nothing was measured, or it cannot be read.

    Parameters
    ----------
    fold
        A ``FoldResult``: its ``timings``, else ``timings.json`` in its folder.
    """
    stated: Any = fold.timings
    if not stated and fold.path is not None:
        with contextlib.suppress(OSError, ValueError):
            stated = unsealed(read_json(Path(fold.path) / FILE))
    if not isinstance(stated, Mapping) or stated.get("version") != _VERSION:
        return {}, ""
    seconds = stated.get("seconds")
    if not isinstance(seconds, Mapping):
        return {}, ""
    numbers = {
        str(phase): float(value)
        for phase, value in seconds.items()
        if isinstance(value, (int, float)) and np.isfinite(value) and value >= 0
    }
    return numbers, str(stated.get("note") or "")


def phases_of(times: Sequence[Mapping[str, float]]) -> list[str]:
    """Phases that took any time, the known ones in their order, then those of another version.

    Parameters
    ----------
    times
        Seconds by phase, of folds or of runs.
    """
    named = dict.fromkeys(phase for seconds in times for phase in seconds if seconds[phase])
    return [phase for phase in COLOURS if phase in named] + [phase for phase in named if phase not in COLOURS]


def time_section(result: Any) -> Section | None:
    """Return the section, or None if no fold knows where its time went.

    Parameters
    ----------
    result
        With ``folds``.
    """
    found = {fold.fold: timings_of(fold) for fold in result.folds}
    folds = {number: seconds for number, (seconds, _) in found.items() if sum(seconds.values()) > 0}
    if not folds:
        return None
    phases = phases_of([*folds.values()])
    rows: list[list[Any]] = [
        [
            "all" if result.is_training else str(number),
            *(Seconds(seconds.get(phase, 0.0)) for phase in phases),
            Seconds(sum(seconds.values())),
        ]
        for number, seconds in folds.items()
    ]
    n_folds = len(rows)
    totals = [sum(seconds.get(phase, 0.0) for seconds in folds.values()) for phase in phases]
    if n_folds > 1:
        rows.append(["all", *map(Seconds, totals), Seconds(sum(totals))])
    rows.append(["share", *(Share(total / sum(totals)) for total in totals), Share(1.0)])
    by_phase = {phase: [seconds.get(phase, 0.0) for seconds in folds.values()] for phase in phases}
    colours = {phase: COLOURS.get(phase, COLOURS["other"]) for phase in phases}
    panel = time_panel(["" if result.is_training else f"fold {number}" for number in folds], by_phase, colours)
    notes = _joined([note for _, note in found.values() if note])
    if without := [str(number) for number in found if number not in folds]:
        notes.append(f"Nothing was measured in fold {', '.join(without)}.")
    if "other" in phases:
        notes.append("other: what is in no phase, as callbacks, and what happens once, as imports at the first step")
    header = ["" if result.is_training else "Fold", *phases, "Sum"]
    return Section("Time", {"time": panel}, [Table("time", header, rows, n_last=1 + (n_folds > 1))], notes)


def _joined(notes: Sequence[str]) -> list[str]:
    """Notes of the folds; those with a number, of steps, are one sentence with each number once."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        before, number, after = re.fullmatch(r"(\D*)(\d*)(.*)", note, re.DOTALL).groups()  # type: ignore[union-attr]
        found = numbers.setdefault((before, after), [])
        if number not in found:
            found.append(number)
    of = " of each fold" if len(notes) > 1 else ""
    return [
        f"{before}{_listed(found)}{after}{of if found != [''] else ''}" for (before, after), found in numbers.items()
    ]


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
