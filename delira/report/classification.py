"""What the page says about a classification: curves, calibration, classes, and what is confused with what."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.report.bands import Band, precision_recall_bands, roc_bands
from delira.report.classified import (
    Classified,
    class_names,
    classify,
    classify_folds,
    confusion_counts,
    reliability,
)
from delira.report.parts import tests_of
from delira.report.plots import band_panel, calibration_panel, classes_panel, confusion_panel
from delira.report.table import DASH, Section, Share, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    cases = classify(result)
    if cases is None:
        return None
    names = class_names(result, cases.n_classes)
    counts = confusion_counts(cases)
    panels, notes, areas = _curves(cases, classify_folds(result, cases), names)
    only_in_files = {"confusion": confusion_panel(counts, names)} if len(names) <= MAX_CLASSES else {}
    tables = [_class_table(cases, names, areas)]
    if len(names) > MAX_CLASSES and (confused := _confusion_table(counts, names)).rows:
        tables.append(confused)
    notes.append(_notes_of_classes(cases, bool(areas), tests_of(result)))
    return Section("Classes", panels, tables, notes, only_in_files)


def _curves(
    cases: Classified, folds: Mapping[int, Classified], names: list[str]
) -> tuple[dict[str, "Figure"], list[str], dict[int, Band]]:
    """Panels of the scores, notes about them, and the ROC curves of each class."""
    if cases.probabilities is None:
        return {}, [], {}
    found = reliability(cases)
    ece = [reliability(fold).error for fold in folds.values()]
    (roc, by_class), (pr, pr_by_class) = roc_bands(folds), precision_recall_bands(folds)
    panels = {}
    kind = "" if cases.is_binary else ", macro"
    if roc.folds:
        panels["roc"] = band_panel(f"ROC{kind}", _ROC, roc, f"AUC {_spread(*roc.area)}")
        panels["precision_recall"] = band_panel(
            f"Precision-recall{kind}", _PRECISION_RECALL, pr, f"AP {_spread(*pr.area)}"
        )
    x = f"probability of {names[1]}" if cases.is_one_score else "confidence"
    panels["calibration"] = calibration_panel(
        found, (x, "frequency" if cases.is_one_score else "share predicted right")
    )
    if not cases.is_binary and by_class:
        panels["roc_classes"] = classes_panel("ROC, each class", _ROC, by_class, names)
        panels["precision_recall_classes"] = classes_panel(
            "Precision-recall, each class", _PRECISION_RECALL, pr_by_class, names
        )
    return panels, _notes_of_curves(cases, folds, roc, ece), by_class


def _notes_of_curves(cases: Classified, folds: Mapping[int, Classified], roc: Band, ece: list[float]) -> list[str]:
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


def _class_table(cases: Classified, names: list[str], areas: Mapping[int, Band]) -> Table:
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


def _notes_of_classes(cases: Classified, has_areas: bool, tests: str) -> str:
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
    cases = classify(result)
    if cases is None or cases.n_classes > MAX_CLASSES:
        return None
    names = class_names(result, cases.n_classes)
    rows = []
    for position, (name, row) in enumerate(zip(names, confusion_counts(cases), strict=True)):
        total = int(row.sum())
        cells = [(int(count), round(count / total, 3) if total else 0.0) for count in row]
        rows.append((name, cells, f"{row[position] / total:.1%}" if total else DASH))
    return {"classes": names, "rows": rows, "of": tests_of(result)}


def _spread(mean: float, std: float) -> str:
    return f"{mean:.3f}" + (f" ± {std:.3f}" if np.isfinite(std) else "")
