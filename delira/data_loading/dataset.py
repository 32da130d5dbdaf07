"""Datasets: a length and an index that returns one sample, a dict of arrays."""

import abc
import bisect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from delira.data_loading._checks import Indices, check_range, to_index_array
from delira.data_loading._collate import check_mapping, stack
from delira.data_loading._content import describe_callable, describe_item, fingerprint_of
from delira.data_loading._items import list_items, with_progress
from delira.errors import ConfigError, DataError, MissingKeyError
from delira.utils.seeding import derive, seeded_globals

Sample = Mapping[str, Any]
LoadFunction = Callable[..., Sample]


class AbstractDataset(abc.ABC):
    """Anything with a length whose items are samples ``{name: array}``.

    A subclass fills ``self.data`` and writes ``__getitem__``; everything else has a default.

    Parameters
    ----------
    data_path
        Where the data come from; kept as ``data_path``.
    load_fn
        What turns an item of ``data`` into a sample; kept as ``_load_fn``.

    Notes
    -----
    A class that writes ``__getitem__`` without ``get_batch`` or ``_read_labels`` does not inherit the
    short cuts of its base class for these: they would go past what it does to its samples.
    """

    def __init__(self, data_path: Any = None, load_fn: LoadFunction | None = None) -> None:
        self.data_path = data_path
        self._load_fn = load_fn
        self.data: Any = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("get_batch", "_read_labels"):
            definer = next(base for base in cls.__mro__ if name in vars(base) or "__getitem__" in vars(base))
            if name not in vars(definer):  # __getitem__ is the newer one
                setattr(cls, name, getattr(AbstractDataset, name))

    @abc.abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Return one sample, e.g. ``{"data": (C, H, W), "label": ()}``."""

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def _make_dataset(self, path: Any) -> list[Any]:
        """Return what ``data`` shall hold for ``path``: paths if lazy, samples if cached."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} has no _make_dataset; write it, or fill self.data in __init__")

    def get_sample_from_index(self, index: int) -> Any:
        """Return what is kept of a sample (for a lazy dataset its path); never loads."""
        return self.data[index]

    def get_subset(self, indices: Indices) -> "Subset":
        """Return a view on the samples at ``indices``; nothing is copied or loaded.

        Raises
        ------
        IndexError
            If an index is negative or beyond the end.
        """
        return Subset(self, indices)

    def train_test_split(self, *args: Any, **kwargs: Any) -> tuple["Subset", "Subset"]:
        """Split at random into two subsets.

        Parameters
        ----------
        *args
            Refused: scikit-learn would take them for further arrays.
        **kwargs
            Those of ``sklearn.model_selection.train_test_split``: ``test_size``, ``random_state``,
            ``stratify`` (array of shape (len(self),)), ...
        """
        train, test = split_indices(len(self), *args, **kwargs)
        return self.get_subset(train), self.get_subset(test)

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray] | None:
        """Return the batch of ``indices`` at once, or None if there is no faster way than one by one."""
        return None

    def labels(self, key: str = "label") -> np.ndarray:
        """Return one entry of all samples, read once and kept.

        Returns
        -------
        ndarray of shape (n, ...)
            Read-only.

        Raises
        ------
        MissingKeyError
            If a sample has no such entry.
        DataError
            If the entry's shape is not the same in all samples.
        """
        known: dict[str, np.ndarray] = self.__dict__.setdefault("_delira_labels", {})  # users own "_labels"
        if key not in known or len(known[key]) != len(self):
            with seeded_globals(derive(0, stream="labels")):  # does not disturb the caller's generators
                known[key] = np.asarray(self._read_labels(key)).view()
            known[key].flags.writeable = False
        return known[key]

    def fingerprint(self) -> str:
        """Return a sha256 (hex) that identifies the data across processes and machines."""
        with seeded_globals(derive(0, stream="fingerprint")):
            return fingerprint_of((type(self).__qualname__, self._content()))

    def _read_labels(self, key: str) -> np.ndarray:
        indices = range(len(self))
        values = []
        for index in indices:
            sample = self[index]
            check_mapping(sample, f"sample {index}")
            if key not in sample:
                raise MissingKeyError(
                    f"sample {index} has no entry {key!r}; it has {sorted(map(str, sample))}; name one of these as key"
                )
            values.append(sample[key])
        return stack(values, indices, key) if values else np.empty(0)

    def _content(self) -> Any:
        """Return what identifies the data; here only a glance, as reading everything may take hours."""
        length = len(self)
        return length, [self[0], self[length - 1]] if length else []

    def is_deterministic(self) -> bool:
        """Whether it is certain that reading a sample draws no random numbers."""
        return False


class Subset(AbstractDataset):
    """View on some samples of another dataset.

    Attributes that a subset does not have itself are looked up in ``parent``; methods found there see
    the whole parent.

    Parameters
    ----------
    parent
        The dataset looked at; a subset of a subset looks at the first one's parent.
    indices : sequence of int, or ndarray of shape (n,)
        Indices into ``parent``; they may repeat.
    """

    def __init__(self, parent: AbstractDataset, indices: Indices) -> None:
        name = f"this {type(parent).__name__}"
        chosen = check_range(to_index_array(indices, "a subset"), len(parent), name)
        if type(parent) is Subset:
            chosen, parent = parent.indices[chosen], parent.parent
        self.parent: AbstractDataset = parent
        self.indices: np.ndarray = chosen

    def __getattr__(self, name: str) -> Any:
        # dunders would make copy and pickle act on the parent; "parent" is missing while unpickling
        if name == "parent" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.parent, name)

    @property
    def data(self) -> list[Any]:
        """What the parent keeps of these samples; never loads."""
        return [self.get_sample_from_index(index) for index in range(len(self))]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Sample:
        return self.parent[int(self.indices[index])]

    def get_sample_from_index(self, index: int) -> Any:
        """Return what the parent keeps of a sample; never loads."""
        return self.parent.get_sample_from_index(int(self.indices[index]))

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray] | None:
        """Return the parent's batch of these samples, None if it has no faster way."""
        return self.parent.get_batch(self.indices[indices])

    def _read_labels(self, key: str) -> np.ndarray:
        return read_labels(self.parent, key)[self.indices]

    def _content(self) -> Any:
        return self.parent.fingerprint(), self.indices

    def is_deterministic(self) -> bool:
        """Whether it is certain that reading draws no random numbers."""
        return type(self) is Subset and self.parent.is_deterministic()


class _LoadingDataset(AbstractDataset):
    """What lazy and cached datasets share: items, a function that loads one, its keywords."""

    def __init__(self, data_path: Any, load_fn: LoadFunction | None, **load_kwargs: Any) -> None:
        super().__init__(data_path, load_fn)
        if not callable(load_fn):
            raise ConfigError(
                f"{type(self).__name__} needs load_fn, a function that turns an item into a sample, got {load_fn!r}"
            )
        self._load_kwargs = load_kwargs
        self.data = self._make_dataset(data_path)

    def _load(self, item: Any, index: int) -> Sample:
        try:
            return self._load_fn(item, **self._load_kwargs)  # type: ignore[misc]  # checked in __init__
        except Exception as error:
            error.add_note(f"while {describe_callable(self._load_fn)} loaded item {index}: {item!r}")
            raise


class BaseLazyDataset(_LoadingDataset):
    """Loads a sample each time it is asked for.

    Parameters
    ----------
    data_path
        The items, a list or any other iterable; or a directory, whose entries (paths, sorted) are the items.
    load_fn
        Called as ``load_fn(item, **load_kwargs)``; returns a sample.
    **load_kwargs
        Handed to ``load_fn``.

    Raises
    ------
    ConfigError
        If ``data_path`` is no directory and no iterable, or ``load_fn`` cannot be called.
    """

    def _make_dataset(self, path: Any) -> list[Any]:
        return list_items(path)

    def __getitem__(self, index: int) -> Sample:
        return self._load(self.data[index], index)

    def _content(self) -> Any:
        items = [describe_item(item) for item in self.data]
        return describe_callable(self._load_fn), self._load_kwargs, items


class BaseCacheDataset(_LoadingDataset):
    """Loads all samples at construction and keeps them; parameters as in :class:`BaseLazyDataset`."""

    def _make_dataset(self, path: Any) -> list[Any]:
        return [self._load(item, index) for index, item in enumerate(with_progress(list_items(path)))]

    def __getitem__(self, index: int) -> Sample:
        return self.data[index]

    def _content(self) -> Any:
        return list(self.data)

    def is_deterministic(self) -> bool:
        """Whether it is certain that reading draws no random numbers."""
        return type(self).__getitem__ is BaseCacheDataset.__getitem__


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
        self.data = list(datasets[0] if one_list else datasets)
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
        part, inner = self._locate(index)
        return part[inner]

    def get_sample_from_index(self, index: int) -> Any:
        """Return what the part keeps of a sample; never loads."""
        part, inner = self._locate(index)
        return part.get_sample_from_index(inner)

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray] | None:
        """Join the parts' batches in the order of ``indices``; None if a part has no faster way."""
        if any(type(part).get_batch is AbstractDataset.get_batch for part in self.data):
            return None
        indices = np.asarray(indices)
        for index in indices[(indices < -len(self)) | (indices >= len(self))][:1].tolist():
            self._locate(index)  # raises
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
        return {key: np.concatenate([piece[key] for piece in pieces])[back] for key in pieces[0]}

    def _start(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _locate(self, index: int) -> tuple[AbstractDataset, int]:
        length = len(self)
        if not -length <= index < length:
            raise IndexError(f"index {index} is not in this {type(self).__name__} of {length} samples")
        index = index + length if index < 0 else index
        number = bisect.bisect_right(self._ends, index)
        return self.data[number], int(index) - self._start(number)

    def _read_labels(self, key: str) -> np.ndarray:
        # without the empty parts: theirs are floats and would make floats of integers
        parts = [read_labels(part, key) for part in self.data if len(part)]
        for number, part in enumerate(parts):
            if part.shape[1:] != parts[0].shape[1:]:
                raise DataError(
                    f"entry {key!r} has shape {part.shape[1:]} in part {number} of a concatenated dataset, "
                    f"but {parts[0].shape[1:]} in part 0; give it one shape"
                )
        return np.concatenate(parts) if parts else np.empty(0)

    def _content(self) -> Any:
        return [part.fingerprint() for part in self.data]

    def is_deterministic(self) -> bool:
        """Whether it is certain that reading draws no random numbers."""
        return type(self) is ConcatDataset and all(part.is_deterministic() for part in self.data)


def split_indices(length: int, *args: Any, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Split ``range(length)`` in two with scikit-learn's ``train_test_split``; arrays of dtype int64."""
    from sklearn.model_selection import train_test_split

    if args:
        raise ConfigError(f"train_test_split takes keywords only, e.g. test_size=0.2; got {args!r}")
    train, test = train_test_split(np.arange(length), **kwargs)
    return train, test


def read_labels(dataset: AbstractDataset, key: str) -> np.ndarray:
    """Return ``dataset.labels(key)`` even if a user's dataset keeps an array in an attribute ``labels``."""
    return type(dataset).labels(dataset, key)


def _fit(piece: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return piece.keys() == other.keys() and all(piece[key].shape[1:] == other[key].shape[1:] for key in piece)
