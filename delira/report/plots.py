"""Learning curves: one panel per quantity, a thin line per fold, their mean and spread, the best epochs."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delira.errors import DataError
from delira.report.bands import curve_band
from delira.report.checks import check_folds
from delira.utils.picture import picture_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and vermillion of Okabe and Ito's palette, told apart with every kind of colour vision.
TRAINING, VALIDATION = "#0072b2", "#d55e00"
INK, MUTED, RULE, PAPER = "#1f2328", "#6b7280", "#e3e5e8", "#ffffff"

PANELS_PER_ROW = 3
_BEST: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 4,
    "markerfacecolor": PAPER,
    "markeredgecolor": VALIDATION,
    "markeredgewidth": 1.1,
}
MAX_VECTOR_POINTS = 4000
"""Curves of folds with more points in all are drawn as one picture: each is text in the file."""
LOG_RANGE = 100
"""Positive values whose largest is this many times the smallest are drawn on a logarithmic axis."""


class Curve(NamedTuple):
    """One quantity in one fold."""

    epochs: np.ndarray
    values: np.ndarray
    best_epoch: int | None


def learning_curves(folds: Sequence[Any]) -> "Figure":
    """Draw the histories of all folds.

    Training and validation share a panel: ``"ce"`` and ``"val_ce"``. The band around the mean is one standard
    deviation over the folds to either side, as far as values of folds go. Mean and band end where the first
    fold ends, since a mean over the folds that are left would jump. Learning rates are shown if they change.

    Parameters
    ----------
    folds
        Each with ``history`` (one dictionary per epoch with the key ``"epoch"``) and ``best_epoch``.

    Raises
    ------
    DataError
        If no fold has a history.
    """
    check_folds("learning_curves", folds)
    panels = curves(folds)
    if not panels:
        raise DataError("no fold has a history, so there are no learning curves; train at least one epoch")
    n_columns = min(PANELS_PER_ROW, len(panels))
    n_rows = math.ceil(len(panels) / n_columns)
    figure = picture_class()(figsize=(max(4.4, 3.15 * n_columns), 2.3 * n_rows + 0.45))
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06, wspace=0.04, hspace=0.06)
    for number, (quantity, phases) in enumerate(panels.items()):
        axes = figure.add_subplot(n_rows, n_columns, number + 1)
        _draw_panel(axes, quantity, phases)
        if number + n_columns >= len(panels):
            axes.set_xlabel("epoch", fontsize=8.5, color=MUTED)
    _draw_legend(figure, panels)
    return figure


def curve_panels(folds: Sequence[Any]) -> dict[str, "Figure"]:
    """Each panel of :func:`learning_curves` as a figure of its own, without a legend; none without a history."""
    figures = {}
    for quantity, phases in curves(folds).items():
        figure, axes = panel()
        _draw_panel(axes, quantity, phases)
        axes.set_xlabel("epoch", fontsize=8.5, color=MUTED)
        figures[quantity] = figure
    return figures


def panel(width: float = 3.05, height: float = 2.35) -> tuple["Figure", "Axes"]:
    """Return an empty figure with one panel; width and height in inches."""
    figure = picture_class()(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.04, h_pad=0.04)
    return figure, figure.add_subplot()


def curves(folds: Sequence[Any]) -> dict[str, dict[str, list[Curve]]]:
    """Quantity to phase (``"training"``, ``"validation"``) to one curve per fold that has it."""
    panels: dict[str, dict[str, list[Curve]]] = {}
    keys = dict.fromkeys(key for fold in folds for entry in fold.history for key in entry)
    for key in keys:
        if key == "epoch":
            continue
        quantity = key.removeprefix("val_")
        found = [curve for fold in folds if len((curve := _curve(fold, key)).epochs)]
        if found and not (is_learning_rate(key) and all(np.ptp(curve.values) == 0 for curve in found)):
            phase = "validation" if key.startswith("val_") else "training"
            panels.setdefault(quantity, {})[phase] = found
    return dict(sorted(panels.items(), key=lambda item: is_learning_rate(item[0])))


def is_learning_rate(key: str) -> bool:
    """Return True if a key of the history is a learning rate: ``"lr"``, ``"lr_default"``."""
    return key == "lr" or key.startswith("lr_")


def _curve(fold: Any, key: str) -> Curve:
    points = [
        (entry.get("epoch", position + 1), float(np.mean(entry[key])))
        for position, entry in enumerate(fold.history)
        if entry.get(key) is not None
    ]
    finite = [(epoch, value) for epoch, value in points if np.isfinite(value)]
    epochs, values = np.array(finite, dtype=float).reshape(-1, 2).T
    return Curve(epochs, values, fold.best_epoch)


def _draw_panel(axes: "Axes", quantity: str, phases: dict[str, list[Curve]]) -> None:
    from matplotlib.ticker import MaxNLocator

    everything = np.concatenate([curve.values for found in phases.values() for curve in found])
    for phase in ("training", "validation"):
        colour = TRAINING if phase == "training" else VALIDATION
        found = phases.get(phase, [])
        is_picture = len(found) > 1 and sum(len(curve.epochs) for curve in found) > MAX_VECTOR_POINTS
        for curve in found:
            alone = len(found) == 1
            axes.plot(
                curve.epochs,
                curve.values,
                color=colour,
                linewidth=1.6 if alone else 0.7,
                alpha=1 if alone else 0.4,
                marker="." if len(curve.epochs) == 1 else None,
                label=f"{phase}, fold",
                rasterized=is_picture,
            )
        if len(found) > 1:
            epochs, mean, std = curve_band([curve.epochs for curve in found], [curve.values for curve in found])
            low = np.maximum(mean - std, everything.min())  # a band that leaves the panel would squeeze the curves
            axes.fill_between(
                epochs, low, np.minimum(mean + std, everything.max()), color=colour, alpha=0.18, linewidth=0
            )
            axes.plot(epochs, mean, color=colour, linewidth=1.9, label=f"{phase}, mean")
    for curve in phases.get("validation", []):
        at_best = curve.epochs == curve.best_epoch
        axes.plot(
            curve.epochs[at_best],
            curve.values[at_best],
            zorder=3,
            label="best epoch",
            **_BEST,
        )
    if everything.min() > 0 and everything.max() > LOG_RANGE * everything.min():
        axes.set_yscale("log")
    style(axes, quantity)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))


def style(axes: "Axes", title: str) -> None:
    """Give a panel the looks of all others: a title on the left, no frame, lines of the grid across."""
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", color=INK, pad=7, parse_math=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set(color=MUTED, linewidth=0.8)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", labelsize=8.5, labelcolor=MUTED, color=MUTED, length=3, width=0.8)
    axes.tick_params(axis="y", which="both", length=0)
    axes.patch.set_visible(False)


def _draw_legend(figure: "Figure", panels: dict[str, dict[str, list[Curve]]]) -> None:
    """One legend for all panels, with what occurs in them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = {phase for phases in panels.values() for phase in phases}
    drawn = [curve for phases in panels.values() for found in phases.values() for curve in found]
    many = any(len(found) > 1 for phases in panels.values() for found in phases.values())
    handles: list[Any] = [
        Line2D([], [], color=colour, linewidth=1.9, label=phase + (", mean" if many else ""))
        for phase, colour in (("training", TRAINING), ("validation", VALIDATION))
        if phase in present
    ]
    if many:
        handles.append(Line2D([], [], color=MUTED, linewidth=0.7, label="single fold"))
        handles.append(Patch(facecolor=MUTED, alpha=0.25, label="± SD"))
    if "validation" in present and any(curve.best_epoch is not None for curve in drawn):
        handles.append(Line2D([], [], label="best epoch", **_BEST))
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=len(handles),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.6,
        columnspacing=1.6,
        borderaxespad=0.2,
    )
