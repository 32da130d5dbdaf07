"""Sections of the page: what is said of a classification, a regression, a single training, and of the time."""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError, check_paths, did_you_mean
from delira.report import plots, predictions
from delira.report.bootstrap632 import bootstrap_section
from delira.report.case_table import case_table
from delira.report.chosen import chosen_section
from delira.report.class_table import class_section, class_table, numbers_of_classes
from delira.report.examples import Examples, drawn_pictures, has_classes
from delira.report.shown_cases import case_name, classes_of
from delira.report.summary import check_result, fold_values
from delira.report.table import DASH, Seconds, Section, Share, Table, fold_table
from delira.report.temperature import MOST_ON_PAGE, calibrate
from delira.runs.results import TIMES_FILE, VERSION
from delira.utils.files import mapping, publish, publish_text, read_json, unsealed
from delira.utils.pictures import Figure, picture_class

MAX_CLASSES = 30
"""A confusion matrix larger than that cannot be read."""
N_CONFUSIONS = 20
"""Most frequent confusions that are listed where the matrix cannot be read."""
_ROC = ("false-positive rate", "true-positive rate")
_PRECISION_RECALL = ("recall", "precision")


def classification_section(result: object) -> Section | None:
    """Return the section, or None if the task is no classification.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    cases = predictions.classify(result)
    if cases is None:
        return None
    names = predictions.class_names(result, cases.n_classes)
    counts = predictions.confusion_counts(cases)
    panels, notes, areas = _curves(cases, predictions.classify_folds(result, cases), names)
    only_in_files = {"confusion": plots.confusion_panel(counts, names)} if len(names) <= MAX_CLASSES else {}
    tables = [_class_table(cases, names, areas)]
    if len(names) > MAX_CLASSES and (confused := _confusion_table(counts, names)).rows:
        tables.append(confused)
    notes.append(_notes_of_classes(cases, bool(areas), predictions.tests_of(result)))
    return _with_temperature(Section("Classes", panels, tables, notes, only_in_files), result, cases)


def _with_temperature(section: Section, result: Any, cases: predictions.Classified) -> Section:
    """Add what a temperature that is fitted out-of-fold makes of the probabilities, if there are any."""
    if cases.probabilities is None:
        return section
    if cases.probabilities.size > MOST_ON_PAGE:
        return section._replace(notes=[*section.notes, "No temperature was fitted: result.calibration() does."])
    try:
        found = calibrate(result)
    except DataError:  # of a single fold
        return section
    return section._replace(
        panels={**section.panels, "calibration_with_temperature": found.plot()},
        tables=[*section.tables, found.table()],
        notes=[*section.notes, *found.words()],
    )


def _curves(
    cases: predictions.Classified, folds: Mapping[int, predictions.Classified], names: list[str]
) -> tuple[dict[str, "Figure"], list[str], dict[int, predictions.Band]]:
    """Panels of the scores, notes about them, and the ROC curves of each class."""
    if cases.probabilities is None:
        return {}, [], {}
    found = predictions.reliability(cases)
    ece = [predictions.reliability(fold).error for fold in folds.values()]
    (roc, by_class), (pr, pr_by_class) = predictions.roc_bands(folds), predictions.precision_recall_bands(folds)
    panels = {}
    kind = "" if cases.is_binary else ", macro"
    if roc.folds:
        panels["roc"] = plots.band_panel(f"ROC{kind}", _ROC, roc, f"AUC {_spread(*roc.area)}")
        panels["precision_recall"] = plots.band_panel(
            f"Precision-recall{kind}", _PRECISION_RECALL, pr, f"AP {_spread(*pr.area)}"
        )
    x = f"probability of {names[1]}" if cases.is_one_score else "confidence"
    panels["calibration"] = plots.calibration_panel(
        found, (x, "frequency" if cases.is_one_score else "share predicted right")
    )
    if not cases.is_binary and by_class:
        panels["roc_classes"] = plots.classes_panel("ROC, each class", _ROC, by_class, names)
        panels["precision_recall_classes"] = plots.classes_panel(
            "Precision-recall, each class", _PRECISION_RECALL, pr_by_class, names
        )
    return panels, _notes_of_curves(cases, folds, roc, ece), by_class


def _notes_of_curves(
    cases: predictions.Classified, folds: Mapping[int, predictions.Classified], roc: predictions.Band, ece: list[float]
) -> list[str]:
    n_missing = int((~cases.kept).sum())
    rest = "" if cases.is_binary else " of each class against the rest, averaged over classes"
    missing = [str(fold) for fold in folds if fold not in roc.folds]
    over_folds = _spread(float(np.mean(ece)), float(np.std(ece, ddof=1)) if len(ece) > 1 else np.nan) if ece else ""
    notes = [
        (
            cases.made_by,
            f"The outputs are no probabilities but logits, by the loss, the setting output= or their values, so a "
            f"{cases.made_by} made them such; if they are no logits, calibration says nothing.",
        ),
        (n_missing, f"{n_missing:,} cases whose scores are not finite are left out."),
        (
            roc.folds,
            f"ROC and precision-recall{rest}: a thin line for each fold, their mean, and one standard deviation around "
            "it, averaged vertically (Fawcett 2006). AUC and average precision (AP) are of each fold: mean ± SD.",
        ),
        (missing, f"No curves of fold {', '.join(missing)}: its cases are of one class."),
        (
            ece,
            "Calibration of all out-of-fold cases: expected calibration error (ECE, Guo et al. 2017, 15 bins); over "
            f"folds {over_folds}. Bars: share of the cases with that confidence.",
        ),
        (not ece, "Calibration: expected calibration error (ECE, Guo et al. 2017, 15 bins)."),
    ]
    return [note for is_so, note in notes if is_so]


def _class_table(cases: predictions.Classified, names: list[str], areas: Mapping[int, predictions.Band]) -> Table:
    """Precision, recall, F1, area and number of cases of each class, and their means."""
    from sklearn.metrics import precision_recall_fscore_support

    labels = np.arange(cases.n_classes)
    precision, recall, f1, support = precision_recall_fscore_support(
        cases.true, cases.predicted, labels=labels, zero_division=np.nan
    )
    if cases.is_binary and 1 in areas:
        areas = {0: areas[1], 1: areas[1]}  # the area is that of both
    area = [areas[number].area[0] if number in areas else np.nan for number in labels.tolist()]
    header = ["Class", "Precision", "Recall", "F1", *(["AUC"] if areas else []), "n"]
    columns = [precision, recall, f1, *([np.array(area)] if areas else [])]
    rows: list[list[Any]] = [
        [names[number], *(float(column[number]) for column in columns), int(support[number])]
        for number in labels.tolist()
    ]
    total = int(support.sum())
    rows.append(["mean of classes", *(_mean(column, np.ones(len(column))) for column in columns), total])
    rows.append(["weighted by n", *(_mean(column, support) for column in columns), total])
    return Table("classes", header, rows, n_last=2)


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    there = np.isfinite(values) & (weights > 0)
    return float(np.average(values[there], weights=weights[there])) if there.any() else np.nan


def _notes_of_classes(cases: predictions.Classified, has_areas: bool, tests: str) -> str:
    area = (
        " AUC: of each fold in which the class occurs, one class against the rest, then their mean."
        if has_areas
        else ""
    )
    n_unseen = cases.n_classes - len(np.unique(cases.true))
    unseen = f" {n_unseen} class{'es never occur' if n_unseen > 1 else ' never occurs'}." if n_unseen else ""
    n_unpredicted = cases.n_classes - len(np.unique(cases.predicted))
    what = "1 class is" if n_unpredicted == 1 else f"{n_unpredicted} classes are"
    without = f" {what} never predicted, so means of the precision are over the others." if n_unpredicted else ""
    return (
        f"Precision, recall and F1 over all {len(cases.true):,} out-of-fold {tests}; n: {tests.split(',')[0]} of the "
        "class."
        f"{area}{unseen}{without}"
    )


def _confusion_table(counts: np.ndarray, names: list[str]) -> Table:
    """Return the most frequent confusions, for as many classes as no matrix can show."""
    wrong = counts * ~np.eye(len(counts), dtype=bool)
    totals = counts.sum(axis=1)
    order = np.argsort(-wrong, axis=None, kind="stable")[:N_CONFUSIONS]
    rows = [
        [names[true], names[pred], int(wrong[true, pred]), Share(wrong[true, pred] / totals[true])]
        for true, pred in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[true, pred]
    ]
    return Table("confusions", ["True class", "Predicted class", "Cases", "Share of the true class"], rows)


def confusion(result: object) -> dict[str, Any] | None:
    """Confusion matrix of the out-of-fold predictions, if the task is a classification of at most 30 classes.

    Returns
    -------
    dict or None
        ``classes``; ``rows``, one per true class, of ``(name, cells, recall)`` with cells of
        ``(count, share of the row)``.
    """
    cases = predictions.classify(result)
    if cases is None or cases.n_classes > MAX_CLASSES:
        return None
    names = predictions.class_names(result, cases.n_classes)
    rows = []
    for position, (name, row) in enumerate(zip(names, predictions.confusion_counts(cases), strict=True)):
        total = int(row.sum())
        cells = [(int(count), round(count / total, 3) if total else 0.0) for count in row]
        rows.append((name, cells, f"{row[position] / total:.1%}" if total else DASH))
    return {"classes": names, "rows": rows, "of": predictions.tests_of(result)}


def _spread(mean: float, std: float) -> str:
    return f"{mean:.3f}" + (f" ± {std:.3f}" if np.isfinite(std) else "")


def regression_section(result: object) -> Section | None:
    """Return the section, or None if the task is no regression of one number.

    Parameters
    ----------
    result
        A ``KFoldResult`` whose task is no classification.
    """
    found = predictions.regressed(result)
    if found is None:
        return None
    true, pred, kept = found
    left_over = pred - true
    spread = np.sum((true - true.mean()) ** 2)
    rows: list[list[Any]] = [
        ["mean absolute error", float(np.mean(np.abs(left_over)))],
        ["root mean squared error", float(np.sqrt(np.mean(left_over**2)))],
        ["mean of the residuals", float(np.mean(left_over))],
        ["R²", float(1 - np.sum(left_over**2) / spread) if spread else np.nan],
    ]
    notes = [
        f"All {len(true):,} out-of-fold {predictions.tests_of(result)}; residuals are predicted minus true values."
    ]
    if len(true) < len(kept):
        notes.append(f"{len(kept) - len(true):,} cases without a finite number are left out.")
    panels = {"agreement": plots.agreement_panel(true, pred), "residuals": plots.residual_panel(true, pred)}
    table = Table("regression", ["Over all cases", "Value"], rows, by_row=True)
    return Section("Predicted and true values", panels, [table], notes)


#: phases in the order in which they are shown; colours that the page does not change, told apart in light and dark
PHASE_COLOURS = {
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
            stated = unsealed(read_json(Path(fold.path) / TIMES_FILE))
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
    return [phase for phase in PHASE_COLOURS if phase in named] + [
        phase for phase in named if phase not in PHASE_COLOURS
    ]


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
    colours = {phase: PHASE_COLOURS.get(phase, PHASE_COLOURS["other"]) for phase in phases}
    panel = plots.time_panel(["" if result.is_training else f"fold {number}" for number in folds], by_phase, colours)
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


def sections(result: Any) -> list[Section]:
    """Parts of the page that depend on the task, and on what was measured."""
    task: Section | None = None
    of_classes = class_section(result) if result.folds else None
    if result.is_training:
        task = _last_values(folds[0]) if (folds := drawn_folds(result)) else None
    elif result.folds:
        task = classification_section(result) or regression_section(result)
    found = (bootstrap_section(result), of_classes, task, chosen_section(result), time_section(result))
    return [section for section in found if section is not None]


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


TABLES, PLOTS = ("csv", "tex"), ("png", "svg", "pdf")
DPI = 300
#: what would make files of the same result differ
_UNDATED: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def export(
    result: predictions.KFoldResult, folder: str | Path, formats: Sequence[str] = (*TABLES, *PLOTS)
) -> list[Path]:
    """Write each table and each plot of a result; the same result gives the same bytes.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    folder
        Where to; made if it does not exist. Files of the same names are replaced.
    formats
        Of tables ``"csv"`` (all digits) and ``"tex"`` (a tabular for the package booktabs); of plots ``"png"``
        (300 dpi), ``"svg"`` and ``"pdf"``.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ConfigError
        If a format is none of these.
    """
    check_result("export", result, "summary", "info")
    check_paths("export", folder=folder)
    if not isinstance(formats, (str, list, tuple, set)) or any(not isinstance(one, str) for one in formats):
        raise ConfigError(f"export: formats must be names of formats, got {formats!r}")
    formats = [formats] if isinstance(formats, str) else list(dict.fromkeys(formats))
    if unknown := [one for one in formats if one not in (*TABLES, *PLOTS)]:
        raise ConfigError(f"nothing is exported as {unknown[0]!r}{did_you_mean(str(unknown[0]), (*TABLES, *PLOTS))}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, str] = {}
    for table in _tables(result):
        texts |= {f"{table.name}.csv": table.csv(), f"{table.name}.tex": table.latex() + "\n"}
    if fold_values(result):
        texts["metrics.tex"] = fold_table(result, "latex") + "\n"
    if (numbers := numbers_of_classes(result)).rows:
        texts |= {f"{numbers.name}.csv": numbers.csv(), f"{numbers.name}.tex": class_table(result, "latex") + "\n"}
    if len(cases := case_table(result)) and {*cases} & {*fold_values(result)}:
        texts["cases.csv"] = cases.table.csv()
    if (history := _history(drawn_folds(result))).rows:
        texts["history.csv"] = history.csv()
    paths = [
        publish_text(folder / file, text, durable=False)
        for file, text in texts.items()
        if file.rpartition(".")[2] in formats
    ]
    plots_asked = [one for one in formats if one in PLOTS]
    for name, figure in _figures(result) if plots_asked else ():
        paths += [_save(figure, folder / f"{name}.{one}") for one in plots_asked]
    return paths


def _save(figure: "Figure", path: Path) -> Path:
    import matplotlib

    buffer, kind = io.BytesIO(), path.suffix[1:]
    with matplotlib.rc_context({"svg.hashsalt": plots.SALT, "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=_UNDATED[kind])
    return publish(path, lambda file: file.write(buffer.getvalue()), durable=False)


def _tables(result: predictions.KFoldResult) -> Iterator[Table]:
    if summary := result.summary():
        yield summary_table(summary)
    if result.folds:
        per_fold = fold_values(result)
        header = ["Fold", "Train", "Validation", "Test", "Epochs", "Best epoch", *per_fold, "Duration"]
        rows: list[list[Any]] = [
            [
                str(fold.fold),
                len(fold.train_indices),
                None if fold.val_indices is None else len(fold.val_indices),
                len(fold.test_indices),
                len(fold.history),
                fold.best_epoch,
                *(float(values[position]) for values in per_fold.values()),
                Seconds(fold.seconds),
            ]
            for position, fold in enumerate(result.folds)
        ]
        yield Table("folds", header, rows)
    for section in sections(result):
        yield from section.tables


def summary_table(summary: dict[str, dict[str, Any]]) -> Table:
    """One row for each metric.

    Parameters
    ----------
    summary
        What ``KFoldResult.summary()`` gives.
    """
    rows = list(summary.values())
    has_pooled = any(row["pooled"] and np.isfinite(row["oof"]) for row in rows)
    columns: dict[str, list[Any]] = {
        "Metric": list(summary),
        "Mean": [row["mean"] for row in rows],
        "SD": [row["std"] for row in rows],
        "Out-of-fold": [np.nan if row["pooled"] else row["oof"] for row in rows],
        "Out-of-fold SD": [row["oof_std"] for row in rows],
        "Pooled": [row["oof"] if row["pooled"] else np.nan for row in rows],
        "CI low": [row["ci_low"] for row in rows],
        "CI high": [row["ci_high"] for row in rows],
        "CI of": [None if np.isnan(row["ci_low"]) else "mean" if row["pooled"] else "out-of-fold" for row in rows],
        "n": [row["n"] for row in rows],
        "Groups": [row["n_groups"] for row in rows],
    }
    shown = {
        "Out-of-fold SD": any(np.isfinite(row["oof_std"]) for row in rows),
        "Pooled": has_pooled,
        "CI of": has_pooled,
        "Groups": any(row["n_groups"] for row in rows),
    }
    header = [name for name in columns if shown.get(name, True)]
    cells = [list(row) for row in zip(*(columns[name] for name in header), strict=True)]
    return Table("summary", header, cells, by_row=True)


def _history(folds: Sequence[Any]) -> Table:
    """One row for each epoch of each fold: the numbers behind the learning curves."""
    keys = [
        key for key in dict.fromkeys(key for fold in folds for entry in fold.history for key in entry) if key != "epoch"
    ]
    rows = [
        [
            str(fold.fold),
            int(entry.get("epoch", position + 1)),
            *(None if entry.get(key) is None else float(np.mean(entry[key])) for key in keys),
        ]
        for fold in folds
        for position, entry in enumerate(fold.history)
    ]
    return Table("history", ["Fold", "Epoch", *keys], rows)


def _figures(result: predictions.KFoldResult) -> Iterator[tuple[str, "Figure"]]:
    folds = drawn_folds(result)
    if plots.curves(folds):
        yield "learning_curves", plots.learning_curves(folds)
    for section in sections(result):
        yield from section.panels.items()
        yield from section.only_in_files.items()
    if result.examples is not None and result.examples.examples:
        yield "examples", examples_figure(result)


def examples_figure(result: Any) -> "Figure":
    """The worst samples in a row, and the best in a row below.

    Outlines are blue where they are true and orange where predicted; masks of several classes are drawn in the colours
    of the classes, the true ones above the predicted ones.
    """
    examples: Examples = result.examples
    sides = ([one for one in examples.examples if one.is_best == is_best] for is_best in (False, True))
    rows = [row for row in sides if row]
    n_columns, by_class = max(map(len, rows)), has_classes(examples)
    figure = picture_class()(figsize=(1.3 * n_columns, (3.3 if by_class else 2.0) * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), n_columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for row, line in zip(rows, grid, strict=True):
        for one, axes in zip(row, line, strict=False):
            first, *others = drawn_pictures(one, by_class).values()
            gap = np.full((6, *first.shape[1:]), 255, np.uint8)
            axes.imshow(np.concatenate([first, *(part for other in others for part in (gap, other))]))
            lines = [case_name(result, one.case), f"{one.score:.3g}"]
            lines += [one.words] if "slice" in one.words else []
            lines += [f"{one.true} → {one.predicted}"] if one.true else []
            axes.set_title("\n".join(lines), fontsize=7, color=plots.INK, parse_math=False)
    if classes := classes_of(result, examples):
        _name_colours(figure, classes)
    return figure


def _name_colours(figure: "Figure", classes: Sequence[tuple[str, str]]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name) for name, colour in classes]
    legend = figure.legend(handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=7)
    for text in legend.get_texts():
        text.set_parse_math(False)
