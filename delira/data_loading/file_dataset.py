"""Datasets that load: each time a sample is asked for, or once at construction."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from delira.data_loading._checks import at
from delira.data_loading._content import describe_callable, describe_item
from delira.data_loading._items import list_items, list_pairs, strings_in, with_progress
from delira.data_loading.abstract_dataset import AbstractDataset, LoadFunction, Sample
from delira.errors import ConfigError, DataError, noting
from delira.utils.checks import check_names, check_texts
from delira.utils.path import subdirs


class _LoadingDataset(AbstractDataset):
    """What lazy and cached datasets share: items, a function that loads one, its keywords."""

    def __init__(
        self,
        data_path: object,
        load_fn: LoadFunction | None,
        img_extensions: str | Iterable[str] | None = None,
        gt_extensions: str | Iterable[str] | None = None,
        **load_kwargs: Any,
    ) -> None:
        super().__init__(data_path, load_fn, img_extensions, gt_extensions)
        if not callable(load_fn):
            raise ConfigError(
                f"{type(self).__name__} needs load_fn, a function that turns an item into a sample, got {load_fn!r}"
            )
        self._load_kwargs = load_kwargs
        self.data = self._make_dataset(data_path)

    def _make_dataset(self, path: object) -> list[Any]:
        return self._list(path)

    def _list(self, path: object) -> list[Any]:
        if self._img_extensions is None and not self._gt_extensions:
            return list_items(path)
        return list_pairs(path, self._img_extensions, self._gt_extensions)


class BaseLazyDataset(_LoadingDataset):
    """Loads a sample each time it is asked for.

    Parameters
    ----------
    data_path
        The items, a list or any other iterable; or a directory, whose entries (paths, sorted) are the items.
    load_fn
        Called as ``load_fn(item, **load_kwargs)``; returns a sample.
    img_extensions
        Endings of images, e.g. ``[".png"]`` or ``"nii.gz"``, in upper or lower case. If given, ``data_path`` is a
        directory that is searched with all its folders, and ``load_fn`` is called as
        ``load_fn(image, *ground_truth_files, **load_kwargs)``. Samples are sorted by their path; whatever
        begins with a dot, and files with other endings, are passed over.
    gt_extensions
        Endings of ground truth, which lies next to its image and is called the same up to the ending; one
        image may have several files, handed over in the order of their endings; only the last ones may be missing,
        as files are told by their place. An ending may begin within the name: ``"_t1.nii.gz"`` and
        ``"_seg.nii.gz"``. None or empty: images have none.
    **load_kwargs
        Handed to ``load_fn``.

    Raises
    ------
    ConfigError
        If ``data_path`` is no directory and no iterable, ``load_fn`` cannot be called, or the endings
        contradict each other.
    DataError
        If there is no image, an image has no ground truth or lacks one that is not the last, ground truth has
        no image, or two images have one name.
    """

    def __getitem__(self, index: int) -> Sample:
        return _load(self, at(self.data, index, self), index)

    def _source(self, index: int) -> Any:
        return self.data[index]

    def _content(self) -> Any:
        items = [describe_item(item) for item in self.data]
        return describe_callable(self._load_fn), self._load_kwargs, items


class BaseCacheDataset(_LoadingDataset):
    """Loads all samples at construction and keeps them; parameters as in :class:`BaseLazyDataset`."""

    _keeps_samples = _draws_nothing = True
    _sources: Sequence[Any] = ()
    """What each sample was loaded from; empty if a subclass lists its items itself."""

    def _make_dataset(self, path: object) -> list[Any]:
        items = self._list(path)
        loaded = [self._samples_of(item, index) for index, item in enumerate(with_progress(items))]
        self._sources = [strings_in(item) for item, samples in zip(items, loaded, strict=True) for _ in samples]
        return [sample for samples in loaded for sample in samples]

    def _samples_of(self, item: Any, index: int) -> list[Any]:
        """Load what is made of one item."""
        return [_load(self, item, index)]

    def __getitem__(self, index: int) -> Sample:
        return at(self.data, index, self)

    def _source(self, index: int) -> Any:
        return self._sources[index] if index < len(self._sources) else None

    def _content(self) -> Any:
        return list(self.data)


class BaseExtendCacheDataset(BaseCacheDataset):
    """Loads all samples at construction, several from each item.

    Parameters as in :class:`BaseLazyDataset`, but ``load_fn`` returns an iterable of samples (it may be a
    generator), e.g. the slices of a volume.

    Raises
    ------
    DataError
        If ``load_fn`` returns one sample, or nothing that can be iterated over.
    """

    def _samples_of(self, item: Any, index: int) -> list[Any]:
        loaded = _load(self, item, index)
        if isinstance(loaded, Mapping) or not isinstance(loaded, Iterable):
            raise DataError(
                f"{describe_callable(self._load_fn)} must return a list of samples, but returned a "
                f"{type(loaded).__name__} for item {index}: {item!r}; if it is one sample, use BaseCacheDataset"
            )
        with noting(_loading(self, item, index)):  # of a generator, which has only now begun to run
            return list(loaded)


def _load(dataset: Any, item: Any, index: int) -> Any:
    # a function: BlankDataset borrows __getitem__, but no other method
    is_pair = dataset._img_extensions is not None and isinstance(item, tuple)
    try:
        return dataset._load_fn(*(item if is_pair else (item,)), **dataset._load_kwargs)
    except Exception as error:
        error.add_note(_loading(dataset, item, index))
        raise


def _loading(dataset: Any, item: Any, index: int) -> str:
    return f"while {describe_callable(dataset._load_fn)} loaded item {index}: {item!r}"


class _CaseDataset(_LoadingDataset):
    """What both share: how the files of a case are found."""

    def __init__(
        self,
        data_path: object,
        load_fn: LoadFunction,
        img_files: str | Iterable[str],
        label_file: str,
        **load_kwargs: Any,
    ) -> None:
        warnings.warn(
            f"{type(self).__name__} is deprecated; use BaseLazyDataset or BaseCacheDataset with a LoadSampleLabel "
            "whose sample_fn is load_nii",
            DeprecationWarning,
            stacklevel=2,
        )
        check_names(type(self).__name__, img_files=img_files)
        check_texts(type(self).__name__, label_file=label_file)
        self._names = [img_files] if isinstance(img_files, str) else list(img_files), label_file
        if not self._names[0] or not all(self._names[0]):
            raise ConfigError(f"{type(self).__name__}: img_files must name the volumes of a case, got {img_files!r}")
        super().__init__(data_path, load_fn, **load_kwargs)

    def _list(self, path: object) -> list[Any]:
        return _list_cases(path, *self._names)


class Nii3DLazyDataset(_CaseDataset, BaseLazyDataset):
    """Loads a case each time it is asked for. Deprecated.

    ``BaseLazyDataset(data_path, LoadSampleLabel({"data": img_files}, load_nii, label_file, label_fn))`` does
    the same with any kind of file.

    Parameters
    ----------
    data_path
        A directory with one folder for each case.
    load_fn
        Called as ``load_fn({"img": [paths], "label": path}, **load_kwargs)``, e.g. ``load_sample_nii``.
    img_files
        Names of the volumes, the same in each folder.
    label_file
        Name of the file with the labels.
    **load_kwargs
        Handed to ``load_fn``.

    Raises
    ------
    ConfigError
        If ``data_path`` is no directory or has no folders.
    DataError
        If a file is missing; names it.
    """


class Nii3DCacheDataset(_CaseDataset, BaseCacheDataset):
    """Loads all cases at construction. Deprecated.

    ``BaseCacheDataset`` with :class:`LoadSampleLabel` does the same with any kind of file.

    Parameters
    ----------
    data_path, load_fn, img_files, label_file, **load_kwargs
        As in :class:`Nii3DLazyDataset`.
    """


Nii3DCacheDatset = Nii3DCacheDataset
"""The name as it was spelt."""


def _list_cases(path: object, img_files: list[str], label_file: str) -> list[Any]:
    if not isinstance(path, (str, os.PathLike)) or not os.path.isdir(path):
        raise ConfigError(f"data_path={path!r} is no directory; pass one with a folder for each case")
    cases: list[dict[str, Any]] = [
        {"img": [os.path.join(folder, name) for name in img_files], "label": os.path.join(folder, label_file)}
        for folder in subdirs(os.fspath(path))
    ]
    if not cases:
        raise ConfigError(f"data_path={os.fspath(path)!r} has no folders; it needs one for each case")
    missing = [file for case in cases for file in (*case["img"], case["label"]) if not os.path.isfile(file)]
    if missing:
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise DataError(f"these files are missing: {', '.join(missing[:10])}{more}")
    return cases
