"""Plots as pictures, for tools that have none of their own; and figures as pixels."""

from typing import TYPE_CHECKING, Any

import numpy as np

from delira.logging.messages import Message
from delira.utils.optional import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(message: Message) -> Any:
    """Return a figure of matplotlib with the plot of a message whose values are those of numpy."""
    figure = import_optional("matplotlib.figure", "a plot", "matplotlib").Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots(subplot_kw={"projection": "3d"} if message.kind == "surface" else None)
    values = np.asarray(message.value)
    _DRAW[message.kind](axes, values, message)
    axes.set_title(message.name)
    return figure


def pixels_of(figure: Any) -> np.ndarray:
    """Return a figure as a picture: float32 in [0, 1] of shape ``(3, h, w)``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = np.asarray(canvas.buffer_rgba())[..., :3]
    return np.moveaxis(shown, -1, 0).astype(np.float32) / 255


def _histogram(axes: "Axes", values: np.ndarray, message: Message) -> None:
    axes.hist(values[np.isfinite(values)], bins=message.given("bins", "numbins", default=30))


def _line(axes: "Axes", values: np.ndarray, message: Message) -> None:
    x = message.given("x_vals", "x", "X")
    axes.plot(np.arange(len(values)) if x is None else np.asarray(x), values)


def _scatter(axes: "Axes", values: np.ndarray, message: Message) -> None:
    axes.scatter(values[:, 0], values[:, 1], c=message.given("labels", "Y"))


def _bar(axes: "Axes", values: np.ndarray, message: Message) -> None:
    names = message.given("legend", "rownames")
    axes.bar(np.arange(values.size), values.ravel(), tick_label=None if names is None else [*map(str, names)])


def _pie(axes: "Axes", values: np.ndarray, message: Message) -> None:
    axes.pie(values.ravel(), labels=message.given("legend", "labels"))


def _boxplot(axes: "Axes", values: np.ndarray, message: Message) -> None:
    axes.boxplot(values)


def _heatmap(axes: "Axes", values: np.ndarray, message: Message) -> None:
    axes.figure.colorbar(axes.imshow(values, aspect="auto"))


def _contour(axes: "Axes", values: np.ndarray, message: Message) -> None:
    axes.contour(values)


def _surface(axes: Any, values: np.ndarray, message: Message) -> None:
    rows, columns = np.indices(values.shape)
    axes.plot_surface(columns, rows, values, cmap="viridis")


_DRAW = {
    "histogram": _histogram, "line": _line, "scatter": _scatter, "bar": _bar, "pie": _pie, "boxplot": _boxplot,
    "heatmap": _heatmap, "contour": _contour, "surface": _surface,
}  # fmt: skip
