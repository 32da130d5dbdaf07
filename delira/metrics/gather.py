"""Gather the batches of a data set into arrays, in memory or, when they are large, in temporary files."""

import math
import tempfile
import weakref
from collections.abc import Mapping
from typing import IO, Any, NamedTuple, cast

import numpy as np

from delira.errors import DataError, check_whole
from delira.utils.arrays import iterate_leaves, map_leaves

LIMIT_BYTES = 1 << 30
"""Arrays beyond this total live in temporary files (1 GiB)."""


class Gatherer:
    """Concatenates the entries of batches, every key and every nested leaf.

    Up to ``limit_bytes`` in total the batches are kept in memory. Beyond, each leaf moves to a
    temporary file without a name, which the system removes when the last array on it is gone;
    ``TMPDIR`` says where these files lie.

    Parameters
    ----------
    limit_bytes
        Bytes of all leaves together that may stay in memory.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES):
        check_whole(self, at_least=0, limit_bytes=limit_bytes)
        self.limit_bytes = limit_bytes
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
            self._columns = map_leaves(lambda leaf: _Column(), entries)
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

    def __init__(self) -> None:
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
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this column
            weakref.finalize(self, self._file.close)
        stored = _Stored(array.dtype, array.shape, self._written)
        try:
            self._written += self._file.write(array.tobytes())
        except OSError as error:
            error.add_note(
                f"while gathering predictions in a temporary file in {tempfile.gettempdir()!r}; "
                "set the environment variable TMPDIR to a folder with more space"
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


def scratch_array(shape: tuple[int, ...], dtype: np.dtype, limit_bytes: int = LIMIT_BYTES) -> np.ndarray:
    """Make an array to be filled: in memory up to ``limit_bytes``, else in a nameless temporary file."""
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes <= limit_bytes or dtype.hasobject:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:  # the map keeps the file alive
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)
