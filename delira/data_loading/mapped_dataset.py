"""Arrays larger than memory: mapped files and zarr stores."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.data_loading._checks import refuse_outside, to_index
from delira.data_loading._mapped_arrays import Rows, open_rows
from delira.data_loading.abstract_dataset import AbstractDataset
from delira.errors import DataError, MissingKeyError


class MappedDataset(AbstractDataset):
    """Arrays on disk whose first axis counts the samples; only the samples asked for are read.

    Files are opened read-only. A pickled dataset holds their paths and not their values: each worker process
    opens them itself, and all share what the system keeps of them in memory.

    Parameters
    ----------
    arrays
        ``{key: source of shape (n, ...)}``. A source is the path of a ``.npy`` file; the path of an array in a
        zarr store, e.g. ``"scans.zarr/images"``; an open zarr array; a ``numpy.memmap``; or, for what is small,
        an array in memory, which is pickled with its values.

    Notes
    -----
    The fingerprint takes in arrays up to 16 MiB with all their values. Of larger ones it takes in shape, dtype,
    and 16 MiB in 64 blocks from all over the file (of a zarr store up to 64 samples): reading a terabyte would
    take hours. A change of single samples in between remains unseen.

    Raises
    ------
    DataError
        If a file is missing, incomplete or holds no array, or the lengths differ.
    MissingBackendError
        If zarr is needed and not installed.

    Examples
    --------
    >>> np.save("images.npy", np.zeros((3, 8, 8)))
    >>> dataset = MappedDataset({"data": "images.npy", "label": [0, 1, 1]})
    >>> len(dataset), dataset[2]["data"].shape
    (3, (8, 8))
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        super().__init__()
        if not isinstance(arrays, Mapping) or not arrays:
            got = "an empty dict" if isinstance(arrays, Mapping) else f"a {type(arrays).__name__}"
            raise DataError(f"MappedDataset needs a dict of paths and arrays, got {got}")
        self.data: dict[str, Rows] = {key: open_rows(key, source) for key, source in arrays.items()}
        lengths = {key: rows.shape[0] for key, rows in self.data.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key!r}: {length}" for key, length in lengths.items())
            raise DataError(f"the arrays of a MappedDataset must have equal lengths (first axes), got {listed}")
        self._length = next(iter(lengths.values()))

    def __getstate__(self) -> dict[str, Any]:
        # labels that were read would travel with their values
        return {name: value for name, value in vars(self).items() if name != "_delira_labels"}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = to_index(index, self._length, self)
        return {key: rows.row(number) for key, rows in self.data.items()}

    def get_sample_from_index(self, index: int) -> int:
        """Return the number of the sample: nothing else is kept of it."""
        return index

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return one array of shape (B, ...) per key, a copy in the order of ``indices``."""
        indices = np.asarray(indices)
        refuse_outside(indices, self._length, self)
        indices = np.where(indices < 0, indices + self._length, indices)
        return {key: rows.take(indices) for key, rows in self.data.items()}

    def _read_labels(self, key: str) -> np.ndarray:
        if key not in self.data:
            raise MissingKeyError(
                f"no sample has an entry {key!r}; only {sorted(map(str, self.data))}; name one of these as key"
            )
        return self.data[key].whole()

    def _content(self) -> Any:
        return {key: (rows.dtype.str, rows.shape, rows.glance()) for key, rows in self.data.items()}

    def _files(self) -> list[str]:
        return list(dict.fromkeys(os.fspath(rows.path) for rows in self.data.values() if rows.path is not None))

    def is_deterministic(self) -> bool:
        """True, unless a subclass changes what is read."""
        return type(self).get_batch is MappedDataset.get_batch
