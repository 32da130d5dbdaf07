"""A page of several runs side by side: numbers, curves, what was set differently, and whether folds are the same."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.errors import ConfigError
from delira.report import plots
from delira.report.bands import curve_band
from delira.report.caveats import caveats, fingerprints
from delira.report.checks import check_results
from delira.report.page import STRIP, drawn_folds, flat, places, shown_section, template
from delira.report.summary import fold_values
from delira.report.svg import inline_svg
from delira.report.table import DASH, Seconds, Section, Table
from delira.report.tables import metric_columns, notes_of
from delira.report.timing import phases_of, timings_of
from delira.utils.checks import check_paths
from delira.utils.files import publish_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUN_COLOURS = (plots.TRAINING, plots.VALIDATION, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a63b8", "#7a838c")
"""Runs beyond these begin again, with dashed lines."""
#: what differs between any two runs, or has a place of its own
_NOT_COMPARED = ("started", "date", "command", "settings", "warnings", "duplicates", "class_names", "name", "seed")


def runs_page(results: Sequence[Any], path: str | Path | None = None, statistics: Sequence[Section] = ()) -> str | Path:
    """Return a page that shows runs side by side.

    Parameters
    ----------
    results
        ``KFoldResult`` objects, at least one.
    path
        Where to write the page; returned as a text if None.
    statistics
        Sections that compare the runs, shown below their numbers; none if empty.

    Returns
    -------
    str or Path
        The page, or the file it was written to.

    Raises
    ------
    ConfigError
        If there are no results.
    """
    results = check_results("runs_page", results)
    if not results:
        raise ConfigError("a page of runs needs at least one result: results is []")
    if path is not None:
        check_paths("runs_page", path=path)
    names = run_names(results)
    differing, common = compared_settings(results)
    page = template("runs.html.j2").render(
        name=" · ".join(dict.fromkeys(result.name or "run" for result in results)),
        kind="Runs side by side",
        runs=[_run(result, name, number) for number, (result, name) in enumerate(zip(results, names, strict=True))],
        folds=compare_folds(results, names),
        warnings=[(name, text) for result, name in zip(results, names, strict=True) for text in caveats(result)],
        metrics=_metrics(results, names),
        strip_size=STRIP,
        statistics=[shown_section(section) for section in statistics],
        curves=[inline_svg(figure, f"{name} over epochs") for name, figure in overlaid_curves(results).items()],
        sections=[shown_section(section) for section in _sections(results, names)],
        names=names,
        differing=differing,
        common=common,
    )
    if path is None:
        return str(page)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return publish_text(path, page, durable=False)


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
        paths = [result.path for result in results]
        names = [f"{n} {Path(at).name}" if at is not None else n for n, at in zip(names, paths, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names


def _run(result: Any, name: str, number: int) -> dict[str, Any]:
    tested = int(result.oof.mask.sum())
    return {
        "name": name,
        "number": number % len(RUN_COLOURS),
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
    pairs = zip(results, names, strict=True)
    data = {name: dict(fingerprints(result)).get("data fingerprint") for result, name in pairs}
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
    columns = [{column.name: column for column in metric_columns(result)} for result in results]
    metrics = []
    for metric in dict.fromkeys(name for column in columns for name in column):
        having = [number for number, column in enumerate(columns) if metric in column]
        drawn = places([results[number] for number in having], metric)
        rows: list[dict[str, Any]] = [
            {
                "run": names[number],
                "number": number % len(RUN_COLOURS),
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
            axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
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

    info = {key: value for key, value in result.info.items() if key not in _NOT_COMPARED}
    settings = result.info.get("settings")
    if isinstance(settings, str):
        with contextlib.suppress(yaml.YAMLError):
            settings = yaml.safe_load(settings)
    own = settings if isinstance(settings, Mapping) else {"settings": settings} if settings else {}
    return [*flat(own), ("seed", DASH if result.seed is None else str(result.seed)), *flat(info), *fingerprints(result)]
