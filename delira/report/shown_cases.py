"""Cases on the page of a result: pictures with their names and classes, and a table that is ordered by any metric."""

import math
from typing import Any

import numpy as np

from delira.metrics.direction import higher_is_better
from delira.metrics.per_class import OfClass
from delira.report.case_table import case_table
from delira.report.examples import Examples, class_colour, data_uri, drawn_pictures, has_classes
from delira.report.summary import fold_values
from delira.report.table import DASH, number_format

MAX_ROWS = 200
"""Rows of the table; of more cases it has the worst by each metric."""


def case_name(result: Any, index: int) -> str:
    """Return what a case is called: its name, where the data set has ``case_names``, else ``"case 17"``.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    index
        Of the case in the data set.
    """
    names = result.case_names
    return f"case {index}" if names is None or not 0 <= index < len(names) else str(names[index])


# ------------------------------------------------------------------ pictures


def shown_examples(result: Any) -> dict[str, Any] | None:
    """Pictures of samples as the template reads them, in two rows; None if there are none.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    examples: Examples | None = result.examples
    if examples is None:
        return None
    titles = ("Lowest", "Highest") if examples.is_high_good is None else ("Worst", "Best")
    text = number_format([example.score for example in examples.examples])
    rows: dict[str, list[dict[str, Any]]] = {title: [] for title in titles}
    words = list(dict.fromkeys(example.words for example in examples.examples if example.words))
    has_slices = any("slice" in each for each in words)
    for example in examples.examples:
        name = case_name(result, example.case)
        cell = {
            "name": name,
            "fold": example.fold,
            "score": text(example.score),
            "true": example.true,
            "predicted": example.predicted,
            "words": example.words if has_slices else "",
            "pictures": [
                (what, data_uri(drawn)) for what, drawn in drawn_pictures(example, has_classes(examples)).items()
            ],
        }
        rows[titles[example.is_best]].append(cell)
    has_masks = any(example.true_mask is not None for example in examples.examples)
    return {
        "name": examples.score_name,
        "rows": [(title, cells) for title, cells in rows.items() if cells],
        "outlines": has_masks and not has_classes(examples),
        "classes": classes_of(result, examples),
        "notes": [*_notes_of_pictures(words, has_slices, has_masks), *examples.notes],
    }


def _notes_of_pictures(words: list[str], has_slices: bool, has_masks: bool) -> list[str]:
    if has_slices:
        which = "the one with most of the masks, true and predicted" if has_masks else "the middle one"
        return [f"Of a volume one slice along its first axis is shown, {which}; slices are counted from 0."]
    return [f"Shown: {'; '.join(words[:4])}."] if words else []


def classes_of(result: Any, examples: Examples) -> list[tuple[str, str]]:
    """Name and colour, ``"#rrggbb"``, of each class in the pictures; none where masks have no classes.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    examples
        Its samples.
    """
    if not has_classes(examples):
        return []
    masks = [mask for one in examples.examples for mask in (one.true_mask, one.predicted_mask) if mask is not None]
    labels = sorted({label for mask in masks for label in np.unique(mask).tolist()} - {0})
    names = _names_of_classes(result)
    return [(names.get(label, f"class {label}"), "#" + bytes(class_colour(label)).hex()) for label in labels]


def _names_of_classes(result: Any) -> dict[int, str]:
    """Names of labels: those of the data set, else those that metrics per class were given."""
    if given := result.info.get("class_names"):
        return dict(enumerate(map(str, given)))
    of_class = [metric for metric in (result.metrics or {}).values() if isinstance(metric, OfClass)]
    return {metric.label: metric.class_name for metric in of_class if not metric.class_name.isdecimal()}


# ------------------------------------------------------------------ the table


def shown_cases(result: Any) -> dict[str, Any] | None:
    """Return the table of the cases as the template reads it; None without metrics over samples.

    Parameters
    ----------
    result
        A ``KFoldResult``.

    Returns
    -------
    dict or None
        ``metrics``, names of the columns; ``rows``, each with ``name``, ``fold``, ``group``, ``cells`` and ``places``:
        where it stands in the order of each metric, the worst first.
    """
    cases = case_table(result)
    names = [name for name in cases if name in fold_values(result)]
    if result.is_training or not names or not len(cases):
        return None
    orders = [_worst_first(result, name, cases[name]) for name in names]
    kept = np.arange(len(cases))
    if len(cases) > MAX_ROWS:
        n_each = max(1, MAX_ROWS // len(names))
        kept = np.unique(np.concatenate([order[:n_each] for order in orders]))
    # where each row stands among those of each order
    places = [np.argsort(order) for order in orders]
    texts = {name: number_format(cases[name].tolist()) for name in names}
    group = cases["group"] if "group" in cases.columns and result.groups is not None else None
    rows = [
        {
            "name": case_name(result, int(cases["index"][row])),
            "fold": int(cases["fold"][row]),
            "group": "" if group is None else str(group[row]),
            "cells": [_cell(float(cases[name][row]), texts[name]) for name in names],
            "places": [int(place[row]) for place in places],
        }
        for row in kept.tolist()
    ]
    notes = [f"Of {len(cases):,} tests of a case, the worst by each metric."] if len(rows) < len(cases) else []
    return {"metrics": names, "rows": rows, "has_groups": group is not None, "notes": notes, "n": len(cases)}


def _worst_first(result: Any, name: str, values: np.ndarray) -> np.ndarray:
    """Rows, the worst first; the lowest first where nobody knows what is good; those without a value last."""
    is_high_good = higher_is_better((result.metrics or {}).get(name), name)
    return np.argsort(-values if is_high_good is False else values, kind="stable")


def _cell(value: float, text: Any) -> str:
    return text(value) if math.isfinite(value) else DASH if math.isnan(value) else str(value)
