"""A picture of what the network gets: the first samples of an epoch with their labels and masks."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira.data_loading._exact import check_count
from delira.errors import DataError, MissingKeyError, check_names
from delira.utils.pictures import Figure, picture_class

INK, MUTED, RULE, PAPER = "#1f2328", "#6b7280", "#e3e5e8", "#ffffff"
# Okabe and Ito's palette, told apart with every kind of colour vision; one is kept for what is no number.
CLASSES, BAD = ("#d55e00", "#56b4e9", "#009e73", "#e69f00", "#0072b2", "#f0e442"), "#cc79a7"
LINE = "#0072b2"
OPACITY = 0.5
MAX_PIXELS = 320
"""Longer sides are thinned out before they are drawn."""
MAX_CHANNELS = 16
"""A first axis longer than that is one of space."""
MAX_CLASSES = 64
"""An entry with more values than that is an image, not a mask."""
_LEFT, _GAP, _TITLE, _LINE = 0.15, 0.14, 0.22, 0.19  # inches


@dataclasses.dataclass(kw_only=True)
class _Cell:
    """One sample as it is drawn."""

    title: str
    values: np.ndarray
    """(H, W), (H, W, 3), or (lines, length)."""
    kind: str
    """``"gray"``, ``"colour"`` or ``"lines"``."""
    mask: np.ndarray | None
    """Class of each pixel, (H, W) of int; 0 is the background."""
    note: str
    """How the entry became a picture."""


def preview(
    manager: Any,
    n: int = 16,
    *,
    seed: int = 0,
    fold: int = 0,
    epoch: int = 0,
    data_key: str = "data",
    label_keys: Sequence[str] = ("label", "seg", "mask"),
) -> "Figure":
    """Draw the first samples of a training epoch, transformed as the network gets them.

    Grey images, RGB images, the central slice of volumes, and vectors as lines; flat vectors of a square
    length are drawn as squares. Values share one scale, so that a change of brightness can be seen.

    Parameters
    ----------
    manager : BaseDataManager
        Makes the batches, in this process; neither it nor global random generators are changed.
    n
        Number of samples; fewer are drawn if an epoch has fewer.
    seed, fold, epoch
        Which epoch, as in :meth:`BaseDataManager.epoch`; it is shuffled as for training.
    data_key
        Entry that is drawn.
    label_keys
        Entries that are shown with it, as far as a batch has them: numbers, names and one-hot vectors
        above a picture, a mask of its size laid over it with one colour for each class.

    Returns
    -------
    matplotlib.figure.Figure
        Notebooks show it; ``savefig`` writes it to a file.

    Raises
    ------
    ConfigError
        If ``n`` is no positive integer.
    MissingKeyError
        If a batch has no entry ``data_key``.
    DataError
        If that entry holds no numbers.
    """
    check_names("preview", label_keys=label_keys)
    label_keys = [label_keys] if isinstance(label_keys, str) else label_keys
    samples = _samples(manager, check_count(n, "n", 1), (seed, fold, epoch), [data_key, *label_keys])
    cells = [_as_cell(index, sample, data_key) for index, sample in samples]
    transforms = manager.transforms
    name = getattr(transforms, "__name__", None) or type(transforms).__name__
    facts = [
        f"{len(cells):,} of {manager.n_samples:,} samples",
        f"seed {seed}, fold {fold}, epoch {epoch}",
        "no transforms" if transforms is None else f"after {name}",
    ]
    low, high = _scale(cells)
    has_gaps = any(cell.kind != "lines" and not np.isfinite(cell.values).all() for cell in cells)
    notes = [*(cell.note for cell in cells), f"scale {low:.4g} to {high:.4g}", "pink: no number" if has_gaps else ""]
    return _draw(cells, (low, high), [" · ".join(facts), " · ".join(filter(None, dict.fromkeys(notes)))])


def _samples(
    manager: Any, n: int, counters: tuple[int, int, int], keys: Sequence[str]
) -> Iterator[tuple[int | None, dict[str, np.ndarray]]]:
    """Entries of samples, with the index in the dataset; None where it cannot be told."""
    own = manager.with_own_transforms()
    for number in range(own.n_batches):
        batch, indices = own.batch_at(*counters, number, shuffle=True)
        if not indices.size:  # none of its samples can be loaded
            continue
        if keys[0] not in batch:
            raise MissingKeyError(
                f"a batch has no entry {keys[0]!r} that could be drawn, only {sorted(map(str, batch))}; "
                "name one of these as data_key"
            )
        length = len(batch[keys[0]])
        shown = [key for key in dict.fromkeys(keys) if key in batch and np.shape(batch[key])[:1] == (length,)]
        for row in range(min(length, n)):
            # a transform may cut several patches of a sample
            index = int(indices[row]) if length == len(indices) else None
            yield index, {key: np.asarray(batch[key][row]) for key in shown}
        n -= length
        if n <= 0:
            return


# ------------------------------------------------------------------ what is drawn


def _as_cell(index: int | None, sample: Mapping[str, np.ndarray], data_key: str) -> _Cell:
    image = sample[data_key]
    if image.dtype.kind not in "biuf" or not image.size:
        raise DataError(
            f"entry {data_key!r} cannot be drawn: its dtype is {image.dtype} and its shape {image.shape}; "
            "name an entry of numbers as data_key"
        )
    kind, axis, space, note = _layout(image.shape)
    labels = {key: label for key, label in sample.items() if key != data_key}
    shown = ", ".join(f"{key} {text}" for key, label in labels.items() if (text := _text(label)))
    masks = (_classes_of(label, space, image.shape) for label in labels.values() if kind != "lines")
    return _Cell(
        title=shown if index is None else f"#{index}  {shown}",
        values=_values(image, kind, axis, space),
        kind=kind,
        mask=next((mask for mask in masks if mask is not None), None),
        note=note,
    )


def _layout(shape: tuple[int, ...]) -> tuple[str, int | None, tuple[int, ...], str]:
    """Return how arrays of one shape are drawn: the kind, the axis of channels, the shape without it, and a note."""
    size = " × ".join(map(str, shape))
    if len(shape) <= 1:
        side = math.isqrt(math.prod(shape))
        if side >= 8 and side * side == math.prod(shape):
            return "gray", None, (side, side), f"{size} values as {side} × {side}"
        return "lines", None, shape, f"{size or 1} values"
    if len(shape) == 2:
        few, many = sorted(shape)
        is_image = few > MAX_CHANNELS or many < 8 * few
        return ("gray", None, shape, size) if is_image else ("lines", shape.index(few), (many,), size)
    is_first = shape[0] in (1, 3) or (shape[0] <= MAX_CHANNELS and shape[-1] not in (1, 3))
    axis = 0 if is_first else len(shape) - 1 if shape[-1] in (1, 3) else None
    space = shape if axis is None else shape[1:] if axis == 0 else shape[:-1]
    notes = [size]
    is_colour = axis is not None and shape[axis] == 3 and len(space) == 2
    if axis is not None and shape[axis] != 1 and not is_colour:
        notes.append(f"channel 0 of {shape[axis]}")
    if len(space) > 2:
        notes.append(f"slice {', '.join(str(length // 2) for length in space[:-2])}")
    return "colour" if is_colour else "gray", axis, space, ", ".join(notes)


def _values(image: np.ndarray, kind: str, axis: int | None, space: tuple[int, ...]) -> np.ndarray:
    """Return what is drawn: (H, W), (H, W, 3) or (lines, length)."""
    if kind == "lines":
        lines = np.atleast_2d(image)
        return lines.T if axis == 1 else lines
    if kind == "colour":
        return _slice(np.moveaxis(image, axis or 0, -1), 3)
    return _slice(image.reshape(space) if axis is None else image.take(0, axis))


def _classes_of(label: np.ndarray, space: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the class of each pixel if ``label`` is a mask of images of a shape, else None."""
    if label.dtype.kind not in "biuf":
        return None
    if label.size == math.prod(space) and label.shape in (space, shape, (1, *space), (*space, 1)):
        mask = _slice(label.reshape(space)).astype(np.float64)
    elif label.shape[1:] == space and len(label) <= MAX_CHANNELS:  # one channel for each class
        channels = np.stack([_slice(channel) for channel in label]).astype(np.float64)
        if not np.isin(channels, (0, 1)).all():
            return None
        first = 0 if (channels.sum(axis=0) == 1).all() else 1  # one-hot has a channel for the background
        mask = (channels * np.arange(first, first + len(label)).reshape(-1, 1, 1)).max(axis=0)
    else:
        return None
    if not (mask == np.round(mask)).all() or len(np.unique(mask)) > MAX_CLASSES:
        return None
    return np.maximum(mask, 0).astype(np.int64)  # transforms mark what lies outside with -1


def _slice(values: np.ndarray, n_axes: int = 2) -> np.ndarray:
    """Return the central slice, thinned out."""
    while values.ndim > n_axes:
        values = values[len(values) // 2]
    rows, columns = (-(-length // MAX_PIXELS) for length in values.shape[:2])
    return values[::rows, ::columns]


def _text(label: np.ndarray) -> str:
    """Write a label in a few characters; empty if it is no number, name or one-hot vector."""
    if label.size == 1:
        value = label.item()
        return f"{value:.3g}" if isinstance(value, float) else str(value)
    if label.ndim == 1 and label.dtype.kind in "biuf" and label.size <= 1000:
        if (label == 0).sum() == label.size - 1 and label.max() == 1:
            return str(label.argmax())
        if label.size <= 3:
            return ", ".join(f"{value:.3g}" for value in label.tolist())
    return ""


def _scale(cells: Sequence[_Cell]) -> tuple[float, float]:
    """Return values that are drawn black and white, or at the bottom and the top."""
    values = np.concatenate([cell.values.reshape(-1).astype(np.float64) for cell in cells])
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if cells[0].kind == "colour" and low >= 0 and high <= 255:
        return 0.0, 1.0 if high <= 1 else 255.0
    if cells[0].kind != "lines":  # single pixels far outside shall not make everything else grey
        inner_low, inner_high = np.percentile(values, (0.2, 99.8)).tolist()
        low, high = (inner_low, inner_high) if inner_low < inner_high else (low, high)
    return (low, high) if low < high else (low - 0.5, low + 0.5)


# ------------------------------------------------------------------ the drawing


def _draw(cells: Sequence[_Cell], scale: tuple[float, float], head: Sequence[str]) -> "Figure":
    n_columns = max(min(len(cells), 4), min(math.ceil(math.sqrt(len(cells))), 8))
    n_rows = math.ceil(len(cells) / n_columns)
    width = min(max(1.55, 6.2 / n_columns), 2.6)
    heights = [1.0 if c.kind == "lines" else c.values.shape[0] / c.values.shape[1] * width for c in cells]
    height = min(max(0.5, *heights), 2 * width)
    classes = sorted({number for c in cells if c.mask is not None for number in np.unique(c.mask).tolist()} - {0})
    top = _GAP + _LINE * (len(head) + bool(classes)) + 0.06
    size = (
        max(6.2 + 2 * _LEFT, 2 * _LEFT + n_columns * (width + _GAP) - _GAP),
        top + n_rows * (height + _TITLE + _GAP),
    )
    figure = picture_class()(figsize=size, facecolor=PAPER)

    def write(text: str, left: float, down: float, **style: Any) -> None:
        figure.text(left / size[0], 1 - down / size[1], text, va="baseline", parse_math=False, **style)

    for line, text in enumerate(head):
        down = _GAP + _LINE * (line + 0.6)
        write(text, _LEFT, down, fontsize=8.5, color=MUTED if line else INK)
    for place, number in enumerate(classes[:12]):
        left = _LEFT + 0.5 * place
        down = _GAP + _LINE * (len(head) + 0.6)
        write("■", left, down, fontsize=9, color=_colour(number))
        write(str(number), left + 0.13, down, fontsize=8.5, color=MUTED)
    for place, cell in enumerate(cells):
        row, column = divmod(place, n_columns)
        left, down = _LEFT + column * (width + _GAP), top + row * (height + _TITLE + _GAP) + _TITLE
        fits = int(width / 0.066)
        title = cell.title if len(cell.title) <= fits else f"{cell.title[: fits - 1]}…"
        write(title, left, down - 0.06, fontsize=8, color=INK)
        box = (left / size[0], 1 - (down + height) / size[1], width / size[0], height / size[1])
        _draw_cell(figure.add_axes(box), cell, scale)
    return figure


def _draw_cell(axes: Any, cell: _Cell, scale: tuple[float, float]) -> None:
    low, high = scale
    if cell.kind == "lines":
        margin = 0.04 * (high - low)
        for number, line in enumerate(cell.values, start=1):
            colour, marker = LINE if len(cell.values) == 1 else _colour(number), "." if len(line) < 40 else None
            axes.plot(line, linewidth=0.8, marker=marker, markersize=3, color=colour)
        axes.set(ylim=(low - margin, high + margin), xticks=[], yticks=[])
        axes.margins(x=0.03)
        axes.spines[:].set(color=RULE)
        return
    from matplotlib.colors import to_rgb

    values = cell.values.astype(np.float64)
    shades = np.clip((values - low) / (high - low), 0, 1)
    picture = shades if cell.kind == "colour" else np.repeat(shades[..., None], 3, axis=-1)
    bad = ~np.isfinite(values)
    picture[bad.any(axis=-1) if cell.kind == "colour" else bad] = to_rgb(BAD)
    if cell.mask is not None:
        for number in np.unique(cell.mask[cell.mask > 0]).tolist():
            inside, shade = cell.mask == number, np.array(to_rgb(_colour(number)))
            picture[inside] = (1 - OPACITY) * picture[inside] + OPACITY * shade
            if min(inside.shape) >= 48:  # on smaller ones it would hide the picture
                picture[_edge(inside)] = shade
    axes.imshow(picture)
    axes.set_anchor("NW")
    axes.set_axis_off()


def _edge(inside: np.ndarray) -> np.ndarray:
    """Pixels with a neighbour outside; the border of the picture is no edge."""
    padded = np.pad(inside, 1, mode="edge")
    return inside & ~(padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:])


def _colour(number: int) -> str:
    return CLASSES[(number - 1) % len(CLASSES)]
