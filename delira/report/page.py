"""HTML pages that need no other file: of a cross-validation or a single training, and of several runs side by side."""

import contextlib
import datetime
import functools
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError, check_paths, expect, import_optional
from delira.report import plots
from delira.report.predictions import curve_band
from delira.report.sections import confusion, drawn_folds, phases_of, sections, timings_of
from delira.report.shown_cases import shown_cases, shown_examples
from delira.report.summary import caveats, check_result, fingerprints, fold_values
from delira.report.table import (
    DASH,
    Seconds,
    Section,
    Table,
    duration,
    footnotes,
    gap_notes,
    metric_columns,
    notes_of,
)
from delira.utils.files import text_or_file
from delira.utils.pictures import Figure

STRIP = (220, 26)
"""Width and height of the drawing beside a metric, in pixels."""
MANY_CLASSES = 12
"""A larger matrix, or a longer table, is folded away."""
_SPECIAL = {
    "name", "seed", "date", "started", "versions", "class_names", "split_type", "num_splits", "warnings", "duplicates",
    "groups_key", "search", "searched",
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
        kind=_kind(result),
        facts=facts_of(result),
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
        curves=[plots.inline_svg(figure, f"{name} over epochs") for name, figure in plots.curve_panels(folds).items()],
        legend=[
            (kind, f"{text} over folds" if kind == "band" else text)
            for kind, text in plots.legend_of(plots.curves(folds))
        ],
        curve_notes=_curve_notes(result),
        confusion=confusion(result),
        many_classes=MANY_CLASSES,
        sections=[shown_section(section) for section in sections(result)],
        examples=shown_examples(result),
        cases=shown_cases(result),
        **made_with(result),
    )


def made_with(result: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the settings and the versions of a run, as a page shows them in rows of (name, text).

    Parameters
    ----------
    result
        A ``KFoldResult`` or ``SearchResult``.
    """
    versions = result.info.get("versions")
    return {
        "settings": [*flat(_labelled(result.info, _SPECIAL)), *fingerprints(result)],
        "versions": flat(versions) if isinstance(versions, Mapping) else [],
    }


def _kind(result: Any) -> str:
    if result.is_training:
        return "Training"
    return "Cross-validation" if getattr(result, "apparent", None) is None else "Bootstrap"


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
def template(name: str) -> Any:
    """Return a template of this package; what is put into it is escaped."""
    jinja2 = import_optional("jinja2", "a page", "jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("delira.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(name)


def facts_of(result: Any) -> list[tuple[str, str]]:
    """Return the line under the title, as (name, text).

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    date = result.info.get("date") or result.info.get("started")
    if not date:  # of a stored run it was lost; others have just been computed
        date = DASH if result.problems else datetime.datetime.now()
    n_folds, n_cases = len(result.folds), int(result.oof.mask.sum())
    split_type = result.info.get("split_type")
    facts = [("Date", date_of(date))]
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


def date_of(stated: object) -> str:
    """Write a date for people; one in words stays as it is."""
    with contextlib.suppress(TypeError, ValueError):
        return datetime.datetime.fromisoformat(str(stated)).strftime("%d %B %Y, %H:%M")
    return str(stated)


def shown_section(section: Section) -> dict[str, Any]:
    """Return a section as the template reads it."""
    panels = [
        (plots.inline_svg(figure, f"{section.title}: {name.replace('_', ' ')}"), figure.get_figwidth() > 4)
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


def places(results: Sequence[Any], name: str) -> list[dict[str, Any] | None]:
    """Return where to draw the values of each result on one common scale; None for one without a finite value."""
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


def _labelled(info: Mapping[str, Any], without: Container[str]) -> dict[str, Any]:
    """What is said of a run by the names that people read: files keep that which backends had first."""
    return {"backend" if key == "room" else key: value for key, value in info.items() if key not in without}


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


RUN_COLOURS = (plots.TRAINING, plots.VALIDATION, "#009e73", "#cc79a7", "#e69f00", "#8f8f1f", "#8a63b8", "#7a838c")
"""Runs beyond these begin again, with dashed lines and hollow dots; the first two are lighter on a dark page."""
#: what differs between any two runs, or has a place of its own
_NOT_COMPARED = (
    "started", "date", "command", "settings", "warnings", "duplicates", "class_names", "name", "seed", "groups_key",
)  # fmt: skip


def runs_page(
    results: Sequence[Any],
    path: str | Path | None = None,
    statistics: Sequence[Section] = (),
    names: Sequence[str] | None = None,
) -> str | Path:
    """Return a page that shows runs side by side.

    Parameters
    ----------
    results
        ``KFoldResult`` objects, at least one.
    path
        Where to write the page; returned as a text if None.
    statistics
        Sections that compare the runs, shown below their numbers; none if empty.
    names
        What the runs are called, one name for each; :func:`run_names` of them if None.

    Returns
    -------
    str or Path
        The page, or the file it was written to.

    Raises
    ------
    ConfigError
        If there are no results, or names are not different texts, one for each.
    """
    results = check_results("runs_page", results)
    if not results:
        raise ConfigError("a page of runs needs at least one result: results is []")
    if path is not None:
        check_paths("runs_page", path=path)
    if names is not None:
        are_texts = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
        are_right = are_texts and len({*names}) == len(names) == len(results)
        expect(("names", names, are_right, f"{len(results)} different texts"))
    titles = [result.name or "run" for result in results] if names is None else names
    names = run_names(results) if names is None else list(names)
    differing, common = compared_settings(results)
    page = template("runs.html.j2").render(
        name=" · ".join(dict.fromkeys(titles)),
        kind="Runs side by side",
        runs=[_run(result, name) for result, name in zip(results, names, strict=True)],
        folds=compare_folds(results, names),
        warnings=[(name, text) for result, name in zip(results, names, strict=True) for text in caveats(result)],
        metrics=_metrics(results, names),
        strip_size=STRIP,
        statistics=[shown_section(section) for section in statistics],
        curves=[plots.inline_svg(figure, f"{name} over epochs") for name, figure in overlaid_curves(results).items()],
        sections=[shown_section(section) for section in _sections(results, names)],
        names=names,
        marks=_marks(names),
        differing=differing,
        common=common,
    )
    return text_or_file(str(page), path)


def sections_page(name: str, kind: str, shown: Sequence[Section]) -> str:
    """Return a page that consists of sections alone.

    Parameters
    ----------
    name
        The title.
    kind
        What the page is about, above the title.
    shown
        The sections.
    """
    sections = [shown_section(section) for section in shown]
    return str(template("sections.html.j2").render(name=name, kind=kind, sections=sections))


def check_results(owner: str, results: object) -> list[Any]:
    """Return the results as a list, each of which is one; see :func:`check_result`."""
    if hasattr(results, "folds") or isinstance(results, (str, bytes)) or not hasattr(results, "__iter__"):
        raise ConfigError(f"{owner}: results must be a list of KFoldResult, got {results!r:.200}")
    found = list(results)
    if wrong := [result for result in found if isinstance(result, type) or not hasattr(result, "folds")]:
        raise ConfigError(f"{owner}: results must be KFoldResult objects, got {wrong[0]!r:.200}")
    return found


def run_names(results: Sequence[Any]) -> list[str]:
    """Return names that tell runs apart: with the folder, or a number, where two are called alike.

    Parameters
    ----------
    results
        Each a ``KFoldResult``.

    Returns
    -------
    list of str
        One for each result.
    """
    results = check_results("run_names", results)
    names = [result.name or "run" for result in results]
    if len(set(names)) < len(names):
        pairs = zip(names, results, strict=True)
        names = [name if one.path is None else f"{name} {Path(one.path).name}" for name, one in pairs]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names


def _marks(names: Sequence[str]) -> dict[str, str]:
    """Return the class of the style sheet that colours each run, wherever it is named."""
    n = len(RUN_COLOURS)
    return {name: f"run{number % n}{' again' if number >= n else ''}" for number, name in enumerate(names)}


def _run(result: Any, name: str) -> dict[str, Any]:
    tested = int(result.oof.mask.sum())
    return {
        "name": name,
        "date": str(result.info.get("date") or result.info.get("started") or DASH)[:16].replace("T", " "),
        "folds": DASH if result.is_training else len(result.folds),
        "cases": DASH if result.is_training and not tested else f"{tested:,}",
        "seed": DASH if result.seed is None else result.seed,
        "folder": "" if result.path is None else str(result.path),
    }


# ------------------------------------------------------------------ folds


def compare_folds(results: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Sentences about whether the runs were tested on the same cases in the same folds; none for one run."""
    if len(results) < 2:
        return []
    groups = _groups(results, names)
    sentences = []
    data = {name: dict(fingerprints(one)).get("data fingerprint") for one, name in zip(results, names, strict=True)}
    if len({mark for mark in data.values() if mark}) > 1:
        told = "; ".join(f"{name}: {mark or 'not known'}" for name, mark in data.items())
        sentences.append(f"The data are not the same (their fingerprints differ: {told}).")
    if len(groups) == 1:
        sentences.append(
            "All runs were tested on the same cases in the same folds, so they can be compared fold by fold."
        )
    elif alike := "; ".join(", ".join(each) for each in groups.values() if len(each) > 1):
        sentences.append(f"The folds are not all the same: only these can be compared fold by fold: {alike}.")
    else:
        sentences.append("The folds are not the same, so no two of these runs can be compared fold by fold.")
    return sentences


def _groups(results: Sequence[Any], names: Sequence[str]) -> dict[Any, list[str]]:
    """Return names of the runs that were tested on the same cases in the same folds."""
    groups: dict[Any, list[str]] = {}
    for result, name in zip(results, names, strict=True):
        key = tuple((fold.fold, np.sort(fold.test_indices).tobytes()) for fold in result.folds)
        groups.setdefault((result.n_samples, key), []).append(name)
    return groups


# ------------------------------------------------------------------ numbers


def _metrics(results: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """For each metric a row for each run that has it, drawn on one scale."""
    columns = [{column.name: column for column in metric_columns(result, each_class=True)} for result in results]
    metrics = []
    for metric in dict.fromkeys(name for column in columns for name in column):
        having = [number for number, column in enumerate(columns) if metric in column]
        drawn = places([results[number] for number in having], metric)
        rows: list[dict[str, Any]] = [
            {
                "run": names[number],
                "column": columns[number][metric],
                "strip": strip,
            }
            for number, strip in zip(having, drawn, strict=True)
        ]
        notes = [f"{row['run']}, {note}" for row in rows for note in notes_of(row["column"])]
        metrics.append({"name": metric, "rows": rows, "notes": notes})
    return metrics


def _sections(results: Sequence[Any], names: Sequence[str]) -> list[Section]:
    """Tables of folds, where they are the same ones, and of times."""
    found = []
    numbers = sorted({fold.fold for result in results for fold in result.folds})
    tables = []
    values = [fold_values(result) for result in results]
    for metric in dict.fromkeys(name for one in values for name in one):
        by_fold = [
            dict(zip([fold.fold for fold in result.folds], one[metric].tolist(), strict=True)) if metric in one else {}
            for result, one in zip(results, values, strict=True)
        ]
        rows: list[list[Any]] = [[str(fold), *(one.get(fold) for one in by_fold)] for fold in numbers]
        tables.append(Table(f"{metric} of each fold", [f"{metric}, fold", *names], rows))
    if tables and len(_groups(results, names)) == 1:
        found.append(Section("Folds", {}, tables, []))
    totals = [_total_times(result) for result in results]
    if phases := phases_of(totals):
        rows = [
            [name, *(Seconds(total.get(phase, np.nan)) for phase in phases), Seconds(sum(total.values()) or np.nan)]
            for name, total in zip(names, totals, strict=True)
        ]
        found.append(Section("Time", {}, [Table("time", ["Run", *phases, "Sum"], rows)], ["Over all folds."]))
    return found


def _total_times(result: Any) -> dict[str, float]:
    times = [timings_of(fold)[0] for fold in result.folds]
    phases = dict.fromkeys(phase for each in times for phase in each)
    return {phase: sum(each.get(phase, 0.0) for each in times) for phase in phases}


# ------------------------------------------------------------------ curves


def overlaid_curves(results: Sequence[Any]) -> dict[str, "Figure"]:
    """For each quantity the mean of each run over its folds, with its spread; of validation where there is one."""
    by_run = [plots.curves(drawn_folds(result)) for result in results]
    figures = {}
    for quantity in dict.fromkeys(name for panels in by_run for name in panels):
        figure, axes = plots.panel()
        is_validated = any("validation" in panels.get(quantity, {}) for panels in by_run)
        for number, panels in enumerate(by_run):
            found = panels.get(quantity, {}).get("validation" if is_validated else "training", [])
            if not found:
                continue
            colour = RUN_COLOURS[number % len(RUN_COLOURS)]
            epochs, mean, std = curve_band([curve.epochs for curve in found], [curve.values for curve in found])
            low, high = plots.ends_of_band(mean, std, np.concatenate([curve.values for curve in found]))
            axes.fill_between(epochs, low, high, color=colour, alpha=0.15, linewidth=0)
            style = "-" if number < len(RUN_COLOURS) else "--"
            marker = "." if len(epochs) == 1 else None
            axes.plot(epochs, mean, color=colour, linewidth=1.6, linestyle=style, marker=marker, label=f"run {number}")
        plots.style(axes, f"{quantity}, validation" if is_validated else quantity)
        plots.mark_epochs(axes)
        axes.set_xlabel("epoch", fontsize=8.5, color=plots.MUTED)
        figures[quantity] = figure
    return figures


# ------------------------------------------------------------------ settings


def compared_settings(results: Sequence[Any]) -> tuple[list[tuple[str, list[str]]], list[tuple[str, str]]]:
    """Settings that differ, as (name, text for each run), and those that all runs have alike, as (name, text)."""
    rows = [dict(_settings(result)) for result in results]
    names = dict.fromkeys(name for row in rows for name in row)
    texts = [(name, [row.get(name, DASH) for row in rows]) for name in names]
    differing = [(name, each) for name, each in texts if len(set(each)) > 1]
    return differing, [(name, each[0]) for name, each in texts if len(set(each)) == 1]


def _settings(result: Any) -> list[tuple[str, str]]:
    """Return what was set, name by name."""
    import yaml

    info = _labelled(result.info, _NOT_COMPARED)
    settings = result.info.get("settings")
    if isinstance(settings, str):
        with contextlib.suppress(yaml.YAMLError):
            settings = yaml.safe_load(settings)
    own = settings if isinstance(settings, Mapping) else {"settings": settings} if settings else {}
    return [*flat(own), ("seed", DASH if result.seed is None else str(result.seed)), *flat(info), *fingerprints(result)]
