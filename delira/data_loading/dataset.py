"""Datasets of datasets and of lists; and all others under their historic import path."""

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from delira.data_loading._checks import refuse_outside, to_index
from delira.data_loading._exact import common_dtype
from delira.data_loading.abstract_dataset import (
    AbstractDataset,
    LoadFunction,
    Sample,
    Subset,
    given_labels,
    read_labels,
    reads_cheaply,
    split_indices,
)
from delira.data_loading.file_dataset import (
    BaseCacheDataset,
    BaseExtendCacheDataset,
    BaseLazyDataset,
    Nii3DCacheDataset,
    Nii3DCacheDatset,
    Nii3DLazyDataset,
)
from delira.data_loading.torchvision_dataset import TorchvisionClassificationDataset
from delira.errors import ConfigError, DataError

__all__ = [
    "AbstractDataset",
    "BaseCacheDataset",
    "BaseExtendCacheDataset",
    "BaseLazyDataset",
    "BlankDataset",
    "ConcatDataset",
    "LoadFunction",
    "Nii3DCacheDataset",
    "Nii3DCacheDatset",
    "Nii3DLazyDataset",
    "Sample",
    "Subset",
    "TorchvisionClassificationDataset",
    "given_labels",
    "read_labels",
    "split_indices",
]


class ConcatDataset(AbstractDataset):
    """Several datasets one behind the other.

    Parameters
    ----------
    *datasets : AbstractDataset
        The parts in order, or one list of them.
    """

    def __init__(self, *datasets: Any) -> None:
        super().__init__()
        one_list = len(datasets) == 1 and not isinstance(datasets[0], AbstractDataset)
        given = datasets[0] if one_list else datasets
        if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
            raise ConfigError(f"ConcatDataset takes datasets, or one list of them, got {given!r}")
        self.data = list(given)
        for position, part in enumerate(self.data):
            if not isinstance(part, AbstractDataset):
                raise ConfigError(
                    f"ConcatDataset takes datasets, but number {position} is a {type(part).__name__}; "
                    "wrap arrays in DictDataset and lists of samples in IterableDataset"
                )
        self._ends = list(itertools.accumulate(map(len, self.data)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Sample:
        part, inner = self._below(index)
        return part[inner]

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray] | None:
        """Join the parts' batches in the order of ``indices``; None if a part has no faster way."""
        if any(type(part).get_batch is AbstractDataset.get_batch for part in self.data):
            return None
        indices = np.asarray(indices)
        refuse_outside(indices, len(self), self)
        indices = np.where(indices < 0, indices + len(self), indices)
        numbers = np.searchsorted(self._ends, indices, side="right")
        pieces: list[dict[str, np.ndarray]] = []
        places: list[np.ndarray] = []
        for number in np.unique(numbers).tolist():
            place = np.flatnonzero(numbers == number)
            piece = self.data[number].get_batch(indices[place] - self._start(number))
            if piece is None or (pieces and not _fit(piece, pieces[0])):
                return None  # sample by sample: the loader names the one that does not fit
            pieces.append(piece)
            places.append(place)
        if len(pieces) == 1:
            return pieces[0]
        back = np.argsort(np.concatenate(places))
        what = "the samples of this batch"
        return {key: _joined([piece[key] for piece in pieces], key, what)[back] for key in pieces[0]}

    def _start(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _below(self, index: int) -> tuple[AbstractDataset, int]:
        index = to_index(index, len(self), self)
        number = bisect.bisect_right(self._ends, index)
        return self.data[number], index - self._start(number)

    def _read_labels(self, key: str) -> np.ndarray:
        # without the empty parts: theirs are floats and would make floats of integers
        parts = [read_labels(part, key) for part in self.data if len(part)]
        for number, part in enumerate(parts):
            if part.shape[1:] != parts[0].shape[1:]:
                raise DataError(
                    f"entry {key!r} has shape {part.shape[1:]} in part {number} of a concatenated dataset, "
                    f"but {parts[0].shape[1:]} in part 0; give it one shape"
                )
        return _joined(parts, key, "a concatenated dataset") if parts else np.empty(0)

    def _reads_cheaply(self, key: str) -> bool:
        return all(reads_cheaply(part, key) for part in self.data)

    def _label_parts(self) -> Sequence[AbstractDataset]:
        return self.data

    def _content(self) -> Any:
        return [part.fingerprint() for part in self.data]

    def is_deterministic(self) -> bool:
        """Return True if it is certain that reading draws no random numbers."""
        return type(self) is ConcatDataset and all(part.is_deterministic() for part in self.data)


def _joined(pieces: list[np.ndarray], key: str, whole: str) -> np.ndarray:
    dtype = common_dtype(pieces, lambda number: f"entry {key!r} of part {number} of {whole}")
    return np.concatenate(pieces, dtype=dtype, casting="unsafe")  # nothing is lost


def _fit(piece: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return piece.keys() == other.keys() and all(piece[key].shape[1:] == other[key].shape[1:] for key in piece)


class BlankDataset(AbstractDataset):
    """A list of items, read by the ``__getitem__`` of another class.

    Subsets used to be of this class; what ``get_subset`` returns now is a :class:`Subset`, a view that
    needs no list of attributes.

    Parameters
    ----------
    data
        One item for each sample, kept as ``data``.
    old_getitem
        Called as ``old_getitem(self, index)``, e.g. ``BaseLazyDataset.__getitem__``; returns a sample.
    **kwargs
        Whatever attributes ``old_getitem`` reads from the dataset.

    Raises
    ------
    ConfigError
        If ``old_getitem`` cannot be called, or ``data`` is no list.
    """

    def __init__(self, data: Sequence[Any], old_getitem: Callable[[Any, int], Sample], **kwargs: Any) -> None:
        super().__init__()
        if not callable(old_getitem):
            raise ConfigError(f"old_getitem must be a function of (dataset, index), got {old_getitem!r}")
        if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise ConfigError(f"data of a BlankDataset must be a list of items, got {data!r}")
        self.data = data
        self.old_getitem = old_getitem
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __getitem__(self, index: int) -> Sample:
        return self.old_getitem(self, index)
