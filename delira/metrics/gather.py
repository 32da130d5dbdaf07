"""What is kept of the batches of a pass: whole arrays in memory or in files, what waits on its device, and moments."""

import math
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self, cast

import numpy as np

from delira.errors import DataError, check_whole
from delira.utils.arrays import Array, as_array, iterate_leaves, map_leaves, ops_of, read_alike, read_arrays, shape_of
from delira.utils.files import as_path

LIMIT_BYTES = 1 << 30
"""Arrays beyond this total live in temporary files (1 GiB)."""

KEPT_BYTES = 8 << 20
"""The same for what is kept on disk anyway (8 MiB)."""


class Gatherer:
    """Concatenates the entries of batches, every key and every nested leaf.

    Up to ``limit_bytes`` in total the batches are kept in memory. Beyond, each leaf moves to a
    temporary file without a name, which the system removes when the last array on it is gone;
    ``TMPDIR`` says where these files lie.

    Parameters
    ----------
    limit_bytes
        Bytes of all leaves together that may stay in memory.
    folder
        Where the temporary files lie; None: where ``TMPDIR`` says.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES, *, folder: str | Path | None = None):
        check_whole(self, at_least=0, limit_bytes=limit_bytes)
        self.limit_bytes = limit_bytes
        self._folder = None if folder is None else as_path(folder, "folder")
        self.n_batches = 0
        self._columns: dict[str, Any] = {}
        self._bytes = 0

    def append(self, entries: Mapping[str, Any]) -> None:
        """Add one batch; its arrays are copied, so a loader may reuse its buffers.

        Parameters
        ----------
        entries
            Arrays of shape ``(batch, ...)`` by name, possibly in nested dictionaries and lists;
            a 0-d array counts as shape ``(1,)``.

        Raises
        ------
        DataError
            If ``entries`` is no dictionary, or one appears or disappears between batches: the rows would no longer
            belong together.
        """
        if not isinstance(entries, Mapping):  # an empty one is: nothing that was asked for is in the batches
            raise DataError(f"a batch must be entries by name, got {entries!r:.80}")
        if self.n_batches == 0:
            self._columns = map_leaves(lambda leaf: _Column(self._folder), entries)
        columns = dict(iterate_leaves(self._columns))
        leaves = dict(iterate_leaves(entries))
        if columns.keys() != leaves.keys():
            changed = sorted(".".join(map(str, path)) for path in columns.keys() ^ leaves.keys())
            raise DataError(
                f"batch {self.n_batches + 1} and the batches before it differ in the entries {changed}; "
                "every batch must have the same ones"
            )
        self._bytes += sum(column.append(np.atleast_1d(np.asarray(leaves[path]))) for path, column in columns.items())
        self.n_batches += 1
        if self._bytes > self.limit_bytes:
            self._bytes -= sum(column.spill() for column in columns.values())

    def result(self) -> dict[str, Any]:
        """Return everything so far, in the shape of the first batch's tree.

        Returns
        -------
        dict
            Arrays of shape ``(n, ...)``: ``ndarray``, or ``memmap`` for a leaf in a file. Where trailing
            shapes differ between batches: an object array of shape ``(n,)`` holding one array per sample.
        """
        return map_leaves(lambda column: column.result(), self._columns)


class _Stored(NamedTuple):
    """Where in its column's file a batch lies."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    def within(self, everything: np.ndarray) -> np.ndarray:
        """Return the batch, out of the bytes of the file."""
        n_bytes = math.prod(self.shape) * self.dtype.itemsize
        return everything[self.offset : self.offset + n_bytes].view(self.dtype).reshape(self.shape)


class _Column:
    """The batches of one leaf."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._batches: list[np.ndarray | _Stored] = []
        self._file: IO[bytes] | None = None
        self._written = 0

    def append(self, array: np.ndarray) -> int:
        """Add one batch; return how many bytes of memory it takes."""
        is_stored = self._file is not None and not array.dtype.hasobject
        self._batches.append(self._store(array) if is_stored else array.copy())
        return 0 if is_stored else array.nbytes

    def spill(self) -> int:
        """Move what is in memory to a file; return how many bytes of memory that frees."""
        freed = 0
        for position, batch in enumerate(self._batches):
            if isinstance(batch, np.ndarray) and not batch.dtype.hasobject:
                self._batches[position] = self._store(batch)
                freed += batch.nbytes
        return freed

    def _store(self, array: np.ndarray) -> _Stored:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed with this column
            weakref.finalize(self, self._file.close)
        stored = _Stored(array.dtype, array.shape, self._written)
        try:
            self._written += self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        except OSError as error:
            error.add_note(
                f"while gathering predictions in a temporary file in {str(self._folder or tempfile.gettempdir())!r}; "
                + ("keep less" if self._folder else "set the environment variable TMPDIR to a folder with more space")
            )
            raise
        return stored

    def result(self) -> np.ndarray:
        """Return all batches as one array."""
        dtypes = {batch.dtype for batch in self._batches}
        if len({batch.shape[1:] for batch in self._batches}) > 1:
            return _one_array_per_sample(self._read())
        if not self._written:
            whole = np.concatenate(self._read()) if len(self._batches) > 1 else self._read()[0]
            self._batches = [whole]
            return whole
        shape = (sum(batch.shape[0] for batch in self._batches), *self._batches[0].shape[1:])
        if len(dtypes) == 1 and all(isinstance(batch, _Stored) for batch in self._batches):
            return self._map(dtypes.pop(), shape)
        whole = scratch_array(shape, np.result_type(*dtypes), limit_bytes=0)
        return np.concatenate(self._read(), out=whole)

    def _read(self) -> list[np.ndarray]:
        """Every batch as an array; one that lies in the file as a view of it."""
        everything = self._map(np.dtype(np.uint8), (self._written,)) if self._written else np.empty(0, np.uint8)
        return [batch.within(everything) if isinstance(batch, _Stored) else batch for batch in self._batches]

    def _map(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.memmap:
        file = cast(IO[bytes], self._file)  # only asked for what is in the file
        file.flush()
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


def _one_array_per_sample(batches: list[np.ndarray]) -> np.ndarray:
    samples = [sample for batch in batches for sample in batch]
    column = np.empty(len(samples), dtype=object)
    for position, sample in enumerate(samples):  # numpy would look into them
        column[position] = sample
    return column


def scratch_array(
    shape: tuple[int, ...], dtype: np.dtype, limit_bytes: int = LIMIT_BYTES, folder: Path | None = None
) -> np.ndarray:
    """Make an array to be filled: in memory up to ``limit_bytes``, else in a nameless temporary file in a folder."""
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes <= limit_bytes or dtype.hasobject:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(dir=folder) as file:  # the map keeps the file alive
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


#: so many batches, or numbers, wait at most: to read is to wait for the device
MOST_BATCHES, MOST_NUMBERS = 1024, 1 << 20


class Pending:
    """Groups of arrays, each with a note, that are read together.

    Parameters
    ----------
    take
        Called with the arrays of each group, read, and its note.
    """

    def __init__(self, take: Callable[[list[np.ndarray], Any], None]) -> None:
        self._take = take
        self._groups: list[tuple[Any, Sequence[Any]]] = []
        self._n_numbers = 0

    def append(self, arrays: Sequence[Any], note: object = None) -> None:
        """Add one group; it is not read before many wait."""
        self._groups.append((note, arrays))
        self._n_numbers += sum(math.prod(shape_of(array)) for array in arrays)
        if len(self._groups) >= MOST_BATCHES or self._n_numbers >= MOST_NUMBERS:
            self.read()

    def read(self) -> None:
        """Let no group wait any longer."""
        groups, self._groups, self._n_numbers = self._groups, [], 0
        arrays = iter(read_arrays([array for _, group in groups for array in group]))
        for note, group in groups:
            self._take([next(arrays) for _ in group], note)


#: an array with more values than this is reduced on its device; smaller ones are brought to the host as they are
LARGE = 4096


#: count, mean, sum of squared deviations, smallest and largest of the numbers of one batch
Row = tuple[Any, Any, Any, Any, Any]
_NAMES = ("count", "mean", "squares", "least", "largest")


class Unlike(NamedTuple):
    """Which values count: those whose label is not this number. It is compared when both are read."""

    labels: Any
    """Of the shape of the values; nothing changes them any more."""
    number: int

    @property
    def mask(self) -> Any:
        """Return which values count."""
        return self.labels != self.number


class Weighted(NamedTuple):
    """What a metric returns if its numbers do not count the same.

    A mean takes them with their weights. The other aggregators take a single number as one observation, and of an
    array what has a weight.
    """

    value: Any
    """Numbers, of shape ``()`` or any other."""
    weight: Any
    """For a single number how many samples it is the mean of; for an array, of the same shape, which values count, or
    :class:`Unlike`."""
    doubt: Any = None
    """Numbers on which the values rest, of the same shape: where one is not finite the value is not a number."""


def with_mask(value: object) -> Any:
    """Return what a metric returned, with a mask in the place of :class:`Unlike`."""
    if type(value) is Weighted and type(value.weight) is Unlike:
        return value._replace(weight=value.weight.mask)
    return value


class Moments:
    """Merges means and sums of squared deviations of parts, in float64.

    Batches wait on their device until somebody needs the numbers.

    Parameters
    ----------
    is_weighted
        Whether a single number counts as many times as the samples that it is the mean of.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", COMPSTAT 1982.
    """

    def __init__(self, is_weighted: bool = True):
        self._is_weighted = is_weighted
        self._waiting: list[Batch] = []
        self._n_numbers = 0
        self.count = 0.0
        self.mean: Any = math.nan
        self.squares: Any = 0.0
        self.least: Any = math.inf
        self.largest: Any = -math.inf

    def append(self, batch: "Batch") -> None:
        """Take in one batch; it is not read before many wait."""
        self._waiting.append(batch)
        self._n_numbers += batch.size
        if self._n_numbers >= MOST_NUMBERS or len(self._waiting) >= MOST_BATCHES:
            self.read()

    def read(self) -> Self:
        """Let no batch wait any longer."""
        batches, self._waiting, self._n_numbers = self._waiting, [], 0
        with np.errstate(invalid="ignore"):  # infinite values have no spread
            rows = read_rows(batches)
            if self._is_weighted:
                read_weights(batches)
                pairs = zip(batches, rows, strict=True)
                rows = [row if batch.weight is None else (batch.weight, *row[1:]) for batch, row in pairs]
            self._add(rows)
        return self

    def _add(self, rows: Iterable[Row]) -> None:
        """Take in numbers of which only these are known, one row after the other."""
        total, mean, squares, least, largest = self.count, self.mean, self.squares, self.least, self.largest
        for row in rows:
            count, other, spread, low, high = row
            if not count:
                continue
            if not total:
                total, mean, squares, least, largest = row
                continue
            before, total = total, total + count
            change = other - mean
            squares = squares + spread + change * change * before * count / total
            step = change * count / total
            if isinstance(low, float):  # what is infinite, or no number, stays, as with numpy
                mean = mean + (step if math.isfinite(step) else other)
                least = low if low < least or low != low else least
                largest = high if high > largest or high != high else largest
            else:
                mean = mean + np.where(np.isfinite(step), step, other)
                least, largest = np.minimum(least, low), np.maximum(largest, high)
        self.count, self.mean, self.squares, self.least, self.largest = total, mean, squares, least, largest

    def variance(self, correction: float) -> Any:
        """Return the variance; not a number where there are not more numbers than ``correction``."""
        if self.count <= correction:
            return np.full(np.shape(self.mean), np.nan)
        return self.squares / (self.count - correction)

    def state_dict(self) -> dict[str, Any]:
        """Everything, as a checkpoint tree."""
        self.read()
        return {name: np.array(getattr(self, name)) for name in _NAMES}

    def take_in(self, state: Mapping[str, Any]) -> None:
        """Take in the numbers of a state, as if they had come after."""
        self.read()
        arrays = [np.array(state[name], dtype=np.float64) for name in _NAMES]
        count, mean, squares, least, largest = (array if array.shape else array.item() for array in arrays)
        self._add([(count, mean, squares, least, largest)])


def check_dim(owner: object, dim: object) -> None:
    """Refuse what is neither an axis, nor axes in a tuple, nor None; see :func:`delira.errors.check_numbers`."""
    for axis in dim if isinstance(dim, tuple) else () if dim is None else (dim,):
        check_whole(owner, dim=axis)


class Batch:
    """What a metric returned for one batch: on its device until it is read, then its moments.

    All that hang on the metric share it, so that it is read once.

    Parameters
    ----------
    value
        What the metric returned.
    axis
        Along which moments are taken; None: all, and many numbers are reduced on their device.
    """

    __slots__ = ("arrays", "axis", "count", "has_doubt", "is_reduced", "row", "shape", "size", "unlike", "weight")

    def __init__(self, value: Any, axis: Any = None):
        value, weight, doubt = value if type(value) is Weighted else (value, None, None)
        mask: Any = None
        #: of how many samples a single number is the mean, if the metric said so; perhaps on its device
        self.weight: Any = None
        #: the label of values that do not count, if the mask holds labels
        self.unlike: int | None = None
        if type(weight) is Unlike:
            mask, self.unlike = weight
        elif weight is None or isinstance(weight, (int, float)) or not shape_of(weight):
            self.weight = weight
        else:
            mask = weight
        values = as_array(value)
        self.shape, self.axis, self.size = values.shape, axis, math.prod(values.shape)
        if mask is not None or doubt is not None or axis is not None:
            self._check(mask, doubt)
        #: how many numbers were reduced, if that is known
        self.count: int | None = None
        self.row: Row | None = None
        self.is_reduced = self.size > LARGE and axis is None
        self.has_doubt = doubt is not None and not self.is_reduced
        if self.is_reduced:
            if self.unlike is not None:
                mask, self.unlike = mask != self.unlike, None
            if doubt is not None:
                ops = ops_of(values)
                values = ops.as_float(values) + ops.doubt(doubt)
        beside = [] if mask is None else [as_array(mask, values)]
        #: on their device ``(values,)`` or ``(values, mask)``, and ``doubt`` if there is any; reduced ``([mean,
        #: squares, least, largest],)``, and the count if masked
        self.arrays: tuple[Any, ...] = (values, *beside, *([as_array(doubt, values)] if self.has_doubt else []))
        if self.is_reduced:
            with np.errstate(invalid="ignore", divide="ignore"):  # of a batch without numbers, which is left out
                self.arrays = (_reduce(*self.arrays),)
            self.count, self.size = self.size if mask is None else None, 1
            self.shape = self.arrays[0].shape

    def _check(self, mask: Array, doubt: Array) -> None:
        n_axes = len(self.shape)
        for each in self.axis if isinstance(self.axis, tuple) else () if self.axis is None else (self.axis,):
            if not -n_axes <= each < n_axes:
                shape = tuple(self.shape)
                raise DataError(f"dim={self.axis} of a metric whose values of a batch have the shape {shape}")
        for what, other in (("weights", mask), ("doubts", doubt)):
            if other is None or getattr(other, "shape", None) == self.shape:  # as nearly always
                continue
            if math.prod(shape_of(other)) != self.size:
                raise DataError(
                    f"a metric gave values of shape {tuple(self.shape)} with {what} of shape {shape_of(other)}; both "
                    "have one shape"
                )

    @classmethod
    def of_mean(cls, mean: object, count: int = 1) -> Self:
        """One of which only the mean is known, and whether there was any number."""
        batch = cls(0.0)
        batch.row = (count, mean, 0.0, mean, mean)
        return batch


def read_weights(batches: Sequence[Batch]) -> None:
    """Make numbers of the weights of batches; those on a device are brought to the host together."""
    there = [batch for batch in batches if hasattr(batch.weight, "dtype")]
    if there:
        for batch, weight in zip(there, read_arrays([batch.weight for batch in there]), strict=True):
            batch.weight = float(weight)
    for batch in batches:
        if batch.weight is not None and not 0 <= batch.weight < math.inf:
            raise DataError(f"a metric gave the weight {float(batch.weight)}; a weight is a number from 0")


def read_means(batches: Sequence[Batch]) -> list[tuple[Any, bool]]:
    """Return the mean of each batch, and whether any number of it counts."""
    rows = read_rows(batches)
    read_weights(batches)
    return [(row[1], batch.weight != 0 and bool(row[0])) for batch, row in zip(batches, rows, strict=True)]


def read_rows(batches: Sequence[Batch]) -> list[Row]:
    """Return the moments of each batch; those of one kind are brought to the host, and computed, together.

    No row depends on the batches that it is computed with.
    """
    groups: dict[Any, list[Batch]] = {}
    for batch in batches:
        if batch.row is None:
            first, last = batch.arrays[0], batch.arrays[-1]
            of_mask = None if batch.unlike is None else (batch.unlike, batch.arrays[1].dtype)
            kind = (type(first), first.dtype, last.dtype, batch.shape, len(batch.arrays), batch.is_reduced, batch.axis)
            groups.setdefault((kind, of_mask), []).append(batch)
    for group in groups.values():
        for batch, batch.row in zip(group, _rows_of(group), strict=True):
            batch.arrays = ()
    return [batch.row for batch in batches]  # type: ignore[misc]


def _rows_of(group: Sequence[Batch]) -> list[Row]:
    """Return the moments of batches of one kind."""
    values, *mask = [read_alike(arrays) for arrays in zip(*(batch.arrays for batch in group), strict=True)]
    axis = group[0].axis
    if group[0].has_doubt and not (is_sure := np.isfinite(mask.pop())).all():
        values = np.where(is_sure, values, np.nan)
    if group[0].is_reduced:
        columns = values.astype(np.float64).tolist()
        return [
            (batch.count if batch.count is not None else count[0], mean, squares, least, largest)
            for batch, (mean, squares, least, largest, *count) in zip(group, columns, strict=True)
        ]
    if axis is not None or not values.size:
        return [_row(own, axis) for own in values]
    table = values.reshape(len(values), -1)
    if group[0].unlike is not None:
        mask[0] = mask[0] != group[0].unlike
    if not mask or (counts := mask[0].reshape(table.shape).astype(bool)).all():
        return _rows(table)
    return [_row(own[which], None) for own, which in zip(table, counts, strict=True)]


def _rows(table: np.ndarray) -> list[Row]:
    """Return the moments along the last axis of an array of shape ``(batches, values)``."""
    table = table.astype(np.float64)
    if table.shape[1] == 1:
        return [(1, value, value - value, value, value) for value in table[:, 0].tolist()]
    mean = table.mean(axis=1)
    with np.errstate(invalid="ignore"):  # infinite values have no spread
        squares = np.square(table - mean[:, None]).sum(axis=1)
    columns = (mean, squares, table.min(axis=1), table.max(axis=1))
    return [(table.shape[1], *row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _row(values: np.ndarray, axis: Any) -> Row:
    """Return the moments of the numbers of one batch; with ``axis`` those along the other axes are kept apart."""
    values = np.asarray(values, dtype=np.float64)
    count = values.size if axis is None else int(np.prod([values.shape[a] for a in np.atleast_1d(axis)]))
    if not count:
        return 0, np.nan, 0.0, np.inf, -np.inf
    mean = values.mean(axis=axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        squares = np.square(values - mean).sum(axis=axis)
    return count, mean.reshape(np.shape(squares)), squares, values.min(axis=axis), values.max(axis=axis)


def _reduce(values: Any, mask: Any = None) -> Any:
    ops = ops_of(values)
    values = ops.wide(values)
    if mask is None:
        mean = ops.sum(values) / math.prod(values.shape)
        parts = [mean, ops.sum((values - mean) ** 2), ops.least(values), ops.largest(values)]
    else:
        count = ops.wide(ops.sum(mask))
        mean = ops.sum(ops.where(mask, values, 0.0)) / count
        squares = ops.sum(ops.where(mask, (values - mean) ** 2, 0.0))
        least, largest = ops.where(mask, values, np.inf), ops.where(mask, values, -np.inf)
        parts = [mean, squares, ops.least(least), ops.largest(largest), count]
    return ops.concatenate(parts)
