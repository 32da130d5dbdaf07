"""Figures of a comparison: values fold by fold, differences with their intervals, and mean ranks over data sets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from delira.report.page import RUN_COLOURS
from delira.report.plots import INK, MUTED, PAPER, RULE, SQUARE, TRAINING, VALIDATION, panel, style
from delira.utils.pictures import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = 18
"""Letters of a name that a plot shows."""


class Bar(NamedTuple):
    """One row of a forest plot."""

    label: str
    middle: float
    interval: tuple[float, float]
    """Over cases; NaN where there is none."""
    wide: tuple[float, float]
    """Over folds; NaN where there is none."""


def short(name: str) -> str:
    """Return a name that fits into a plot."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def paired_plot(title: str, names: Sequence[str], values: np.ndarray) -> "Figure":
    """Return the values of each fold, joined by lines: where all lines rise, all folds agree.

    Parameters
    ----------
    title
        Above the panel.
    names
        Of the results.
    values
        Of each result and fold, shape ``(n_results, n_folds)``.
    """
    figure, axes = panel(max(SQUARE[0], 1.25 * len(names) + 0.6), SQUARE[1])
    style(axes, title)
    places = np.arange(len(names))
    for fold in values.T:
        axes.plot(places, fold, color=MUTED, linewidth=0.8, alpha=0.6, zorder=1, label="fold")
    for place, of_folds in enumerate(values):
        colour = RUN_COLOURS[place % len(RUN_COLOURS)]
        at = np.full(len(of_folds), place)
        axes.plot(at, of_folds, "o", color=colour, markersize=4, markeredgewidth=0, zorder=2, label="value")
    finite = np.isfinite(values).all(axis=0)
    if finite.any():
        axes.plot(
            places, values[:, finite].mean(axis=1), "_", color=INK, markersize=22, markeredgewidth=1.8, zorder=3,
            label="mean",
        )  # fmt: skip
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(places, [short(name) for name in names], parse_math=False)
    axes.tick_params(axis="x", length=0, labelcolor=INK)
    return figure


def forest_plot(title: str, bars: Sequence[Bar], rope: float, axis_name: str, level: float) -> "Figure":
    """Return differences with two intervals each, and the region of practical equivalence.

    Parameters
    ----------
    title
        Above the panel.
    bars
        One for each difference, the first on top.
    rope
        Half the width of the region.
    axis_name
        Which way is better.
    level
        Of the intervals.
    """
    figure, axes = panel(6.2, 1.35 + 0.34 * len(bars))
    style(axes, title)
    axes.axvspan(-rope, rope, color=RULE, alpha=0.7, linewidth=0, zorder=0, label=f"within ±{rope:g}")
    axes.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    for place, bar in enumerate(bars):
        axes.plot(bar.wide, [place, place], color=MUTED, linewidth=1.2, zorder=2, label="corrected t, over folds")
        axes.plot(
            bar.interval, [place, place], color=TRAINING, linewidth=5, alpha=0.45, solid_capstyle="butt", zorder=3,
            label="bootstrap, over cases",
        )  # fmt: skip
        axes.plot(
            [bar.middle], [place], "o", color=VALIDATION, markersize=6, markeredgecolor=PAPER, zorder=4,
            label="difference",
        )  # fmt: skip
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], parse_math=False)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.grid(visible=False)
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_xlabel(axis_name, fontsize=8.5, color=MUTED, parse_math=False)
    _legend(figure, axes, f"{100 * level:g} % intervals:")
    return figure


def _legend(figure: Figure, axes: "Axes", title: str) -> None:
    """One entry for each kind of mark."""
    handles, labels = axes.get_legend_handles_labels()
    kinds = dict(zip(labels, handles, strict=True))
    legend = figure.legend(
        handles=list(kinds.values()), labels=list(kinds), loc="outside lower left", ncols=4, frameon=False, fontsize=8,
        labelcolor=INK, handlelength=1.4, columnspacing=1.2, title=title, title_fontsize=8, alignment="left",
    )  # fmt: skip
    legend.get_title().set_color(INK)


def critical_difference_diagram(
    methods: Sequence[str], mean_ranks: np.ndarray, reach: float, joined: Sequence[Sequence[int]]
) -> "Figure":
    """Return mean ranks on an axis, the best on the left; thick bars join methods that Nemenyi's test does not part.

    Parameters
    ----------
    methods
        Names.
    mean_ranks
        Of each, shape ``(n_methods,)``.
    reach
        The critical difference, drawn above the axis.
    joined
        Sets of methods to join, by number; see :func:`delira.comparison.many.cliques`.

    References
    ----------
    J. Demšar, Journal of Machine Learning Research 7, 2006, figure 1.
    """
    n = len(methods)
    n_left = (n + 1) // 2
    bars = 0.22 * len(joined)
    height = 0.5 + bars + 0.42 * max(n_left, 1)
    figure, axes = panel(6.2, 1.0 + 0.62 * height)
    axes.set_axis_off()
    axes.set_xlim(1 - 0.42 * (n - 1), n + 0.42 * (n - 1))
    axes.set_ylim(-height, 0.95)
    axes.plot([1, n], [0, 0], color=INK, linewidth=1)
    for rank in range(1, n + 1):
        axes.plot([rank, rank], [0, 0.12], color=INK, linewidth=1)
        axes.text(rank, 0.18, str(rank), ha="center", va="bottom", fontsize=8.5, color=MUTED)
    axes.plot([1, 1 + reach], [0.62, 0.62], color=VALIDATION, linewidth=2.2, solid_capstyle="butt")
    axes.text(1, 0.7, f"critical difference {reach:.2f}", fontsize=8.5, color=INK, va="bottom")
    for number, clique in enumerate(joined):
        ends = [mean_ranks[clique[0]] - 0.03, mean_ranks[clique[-1]] + 0.03]
        at = -0.2 - 0.22 * number
        axes.plot(ends, [at, at], color=TRAINING, linewidth=4, solid_capstyle="butt")
    order = np.argsort(mean_ranks, kind="stable")
    for position, method in enumerate(order):
        is_left = position < n_left
        row = position if is_left else n - 1 - position
        at = -0.5 - bars - 0.42 * row
        end = 1 - 0.08 * (n - 1) if is_left else n + 0.08 * (n - 1)
        axes.plot([mean_ranks[method]] * 2 + [end], [0, at, at], color=MUTED, linewidth=0.9)
        axes.text(
            end + (-0.02 if is_left else 0.02) * (n - 1), at, f"{short(methods[method])}  {mean_ranks[method]:.2f}",
            ha="right" if is_left else "left", va="center", fontsize=9, color=INK, parse_math=False,
        )  # fmt: skip
    return figure
