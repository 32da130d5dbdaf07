"""Panels of a classification and of a regression: ROC, precision and recall, calibration, predicted over true."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.report.bands import Band
from delira.report.classified import N_BINS, Reliability
from delira.report.plots import INK, MUTED, RULE, TRAINING, VALIDATION, panel, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SQUARE = (3.05, 2.9)
"""Inches."""
N_NAMED = 3
"""So many of the hardest classes are coloured and named."""
MAX_LINES = 30
"""Of more classes, so many are drawn, from the hardest to the easiest."""
HARDEST = (VALIDATION, "#009e73", "#cc79a7")
MAX_VECTOR_POINTS = 500
"""More points are drawn as one picture: each is an element of the page."""


def band_panel(title: str, axis_names: tuple[str, str], band: Band, area: str) -> "Figure":
    """Return the curve of each fold, their mean, and one standard deviation around it.

    Parameters
    ----------
    title
        Above the panel.
    axis_names
        Of x and y.
    band
        The curves.
    area
        What is under them, written into the panel.
    """
    figure, axes = _square(title, axis_names)
    alone = len(band.folds) == 1
    for curve in band.folds.values():
        axes.plot(
            band.x, curve, color=TRAINING, linewidth=1.6 if alone else 0.7, alpha=1 if alone else 0.4, label="fold"
        )
    if not alone:
        low, high = np.maximum(band.mean - band.std, 0), np.minimum(band.mean + band.std, 1)
        axes.fill_between(band.x, low, high, color=TRAINING, alpha=0.18, linewidth=0)
        axes.plot(band.x, band.mean, color=TRAINING, linewidth=1.9, label="mean")
    is_roc = title.startswith("ROC")
    axes.text(0.98 if is_roc else 0.02, 0.04, area, ha="right" if is_roc else "left", fontsize=9.5, color=INK)
    return figure


def classes_panel(title: str, axis_names: tuple[str, str], bands: Mapping[int, Band], names: Sequence[str]) -> "Figure":
    """Return the mean over folds for each class, at most 33 of them; the three with the smallest areas are named."""
    figure, axes = _square(title, axis_names)
    ordered = sorted(bands, key=lambda number: bands[number].area[0])
    hardest, others = ordered[:N_NAMED], ordered[N_NAMED:]
    for number in others[:: max(1, -(-len(others) // MAX_LINES))]:
        band = bands[number]
        axes.plot(band.x, band.mean, color=MUTED, linewidth=0.7, alpha=0.6, label="class")
    for number, colour in zip(hardest, HARDEST, strict=False):
        band = bands[number]
        name = names[number] if len(names[number]) <= 18 else names[number][:17] + "…"
        axes.plot(band.x, band.mean, color=colour, linewidth=1.5, label=f"{name}  {band.area[0]:.3f}")
    handles = [line for line in axes.lines if line.get_label() != "class"]
    legend = axes.legend(handles=handles, frameon=False, fontsize=8, labelcolor=INK, handlelength=1.2, loc="lower left")
    if title.startswith("ROC"):
        legend.set_loc("lower right")
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def calibration_panel(found: Reliability, axis_names: tuple[str, str]) -> "Figure":
    """Confidence against frequency; the bars are the share of cases with that confidence."""
    figure, axes = _square(f"Calibration, ECE {found.error:.3f}", axis_names)
    edges = np.arange(N_BINS) / N_BINS
    axes.bar(edges, found.share, width=0.9 / N_BINS, align="edge", color=MUTED, alpha=0.25, linewidth=0, label="share")
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=(0, (3, 3)), label="perfect")
    axes.plot(found.confidence, found.frequency, color=TRAINING, linewidth=1.6, marker="o", markersize=3.5, label="bin")
    return figure


def agreement_panel(true: np.ndarray, predicted: np.ndarray) -> "Figure":
    """Predicted over true values, with the line on which they are equal."""
    figure, axes = panel(*SQUARE)
    style(axes, "Predicted and true")
    low, high = float(min(true.min(), predicted.min())), float(max(true.max(), predicted.max()))
    axes.plot([low, high], [low, high], color=MUTED, linewidth=0.8, linestyle=(0, (3, 3)), label="equal")
    _scatter(axes, true, predicted)
    _name_axes(axes, ("true", "predicted"))
    return figure


def residual_panel(true: np.ndarray, predicted: np.ndarray) -> "Figure":
    """Predicted minus true, over predicted values."""
    figure, axes = panel(*SQUARE)
    style(axes, "Residuals")
    axes.axhline(0, color=MUTED, linewidth=0.8, linestyle=(0, (3, 3)), label="none")
    _scatter(axes, predicted, predicted - true)
    _name_axes(axes, ("predicted", "predicted − true"))
    return figure


def confusion_panel(counts: np.ndarray, names: Sequence[str]) -> "Figure":
    """Return a confusion matrix, shaded by the share of the row, with the counts in it."""
    from matplotlib.colors import LinearSegmentedColormap

    side = max(2.6, 0.34 * len(names) + 1.2)
    figure, axes = panel(side, side)
    style(axes, "Confusion matrix")
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    axes.imshow(shares, cmap=LinearSegmentedColormap.from_list("share", ["#ffffff", TRAINING]), vmin=0, vmax=1)
    for row, column in np.ndindex(*counts.shape):
        if counts[row, column]:
            colour = "#ffffff" if shares[row, column] > 0.55 else INK
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=7, color=colour)
    places = range(len(names))
    axes.set_xticks(places, names, rotation=90 if max(map(len, names)) > 2 else 0, parse_math=False)
    axes.set_yticks(places, names, parse_math=False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK, labelsize=8)
    _name_axes(axes, ("predicted class", "true class"))
    return figure


def time_panel(names: Sequence[str], phases: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> "Figure":
    """Seconds of each fold, one bar for each, with a colour for each phase.

    Parameters
    ----------
    names
        Of the folds.
    phases
        Phase to seconds, one number for each fold.
    colours
        Phase to colour.
    """
    figure, axes = panel(6.2, 1.1 + 0.26 * len(names))
    left = np.zeros(len(names))
    for phase, seconds in phases.items():
        axes.barh(range(len(names)), seconds, left=left, height=0.66, color=colours[phase], linewidth=0, label=phase)
        left += np.asarray(seconds)
    style(axes, "Seconds")
    axes.grid(visible=False)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    figure.legend(
        loc="outside lower left", ncols=5, frameon=False, fontsize=8.5, labelcolor=INK, handlelength=1, handleheight=1
    )
    return figure


def _square(title: str, axis_names: tuple[str, str]) -> tuple["Figure", "Axes"]:
    figure, axes = panel(*SQUARE)
    style(axes, title)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    _name_axes(axes, axis_names)
    return figure, axes


def _scatter(axes: "Axes", x: np.ndarray, y: np.ndarray) -> None:
    axes.plot(
        x, y, linestyle="none", marker="o", markersize=2.6, color=TRAINING, alpha=0.45, markeredgewidth=0,
        rasterized=len(x) > MAX_VECTOR_POINTS, label="case",
    )  # fmt: skip
    axes.grid(axis="x", color=RULE, linewidth=0.8)


def _name_axes(axes: "Axes", names: tuple[str, str]) -> None:
    text: dict[str, Any] = {"fontsize": 8.5, "color": MUTED}
    axes.set_xlabel(names[0], **text)
    axes.set_ylabel(names[1], **text)
