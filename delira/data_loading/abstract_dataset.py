"""The base of all datasets, a length and an index that returns one sample; and the view on some of them."""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira.data_loading._content import fingerprint_of, names_of, paths_of
from delira.data_loading._describe import DatasetDescription, describe
from delira.data_loading._exact import (
    Indices,
    as_array,
    at,
    check_mapping,
    check_range,
    exact_array,
    refuse_mixed,
    stack,
    to_index_array,
)
from delira.data_loading.statistics import DataFingerprint, fingerprint_volumes
from delira.errors import ConfigError, DataError, MissingKeyError, check_texts, noting
from delira.utils.seeding import derive, seeded_globals

Sample = Mapping[str, Any]
Batch = dict[str, Any]
LoadFunction = Callable[..., Any]


def _reader(cls: type, name: str) -> type:
    """Return the class that says how a dataset is read: the newest with a method ``name`` or ``__getitem__``."""
    return next(base for base in cls.__mro__ if name in vars(base) or "__getitem__" in vars(base))


class AbstractDataset(abc.ABC):
    """Anything with a length whose items are samples ``{name: array}``.

    A subclass fills ``self.data`` and writes ``__getitem__``; everything else has a default.

    Parameters
    ----------
    data_path
        Where the data come from; kept as ``data_path``.
    load_fn
        What turns an item of ``data`` into a sample; kept as ``_load_fn``.
    img_extensions, gt_extensions
        Endings of the files that are images and ground truth, kept as ``_img_extensions`` and
        ``_gt_extensions``; what is made of them is up to the subclass, see :class:`BaseLazyDataset`.

    Notes
    -----
    A class that writes ``__getitem__`` without ``get_batch``, ``read_part``, ``entry_shapes`` or ``_read_labels`` does
    not inherit the short cuts of its base class for these: they would go past what it does to its samples.
    """

    def __init__(
        self,
        data_path: object = None,
        load_fn: LoadFunction | None = None,
        img_extensions: str | Iterable[str] | None = None,
        gt_extensions: str | Iterable[str] | None = None,
    ) -> None:
        self.data_path: Any = data_path
        self._load_fn = load_fn
        self._img_extensions = img_extensions
        self._gt_extensions = gt_extensions
        self.data: Any = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("get_batch", "_read_labels", "entry_shapes", "read_part"):
            if name not in vars(_reader(cls, name)):  # __getitem__ is the newer one
                setattr(cls, name, getattr(AbstractDataset, name))

    @abc.abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Return one sample, e.g. ``{"data": (C, H, W), "label": ()}``."""

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples)"

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def _make_dataset(self, path: object) -> list[Any]:
        """Return what ``data`` shall hold for ``path``: paths if lazy, samples if cached."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} has no _make_dataset; write it, or fill self.data in __init__")

    def get_sample_from_index(self, index: int) -> Any:
        """Return what is kept of a sample (for a lazy dataset its path, for a view what is kept there); never loads."""
        below = self._below(index)
        return at(self.data, index, self) if below is None else below[0].get_sample_from_index(below[1])

    def get_subset(self, indices: Indices) -> "Subset":
        """Return a view on the samples at ``indices``; nothing is copied or loaded.

        Raises
        ------
        SampleIndexError
            If an index is negative or beyond the end.
        """
        return Subset(self, indices)

    def train_test_split(self, *args: Any, **kwargs: Any) -> tuple["AbstractDataset", "AbstractDataset"]:
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

    def entry_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each entry of a sample, which is read for it unless the dataset knows.

        Entries that are dicts are left out.
        """
        return shapes_of(self[index], index)

    def read_part(
        self, index: int, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return a sample of which entries are cut; of arrays on disk only the part is read.

        Parameters
        ----------
        index
            Which sample.
        parts
            ``{entry: slices of its last axes}``, with a start and a stop within the entry and no step; entries that it
            does not name come whole.
        keys
            The entries wanted; by default all.

        Raises
        ------
        MissingKeyError
            If the sample lacks an entry.
        """
        return cut_sample(self[index], parts, keys, index)

    def whole_cases(self) -> "AbstractDataset":
        """Return the dataset of the cases that the samples are cut from: by these data are divided.

        It is this dataset itself, unless its samples are :class:`~delira.data_loading.Patches`.
        """
        return self

    @property
    def case_names(self) -> list[str]:
        """What the samples are called, one text for each; may be set.

        By default what their files or folders are called, without endings, with as much of the path in front as tells
        them apart; else what an entry of samples in memory says (``patient``, ``name``, ...); else their number.
        """
        given = self.__dict__.get("_delira_case_names")
        if given is not None and len(given) == len(self):
            return list(given)
        return self._case_names()

    @case_names.setter
    def case_names(self, names: Sequence[str]) -> None:
        texts = [*names] if isinstance(names, Iterable) and not isinstance(names, (str, bytes, Mapping)) else []
        if len(texts) != len(self) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(
                f"case_names must be {len(self)} texts, one for each sample, in their order; got {names!r:.100}"
            )
        self.__dict__["_delira_case_names"] = texts

    def _case_names(self) -> list[str]:
        return names_of([self._source(index) for index in range(len(self))], self._called)

    def _numbers_in(self, indices: Indices) -> Indices:
        """Return the numbers of the samples that :meth:`get_subset` takes for ``indices``, which may be of cases."""
        return indices

    def labels(self, key: str = "label") -> np.ndarray:
        """Return one entry of all samples: what :meth:`set_labels` was given, else read once and kept.

        Returns
        -------
        ndarray of shape (n, ...)
            Read-only.

        Raises
        ------
        MissingKeyError
            If a sample has no such entry.
        DataError
            If the entry's shape or type is not the same in all samples, or the dataset has another length than
            when its labels were set.
        """
        if key in (given := given_labels(self)):
            return _check_length(given[key], key, self)
        known: dict[str, tuple[list[Any], np.ndarray]] = self.__dict__.setdefault("_delira_labels", {})
        marks = _marks_of(self, key)
        kept = known.get(key)
        if kept is None or len(kept[1]) != len(self) or [*map(id, kept[0])] != [*map(id, marks)]:
            with seeded_globals(derive(0, stream="labels")):  # does not disturb the caller's generators
                labels = np.asarray(self._read_labels(key)).view()
            refuse_mixed(labels, key)
            labels.flags.writeable = False
            kept = known[key] = (marks, labels)
        return kept[1]

    def set_labels(self, key: str, values: object) -> None:
        """Say what :meth:`labels` returns, so that no sample has to be loaded for it.

        Stratified and grouped cross-validation, samplers that balance classes and subsets ask for labels;
        of a dataset that loads files they would read every image. Samples themselves stay as they are.

        Parameters
        ----------
        key
            Name of the entry; samples need not have it, e.g. ``"patient"`` for ``groups_key``.
        values : array-like of shape (n, ...)
            One value for each sample, in the order of the samples. They are copied, and part of the fingerprint.

        Raises
        ------
        DataError
            If there are more or fewer values than samples, or their shapes or types differ.

        Examples
        --------
        >>> from delira.data_loading import BaseDataManager, BaseLazyDataset, PrevalenceRandomSampler
        >>> dataset = BaseLazyDataset(["healthy/1.png", "ill/2.png"], load_fn=lambda file: {"data": file})
        >>> dataset.set_labels("label", ["healthy", "ill"])
        >>> manager = BaseDataManager(dataset, 16, sampler_cls=PrevalenceRandomSampler)  # opens no image
        """
        check_texts("set_labels", key=key)
        array = np.array(exact_array(values, f"the values of set_labels({key!r})"))
        array.flags.writeable = False
        self.__dict__["_delira_given_labels"] = given_labels(self) | {key: _check_length(array, key, self)}
        self.__dict__["_delira_n_set"] = self.__dict__.get("_delira_n_set", 0) + 1

    def describe(self, label_key: str = "label", limit: int | None = 100) -> DatasetDescription:
        """Summarise the dataset: classes, shapes, dtypes, missing files; can be printed.

        Parameters
        ----------
        label_key
            Entry whose classes are counted.
        limit
            Samples that are looked at, drawn at random; None for all. Classes are counted over all samples where
            that loads none.
        """
        return describe(self, label_key, limit, self._known_labels, self._files)

    def statistics(self, label_key: str = "label", data_key: str = "data", limit: int | None = 100) -> DataFingerprint:
        """Summarise volumes: sizes, spacings, intensities, shares of classes; suggests patch size and normalisation.

        Of patches the cases are looked at. Intensities are those of at most 10,000 voxels of a case, drawn with a seed,
        with a label above 0 if there are labels of the case's shape.

        Parameters
        ----------
        label_key, data_key
            Entries with the class of each voxel, of shape ``(*spatial,)`` or ``(1, *spatial)``; and with the
            intensities, of shape ``(C, *spatial)``.
        limit
            Cases that are read, drawn at random, always the same; None for all.

        Raises
        ------
        DataError
            If a case is no volume, or has another number of axes or channels than the others.
        """
        return fingerprint_volumes(self, label_key, data_key, limit)

    def _known_labels(self, key: str) -> list[Any] | None:
        """Return the labels of all samples; None if that would load these."""
        return read_labels(self, key).reshape(-1).tolist() if reads_cheaply(self, key) else None

    def fingerprint(self) -> str:
        """Return a sha256 (hex) that identifies the data across processes and machines."""
        given = given_labels(self)
        with seeded_globals(derive(0, stream="fingerprint")):
            content = (type(self).__qualname__, self._content())
            return fingerprint_of((*content, given) if given else content)

    def _label_parts(self) -> Sequence["AbstractDataset"]:
        """Return the datasets that this one asks for its labels."""
        return ()

    def _read_labels(self, key: str) -> np.ndarray:
        return stack_labels([_read_entry(self, index, key) for index in range(len(self))], key)

    #: whether samples lie in memory, so that reading them costs nothing
    _keeps_samples = False
    #: whether what this class itself does to read a sample draws no random numbers
    _draws_nothing = False

    def _reads_cheaply(self, key: str) -> bool:
        """Return True if this class's own ``_read_labels`` does not load the samples."""
        return self._keeps_samples and self.is_deterministic()

    def _content(self) -> Any:
        """Return what identifies the data; here only a glance, as reading everything may take hours."""
        length = len(self)
        return length, [self[0], self[length - 1]] if length else []

    def _below(self, index: int) -> tuple["AbstractDataset", int] | None:
        """Return the dataset that a sample is looked up in, and its number there; None if this one has its own."""
        return None

    def _source(self, index: int) -> Any:
        """Return what a sample is loaded from, e.g. a path or a tuple of paths; None if nobody knows."""
        return None if (below := self._below(index)) is None else below[0]._source(below[1])

    def _called(self, index: int) -> str:
        """Return what a message may call a sample besides its number: its file, or its case; empty if nobody knows."""
        if (below := self._below(index)) is not None:
            return below[0]._called(below[1])
        return next(iter(paths_of([self._source(index)])), "")

    def _files(self) -> list[str]:
        """Return the files that the samples are loaded from, each once; they need not exist."""
        return paths_of(self._source(index) for index in range(len(self)))

    def _elsewhere(self) -> tuple[int, int]:
        """Return the bytes of all samples that lie at a URL, and those that the cache of them may take."""
        found = [part._elsewhere() for part in self._label_parts()]
        return sum(size for size, _ in found), min((cache for size, cache in found if size), default=0)

    def is_deterministic(self) -> bool:
        """Return True if it is certain that reading a sample draws no random numbers."""
        return bool(vars(_reader(type(self), "get_batch")).get("_draws_nothing"))


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
        if not isinstance(parent, AbstractDataset):
            raise ConfigError(
                f"parent of a Subset must be a dataset, got {parent!r:.100}; wrap arrays in DictDataset, lists of "
                "samples in IterableDataset, datasets of other libraries in WrappedDataset"
            )
        chosen = check_range(to_index_array(indices, "a subset"), len(parent), f"this {type(parent).__name__}")
        if type(parent) is Subset:
            self.__dict__["_delira_above"] = (parent, chosen)  # labels may be set there, now or later
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
        return self.parent[int(at(self.indices, index, self))]

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray] | None:
        """Return the parent's batch of these samples, None if it has no faster way."""
        return self.parent.get_batch(self.indices[indices])

    def entry_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries of a sample, as the parent knows them."""
        return self.parent.entry_shapes(int(at(self.indices, index, self)))

    def read_part(
        self, index: int, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return a sample of which entries are cut, as the parent reads it."""
        return self.parent.read_part(int(at(self.indices, index, self)), parts, keys)

    def whole_cases(self) -> AbstractDataset:
        """Return this dataset; what was cut from cases cannot be divided by them any more, and is refused."""
        if self.parent.whole_cases() is not self.parent:
            raise ConfigError(NO_CASES)
        return self

    def _case_names(self) -> list[str]:
        names = self.parent.case_names
        return [names[index] for index in self.indices.tolist()]

    def _label_parts(self) -> Sequence[AbstractDataset]:
        return (self.parent,)

    def _read_labels(self, key: str) -> np.ndarray:
        return read_labels(self.parent, key)[self.indices]

    def _reads_cheaply(self, key: str) -> bool:
        return reads_cheaply(self.parent, key)

    def _content(self) -> Any:
        return self.parent.fingerprint(), self.indices

    def _below(self, index: int) -> tuple[AbstractDataset, int]:
        return self.parent, int(at(self.indices, index, self))

    def is_deterministic(self) -> bool:
        """Return True if it is certain that reading draws no random numbers."""
        return type(self) is Subset and self.parent.is_deterministic()


def shapes_of(sample: object, index: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the entries of a sample that are no dicts; its number is for messages."""
    check_mapping(sample, f"sample {index}")
    return {key: np.shape(value) for key, value in sample.items() if not isinstance(value, Mapping)}  # type: ignore[attr-defined]


def cut_sample(
    sample: Sample, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None, index: int
) -> dict[str, Any]:
    """Cut entries of a sample that was read; parameters as in :meth:`AbstractDataset.read_part`."""
    check_mapping(sample, f"sample {index}")
    wanted = [*sample] if keys is None else [*keys]
    if missing := [key for key in {*wanted, *parts} if key not in sample]:
        raise MissingKeyError(f"sample {index} has no entries {sorted(missing)}; it has {sorted(map(str, sample))}")
    # a copy: a part that looks at the whole array would keep it in memory
    return {key: cut_array(as_array(sample[key]), parts[key]) if key in parts else sample[key] for key in wanted}


def cut_array(array: Any, slices: tuple[Any, ...]) -> np.ndarray:
    """Cut along the last axes; a copy."""
    return np.array(array[(..., *slices)])


NO_CASES = (
    "patches were put into a part or a list of datasets, and which case each is of is not told any more, so that they "
    "cannot be divided by cases; put Patches around it: Patches(ConcatDataset(first, second), size)"
)


def split_indices(length: int, *args: Any, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Split ``range(length)`` in two with scikit-learn's ``train_test_split``; arrays of dtype int64."""
    from sklearn.model_selection import train_test_split

    if args:
        raise ConfigError(f"train_test_split takes keywords only, e.g. test_size=0.2; got {args!r}")
    try:
        train, test = train_test_split(np.arange(length), **kwargs)
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
        raise ConfigError(f"train_test_split({given}) cannot divide {length} samples: {error}") from error
    return train, test


def read_labels(dataset: AbstractDataset, key: str) -> np.ndarray:
    """Return ``dataset.labels(key)`` even if a user's dataset keeps an array in an attribute ``labels``."""
    return type(dataset).labels(dataset, key)


def reads_cheaply(dataset: AbstractDataset, key: str) -> bool:
    """Return True if ``dataset.labels(key)`` is known already, or comes without loading the samples."""
    cls, known = type(dataset), vars(dataset).get("_delira_labels", {})
    if key in given_labels(dataset) or key in known or cls.labels is not AbstractDataset.labels:
        return True
    # the class that says how labels are read says what it costs; where it says nothing, it is the user's own way
    reader = next(base for base in reversed(cls.__mro__) if vars(base).get("_read_labels") is cls._read_labels)
    cost = vars(reader).get("_reads_cheaply")
    return cost is None or bool(cost(dataset, key))


def stack_labels(values: Sequence[Any], key: str) -> np.ndarray:
    """Stack one entry of all samples; of no samples there is an empty array."""
    return stack(values, range(len(values)), key) if values else np.empty(0)


def _read_entry(dataset: AbstractDataset, index: int, key: str) -> Any:
    with noting(
        lambda: (
            f"while {name_sample(dataset, index)} was read for its entry {key!r}; after "
            f"set_labels({key!r}, values) no sample is read for it"
        )
    ):
        sample = dataset[index]
    check_mapping(sample, f"sample {index}")
    if key not in sample:
        raise MissingKeyError(
            f"sample {index} has no entry {key!r}; it has {sorted(map(str, sample))}; name one of these as key"
        )
    return sample[key]


def source_of(dataset: AbstractDataset, index: int) -> Any:
    """Return what a sample is loaded from, e.g. a path or a tuple of paths; None if nobody knows."""
    return dataset._source(index)


def name_sample(dataset: AbstractDataset, index: int) -> str:
    """Name a sample for messages: of a subset by its number in the dataset that is looked at, and by file or case."""
    while isinstance(dataset, Subset) and 0 <= index < len(dataset):
        index, dataset = int(dataset.indices[index]), dataset.parent
    try:
        called = dataset._called(index) if 0 <= index < len(dataset) else ""
    except Exception:  # a user's dataset, and this is but a message
        called = ""
    return f"sample {index} of {type(dataset).__name__}{f' ({called})' if called else ''}"


def numbers_of(dataset: object, indices: np.ndarray) -> np.ndarray:
    """Numbers of samples in the dataset of the user, which a subset looks at; for messages."""
    while isinstance(dataset, Subset):
        indices, dataset = dataset.indices[indices], dataset.parent
    return indices


def given_labels(dataset: AbstractDataset) -> dict[str, np.ndarray]:
    """Return what the user set as labels of this very dataset, or of the view that it is a part of, by entry."""
    # not getattr: a subset would answer with the labels of its parent
    own: dict[str, np.ndarray] = vars(dataset).get("_delira_given_labels", {})
    if (above := vars(dataset).get("_delira_above")) is None:
        return own
    view, chosen = above
    return {key: values[chosen] for key, values in given_labels(view).items() if key not in own} | own


def times_set(dataset: AbstractDataset) -> int:
    """How often ``set_labels`` was called, here and on all that the labels are read from; a copy counts on from it."""
    above: tuple[AbstractDataset, ...] = vars(dataset).get("_delira_above", ())
    number: int = vars(dataset).get("_delira_n_set", 0)
    return number + sum(map(times_set, (*dataset._label_parts(), *above[:1])))


def _marks_of(dataset: AbstractDataset, key: str) -> list[Any]:
    """Return what ``set_labels`` gave for an entry, here and in all that the labels are read from."""
    # the arrays themselves: each call of set_labels makes a new one
    marks = [vars(dataset).get("_delira_given_labels", {}).get(key)]
    return marks + [mark for part in dataset._label_parts() for mark in _marks_of(part, key)]


def _check_length(labels: np.ndarray, key: str, dataset: AbstractDataset) -> np.ndarray:
    if labels.ndim == 0 or len(labels) != len(dataset):
        raise DataError(
            f"set_labels({key!r}) was given values of shape {labels.shape}, but the dataset "
            f"({type(dataset).__name__}) has {len(dataset)} samples; give one value for each, in their order"
        )
    return labels
