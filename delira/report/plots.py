"""Panels of the page, as figures and as inline SVG: of learning, classifications, regressions and times."""

import html
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, DataError
from delira.report.predictions import N_BINS, Band, Reliability, curve_band
from delira.utils.pictures import Figure, picture_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Blue and vermillion of Okabe and Ito's palette, told apart with every kind of colour vision.
TRAINING, VALIDATION = "#0072b2", "#d55e00"
INK, MUTED, RULE, PAPER = "#1f2328", "#6b7280", "#e3e5e8", "#ffffff"

_PHASES = {"training": TRAINING, "validation": VALIDATION}
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
SQUARE = (3.05, 2.9)
"""Inches."""
N_NAMED = 3
"""So many of the hardest classes are coloured and named."""
MAX_LINES = 30
"""Of more classes, so many are drawn, from the hardest to the easiest."""
HARDEST = (VALIDATION, "#009e73", "#cc79a7")
MAX_CASES = 500
"""More points are drawn as one picture: each is an element of the page."""


class Curve(NamedTuple):
    """One quantity in one fold."""

    epochs: np.ndarray
    values: np.ndarray
    best_epoch: int | None


Phases = dict[str, list[Curve]]
"""``"training"`` and ``"validation"`` to one curve for each fold."""


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
    if not isinstance(folds, Sequence) or any(not hasattr(fold, "history") for fold in folds):
        raise ConfigError(f"learning_curves: folds must be a list of FoldResult, got {folds!r:.200}")
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
        figures[quantity], axes = panel()
        _draw_panel(axes, quantity, phases)
        axes.set_xlabel("epoch", fontsize=8.5, color=MUTED)
    return figures


def panel(width: float = 3.05, height: float = 2.35) -> tuple["Figure", "Axes"]:
    """Return an empty figure with one panel; width and height in inches."""
    figure = picture_class()(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.04, h_pad=0.04)
    return figure, figure.add_subplot()


def curves(folds: Sequence[Any]) -> dict[str, Phases]:
    """Quantity to phase (``"training"``, ``"validation"``) to one curve per fold that has it."""
    panels: dict[str, Phases] = {}
    for key in dict.fromkeys(key for fold in folds for entry in fold.history for key in entry if key != "epoch"):
        found = [curve for fold in folds if len((curve := _curve(fold, key)).epochs)]
        if found and not (is_learning_rate(key) and all(np.ptp(curve.values) == 0 for curve in found)):
            phase = "validation" if key.startswith("val_") else "training"
            panels.setdefault(key.removeprefix("val_"), {})[phase] = found
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
    finite = [point for point in points if np.isfinite(point[1])]
    epochs, values = np.array(finite, dtype=float).reshape(-1, 2).T
    return Curve(epochs, values, fold.best_epoch)


def _draw_panel(axes: "Axes", quantity: str, phases: Phases) -> None:
    everything = np.concatenate([curve.values for found in phases.values() for curve in found])
    for phase, colour in _PHASES.items():
        found = phases.get(phase, [])
        alone = len(found) == 1
        is_picture = not alone and sum(len(curve.epochs) for curve in found) > MAX_VECTOR_POINTS
        for curve in found:
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
            low, high = ends_of_band(mean, std, everything)
            axes.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(epochs, mean, color=colour, linewidth=1.9, label=f"{phase}, mean")
    for curve in phases.get("validation", []):
        at_best = curve.epochs == curve.best_epoch
        axes.plot(curve.epochs[at_best], curve.values[at_best], zorder=3, label="best epoch", **_BEST)
    if everything.min() > 0 and everything.max() > LOG_RANGE * everything.min():
        axes.set_yscale("log")
    style(axes, quantity)
    mark_epochs(axes)


def ends_of_band(mean: np.ndarray, std: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where a band of one standard deviation begins and ends: no further than the values of folds go.

    So the band of a score in [0, 1] ends there, whatever the score is called, and no band squeezes the curves.

    Parameters
    ----------
    mean, std
        Over folds, float64 of shape ``(n,)``.
    values
        Of all curves in question, float64 of shape ``(m,)``.
    """
    return np.maximum(mean - std, values.min()), np.minimum(mean + std, values.max())


def mark_epochs(axes: "Axes") -> None:
    """Give an axis of epochs whole numbers."""
    from matplotlib.ticker import MaxNLocator

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


def legend_of(panels: Mapping[str, Phases]) -> list[tuple[str, str]]:
    """Return what occurs in panels, as (kind, text); the kinds are phases, ``"thin"``, ``"band"`` and ``"best"``."""
    many = any(len(found) > 1 for phases in panels.values() for found in phases.values())
    present = {phase for phases in panels.values() for phase in phases}
    validated = [curve for phases in panels.values() for curve in phases.get("validation", ())]
    legend = [(phase, phase + (", mean" if many else "")) for phase in _PHASES if phase in present]
    legend += [("thin", "single fold"), ("band", "± SD")] if many else []
    return legend + ([("best", "best epoch")] if any(curve.best_epoch is not None for curve in validated) else [])


def _draw_legend(figure: "Figure", panels: Mapping[str, Phases]) -> None:
    """One legend for all panels, with what occurs in them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines: dict[str, dict[str, Any]] = {
        **{phase: {"color": colour, "linewidth": 1.9} for phase, colour in _PHASES.items()},
        "thin": {"color": MUTED, "linewidth": 0.7},
        "best": _BEST,
    }
    handles = [
        Patch(facecolor=MUTED, alpha=0.25, label=text) if kind == "band" else Line2D([], [], label=text, **lines[kind])
        for kind, text in legend_of(panels)
    ]
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


# ------------------------------------------------------------------ of classifications, regressions and times


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
        axes.plot(bands[number].x, bands[number].mean, color=MUTED, linewidth=0.7, alpha=0.6, label="class")
    for number, colour in zip(hardest, HARDEST, strict=False):
        band, name = bands[number], names[number]
        label = f"{name if len(name) <= 18 else name[:17] + '…'}  {band.area[0]:.3f}"
        axes.plot(band.x, band.mean, color=colour, linewidth=1.5, label=label)
    legend = axes.legend(
        handles=[line for line in axes.lines if line.get_label() != "class"],
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=1.2,
        loc="lower right" if title.startswith("ROC") else "lower left",
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def calibration_panel(found: Reliability, axis_names: tuple[str, str], title: str = "Calibration") -> "Figure":
    """Confidence against frequency; the bars are the share of cases with that confidence."""
    figure, axes = _square(f"{title}, ECE {found.error:.3f}", axis_names)
    edges = np.arange(N_BINS) / N_BINS
    axes.bar(edges, found.share, width=0.9 / N_BINS, align="edge", color=MUTED, alpha=0.25, linewidth=0, label="share")
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=(0, (3, 3)), label="perfect")
    axes.plot(found.confidence, found.frequency, color=TRAINING, linewidth=1.6, marker="o", markersize=3.5, label="bin")
    return figure


def agreement_panel(true: np.ndarray, predicted: np.ndarray) -> "Figure":
    """Predicted over true values, with the line on which they are equal."""
    figure, axes = panel(*SQUARE)
    low, high = float(min(true.min(), predicted.min())), float(max(true.max(), predicted.max()))
    axes.plot([low, high], [low, high], color=MUTED, linewidth=0.8, linestyle=(0, (3, 3)), label="equal")
    _scatter(axes, "Predicted and true", ("true", "predicted"), true, predicted)
    return figure


def residual_panel(true: np.ndarray, predicted: np.ndarray) -> "Figure":
    """Predicted minus true, over predicted values."""
    figure, axes = panel(*SQUARE)
    axes.axhline(0, color=MUTED, linewidth=0.8, linestyle=(0, (3, 3)), label="none")
    _scatter(axes, "Residuals", ("predicted", "predicted − true"), predicted, predicted - true)
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


def _scatter(axes: "Axes", title: str, axis_names: tuple[str, str], x: np.ndarray, y: np.ndarray) -> None:
    style(axes, title)
    axes.plot(
        x, y, linestyle="none", marker="o", markersize=2.6, color=TRAINING, alpha=0.45, markeredgewidth=0,
        rasterized=len(x) > MAX_CASES, label="case",
    )  # fmt: skip
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    _name_axes(axes, axis_names)


def _name_axes(axes: "Axes", names: tuple[str, str]) -> None:
    axes.set_xlabel(names[0], fontsize=8.5, color=MUTED)
    axes.set_ylabel(names[1], fontsize=8.5, color=MUTED)


SCALE = 1.385
"""Pixels per point: three panels are as wide as the page."""
_VARIABLES = {
    TRAINING: "var(--training)",
    VALIDATION: "var(--validation)",
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    PAPER: "var(--paper)",
}
SALT = "delira"
"""Makes the names inside of an SVG depend on what is drawn alone."""


def inline_svg(figure: "Figure", label: str) -> Any:
    """Draw a figure as an ``<svg>`` element.

    Parameters
    ----------
    figure
        What is drawn.
    label
        Read out instead of the drawing.

    Returns
    -------
    markupsafe.Markup
        As wide as the space that it is given, at most its own width; texts are escaped.
    """
    import matplotlib
    from markupsafe import Markup

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": SALT}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None}, dpi=150)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    # HTML needs no name spaces; the size is in pixels.
    width, height = (float(number) for number in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)[0])
    size = f'width="{width * SCALE:.0f}" height="{height * SCALE:.0f}" viewBox="0 0 {width} {height}"'
    svg = f'<svg {size} role="img" aria-label="{html.escape(label)}">{_without_names(body)}'
    svg = re.sub(r"'DejaVu Sans'(?:[^;\"]*sans-serif)?", "var(--font)", svg.replace("xlink:href=", "href="))
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    return Markup(svg)  # made by matplotlib, which has escaped it


def _without_names(body: str) -> str:
    """Leave only the names that something points to: a page may hold a name once, and has many drawings."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', body))
    return re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", body)
