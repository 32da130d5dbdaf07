"""What the folds of a nested search have chosen, and how much they agree."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from delira.report.table import DASH, Section, Table
from delira.utils.files import mapping


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
        *_asked(result),
        *agreement(result),
    ]
    return Section("Settings that each fold chose", {}, [table], notes)


def agreement(result: Any) -> list[str]:
    """Return a sentence for each parameter about how much the folds agree.

    Of an interval it gives median and range, and how much of the space the range takes; of options, and where nobody
    knows the space, how often each was chosen.

    Parameters
    ----------
    result
        A ``KFoldResult`` whose folds have searched.
    """
    found, spaces = result.searched, mapping(mapping(result.info.get("search")).get("spaces"))
    known = {name: [each["values"][name] for each in found if name in each["values"]] for name in _names(found)}
    return [
        f"{name}: {_agreed(values, mapping(spaces.get(name)))}"
        + ("" if len(values) == len(found) else f" (there in {len(values)} of {len(found)} folds)")
        for name, values in known.items()
    ]


def _names(found: Sequence[Mapping[str, Any]]) -> list[str]:
    return [*dict.fromkeys(name for each in found for name in each["values"])]


def _agreed(values: Sequence[Any], space: Mapping[str, Any]) -> str:
    """What folds chose of a space, which is given as files have it."""
    if space.get("$space") in ("Float", "Int") and all(map(_is_number, values)) and len({*values}) > 1:
        share = _share(min(values), max(values), space)
        within = (
            "" if share is None else f", {share} of the space's width{' on its log scale' if space.get('log') else ''}"
        )
        return f"median {np.median(values):.4g}, from {min(values):.4g} to {max(values):.4g}{within}"
    counts = Counter(map(str, values)).most_common()
    # the first one says what the numbers count
    told = [
        f"{value} in {n}{'' if place else ' fold' if n == 1 else ' folds'}" for place, (value, n) in enumerate(counts)
    ]
    options = space.get("options")
    return ", ".join(told) + (f", of {len(options)} options" if isinstance(options, list) else "")


def _share(low: float, high: float, space: Mapping[str, Any]) -> str | None:
    """How much of its width lies between two values of a space; None where its file does not say its ends."""
    first, last = space.get("low"), space.get("high")
    if not (_is_number(first) and _is_number(last)):
        return None
    if space.get("log"):
        if min(first, last, low) <= 0:
            return None
        first, last, low, high = map(math.log, (first, last, low, high))
    if not last > first:
        return None
    share = 100 * (high - low) / (last - first)
    return "less than 1 %" if share < 1 else f"{share:.0f} %"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _asked(result: Any) -> list[str]:
    """What each search was asked for: how many trials, by whom proposed, and how each was scored."""
    asked = mapping(result.info.get("search"))
    number = asked.get("n_trials")
    if not isinstance(number, int):
        return []
    sampler, pruner = _called(asked.get("sampler")), _called(asked.get("pruner"))
    pruned = f", and pruned by {pruner}" if pruner else ""
    trials = "1 trial" if number == 1 else f"{number:,} trials"
    return [f"Each fold tried {trials}, proposed by {sampler or 'an unknown sampler'}{pruned}; {_scored(asked)}."]


def _scored(asked: Mapping[str, Any]) -> str:
    """How a trial came to its score."""
    splitter, folds, part = _called(asked.get("split_type")), asked.get("num_splits"), asked.get("val_split")
    is_splitter = isinstance(asked.get("split_type"), Mapping)
    if folds is None and not is_splitter:
        return f"each was trained once, and scored by the {_percent(part)} held out of the fold's training part"
    inner = "the inner folds" if folds is None else f"{folds} inner folds"
    by = f" ({splitter})" if splitter else ""
    held_out = "" if part is None else f", {_percent(part)} of whose training parts were held out for validation"
    return f"each was scored by the test parts of {inner}{by}{held_out}"


def _percent(share: object) -> str:
    return f"{100 * share:.4g} %" if isinstance(share, (int, float)) else "a part"


def _called(plain: Any) -> str:
    """The name of what a file says, with what it was made of; empty where it says nothing."""
    if not isinstance(plain, Mapping):
        return "" if plain is None else str(plain)
    tag = next((tag for tag in ("$call", "$partial", "$object", "class", "$repr") if tag in plain), "")
    stated = plain.get("arguments", {name: value for name, value in plain.items() if name != "class"})
    given = [f"{name}={value}" for name, value in mapping(stated).items() if value is not None]
    name = str(plain.get(tag, "what has no name")).rpartition(":")[2]
    return f"{name}({', '.join(given)})" if given and tag not in ("$object", "$repr") else name


def _cell(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return str(value)
    return f"{value:.4g}" if isinstance(value, float) else value
