"""What is shown of a learning curve: each metric over the number of training cases, with its intervals."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delira.report import plots
from delira.report.page import made_with, shown_section, template
from delira.report.predictions import learned_from
from delira.report.summary import fold_values, is_of_class
from delira.report.table import DASH, MetricColumn, Right, Section, Table, metric_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from delira.utils.pictures import Figure

_MANY = 60
"""Rows of a longer table are folded away."""
_NOTES = [
    "Every size is tested on the same cases, fold by fold, and what a fold learns from is part of what it learns from "
    "at the next larger size. Cases that choose the epoch (validation) count among those that it learns from.",
    "Whether two sizes differ is not to be read off two intervals: delira.compare([curve.at(…), curve.at(…)]) compares "
    "them fold by fold. Of more cases than there are the curve says nothing.",
]


class Point(NamedTuple):
    """A metric at one size."""

    n_cases: float
    """Mean over folds."""
    value: float
    """What the interval is of: the out-of-fold value, or the mean over folds."""
    low: float
    high: float
    folds: dict[int, float]


def points_of(curve: Any, name: str) -> list[Point]:
    """Return a metric at each size.

    Parameters
    ----------
    curve
        A ``LearningCurve``.
    name
        Of the metric.
    """
    found = []
    for result in curve.points.values():
        row = result.summary()[name]
        values = dict(zip((fold.fold for fold in result.folds), fold_values(result)[name].tolist(), strict=True))
        value = row["mean"] if row["pooled"] or not row["has_oof"] else row["oof"]
        found.append(Point(float(np.mean(_counts(result))), value, row["ci_low"], row["ci_high"], values))
    return found


def _counts(result: Any) -> list[int]:
    return [len(learned_from(fold)) for fold in result.folds]


def fold_rows(curve: Any) -> list[dict[str, Any]]:
    """Return one row for each size, metric and fold.

    Parameters
    ----------
    curve
        A ``LearningCurve``.
    """
    return [
        {"size": size, "metric": name, "fold": fold.fold, "n_cases": len(learned_from(fold)), "value": float(value)}
        for size, result in curve.points.items()
        for name, values in fold_values(result).items()
        for fold, value in zip(result.folds, values, strict=True)
    ]


def size_table(curve: Any) -> Table:
    """Return one row for each metric and size.

    Parameters
    ----------
    curve
        A ``LearningCurve``.
    """
    header = ["Metric", "Training cases", "mean ± std", "out-of-fold", "95 % interval"]
    columns = {size: _columns(result) for size, result in curve.points.items()}
    rows = [
        [name, Right(_told(_counts(curve.points[size]))), *(map(Right, _cells(own[name])))]
        for name in _metrics(curve)
        for size, own in columns.items()
    ]
    return Table("learning_curve", header, rows or [["no metrics were computed", *(DASH for _ in header[1:])]])


def _columns(result: Any) -> dict[str, MetricColumn]:
    return {column.name: column for column in metric_columns(result)}


def _cells(column: MetricColumn) -> list[str]:
    return [column.mean, DASH if column.is_pooled else column.oof, column.ci_of]


def _told(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _metrics(curve: Any) -> list[str]:
    first = next(iter(curve.points.values()), None)
    return [] if first is None else [name for name in first.summary() if not is_of_class(first, name)]


def figure_of_sizes(curve: Any) -> "Figure":
    """Return a panel for each metric.

    Parameters
    ----------
    curve
        A ``LearningCurve``.
    """
    names = _metrics(curve)
    figure, _ = plots.panel(width=4.2, height=3.0 * max(1, len(names)))
    figure.clear()
    for place, name in enumerate(names):
        _draw(figure.add_subplot(len(names), 1, place + 1), curve, name)
    return figure


def _panels(curve: Any) -> Iterator[tuple[str, "Figure"]]:
    for name in _metrics(curve):
        figure, axes = plots.panel()
        _draw(axes, curve, name)
        yield f"curve_{name}", figure


def _draw(axes: "Axes", curve: Any, name: str) -> None:
    points = points_of(curve, name)
    x, values = [point.n_cases for point in points], np.array([point.value for point in points])
    for fold in range(curve.n_folds):
        axes.plot(
            x, [point.folds.get(fold, np.nan) for point in points], color=plots.TRAINING, linewidth=0.7, alpha=0.4
        )
    axes.plot(x, values, color=plots.INK, linewidth=1.4, marker="o", markersize=3.5)
    for point in points:
        if np.isfinite([point.value, point.low, point.high]).all():
            axes.errorbar(
                point.n_cases, point.value, yerr=np.maximum([[point.value - point.low], [point.high - point.value]], 0),
                color=plots.INK, linewidth=1.4, capsize=2.5,
            )  # fmt: skip
    if x and max(x) / min(x) >= plots.LOG_RANGE:
        axes.set_xscale("log")
    plots.style(axes, name)
    axes.set_xlabel("training cases", fontsize=8.5, color=plots.MUTED)


def size_page(curve: Any) -> str:
    """Render the page of a ``LearningCurve``; every text from outside is escaped.

    Parameters
    ----------
    curve
        A ``LearningCurve``.
    """
    facts = [
        ("Sizes", ", ".join(f"{size:,}" for size in curve.points) or DASH),
        ("Folds of each", str(curve.n_folds)),
        ("Tested cases", f"{int(curve.result.oof.mask.sum()):,}"),
        ("Seed", DASH if curve.result.seed is None else str(curve.result.seed)),
    ]
    sections = [
        Section("Over the number of training cases", dict(_panels(curve)), [], [_WHAT, *_NOTES]),
        Section("Numbers", {}, [size_table(curve)], []),
    ]
    page = template("search.html.j2").render(
        name=curve.name or "learning curve", kind="Learning curve", facts=facts, warnings=curve.warnings,
        sections=[shown_section(section) for section in sections], many_rows=_MANY, **made_with(curve.result),
    )  # fmt: skip
    return str(page)


_WHAT = (
    "Dots: the value over all out-of-fold cases, or, of a metric that is no mean over cases, the mean of the folds, "
    "with its 95 % interval; a thin line for each fold."
)
