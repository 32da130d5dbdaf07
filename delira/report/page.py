"""The HTML page of a cross-validation, or of a single training: one file that needs no other."""

import contextlib
import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delira.report import plots
from delira.report.caveats import caveats, fingerprints
from delira.report.checks import check_result
from delira.report.classification import classification_section, confusion
from delira.report.examples import Examples
from delira.report.regression import regression_section
from delira.report.summary import fold_values
from delira.report.svg import inline_svg
from delira.report.table import DASH, Section, Table, duration, number_format
from delira.report.tables import footnotes, gap_notes, metric_columns
from delira.report.thumbnail import data_uri, outlined
from delira.report.timing import time_section
from delira.utils.checks import import_optional

STRIP = (220, 26)
"""Width and height of the drawing beside a metric, in pixels."""
MANY_CLASSES = 12
"""A larger matrix, or a longer table, is folded away."""
_SPECIAL = {
    "name", "seed", "date", "started", "versions", "class_names", "split_type", "num_splits", "warnings", "duplicates",
}  # fmt: skip
"""Entries of ``info`` that have a place of their own."""


def result_page(result: Any) -> str:
    """Render the page of a ``KFoldResult``; every text from outside is escaped.

    Returns
    -------
    str
        HTML without any link to another file; colours follow the reader's light or dark setting.
    """
    check_result("result_page", result, "summary", "info", "warnings")
    columns = metric_columns(result)
    folds = drawn_folds(result)
    return template("kfold.html.j2").render(
        name=result.name or ("training" if result.is_training else "cross-validation"),
        kind="Training" if result.is_training else "Cross-validation",
        facts=_facts(result),
        metrics=[(column, *places([result], column.name)) for column in columns],
        strip_size=STRIP,
        notes=[*footnotes(result, columns), *gap_notes(columns)],
        warnings=caveats(result),
        folds=[
            {
                "fold": fold.fold,
                "train": f"{len(fold.train_indices):,}",
                "val": DASH if fold.val_indices is None else f"{len(fold.val_indices):,}",
                "test": f"{len(fold.test_indices):,}",
                "epochs": len(fold.history) or DASH,
                "best_epoch": DASH if fold.best_epoch is None else fold.best_epoch,
                "seconds": duration(fold.seconds),
                "values": [column.folds[position] for column in columns],
            }
            for position, fold in enumerate(() if result.is_training else result.folds)
        ],
        metric_names=[column.name for column in columns],
        curves=[inline_svg(figure, f"{name} over epochs") for name, figure in plots.curve_panels(folds).items()],
        legend=[
            (kind, f"{text} over folds" if kind == "band" else text)
            for kind, text in plots.legend_of(plots.curves(folds))
        ],
        curve_notes=_curve_notes(result),
        confusion=confusion(result),
        many_classes=MANY_CLASSES,
        sections=[shown_section(section) for section in sections(result)],
        examples=_shown_examples(result.examples),
        settings=[*flat({k: v for k, v in result.info.items() if k not in _SPECIAL}), *fingerprints(result)],
        versions=flat(versions) if isinstance(versions := result.info.get("versions"), Mapping) else [],
    )


def sections(result: Any) -> list[Section]:
    """Parts of the page that depend on the task, and on what was measured."""
    task: Section | None = None
    if result.is_training:
        task = _last_values(folds[0]) if (folds := drawn_folds(result)) else None
    elif result.folds:
        task = classification_section(result) or regression_section(result)
    return [section for section in (task, time_section(result)) if section is not None]


def _last_values(fold: Any) -> Section | None:
    """Return what the single training came to; a cross-validation is measured by its test."""
    best: dict[str, Any] = next((one for one in fold.history if one.get("epoch") == fold.best_epoch), {})
    epochs = [fold.history[-1] if fold.history else {}, *([best] if best else [])]
    rows: list[list[Any]] = [
        [key, *(np.nan if epoch.get(key) is None else float(np.mean(epoch[key])) for epoch in epochs)]
        for key, value in epochs[0].items()
        if value is not None and key != "epoch"
    ]
    header = ["Quantity", "Last epoch", "Best epoch"][: 1 + len(epochs)]
    return Section("Values", {}, [Table("values", header, rows, by_row=True)], []) if rows else None


def drawn_folds(result: Any) -> Sequence[Any]:
    """Folds whose histories are shown: where none has finished, those that began."""
    return result.folds or result.unfinished


#: what the number of an epoch is; metrics are of the whole data set
_ABOUT_LOSSES = (
    "A loss of an epoch is the mean over samples of batch means; with class weights or targets left out (PyTorch, "
    "Keras) it is weighted by what counts."
)


def _curve_notes(result: Any) -> list[str]:
    """Return what the curves do not show by themselves."""
    lengths = {len(fold.history) for fold in drawn_folds(result)}
    begun = [f"fold {fold.fold} after epoch {len(fold.history)}" for fold in result.unfinished]
    notes = [
        (any(lengths), _ABOUT_LOSSES),
        (len(lengths) > 1, "The folds trained for different numbers of epochs; the mean ends with the shortest."),
        (
            begun and not result.is_training,
            f"Not finished{', and not drawn' if result.folds else ''}: {', '.join(begun)}.",
        ),
    ]
    return [note for is_so, note in notes if is_so]


@functools.cache
def _environment() -> Any:
    jinja2 = import_optional("jinja2", "a page", "jinja2")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("delira.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def template(name: str) -> Any:
    """Return a template of this package; what is put into it is escaped."""
    return _environment().get_template(name)


def _facts(result: Any) -> list[tuple[str, str]]:
    """Return the line under the title."""
    date = result.info.get("date") or result.info.get("started")
    if not date:  # of a stored run it was lost; others have just been computed
        date = DASH if result.problems else datetime.datetime.now()
    with contextlib.suppress(TypeError, ValueError):  # a date in words stays as it is
        date = datetime.datetime.fromisoformat(str(date)).strftime("%d %B %Y, %H:%M")
    n_folds, n_cases = len(result.folds), int(result.oof.mask.sum())
    split_type = result.info.get("split_type")
    facts = [("Date", str(date))]
    if result.is_training:
        for fold in drawn_folds(result)[:1]:
            best = [] if fold.best_epoch is None else [("Best epoch", str(fold.best_epoch))]
            facts += [("Epochs", str(len(fold.history))), *best, ("Duration", duration(fold.seconds))]
        facts += [("Cases", f"{n_cases:,}")] if n_cases else []
    else:
        planned = result.info.get("num_splits")
        of = f" of {planned}" if isinstance(planned, int) and planned > n_folds else ""
        facts.append(("Splits", f"{n_folds}{of}{f', {split_type}' if split_type else ''}"))
        facts.append(("Cases", f"{n_cases:,}" + (f" of {result.n_samples:,}" if n_cases < result.n_samples else "")))
    if result.groups is not None:
        groups, tested = np.asarray(result.groups), result.oof.mask
        n_tested, n_groups = (len(np.unique(groups[which])) for which in (tested, tested | (groups != -1)))
        facts.append(("Groups", f"{n_tested:,}" + (f" of {n_groups:,}" if n_tested < n_groups else "")))
    return [*facts, ("Seed", DASH if result.seed is None else str(result.seed))]


def shown_section(section: Section) -> dict[str, Any]:
    """Return a section as the template reads it."""
    panels = [
        (inline_svg(figure, f"{section.title}: {name.replace('_', ' ')}"), figure.get_figwidth() > 4)
        for name, figure in section.panels.items()
    ]
    tables = [
        {
            "name": table.name,
            "header": list(zip(table.header, table.sides(), strict=True)),
            "rows": [list(zip(row, table.sides(), strict=True)) for row in table.texts()],
            "first_last": len(table.rows) - table.n_last + 1 if table.n_last else 0,
        }
        for table in section.tables
    ]
    return {"title": section.title, "panels": panels, "tables": tables, "notes": section.notes}


def _shown_examples(examples: Examples | None) -> dict[str, Any] | None:
    """Samples as the template reads them, in two rows."""
    if examples is None:
        return None
    titles = ("Lowest", "Highest") if examples.is_high_good is None else ("Worst", "Best")
    text = number_format([example.score for example in examples.examples])
    rows: dict[str, list[dict[str, Any]]] = {title: [] for title in titles}
    for example in examples.examples:
        cell = {
            "index": example.case,
            "fold": example.fold,
            "score": text(example.score),
            "true": example.true,
            "predicted": example.predicted,
            "address": data_uri(outlined(example.image, example.true_mask, example.predicted_mask)),
        }
        rows[titles[example.is_best]].append(cell)
    words = list(dict.fromkeys(example.words for example in examples.examples if example.words))
    return {
        "name": examples.score_name,
        "rows": [(title, cells) for title, cells in rows.items() if cells],
        "outlines": any(example.true_mask is not None for example in examples.examples),
        "notes": [*([f"Shown: {'; '.join(words[:4])}."] if words else []), *examples.notes],
    }


def places(results: Sequence[Any], name: str) -> list[dict[str, Any] | None]:
    """Return the same for several results on one scale; None for one without a finite number."""
    rows = [(result.summary()[name], fold_values(result)[name]) for result in results]
    shown = [np.array([*values, row["oof"], row["ci_low"], row["ci_high"]]) for row, values in rows]
    finite = np.concatenate([each[np.isfinite(each)] for each in shown])
    if not len(finite):
        return [None] * len(results)
    low, span = finite.min(), np.ptp(finite) or 1.0
    margin = 8

    def place(value: float) -> float | None:
        at = margin + (value - low) / span * (STRIP[0] - 2 * margin)
        return round(float(at), 1) if np.isfinite(value) else None

    return [
        {
            "folds": [at for value in values if (at := place(value)) is not None],
            "oof": place(row["oof"]),
            "low": place(row["ci_low"]),
            "high": place(row["ci_high"]),
        }
        if np.isfinite(each).any()
        else None
        for (row, values), each in zip(rows, shown, strict=True)
    ]


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as rows of (dotted name, text)."""
    rows = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            rows.append((f"{prefix}{key}", ", ".join(map(str, value)) or DASH))
        else:
            rows.append((f"{prefix}{key}", DASH if value is None else str(value)))
    return rows
