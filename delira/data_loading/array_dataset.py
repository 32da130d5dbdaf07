"""Datasets over what is already in memory: a dict of arrays, or a list of samples."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from delira.data_loading._checks import NO_INDEX, at, to_index
from delira.data_loading._collate import check_mapping
from delira.data_loading._exact import exact_array
from delira.data_loading._items import case_in
from delira.data_loading.abstract_dataset import AbstractDataset, Sample
from delira.data_loading.wrapped_dataset import WrappedDataset, is_wrappable
from delira.errors import ConfigError, DataError, MissingKeyError


class DictDataset(AbstractDataset):
    """A dict of arrays whose first axis counts the samples.

    Parameters
    ----------
    arrays
        ``{key: array of shape (n, ...)}``; numpy arrays, lists or CPU tensors. Arrays are not copied.

    Raises
    ------
    DataError
        If there is no array, one has no first axis, or the lengths differ.
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        super().__init__()
        if not isinstance(arrays, Mapping) or not arrays:
            raise DataError(
                f"DictDataset needs a dict of arrays, got {arrays!r}"
                if isinstance(arrays, Mapping)
                else f"DictDataset needs a dict of arrays, got a {type(arrays).__name__}"
            )
        self.data: dict[str, np.ndarray] = {key: _to_array(key, values) for key, values in arrays.items()}
        lengths = {key: len(array) for key, array in self.data.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key!r}: {length}" for key, length in lengths.items())
            raise DataError(f"the arrays of a DictDataset must have equal lengths (first axes), got {listed}")
        self._length = next(iter(lengths.values()))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if isinstance(index, NO_INDEX):
            to_index(index, self._length, self)  # raises
        try:
            return {key: array[index] for key, array in self.data.items()}
        except IndexError:
            to_index(index, self._length, self)  # raises, and names it
            raise

    def get_sample_from_index(self, index: int) -> Sample:
        """Return the sample; nothing has to be loaded."""
        return self[index]

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return one array of shape (B, ...) per key, a copy."""
        # the method: np.take adds 1 us a key, fancy indexing up to 1.3 us
        return {key: array.take(indices, 0) for key, array in self.data.items()}

    def _read_labels(self, key: str) -> np.ndarray:
        if key not in self.data:
            raise MissingKeyError(
                f"no sample (from sample 0 on) has an entry {key!r}; only {sorted(map(str, self.data))}; "
                "name one of these as key"
            )
        return self.data[key]

    def _content(self) -> Any:
        return self.data

    def _called(self, index: int) -> str:
        return case_in(self.data, index)

    def is_deterministic(self) -> bool:
        """True, unless a subclass changes what is read."""
        return type(self).get_batch is DictDataset.get_batch


class IterableDataset(AbstractDataset):
    """A list of samples.

    Parameters
    ----------
    samples
        Dicts with the same keys; any other iterable than a list is read to its end.

    Raises
    ------
    DataError
        If a sample is no dict.
    MissingKeyError
        If a sample has other keys than the first one.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        super().__init__()
        if not isinstance(samples, Iterable) or isinstance(samples, (str, bytes, Mapping)):
            raise DataError(
                f"samples must be a list of dicts, got {samples!r:.100}; a dict of arrays goes into DictDataset"
            )
        self.data = list(samples)
        for index, sample in enumerate(self.data):
            check_mapping(sample, f"sample {index}")
            if sample.keys() != self.data[0].keys():
                raise MissingKeyError(
                    f"sample {index} has the keys {sorted(map(str, sample))}, but sample 0 has "
                    f"{sorted(map(str, self.data[0]))}; all samples need the same keys"
                )

    _keeps_samples = True

    def __getitem__(self, index: int) -> Sample:
        return at(self.data, index, self)

    def _content(self) -> Any:
        return self.data

    def _called(self, index: int) -> str:
        return case_in(self.data[index])

    def is_deterministic(self) -> bool:
        """True, unless a subclass changes what is read."""
        return type(self).__getitem__ is IterableDataset.__getitem__


def as_dataset(data: object) -> AbstractDataset:
    """Make a dataset of what is in memory, or of another library's dataset.

    Parameters
    ----------
    data
        A dataset, a dict of arrays, an iterable of dicts, or what :class:`WrappedDataset` takes.

    Raises
    ------
    ConfigError
        If it is none of these.
    """
    if isinstance(data, AbstractDataset):
        return data
    if isinstance(data, Mapping):
        return DictDataset(data)
    if is_wrappable(data):
        return WrappedDataset(data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        samples = data if isinstance(data, list) else list(data)
        if not samples or isinstance(samples[0], Mapping):
            return IterableDataset(samples)
        got = f"a {type(data).__name__} of {type(samples[0]).__name__}"
    else:
        got = f"{data!r}" if isinstance(data, str) else f"a {type(data).__name__}"
    raise ConfigError(
        f"cannot make a dataset of {got}; accepted are a dataset (of any library), a dict of arrays, "
        "an iterable of dicts, and, by a data manager with load_fn, a directory or a list of items to load"
    )


def _to_array(key: str, values: object) -> np.ndarray:
    if is_wrappable(values) and not hasattr(values, "toarray"):
        raise DataError(
            f"{key!r} is a dataset (a {type(values).__name__}), not an array; this dict holds several datasets: "
            f"choose one of them, e.g. data[{key!r}]"
        )
    try:
        array = exact_array(values, f"the values of {key!r}")
    except Exception as error:
        error.add_note(f"while the values of {key!r} were turned into an array; its first axis counts samples")
        raise
    if array.ndim == 0:
        raise DataError(
            f"the value of {key!r} has no first axis that counts samples: got a {type(values).__name__}; "
            "pass an array of shape (n, ...)"
        )
    return array
