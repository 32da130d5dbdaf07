"""Plots as pictures, for tools that have none of their own; and figures as pixels."""

from typing import Any

import numpy as np

from delira.logging.messages import Message
from delira.utils.optional import import_optional


def draw(message: Message) -> Any:
    """Return a figure of matplotlib with the plot of a message whose values are those of numpy."""
    figure = import_optional("matplotlib.figure", "a plot", "matplotlib").Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots(subplot_kw={"projection": "3d"} if message.kind == "surface" else None)
    values, given = np.asarray(message.value), message.given
    match message.kind:
        case "histogram":
            axes.hist(values[np.isfinite(values)], bins=given("bins", "numbins", default=30))
        case "line":
            x = given("x_vals", "x", "X")
            axes.plot(np.arange(len(values)) if x is None else np.asarray(x), values)
        case "scatter":
            axes.scatter(values[:, 0], values[:, 1], c=given("labels", "Y"))
        case "bar":
            names = given("legend", "rownames")
            axes.bar(np.arange(values.size), values.ravel(), tick_label=None if names is None else [*map(str, names)])
        case "pie":
            axes.pie(values.ravel(), labels=given("legend", "labels"))
        case "boxplot":
            axes.boxplot(values)
        case "heatmap":
            figure.colorbar(axes.imshow(values, aspect="auto"))
        case "contour":
            axes.contour(values)
        case "surface":
            rows, columns = np.indices(values.shape)
            axes.plot_surface(columns, rows, values, cmap="viridis")
    axes.set_title(message.name)
    return figure


def pixels_of(figure: Any) -> np.ndarray:
    """Return a figure as a picture: float32 in [0, 1] of shape ``(3, h, w)``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = np.asarray(canvas.buffer_rgba())[..., :3]
    return np.moveaxis(shown, -1, 0).astype(np.float32) / 255
