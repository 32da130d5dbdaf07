"""Datasets over what is there already: a dict of arrays, a list of samples, a dataset of another library."""

import collections
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from delira.data_loading._content import CASES, case_in, paths_of
from delira.data_loading._exact import (
    NO_INDEX,
    as_array,
    at,
    check_mapping,
    common_length,
    convert_entry,
    exact_array,
    to_index,
)
from delira.data_loading.abstract_dataset import AbstractDataset, Sample
from delira.errors import ConfigError, DataError, MissingKeyError, noting
from delira.utils.frameworks import is_of_framework

_PAIR = ("data", "label")
_N_COMPARED = 16  # samples from all over the dataset that must have the labels which ``targets`` promises


class WrappedDataset(AbstractDataset):
    """A dataset of another library: PyTorch, torchvision, Hugging Face, or any object with a length and an index.

    Tensors on the CPU, images and lists become arrays. Labels come from a column of a Hugging Face dataset or
    from ``targets`` of a torchvision dataset, where the samples have them: a sample of each class, and some from all
    over the dataset, are compared. Else all samples are read for them.

    Parameters
    ----------
    dataset
        Has ``__len__`` and ``__getitem__``; its samples are dicts, tuples or single values. It is kept as ``data``.
    keys
        For tuples the name of each part; pairs are ``("data", "label")`` by default. For single values one
        name. For dicts a list of the entries wanted, or ``{name here: name there}``; by default all entries
        under their own names.

    Raises
    ------
    ConfigError
        If ``dataset`` has no length or no index, or ``keys`` is no list of different names.

    Examples
    --------
    >>> pairs = [(np.zeros((1, 8, 8)), 3), (np.ones((1, 8, 8)), 5)]  # as datasets of torchvision give them
    >>> WrappedDataset(pairs)[1]["label"]
    5
    >>> rows = [{"image": np.zeros((8, 8)), "fine_label": 3}]  # as datasets of Hugging Face give them
    >>> sorted(WrappedDataset(rows, {"data": "image", "label": "fine_label"})[0])
    ['data', 'label']
    """

    def __init__(self, dataset: object, keys: Iterable[str] | Mapping[str, str] | None = None) -> None:
        super().__init__()
        _check_wrappable(dataset)
        self.data = dataset
        self._keys = _check_keys(keys)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return sample ``index``.

        Raises
        ------
        DataError
            If the sample does not have the parts that ``keys`` names.
        MissingKeyError
            If the sample, a dict, lacks an entry that ``keys`` names.
        """
        index = to_index(index, len(self), self)
        try:
            sample = self.data[index]
        except Exception as error:
            error.add_note(f"while sample {index} was read from the wrapped {type(self.data).__name__}")
            raise
        return self.converted(sample, index)

    def converted(self, sample: object, index: int) -> dict[str, Any]:
        """Return what a dataset of another library gave as ``index`` under its names, as arrays."""
        return {name: convert_entry(value, name, index) for name, value in self._named(sample, index).items()}

    def get_sample_from_index(self, index: int) -> Any:
        """Return the number of the sample: nothing else is kept of it here."""
        return index

    def _called(self, index: int) -> str:
        if file := _file_in(self.data, index):
            return file
        columns = getattr(self.data, "column_names", None)
        if not isinstance(columns, list) or getattr(self.data, "features", None) is None:
            return ""
        # of Hugging Face: no sample is made for it
        return case_in({name: self.data[name] for name in columns if name in CASES}, index)

    def _named(self, sample: object, index: int) -> Mapping[str, Any]:
        if isinstance(sample, Mapping):
            return sample if self._keys is None else self._select(sample, self._keys, index)
        parts = sample if isinstance(sample, (tuple, list)) else (sample,)
        if isinstance(names := self._names, Mapping):
            raise DataError(
                f"keys={names!r} rename the entries of dicts, but sample {index} is a {type(sample).__name__}; "
                "pass a list with a name for each part"
            )
        if len(names) != len(parts):
            got = f"a {type(sample).__name__}" + (f" of {len(parts)} parts" if parts is sample else "")
            raise DataError(
                f"sample {index} of the wrapped {type(self.data).__name__} is {got}, but {len(names)} names are "
                f"given for its parts: {list(names)}; pass keys with a name for each part"
            )
        return dict(zip(names, parts, strict=True))

    def _select(self, sample: Mapping[str, Any], keys: Iterable[str], index: int) -> Mapping[str, Any]:
        wanted = keys if isinstance(keys, Mapping) else {name: name for name in keys}
        if missing := [there for there in wanted.values() if there not in sample]:
            raise MissingKeyError(
                f"sample {index} has no entries {missing} that keys names; it has {sorted(map(str, sample))}"
            )
        return {here: sample[there] for here, there in wanted.items()}

    def _read_labels(self, key: str) -> np.ndarray:
        labels = labels_at_hand(self, key)
        return super()._read_labels(key) if labels is None else labels

    def _reads_cheaply(self, key: str) -> bool:
        return labels_at_hand(self, key) is not None

    @property
    def _names(self) -> tuple[str, ...] | dict[str, str]:
        return _PAIR if self._keys is None else self._keys

    def _column(self, key: str) -> np.ndarray | None:
        there = self._keys.get(key) if isinstance(self._keys, Mapping) else key
        layout = getattr(self.data, "format", None)
        # a transform of the user's may change labels, and would get all rows with all columns at once
        if not isinstance(layout, Mapping) or layout.get("type") == "custom":
            return None
        if there not in getattr(self.data, "column_names", ()):
            return None
        try:
            return as_array(self.data[there][:])
        except ValueError:  # of different shapes, which a library may refuse itself: reading the samples names the one
            return None

    def _targets(self, key: str) -> np.ndarray | None:
        if isinstance(self._names, Mapping) or key not in self._names[1:]:
            return None
        targets = _targets_of(self.data)
        if targets is None or targets.ndim == 0 or len(targets) != len(self) or not len(self):
            return None
        # transforms may have changed what samples say, and that of one class alone
        places = _to_compare(targets)
        if 2 * len(places) > max(len(self), 2 * _N_COMPARED):
            return None
        samples = ((self[index], targets[index]) for index in places)
        are_same = all(key in sample and np.array_equal(sample[key], target) for sample, target in samples)
        return targets if are_same else None


def labels_at_hand(dataset: WrappedDataset, key: str) -> np.ndarray | None:
    """Return an entry of all samples of a wrapped dataset, None if all would have to be read for it."""
    labels = dataset._column(key)
    return dataset._targets(key) if labels is None else labels


def _to_compare(targets: np.ndarray) -> list[int]:
    """Samples from all over the dataset, and at least one of every class."""
    spread = np.unique(np.linspace(0, len(targets) - 1, _N_COMPARED).astype(int))
    rows = targets.reshape(len(targets), -1)
    try:
        # one column as it is: comparing rows takes ten times as long
        _, numbers = np.unique(rows, axis=0 if rows.shape[1] != 1 else None, return_inverse=True)
    except TypeError:  # objects without an order
        return list(range(len(targets)))
    classes = numbers.reshape(-1)
    seen, firsts = np.unique(classes, return_index=True)
    return np.concatenate([spread, firsts[~np.isin(seen, classes[spread])]]).tolist()


def is_wrappable(obj: object) -> bool:
    """Return True if an object is a dataset of another library: it has a length and an index, and is no plain data."""
    plain = (str, bytes, bytearray, Mapping, list, tuple, range, collections.deque, AbstractDataset)
    return _can_be_read(obj) and not (isinstance(obj, (type, *plain)) or hasattr(obj, "__array__") or _is_stream(obj))


def _can_be_read(dataset: object) -> bool:
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")


def _check_wrappable(dataset: Any) -> None:
    name = type(dataset).__name__
    if isinstance(dataset, Mapping):
        raise ConfigError(
            f"a {name} cannot be wrapped, it holds several things under names: {list(dataset)[:10]}; pass one of "
            "them if they are datasets, or use DictDataset if they are arrays"
        )
    if _is_stream(dataset) or (hasattr(dataset, "__iter__") and not hasattr(dataset, "__len__")):
        raise ConfigError(
            f"a {name} is a stream: it can only be read from beginning to end, but samples are asked for by "
            "number. Load it without streaming, or read it into memory with IterableDataset(samples), the "
            "samples being dicts"
        )
    if not _can_be_read(dataset):
        raise ConfigError(f"a dataset to wrap needs __len__ and __getitem__, which a {name} does not have")
    try:
        len(dataset)
    except (TypeError, NotImplementedError) as error:
        raise ConfigError(f"the length of the wrapped {name} is unknown; give it a __len__ that returns it") from error


def _is_stream(dataset: object) -> bool:
    # PyTorch's base class has __getitem__, which raises, and may have a length
    return any(cls.__name__ == "IterableDataset" and is_of_framework(cls) for cls in type(dataset).__mro__)


def _check_keys(keys: object) -> tuple[str, ...] | dict[str, str] | None:
    if keys is None:
        return None
    names = None if isinstance(keys, str) or not isinstance(keys, Iterable) else list(keys)
    if not names or len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"keys must be a list of different names or a dict {{name here: name there}}, got {keys!r}")
    return dict(keys) if isinstance(keys, Mapping) else tuple(names)


def _file_in(dataset: Any, index: int) -> str:
    """The file of a sample where a dataset lists them, as torchvision's folders do, also below PyTorch's ``Subset``."""
    while _is_subset(dataset):
        dataset, index = dataset.dataset, int(dataset.indices[index])
    for name in ("samples", "imgs", "files", "paths", "filenames"):
        listed = getattr(dataset, name, None)
        if isinstance(listed, (list, tuple)) and len(listed) == len(dataset) and (files := paths_of([listed[index]])):
            return files[0]
    return ""


def _targets_of(dataset: Any) -> np.ndarray | None:
    """Find ``targets`` of a torchvision dataset, or of the one that PyTorch's ``Subset`` looks at."""
    if (targets := getattr(dataset, "targets", None)) is not None:
        return _as_array(targets)
    inner = _targets_of(dataset.dataset) if _is_subset(dataset) else None
    return None if inner is None else inner[as_array(dataset.indices)]


def _is_subset(dataset: object) -> bool:
    return hasattr(dataset, "dataset") and hasattr(dataset, "indices")


def _as_array(values: object) -> np.ndarray | None:
    """Make an array of the labels of all samples; None if these differ in shape: reading the samples names the one."""
    try:
        return as_array(values)
    except ValueError:
        return None


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
            got = f"{arrays!r}" if isinstance(arrays, Mapping) else f"a {type(arrays).__name__}"
            raise DataError(f"DictDataset needs a dict of arrays, got {got}")
        self.data: dict[str, np.ndarray] = {key: _to_array(key, values) for key, values in arrays.items()}
        self._length = common_length({key: len(array) for key, array in self.data.items()}, "DictDataset")

    _draws_nothing = True

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

    _keeps_samples = _draws_nothing = True

    def __getitem__(self, index: int) -> Sample:
        return at(self.data, index, self)

    def _content(self) -> Any:
        return self.data

    def _called(self, index: int) -> str:
        return case_in(self.data[index])


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
    if hasattr(data, "is_stream_of_batches"):
        raise ConfigError(
            f"a {type(data).__name__} is read from beginning to end and has no samples by number, so that it is "
            "neither managed nor divided into folds; train on it by itself, experiment.run(stream, validation), or "
            "make a data set of samples: ShardDataset, MappedDataset, or IterableDataset of those that fit into memory"
        )
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
    with noting(f"while the values of {key!r} were turned into an array; its first axis counts samples"):
        array = exact_array(values, f"the values of {key!r}")
    if array.ndim == 0:
        raise DataError(
            f"the value of {key!r} has no first axis that counts samples: got a {type(values).__name__}; "
            "pass an array of shape (n, ...)"
        )
    return array
