"""Datasets of datasets, of lists and of torchvision; and all others under their historic import path."""

import bisect
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira.data_loading._exact import common_dtype, from_the_front, to_index
from delira.data_loading._images import check_size, to_channels_first
from delira.data_loading.abstract_dataset import (
    NO_CASES,
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
)
from delira.data_loading.nifti_dataset import Nii3DCacheDataset, Nii3DCacheDatset, Nii3DLazyDataset
from delira.errors import (
    ConfigError,
    DataError,
    MissingBackendError,
    MissingKeyError,
    check_flags,
    check_paths,
    did_you_mean,
    expect,
    import_optional,
)

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
        given = datasets[0] if len(datasets) == 1 and not isinstance(datasets[0], AbstractDataset) else datasets
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
        indices = from_the_front(indices, len(self), self)
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

    def entry_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries of a sample, as its part knows them."""
        part, inner = self._below(index)
        return part.entry_shapes(inner)

    def read_part(
        self, index: int, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return a sample of which entries are cut, as its part reads it."""
        part, inner = self._below(index)
        return part.read_part(inner, parts, keys)

    def whole_cases(self) -> AbstractDataset:
        """Return this dataset; patches in a list cannot be divided by cases any more, and are refused."""
        if any(part.whole_cases() is not part for part in self.data):
            raise ConfigError(NO_CASES)
        return self

    def _case_names(self) -> list[str]:
        return [name for part in self.data for name in part.case_names]

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


_VIEWS = (Subset, ConcatDataset)
"""Datasets whose samples are those of others; not classes of the user's made of them."""


def roots_of(dataset: AbstractDataset) -> Iterator[AbstractDataset]:
    """Yield the datasets that make the samples, below subsets and concatenations."""
    if type(dataset) in _VIEWS:
        for part in dataset._label_parts():
            yield from roots_of(part)
    else:
        yield dataset


def locate(dataset: AbstractDataset, index: int) -> tuple[AbstractDataset, int]:
    """Find the root that makes a sample, and the number of the sample there."""
    while type(dataset) in _VIEWS and (below := dataset._below(index)) is not None:
        dataset, index = below
    return dataset, index


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
        expect(
            ("old_getitem", old_getitem, callable(old_getitem), "a function of (dataset, index)"),
            (
                "data of a BlankDataset",
                data,
                hasattr(data, "__len__") and hasattr(data, "__getitem__"),
                "a list of items",
            ),
        )
        self.data = data
        self.old_getitem = old_getitem
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __getitem__(self, index: int) -> Sample:
        return self.old_getitem(self, index)


_CLASSES = {
    "mnist": "MNIST",
    "emnist": "EMNIST",
    "fashion_mnist": "FashionMNIST",
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
}


class TorchvisionClassificationDataset(AbstractDataset):
    """One of torchvision's classification datasets as arrays.

    A sample is ``{"data": float32 of shape (C, *img_shape), 0 to 1, "label": float32 of shape (1,)}``.

    Parameters
    ----------
    dataset
        ``"mnist"``, ``"emnist"``, ``"fashion_mnist"``, ``"cifar10"`` or ``"cifar100"``, in upper or lower case.
    root
        The folder that holds it; by default the system's for temporary files.
    train
        Whether to take the training part, else the test part.
    download
        Whether it may be fetched from the internet if it is not in ``root``.
    img_shape
        Height and width that the pictures are resized to.
    one_hot
        Whether labels are rows of shape (num_classes,) instead of class numbers.
    **kwargs
        Handed to torchvision's class, e.g. ``split="letters"`` for emnist.

    Attributes
    ----------
    num_classes : int

    Raises
    ------
    MissingKeyError
        If ``dataset`` is unknown.
    DataError
        If it is not in ``root`` and may not be fetched.
    MissingBackendError
        If torchvision is not installed, or does not fit the torch that is.
    """

    def __init__(
        self,
        dataset: str,
        root: str | None = None,
        train: bool = True,
        download: bool = False,
        img_shape: tuple[int, int] = (28, 28),
        one_hot: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(tempfile.gettempdir() if root is None else root)
        check_paths(self, root=self.data_path)
        check_flags(self, train=train, download=download, one_hot=one_hot)
        if (name := str(dataset).lower()) not in _CLASSES:
            raise MissingKeyError(f"there is no dataset {dataset!r}{did_you_mean(name, _CLASSES)}")
        if changed := [key for key in ("transform", "target_transform") if key in kwargs]:
            raise ConfigError(f"{changed[0]} would change what is loaded; pass transforms to the data manager")
        self.train = train
        self.one_hot = one_hot
        self.img_shape = check_size(self, img_shape)
        self.data = self._make_dataset(name, train=train, download=download, **kwargs)
        self.num_classes = len(self.data.classes)

    def _make_dataset(self, path: Any, **kwargs: Any) -> Any:
        root = os.fspath(self.data_path)
        try:
            datasets = import_optional("torchvision.datasets", type(self).__name__, "torchvision")
        except RuntimeError as error:  # operators of another build of torch
            raise MissingBackendError(
                f"{type(self).__name__} needs torchvision, which is installed but does not fit the installed torch "
                f"({error}); install the two together, see pytorch.org"
            ) from error
        try:
            return getattr(datasets, _CLASSES[path])(root, **kwargs)
        except RuntimeError as error:
            raise DataError(f"{path} could not be loaded from {root!r}: {error}; download=True fetches it") from error

    def __getitem__(self, index: int) -> Sample:
        picture, number = self.data[index]
        image = np.asarray(picture)
        n_channels = 1 if image.ndim == 2 else image.shape[-1]
        return {"data": to_channels_first(image, self.img_shape, n_channels), "label": self._to_labels([number])[0]}

    def _read_labels(self, key: str) -> np.ndarray:
        return self._to_labels(self.data.targets) if key == "label" else super()._read_labels(key)

    def _to_labels(self, numbers: object) -> np.ndarray:
        """Turn class numbers, n of them, into labels of shape (n, 1) or (n, num_classes)."""
        classes = np.asarray(numbers, dtype=np.int64)
        if self.one_hot:
            return np.eye(self.num_classes, dtype=np.float32)[classes]
        return classes[:, np.newaxis].astype(np.float32)
