"""Where the time of a run went: seconds of each phase in each fold."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.report.plots import time_panel
from delira.report.table import Seconds, Section, Share, Table
from delira.runs.timings import FILE, VERSION
from delira.utils.files import mapping, read_json, unsealed

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
_ABOUT_OTHER = "other: what is in no phase, as callbacks, and what happens once, as imports at the first step"


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
    stated = mapping(stated)
    if stated.get("version") != VERSION or not isinstance(stated.get("seconds"), Mapping):
        return {}, ""
    numbers = {
        str(phase): float(value)
        for phase, value in stated["seconds"].items()
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
    by_phase = {phase: [seconds.get(phase, 0.0) for seconds in folds.values()] for phase in phases}
    totals = [*map(sum, by_phase.values())]
    rows: list[list[Any]] = [
        [
            "all" if result.is_training else str(number),
            *(Seconds(seconds.get(phase, 0.0)) for phase in phases),
            Seconds(sum(seconds.values())),
        ]
        for number, seconds in folds.items()
    ]
    if len(folds) > 1:
        rows.append(["all", *map(Seconds, totals), Seconds(sum(totals))])
    rows.append(["share", *(Share(total / sum(totals)) for total in totals), Share(1.0)])
    colours = {phase: COLOURS.get(phase, COLOURS["other"]) for phase in phases}
    panel = time_panel(["" if result.is_training else f"fold {number}" for number in folds], by_phase, colours)
    notes = _joined([note for _, note in found.values() if note])
    without = [str(number) for number in found if number not in folds]
    notes += [f"Nothing was measured in fold {', '.join(without)}."] if without else []
    notes += [_ABOUT_OTHER] if "other" in phases else []
    header = ["" if result.is_training else "Fold", *phases, "Sum"]
    return Section("Time", {"time": panel}, [Table("time", header, rows, n_last=1 + (len(folds) > 1))], notes)


def _joined(notes: Sequence[str]) -> list[str]:
    """Notes of the folds; those with a number, of steps, are one sentence with each number once."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for note in dict.fromkeys(notes):
        before, number, after = re.fullmatch(r"(\D*)(\d*)(.*)", note, re.DOTALL).groups()  # type: ignore[union-attr]
        numbers.setdefault((before, after), []).append(number)
    of = " of each fold" if len(notes) > 1 else ""
    return [
        f"{before}{' and '.join(filter(None, [', '.join(found[:-1]), found[-1]]))}{after}{of if found != [''] else ''}"
        for (before, after), found in numbers.items()
    ]
