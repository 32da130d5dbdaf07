"""What a dataset holds, at a glance: shapes, value ranges, classes, and what cannot be read."""

import contextlib
import dataclasses
import html
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.data_loading import _content, _exact
from delira.data_loading.statistics import DataFingerprint, VolumeTally, add_if_volume, chosen_indices
from delira.errors import DataError, check_texts
from delira.utils.seeding import derive, seed_globals, seeded_globals

if TYPE_CHECKING:
    from delira.data_loading.abstract_dataset import AbstractDataset

_WIDTH = 80
_LISTED = 10
_MAX_CLASSES = 30
_MAX_SHAPES = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntryDescription:
    """One entry of the samples that were looked at."""

    n_samples: int
    """Samples that have it."""
    shapes: Mapping[tuple[int, ...], int]
    """Shape -> number of samples, the most frequent first."""
    dtypes: Mapping[str, int]
    """Name of the dtype -> number of samples, the most frequent first."""
    minimum: float | None
    """Least finite value; None if there is none, or values are not numbers."""
    maximum: float | None
    n_nonfinite: int
    """Values that are infinite or not a number."""
    nonfinite_samples: tuple[int, ...]
    """Indices of the samples with such values."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DatasetDescription:
    """What :meth:`AbstractDataset.describe` found; prints as a table."""

    name: str
    """Class of the dataset."""
    n_samples: int
    n_read: int
    """Samples that were looked at, those that could not be read included."""
    entries: Mapping[str, EntryDescription]
    """By name; the entries of an entry that is a dict have the name ``"outer/inner"``."""
    classes: Mapping[str, Mapping[Any, int]]
    """Entry with one class for each sample -> class -> number of samples."""
    failures: Mapping[int, str]
    """Index of a sample that cannot be read -> the error."""
    n_files: int
    """Files that the samples are loaded from, as far as the dataset knows them."""
    missing_files: tuple[str, ...]
    """Those that do not exist or may not be read."""
    volumes: DataFingerprint | None = None
    """Of samples that are volumes with a mask or a spacing: sizes, intensities, shares of classes."""

    def __repr__(self) -> str:
        lines = [line for section in _sections(self) for line in ("", *section)][1:]
        return "\n".join(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def describe(
    dataset: "AbstractDataset",
    label_key: str,
    limit: int | None,
    values_of: Callable[[str], Sequence[Any] | None],
    files_of: Callable[[], Iterable[str]],
) -> DatasetDescription:
    """Look through a dataset; nothing is raised for a sample that cannot be read.

    Parameters
    ----------
    dataset
        What to describe. Global random generators are left as they were.
    label_key
        Entry with the class of each sample. Other entries with one whole number or name for each sample are
        counted as well, if they have at most 30 different values and some repeat.
    limit
        Samples to read, drawn at random, always the same; ``None``: all. Classes are those of all samples
        wherever they can be had without loading these.
    values_of
        Gives the values that all samples have of an entry; None: that would load them.
    files_of
        Lists the files that the samples are loaded from.

    Raises
    ------
    ConfigError
        If ``limit`` is no positive integer, or ``label_key`` no text.
    """
    check_texts("describe", label_key=label_key)
    length = len(dataset)
    indices = chosen_indices(length, limit)
    volumes: VolumeTally | None = VolumeTally(label_key)
    tallies: dict[str, _Tally] = {}
    failures: dict[int, str] = {}
    with seeded_globals(derive(0, stream="describe")):
        for index in indices:
            try:
                sample = dataset[index]
                _exact.check_mapping(sample, f"sample {index}")
                for key, array in [*_leaves(sample)]:
                    tallies.setdefault(key, _Tally()).add(index, array)
                volumes = add_if_volume(volumes, index, sample)
            except Exception as error:
                failures[index] = f"{type(error).__name__}: {error}"
    files = [os.fspath(path) for path in files_of()]
    return DatasetDescription(
        name=type(dataset).__name__,
        n_samples=length,
        n_read=len(indices),
        entries={key: tally.describe() for key, tally in tallies.items()},
        classes=_classes(tallies, label_key, (lambda _: None) if len(indices) == length else values_of),
        failures=failures,
        n_files=len(files),
        missing_files=tuple(path for path in files if not os.access(path, os.R_OK)),
        volumes=_of_volumes(volumes, type(dataset).__name__, length),
    )


def _of_volumes(tally: VolumeTally | None, name: str, length: int) -> DataFingerprint | None:
    with contextlib.suppress(DataError):  # nothing but values that are not finite
        return tally.finished(name, length) if tally and tally.is_certain else None
    return None


class _Tally:
    """What was seen of one entry."""

    def __init__(self) -> None:
        self.shapes: Counter[tuple[int, ...]] = Counter()
        self.dtypes: Counter[str] = Counter()
        self.values: list[Any] = []
        """Those of samples that have one value."""
        self._extremes: list[Any] = []
        self._nonfinite: dict[int, int] = {}

    def add(self, index: int, array: np.ndarray) -> None:
        self.shapes[array.shape] += 1
        # without the length of texts, which differs from sample to sample
        self.dtypes[{"U": "str", "T": "str", "S": "bytes"}.get(array.dtype.kind, array.dtype.name)] += 1
        if array.size == 1:
            self.values.append(array.item())
        if array.dtype.kind in "fc" and not (finite := np.isfinite(array)).all():
            self._nonfinite[index] = int(array.size - np.count_nonzero(finite))
            array = array[finite]
        if array.dtype.kind in "biuf" and array.size:
            extremes = [*self._extremes, array.min().item(), array.max().item()]
            self._extremes = [min(extremes), max(extremes)]

    def describe(self) -> EntryDescription:
        minimum, maximum = self._extremes or (None, None)
        return EntryDescription(
            n_samples=self.shapes.total(),
            shapes=dict(self.shapes.most_common()),
            dtypes=dict(self.dtypes.most_common()),
            minimum=minimum,
            maximum=maximum,
            n_nonfinite=sum(self._nonfinite.values()),
            nonfinite_samples=tuple(self._nonfinite),
        )


def _leaves(sample: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for key, value in sample.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{key}/")
            continue
        try:
            yield f"{path}{key}", np.asarray(value)
        except Exception as error:
            raise type(error)(f"entry '{path}{key}': {error}") from error


def _classes(
    tallies: Mapping[str, _Tally], label_key: str, values_of: Callable[[str], Sequence[Any] | None]
) -> dict[str, dict[Any, int]]:
    found = {}
    for key, tally in tallies.items():
        values: Sequence[Any] = tally.values
        if len(values) != tally.shapes.total() or not _are_classes(values, key == label_key):
            continue
        with contextlib.suppress(Exception):  # a sample that was not looked at cannot be read, or has another shape
            of_all = values_of(key)
            values = values if of_all is None else of_all
        if _are_classes(values, key == label_key):
            counts = Counter(int(value) if isinstance(value, float) else value for value in values)
            found[key] = dict(sorted(counts.items(), key=lambda item: (isinstance(item[0], str), item[0])))
    return found


def _are_classes(values: Sequence[Any], is_label: bool) -> bool:
    """Return True if values are whole numbers or names and, unless they are labels for sure, few of them."""
    if not all(isinstance(value, (int, str)) or (isinstance(value, float) and value.is_integer()) for value in values):
        return False
    return is_label or len(set(values)) < min(_MAX_CLASSES + 1, len(values))


# ------------------------------------------------------------------ as text


def _sections(found: DatasetDescription) -> Iterator[Iterable[str]]:
    samples = f"{found.name}: {found.n_samples:,} samples"
    yield [samples if found.n_read == found.n_samples else f"{samples}, {found.n_read:,} looked at (limit=None: all)"]
    if found.entries:
        yield _table(found)
    for key, entry in found.entries.items():
        if entry.n_nonfinite:
            where = [*map(str, entry.nonfinite_samples)]
            head = f"{key}: {entry.n_nonfinite:,} values infinite or not a number, in {len(where):,} samples"
            yield [head, *_wrapped(where, _LISTED)]
    for key, counts in found.classes.items():
        head = f"{key}: {len(counts)} classes in {sum(counts.values()):,} samples"
        yield [head, *_wrapped([f"{name}: {count:,}" for name, count in counts.items()], _MAX_CLASSES)]
    if found.volumes is not None:
        yield found.volumes.lines()
    if found.failures:
        errors = [f"{index}: {' '.join(error.split())}" for index, error in found.failures.items()]
        yield [f"{len(errors):,} samples cannot be read:", *_listing(errors)]
    if found.missing_files:
        paths = [path if len(path) <= _WIDTH - 2 else f"…{path[3 - _WIDTH :]}" for path in found.missing_files]
        head = f"{len(paths):,} of {found.n_files:,} files are missing or may not be read:"
        yield [head, *_listing(paths)]


def _table(found: DatasetDescription) -> Iterator[str]:
    rows = [("entry", "samples", "shape", "dtype", "values")]
    for key, entry in found.entries.items():
        shapes = [*entry.shapes.items()][:_MAX_SHAPES]
        texts = [str(shape) if len(entry.shapes) == 1 else f"{shape} × {count:,}" for shape, count in shapes]
        if more := len(entry.shapes) - len(texts):
            texts.append(f"and {more:,} more")
        name = key if len(key) <= 20 else f"{key[:19]}…"
        rows.append((name, f"{entry.n_samples:,}", texts[0], ", ".join(entry.dtypes), _range(entry)))
        rows += [("", "", text, "", "") for text in texts[1:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, count, *rest in rows:
        cells = [name.ljust(widths[0]), count.rjust(widths[1])]
        yield "  ".join(cells + [text.ljust(width) for text, width in zip(rest, widths[2:], strict=True)]).rstrip()


def _range(entry: EntryDescription) -> str:
    if entry.minimum is None or entry.maximum is None:
        return ""
    low, high = (f"{value:.4g}" if isinstance(value, float) else f"{value}" for value in (entry.minimum, entry.maximum))
    return low if low == high else f"{low} to {high}"


def _listing(lines: Sequence[str]) -> Iterator[str]:
    """One item for each line; long ones go on in the next lines."""
    for line in lines[:_LISTED]:
        yield from textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ", max_lines=4)
    if len(lines) > _LISTED:
        yield f"  and {len(lines) - _LISTED:,} more"


def _wrapped(texts: Sequence[str], most: int) -> list[str]:
    """Items separated by commas; a break never parts an item."""
    more = [f"and {len(texts) - most:,} more"] if len(texts) > most else []
    joined = ", ".join(text.replace(" ", "\0") for text in [*texts[:most], *more])
    lines = textwrap.wrap(joined, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def identical_samples(dataset: Any, keys: Sequence[str]) -> list[tuple[int, ...]]:
    """Find samples that are equal to the last bit.

    Every sample is read once; one is in memory at a time.

    Parameters
    ----------
    dataset : AbstractDataset
        What to look through. Global random generators are left as they were.
    keys
        Entries to compare: their dtype, shape and values (sha256).

    Returns
    -------
    list of tuple of int
        Sets of two and more indices in rising order; the sets by their first index. A sample that cannot be
        read or lacks an entry is in none: whoever trains with it is told.
    """
    places: dict[str, list[int]] = {}
    sequence, is_deterministic = derive(0, stream="duplicates"), dataset.is_deterministic()
    with seeded_globals(sequence):
        for index in _content.with_progress(list(range(len(dataset)))):
            if not is_deterministic:  # what is drawn while reading must not make copies differ
                seed_globals(sequence)
            with contextlib.suppress(Exception):
                sample = dataset[index]
                places.setdefault(_content.fingerprint_of([sample[key] for key in keys]), []).append(index)
    return [tuple(indices) for indices in places.values() if len(indices) > 1]


def class_names_of(dataset: object) -> dict[str, list[str]]:
    """Return names of the classes, where a data set tells them as ``class_names``, or as torchvision's do."""
    for owner in (dataset, getattr(dataset, "data", None)):
        for attribute in ("class_names", "classes"):
            names = getattr(owner, attribute, None)
            if isinstance(names, (list, tuple)) and names and all(isinstance(name, str) for name in names):
                return {"class_names": list(names)}
    return {}


def case_names_of(dataset: object) -> list[str] | None:
    """Return names of the cases, where a data set tells them as ``case_names``: one for each.

    Numbers alone are no names: they are what samples without names are called, and the index tells as much.
    """
    for owner in (dataset, getattr(dataset, "data", None)):
        names = getattr(owner, "case_names", None)
        if isinstance(names, (list, tuple, np.ndarray)) and len(names) == len(dataset):  # type: ignore[arg-type]
            texts = [str(name) for name in names]
            return None if texts == [*map(str, range(len(texts)))] else texts
    return None
