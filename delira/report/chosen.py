"""What the folds of a nested search have chosen, and how much they agree."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delira.report.table import DASH, Section, Table


def chosen_section(result: Any) -> Section | None:
    """Return the settings of each fold as a section of the page; None where the folds searched nothing."""
    found = result.searched
    if not found:
        return None
    names = _names(found)
    rows = [
        [
            str(each["fold"]),
            *(each["scores"] or [None])[:1],
            *(_cell(each["values"][name]) if name in each["values"] else DASH for name in names),
        ]
        for each in found
    ]
    table = Table("chosen", ["Fold", "Inner score", *names], rows)
    notes = [
        "Each fold searched in its training part alone; its inner score chose the settings, and is better than what "
        "they reach on new data. The scores above are those of the test parts, which no search has seen.",
        *agreement(found),
    ]
    return Section("Settings that each fold chose", {}, [table], notes)


def agreement(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each parameter about how much the folds agree.

    Parameters
    ----------
    found
        Of each fold ``values``, by the path of the parameter.
    """
    known = {name: [each["values"][name] for each in found if name in each["values"]] for name in _names(found)}
    return [_sentence(name, values, len(found)) for name, values in known.items()]


def _names(found: Sequence[Mapping[str, Any]]) -> list[str]:
    return [*dict.fromkeys(name for each in found for name in each["values"])]


def _sentence(name: str, values: Sequence[Any], n_folds: int) -> str:
    there = "" if len(values) == n_folds else f" (in {len(values)} of {n_folds} folds)"
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    if numeric and len({*values}) > 1:
        return f"{name}: median {np.median(values):.4g}, from {min(values):.4g} to {max(values):.4g}{there}"
    value, count = Counter(map(str, values)).most_common(1)[0]
    return f"{name}: {value} in {count} of {n_folds} folds"


def _cell(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return str(value)
    return f"{value:.4g}" if isinstance(value, float) else value
