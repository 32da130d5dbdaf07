"""Best and worst out-of-fold samples as small pictures, kept in the folder of the run."""

import contextlib
import json
import time
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delira.errors import DataError
from delira.report.ranking import Ranking, rank, why_unranked
from delira.report.thumbnail import fullest_slice, mask_slice, picture, plane_of
from delira.utils.files import check_unpacked, harmless, open_regular, parse_json, publish, refuse_link

if TYPE_CHECKING:
    from delira.experiments.result import KFoldResult


FILE = "report/examples.npz"
"""In the folder of a run."""
N_EACH = 6
"""So many of the best, and so many of the worst."""
MAX_SECONDS = 20.0
"""No more samples are loaded after that time."""
_FORMAT = 1
_USUAL_KEYS = ("data", "image", "img", "x")
_PICTURES = ("image", "true_mask", "predicted_mask")


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


def choose_examples(result: "KFoldResult", dataset: object, keys: Sequence[str] = ()) -> Examples | None:
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
    if ranking is None:
        why = why_unranked(result)
        return Examples("", None, [], [why]) if why else None
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
            example = _load(dataset, index, ranking, keys)
        except Exception as error:  # a data set raises what it likes; the result is there all the same
            notes[f"Sample {index} could not be shown: {type(error).__name__}: {error}"] = None
            continue
        if example is None:
            return None
        fold, score = int(result.oof.fold[index]), float(ranking.scores[place])
        found.append(example._replace(fold=fold, score=score, is_best=is_best))
    return Examples(ranking.name, ranking.is_high_good, found, list(notes)) if found or notes else None


def _load(dataset: Any, index: int, ranking: Ranking, keys: Sequence[str]) -> Example | None:
    """One sample as a picture; None if it is no image at all."""
    sample = dataset[index]
    if not isinstance(sample, Mapping):
        return None
    masks = None if ranking.masks is None else ranking.masks(index)
    space = () if masks is None else masks[0].shape
    true, predicted = ranking.texts(index) if ranking.texts is not None else ("", "")
    for key in dict.fromkeys([*keys, *_USUAL_KEYS]):
        image = np.asarray(sample[key]) if key in sample else np.empty(0)
        plane = plane_of(image.shape, space) if image.size and image.dtype.kind in "biuf" else None
        if plane is None:
            continue
        if masks is not None and masks[0].shape != plane.space:
            raise DataError(f"its mask has the shape {masks[0].shape}, its image {plane.space}")
        at = fullest_slice(*masks) if masks is not None else None
        if at is None and len(plane.space) == 3:
            at = plane.space[0] // 2
        return Example(
            case=index,
            fold=-1,
            is_best=False,
            score=np.nan,
            image=picture(image, plane, at),
            true=true,
            predicted=predicted,
            true_mask=None if masks is None else mask_slice(masks[0], at),
            predicted_mask=None if masks is None else mask_slice(masks[1], at),
            words=", ".join(filter(None, [plane.words, "" if at is None else f"slice {at} of {plane.space[0]}"])),
        )
    return None


# ------------------------------------------------------------------ on disk


def write_examples(folder: Path, examples: Examples) -> Path:
    """Write ``report/examples.npz`` into the folder of a run: arrays of uint8, and a text of JSON."""
    arrays: dict[str, Any] = {}
    rows = []
    for number, example in enumerate(examples.examples):
        row = example._asdict()
        pictures = {name: row.pop(name) for name in _PICTURES}
        arrays |= {f"{name}_{number}": array for name, array in pictures.items() if array is not None}
        rows.append(row)
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
        rows = stated.pop("examples")
        found = [
            Example(**row, **{name: stored[f"{name}_{k}"] for name in _PICTURES if f"{name}_{k}" in stored.files})
            for k, row in enumerate(rows)
        ]
    notes = stated["notes"]
    are_texts = all(isinstance(text, str) for text in (stated["score_name"], *notes)) and isinstance(notes, list)
    if not are_texts or stated["is_high_good"] not in (None, True, False) or not all(map(_is_whole, found)):
        raise ValueError("other values than are written")
    return Examples(**stated, examples=found)


def _is_whole(example: Example) -> bool:
    """Return True if an example of a file is what the page draws."""
    masks = [mask for mask in (example.true_mask, example.predicted_mask) if mask is not None]
    return (
        isinstance(example.score, (int, float))
        and isinstance(example.words, str)
        and all(isinstance(number, int) for number in (example.case, example.fold))
        and example.image.dtype == np.uint8
        and (example.image.ndim == 2 or example.image.shape[2:] == (3,))
        and all(mask.shape == example.image.shape[:2] for mask in masks)
    )
