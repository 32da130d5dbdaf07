"""The card of a model: what was trained on what, how it was tested, what came out, and what to beware of, in Markdown.

References
----------
M. Mitchell, S. Wu, A. Zaldivar, P. Barnes, L. Vasserman, B. Hutchinson, E. Spitzer, I. D. Raji, T. Gebru, "Model Cards
for Model Reporting", FAT* 2019: its sections.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from delira.errors import DataError, expect
from delira.report.bootstrap632 import bootstrap632
from delira.report.chosen import agreement
from delira.report.class_table import has_classes
from delira.report.page import facts_of
from delira.report.predictions import learned_from
from delira.report.subgroups import subgroups
from delira.report.summary import fingerprints
from delira.report.table import escape_markdown, markdown_table
from delira.report.temperature import calibrate
from delira.utils.files import harmless, mapping

#: facts of a run about where it ran
_MACHINE = ("platform", "processor", "cpus")


def model_card(result: Any, by: Any = None, intended_use: str = "", limits: str = "") -> str:
    """Return the card.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    by
        What to divide the cases by, as of ``result.subgroups``: ``"site"`` where ``groups_key="site"``, or
        ``{"site": array}``; ``None``: they are not divided, and it says so.
    intended_use, limits
        What only its authors know: who should use the model for what, and for what not. Markdown.

    Raises
    ------
    ConfigError, DataError
        If cases cannot be divided so, or a text is none.
    """
    for name, text in (("intended_use", intended_use), ("limits", limits)):
        expect((name, text, isinstance(text, str), "a text"))
    sections = [
        ("Model", _model(result)),
        ("Intended use", [intended_use or "Not stated by the authors."]),
        ("Limits", [limits or "Not stated by the authors."]),
        ("Data", _data(result)),
        ("How it was tested", _tested(result)),
        ("Results", _results(result)),
        ("Subgroups", _subgroups(result, by)),
        ("Calibration", _calibration(result)),
        ("Caveats", _listed(result.warnings) or ["delira found none. Those of the data are known to the authors."]),
        ("Environment", _environment(result)),
    ]
    told = [f"# {escape_markdown(result.name or 'Model')}"]
    for title, paragraphs in sections:
        told += [f"## {title}", *(harmless(text) for text in paragraphs)]
    return "\n\n".join(told) + "\n"


def _model(result: Any) -> list[str]:
    info = result.info
    n_folds = len(result.folds)
    whole = (
        "One network, which nothing was tested with: the numbers below are of its training and validation."
        if result.is_training
        else f"{n_folds} networks, one for each fold; {_of_all(result)}. The numbers below are of single networks on "
        "cases that they did not see, not of a mean of them."
    )
    # the key in the manifest is an old one
    rows = [("Network", info.get("model")), ("Backend", info.get("room")), ("Epochs", info.get("num_epochs"))]
    found = [whole, _table(rows)]
    if result.searched:
        found += ["Each fold chose settings by a search in its own training part:", *_listed(agreement(result))]
    settings = info.get("settings")
    if isinstance(settings, str):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", settings)), default=0))
        found.append(f"{fence}yaml\n{settings}\n{fence}")
    return [text for text in found if text]


def _of_all(result: Any) -> str:
    """What is so of a network that was trained on all cases."""
    if result.apparent is None:
        return "none was trained on all cases"
    return "one more was trained on all cases, of which the .632+ estimate is"


def _data(result: Any) -> list[str]:
    names = result.info.get("class_names") or ()
    rows: list[tuple[str, Any]] = [each for each in facts_of(result) if each[0] in ("Cases", "Groups")]
    rows += [("Samples of the data set", f"{result.n_samples:,}"), ("Classes", ", ".join(map(str, names)))]
    left_out = len({index for fold in result.folds for index in fold.left_out})
    rows += [("Samples that could not be loaded", f"{left_out:,}" if left_out else None)]
    return [_table([*rows, *fingerprints(result)])]


def _tested(result: Any) -> list[str]:
    rows = [each for each in facts_of(result) if each[0] not in ("Cases", "Groups")]
    if result.is_training:
        return [_table(rows)]
    kind = {"once": "once", "repeats": "in each repeat", "splits": "in some of the splits"}[result.rounds.kind]
    how = "cross-validation" if result.apparent is None else "bootstrap"
    return [
        f"By {how}: each tested case was tested {kind}, by a network that was trained without it.{_of_groups(result)}",
        _table(rows),
    ]


def _of_groups(result: Any) -> str:
    """What is so of groups, by the indices of the folds: splits that were given may divide them."""
    if result.groups is None:
        return ""
    groups = np.asarray(result.groups)
    torn = [
        str(fold.fold) for fold in result.folds if np.isin(groups[fold.test_indices], groups[learned_from(fold)]).any()
    ]
    if torn:
        return f" Cases of one group are on both sides in fold {', '.join(torn)}: its numbers may be too good."
    return " Whole groups are on one side of each split."


def _results(result: Any) -> list[str]:
    if not result.summary():
        return ["No metric was computed on a test part."]
    what = "cases" if result.groups is None else "whole groups"
    found = [
        result.table("markdown"),
        f"SD over folds; intervals are 95 % percentile bootstrap intervals over {what}. They hold for these networks "
        "and cases drawn as these were, not for another training.",
    ]
    found += [result.class_table("markdown")] if has_classes(result) else []
    if result.apparent is not None:
        drawn = bootstrap632(result)
        found += [drawn.table().rendered("markdown"), *_listed(drawn.words())]
    return found


def _subgroups(result: Any, by: Any) -> list[str]:
    if by is None:
        return ["Cases were not divided: whether the numbers hold for each site, scanner or sex is not known."]
    found = subgroups(result, by)
    return [found.table().rendered("markdown"), *_listed(found.words())]


def _calibration(result: Any) -> list[str]:
    try:
        found = calibrate(result)
    except DataError as error:
        return [f"Not known: {escape_markdown(str(error))}."]
    return [found.table().rendered("markdown"), *_listed(found.words())]


def _environment(result: Any) -> list[str]:
    info = result.info
    git = mapping(info.get("git"))
    commit = git.get("commit")
    rows: list[tuple[str, Any]] = [*mapping(info.get("versions")).items()]
    rows += [(name, info.get(name)) for name in _MACHINE]
    rows += [("commit", f"{commit}{', with changes' if git.get('changed') else ''}" if commit else None)]
    return [_table(rows) or "Not known."]


def _table(rows: Sequence[tuple[str, Any]]) -> str:
    """Two columns of what is known; empty if nothing is."""
    known = [[name, str(value)] for name, value in rows if value not in (None, "", ())]
    return markdown_table([["", ""], *known]) if known else ""


def _listed(texts: Sequence[str]) -> list[str]:
    """As one list of Markdown; nothing of none."""
    return ["\n".join(f"- {escape_markdown(text)}" for text in texts)] if texts else []
