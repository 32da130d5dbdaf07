"""Best and worst out-of-fold samples as small pictures, kept in the folder of the run."""

import base64
import contextlib
import functools
import io
import json
import math
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.errors import DataError, MissingKeyError, import_optional
from delira.metrics.direction import higher_is_better
from delira.metrics.of_arrays import dice
from delira.metrics.scoring import lookup
from delira.report import predictions
from delira.utils.files import check_unpacked, harmless, open_regular, parse_json, publish, refuse_link

FILE = "report/examples.npz"
"""In the folder of a run."""
N_EACH = 6
"""So many of the best, and so many of the worst."""
MAX_SECONDS = 20.0
"""No more samples are loaded after that time."""
_FORMAT = 1
_USUAL_KEYS = ("data", "image", "img", "x")
_PICTURES = ("image", "true_mask", "predicted_mask")


MAX_PIXELS = 160
"""Longer sides are thinned out."""
MAX_CHANNELS = 16
"""A first axis longer than that is one of space."""
TRUE, PREDICTED, BOTH = (86, 180, 233), (230, 159, 0), (255, 255, 255)
"""Colours of outlines, where masks have no classes beside the background."""
CLASS_COLOURS = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (204, 121, 167), (213, 94, 0), (0, 114, 178),
)  # fmt: skip
"""Colours of the classes 1, 2, … in label maps: Okabe and Ito's, told apart with every kind of colour vision."""
SHARE = 0.4
"""Of the colour, where a class covers the image."""


def channels_of(image: np.ndarray, mask_shape: tuple[int, ...] = ()) -> tuple[np.ndarray, str] | None:
    """Return an image with its channels first, and what of them a picture leaves out; None if it is no image.

    Parameters
    ----------
    image
        With an axis of channels, or without; or of all its pixels in a row.
    mask_shape
        Of its mask, without channels, which tells axes of space from one of channels.
    """
    if image.ndim == 1:
        n, side = len(image), math.isqrt(len(image))
        is_square = side >= 8 and side * side == n
        return (image.reshape(1, side, side), f"{n} values as {side} × {side}") if is_square else None
    axis = _channel_axis(image.shape, mask_shape)
    channels = image[None] if axis is None else np.moveaxis(image, axis, 0)
    if channels.ndim not in (3, 4) or min(channels.shape[-2:]) < 4:
        return None
    return channels, "" if _is_colour(channels) or len(channels) == 1 else f"channel 0 of {len(channels)}"


def _is_colour(channels: np.ndarray) -> bool:
    return len(channels) == channels.ndim == 3


def _channel_axis(shape: tuple[int, ...], mask_shape: tuple[int, ...]) -> int | None:
    if mask_shape == shape or len(shape) < 3:
        return None
    if mask_shape and mask_shape == shape[1:]:
        return 0
    if mask_shape and mask_shape == shape[:-1]:
        return len(shape) - 1
    if shape[0] in (1, 3) or (shape[0] <= MAX_CHANNELS and shape[-1] not in (1, 3)):
        return 0
    return len(shape) - 1 if shape[-1] in (1, 3) else None


def picture(channels: np.ndarray, at: int | None = None) -> np.ndarray:
    """Return the picture, uint8 of shape ``(H, W)`` or ``(H, W, 3)``.

    Parameters
    ----------
    channels
        As of :func:`channels_of`.
    at
        Slice of a volume; None for an image.
    """
    is_colour = _is_colour(channels)
    chosen = [_flat_slice(channel, at) for channel in channels[: 3 if is_colour else 1]]
    values = np.nan_to_num(np.stack(chosen, axis=-1).astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = _scale(values, is_colour)
    shades = np.round(255 * np.clip((values - low) / (high - low), 0, 1)).astype(np.uint8)
    return shades if is_colour else shades[..., 0]


def slice_of(space: tuple[int, ...], masks: Sequence[np.ndarray]) -> int | None:
    """Return the slice of a volume in which masks cover most, without them the middle one; None for an image."""
    if len(space) < 3:
        return None
    covered = np.any([mask > 0 for mask in masks], axis=0).sum(axis=(1, 2)) if masks else np.zeros(1)
    return int(covered.argmax()) if covered.any() else space[0] // 2


def _flat_slice(values: np.ndarray, at: int | None) -> np.ndarray:
    plane = values if at is None else values[at]
    step = -(-max(plane.shape) // MAX_PIXELS)
    return plane[::step, ::step]


def _scale(values: np.ndarray, is_colour: bool) -> tuple[float, float]:
    """Values that are black and white."""
    low, high = float(values.min()), float(values.max())
    if is_colour and low >= 0 and high <= 255:
        return 0.0, 1.0 if high <= 1 else 255.0
    if not is_colour:  # single pixels far outside shall not make everything else grey
        inner_low, inner_high = np.percentile(values, (0.2, 99.8)).tolist()
        low, high = (inner_low, inner_high) if inner_low < inner_high else (low, high)
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def outlined(image: np.ndarray, true: np.ndarray | None, predicted: np.ndarray | None) -> np.ndarray:
    """The picture large enough to be looked at, with the outlines of masks on it; uint8 of shape ``(H, W, 3)``."""
    factor = max(1, MAX_PIXELS // max(image.shape[:2]))
    drawn = image.repeat(factor, axis=0).repeat(factor, axis=1)
    drawn = np.repeat(drawn[..., None], 3, axis=2) if drawn.ndim == 2 else drawn
    edges = [_edges(mask, factor) for mask in (true, predicted) if mask is not None]
    for edge, colour in zip(edges, (TRUE, PREDICTED), strict=False):
        drawn[edge] = colour
    if len(edges) > 1:
        drawn[edges[0] & edges[1]] = BOTH
    return drawn


def class_colour(label: int) -> tuple[int, int, int]:
    """Return the colour of a class, 1 being the first: after each seven darker, then lighter; 21 in all."""
    red, green, blue = CLASS_COLOURS[(label - 1) % len(CLASS_COLOURS)]
    towards = (None, 0, 255)[(label - 1) // len(CLASS_COLOURS) % 3]
    if towards is None:
        return red, green, blue
    return (red + towards) // 2, (green + towards) // 2, (blue + towards) // 2


def labelled(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the picture with each class of a label map in its colour; uint8 of shape ``(H, W, 3)``.

    Where the background is, 0, the image stays as it is.
    """
    drawn = outlined(image, None, None)
    factor = len(drawn) // len(image)
    large, edges = mask.repeat(factor, axis=0).repeat(factor, axis=1), _edges(mask, factor)
    for label in set(np.unique(mask).tolist()) - {0}:
        colour, there = np.array(class_colour(label)), large == label
        drawn[there] = np.round((1 - SHARE) * drawn[there] + SHARE * colour).astype(np.uint8)
        drawn[there & edges] = colour
    return drawn


def _edges(mask: np.ndarray, factor: int) -> np.ndarray:
    """Pixels, enlarged, of a class with a neighbour of another one; the border of the picture is no edge."""
    padded = np.pad(mask.repeat(factor, axis=0).repeat(factor, axis=1), 1, mode="edge")
    inner = padded[1:-1, 1:-1]
    neighbours = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    return np.asarray((inner > 0) & np.any([inner != other for other in neighbours], axis=0))


def data_uri(drawn: np.ndarray) -> str:
    """Return a picture as the address of an ``<img>``, which loads nothing."""
    image: Any = import_optional("PIL.Image", "a picture on a page", "pillow")
    buffer = io.BytesIO()
    image.fromarray(drawn).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


MAX_VALUES = 1 << 26
"""Masks of more pixels in all are not compared case by case."""


class Ranking(NamedTuple):
    """A number for each case."""

    name: str
    """What the number is."""
    cases: np.ndarray
    """Indices in the data set, int64 of shape ``(n,)``."""
    scores: np.ndarray
    """float64 of shape ``(n,)``."""
    is_high_good: bool | None
    """None if nobody knows."""
    texts: Callable[[int], tuple[str, str]] | None = None
    """Position in ``cases`` -> its true and its predicted value as texts."""
    masks: Callable[[int], tuple[np.ndarray, np.ndarray] | None] | None = None
    """Case -> its true and its predicted mask, int64, or None."""

    def extremes(self, n: int) -> tuple[list[int], list[int]]:
        """Positions of the worst and the best cases (of the lowest and the highest, where nobody knows), each once."""
        order = np.argsort(-self.scores if self.is_high_good is False else self.scores, kind="stable")
        n = min(n, len(order) // 2) or len(order)
        return order[:n].tolist(), order[n:][::-1][:n].tolist()


def rank(result: Any) -> Ranking | str:
    """Order the tested cases; if nothing tells good from bad, say what to do about masks, and nothing of others.

    A classification is ordered by the probability of the true class, a regression by the absolute error, masks by
    Dice, or by the first metric over samples, and anything else by the first metric over samples.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    tested = np.flatnonzero(result.oof.mask)
    if not len(tested):
        return ""
    if (cases := predictions.classify(result, each_once=True)) is not None:
        return _of_classes(cases, tested[cases.kept], predictions.class_names(result, cases.n_classes))
    if (found := predictions.regressed(result, each_once=True)) is not None:
        true, pred, kept = found
        texts = [(f"{t:.4g}", f"{p:.4g}") for t, p in zip(true, pred, strict=True)]
        return Ranking("absolute error", tested[kept], np.abs(pred - true), False, texts.__getitem__)
    pair = _mask_keys(result)
    masks = None if pair is None else functools.partial(_masks, result, pair)
    for name, values in result.oof.per_case.items():
        kept = np.isfinite(values[tested])
        if kept.any():
            is_high_good = higher_is_better((result.metrics or {}).get(name), name)
            return Ranking(name, tested[kept], values[tested[kept]], is_high_good, masks=masks)
    if pair is None or masks is None:
        return ""
    pred = lookup(result.oof.predictions, pair[1])
    if (n_values := sum(map(np.size, pred)) if pred.dtype.hasobject else pred.size) > MAX_VALUES:
        return (
            f"No best and worst samples are shown: the predicted masks have {n_values:,} values in all, and more than "
            f"{MAX_VALUES:,} are not compared sample by sample. Give kfold a metric over samples, "
            "such as metrics={'dice': delira.metrics.dice} of labels or class scores, and they are chosen by that."
        )
    scores = np.array([np.nan if each is None else dice(*each) for each in map(masks, tested.tolist())])
    kept = np.isfinite(scores)
    return Ranking("Dice", tested[kept], scores[kept], True, masks=masks) if kept.any() else ""


def _of_classes(cases: predictions.Classified, index: np.ndarray, names: Sequence[str]) -> Ranking:
    def texts(place: int) -> tuple[str, str]:
        true, pred = cases.true[place], cases.predicted[place]
        sure = "" if cases.probabilities is None else f" ({cases.probabilities[place, pred]:.0%})"
        return names[true], names[pred] + sure

    if cases.probabilities is None:
        return Ranking("predicted right", index, cases.is_hit.astype(float), True, texts)
    score = cases.probabilities[np.arange(len(index)), cases.true]
    return Ranking("probability of the true class", index, score, True, texts)


# ------------------------------------------------------------------ masks


def _mask_keys(result: Any) -> tuple[str, str] | None:
    """Return the entries that are masks and predicted masks, or class scores of each pixel."""
    oof = result.oof
    first = int(np.flatnonzero(oof.mask)[0])
    pairs = (predictions.true_and_predicted(oof, pair) for pair in predictions.entry_pairs(result))
    return next((pair for pair in pairs if pair is not None and _masks(result, pair, first) is not None), None)


def _masks(result: Any, pair: tuple[str, str], case: int) -> tuple[np.ndarray, np.ndarray] | None:
    """True and predicted class of each pixel of a case, int64 of shape ``(H, W)`` or ``(D, H, W)``."""
    try:
        true, pred = lookup(result.oof.targets, pair[0]), lookup(result.oof.predictions, pair[1])
    except MissingKeyError:
        return None
    if true is None or pred is None:
        return None
    true, pred = np.asarray(true[case]), np.asarray(pred[case])
    if true.dtype.kind not in "biuf" or pred.dtype.kind not in "biuf" or true.ndim < 2:
        return None
    space = true.shape[1:] if true.ndim > 2 and true.shape[0] == 1 else true.shape
    true = true.reshape(space)
    if len(space) not in (2, 3) or min(space) < 2 or not np.array_equal(true, np.round(true)):
        return None
    known = predictions.known_of_pair(result, pair)
    for axis in (-1, 0) if known.class_axis == -1 else (0, -1):
        if pred.ndim == len(space) + 1 and pred.shape[axis] > 1 and np.moveaxis(pred, axis, 0).shape[1:] == space:
            return true.astype(np.int64), pred.argmax(axis=axis)
    if pred.size != math.prod(space):
        return None
    pred = pred.reshape(space)
    is_label = pred.dtype.kind != "f" or (pred.min() >= 0 and np.array_equal(pred, np.round(pred)))
    if known.output in ("logits", "probabilities", "numbers"):
        pred = pred > (0.0 if known.output == "logits" else 0.5)
    elif not is_label:
        pred = pred > (0.5 if pred.min() >= 0 and pred.max() <= 1 else 0.0)
    return true.astype(np.int64), pred.astype(np.int64)


class Example(NamedTuple):
    """One sample."""

    case: int
    """Its index in the data set."""
    fold: int
    """In which it was tested."""
    is_best: bool
    """One of the best, or of the worst."""
    score: float
    image: np.ndarray
    """uint8 of shape ``(H, W)`` or ``(H, W, 3)``."""
    true: str = ""
    predicted: str = ""
    true_mask: np.ndarray | None = None
    """uint8 of shape ``(H, W)``."""
    predicted_mask: np.ndarray | None = None
    words: str = ""
    """Which part of the sample is shown."""


class Examples(NamedTuple):
    """Samples that tell what the networks can and cannot do."""

    score_name: str
    """By what they were chosen."""
    is_high_good: bool | None
    """Of the score; None if nobody knows."""
    examples: Sequence[Example]
    """The worst first, then the best."""
    notes: Sequence[str] = ()
    """What could not be shown, and why."""


def has_classes(examples: Examples) -> bool:
    """Return True if masks have more classes than a background and one other."""
    masks = [mask for one in examples.examples for mask in (one.true_mask, one.predicted_mask) if mask is not None]
    return any(mask.max(initial=0) > 1 for mask in masks)


def drawn_pictures(example: Example, by_class: bool) -> dict[str, np.ndarray]:
    """Return what is drawn of a sample, uint8 of shape ``(H, W, 3)``, by what it shows; ``""`` if that is everything.

    Parameters
    ----------
    example
        The sample.
    by_class
        Draw the true and the predicted classes beside each other, each class in its colour, instead of outlines.
    """
    masks = {"true": example.true_mask, "predicted": example.predicted_mask}
    if not by_class or example.true_mask is None:
        return {"": outlined(example.image, example.true_mask, example.predicted_mask)}
    return {what: labelled(example.image, mask) for what, mask in masks.items() if mask is not None}


def choose_examples(result: predictions.KFoldResult, dataset: object, keys: Sequence[str] = ()) -> Examples | None:
    """Load the samples that were predicted best and worst, at most twelve of them.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    dataset
        Its data set; a sample that cannot be loaded is a note.
    keys
        Entries that may be the image, the likeliest first.

    Returns
    -------
    Examples or None
        None if nothing tells good from bad, or the samples are no images. Without samples, but with a note, if they
        are masks too large to be compared one by one.
    """
    ranking = rank(result)
    if isinstance(ranking, str):
        return Examples("", None, [], [ranking]) if ranking else None
    worst, best = ranking.extremes(N_EACH)
    begun = time.monotonic()
    found: list[Example] = []
    notes: dict[str, None] = {}
    for place, is_best in [*((place, False) for place in worst), *((place, True) for place in best)]:
        if time.monotonic() - begun > MAX_SECONDS:
            notes[f"Loading samples took longer than {MAX_SECONDS:.0f} s, so fewer are shown."] = None
            break
        index = int(ranking.cases[place])
        try:
            example = _load(dataset, index, ranking, place, keys)
        except Exception as error:  # a data set raises what it likes; the result is there all the same
            notes[f"Sample {index} could not be shown: {type(error).__name__}: {error}"] = None
            continue
        if example is None:
            return None
        found.append(example._replace(fold=int(result.oof.fold[index]), is_best=is_best))
    return Examples(ranking.name, ranking.is_high_good, found, list(notes)) if found or notes else None


def _load(dataset: Any, index: int, ranking: Ranking, place: int, keys: Sequence[str]) -> Example | None:
    """One sample as a picture; None if it is no image at all."""
    sample = dataset[index]
    if not isinstance(sample, Mapping):
        return None
    masks = (ranking.masks(index) if ranking.masks is not None else None) or ()
    mask_shape = masks[0].shape if masks else ()
    for key in dict.fromkeys([*keys, *_USUAL_KEYS]):
        image = np.asarray(sample[key]) if key in sample else np.empty(0)
        found = channels_of(image, mask_shape) if image.size and image.dtype.kind in "biuf" else None
        if found is None:
            continue
        channels, words = found
        space = channels.shape[1:]
        if masks and mask_shape != space:
            raise DataError(f"its mask has the shape {mask_shape}, its image {space}")
        at = slice_of(space, masks)
        where = "" if at is None else f"slice {at} of {space[0]}"
        true, predicted = ranking.texts(place) if ranking.texts is not None else ("", "")
        flat = [np.clip(_flat_slice(mask, at), 0, 255).astype(np.uint8) for mask in masks]
        return Example(
            case=index,
            fold=-1,
            is_best=False,
            score=float(ranking.scores[place]),
            image=picture(channels, at),
            true=true,
            predicted=predicted,
            words=", ".join(filter(None, [words, where])),
            **dict(zip(_PICTURES[1:], flat, strict=False)),
        )
    return None


# ------------------------------------------------------------------ on disk


def write_examples(folder: Path, examples: Examples) -> Path:
    """Write ``report/examples.npz`` into the folder of a run: arrays of uint8, and a text of JSON."""
    arrays: dict[str, Any] = {}
    rows = []
    for number, example in enumerate(examples.examples):
        rows.append(example._asdict())
        pictures = {f"{name}_{number}": rows[-1].pop(name) for name in _PICTURES}
        arrays |= {name: array for name, array in pictures.items() if array is not None}
    stated = {"format": _FORMAT, **examples._asdict(), "examples": rows, "notes": list(examples.notes)}
    arrays["facts"] = np.array(json.dumps(stated))
    path = folder / FILE
    path.parent.mkdir(exist_ok=True)
    return publish(path, lambda file: np.savez_compressed(file, **arrays))


def read_examples(folder: Path) -> Examples | None:
    """Return what :func:`write_examples` wrote into the folder of a run; None if there is nothing that can be read."""
    path = folder / FILE
    if not path.exists():
        return None
    damaged = (AttributeError, OSError, EOFError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
    with contextlib.suppress(*damaged, zipfile.BadZipFile, zlib.error):
        return _read_whole(path)
    words = f"The pictures of samples in {FILE} cannot be read: the file is damaged, or of another version."
    return Examples("", None, [], [words])


def _read_whole(path: Path) -> Examples:
    """Return the content of a file that is whole, and small; any error if it is not."""
    refuse_link(path)
    refuse_link(path.parent)
    with open_regular(path) as file:
        check_unpacked(file)
        stored = np.load(file, allow_pickle=False)
        stated = harmless(parse_json(str(stored["facts"])))
        if stated.pop("format") != _FORMAT:
            raise ValueError("another format")
        found = [
            Example(**row, **{name: stored[f"{name}_{k}"] for name in _PICTURES if f"{name}_{k}" in stored.files})
            for k, row in enumerate(stated.pop("examples"))
        ]
    notes = stated["notes"]
    are_texts = all(isinstance(text, str) for text in (stated["score_name"], *notes)) and isinstance(notes, list)
    if not are_texts or stated["is_high_good"] not in (None, True, False) or not all(map(_is_whole, found)):
        raise ValueError("other values than are written")
    return Examples(**stated, examples=found)


def _is_whole(example: Example) -> bool:
    """Return True if an example of a file is what the page draws."""
    masks = (example.true_mask, example.predicted_mask)
    return (
        isinstance(example.score, (int, float))
        and isinstance(example.words, str)
        and all(isinstance(number, int) for number in (example.case, example.fold))
        and example.image.dtype == np.uint8
        and (example.image.ndim == 2 or example.image.shape[2:] == (3,))
        and all(mask is None or mask.shape == example.image.shape[:2] for mask in masks)
    )
