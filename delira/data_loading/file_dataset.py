"""Datasets that load: each time a sample is asked for, or once at construction."""

import collections
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from delira.data_loading._content import describe_callable, describe_item, strings_in, with_progress
from delira.data_loading._exact import at
from delira.data_loading.abstract_dataset import AbstractDataset, LoadFunction, Sample
from delira.errors import ConfigError, DataError, noting

#: images that are called the same up to the ending, and ground truth, by the position of its ending
_Group = tuple[list[str], dict[int, list[str]]]
_SHOWN = 10  # files or endings named in one message


class LoadingDataset(AbstractDataset):
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


class BaseLazyDataset(LoadingDataset):
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

    def entry_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries of a sample, which is loaded for it unless ``load_fn`` knows them."""
        if not self._reads_parts():
            return super().entry_shapes(index)
        item = at(self.data, index, self)
        with noting(lambda: _loading(self, item, index)):
            return self._load_fn.entry_shapes(item)  # type: ignore[union-attr]

    def read_part(
        self, index: int, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return a sample of which entries are cut; it is loaded as a whole unless ``load_fn`` has a ``read_part``.

        That is called as ``load_fn.read_part(item, parts, keys)``, beside ``load_fn.entry_shapes(item)``, as those of
        :class:`~delira.data_loading.LoadSample` are.
        """
        if not self._reads_parts():
            return super().read_part(index, parts, keys)
        item = at(self.data, index, self)
        with noting(lambda: _loading(self, item, index)):
            return self._load_fn.read_part(item, parts, keys)  # type: ignore[union-attr, no-any-return]

    def _reads_parts(self) -> bool:
        """Return True if ``load_fn`` reads parts: as it is called, not as a class that it was derived from was."""
        is_pair = self._img_extensions is not None
        cls = type(self._load_fn)
        newest = next((base for base in cls.__mro__ if {"read_part", "__call__"} & vars(base).keys()), cls)
        return not (self._load_kwargs or is_pair) and "read_part" in vars(newest)

    def _source(self, index: int) -> Any:
        return self.data[index]

    def _content(self) -> Any:
        return describe_callable(self._load_fn), self._load_kwargs, [describe_item(item) for item in self.data]


class BaseCacheDataset(LoadingDataset):
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
    try:  # a scope of noting would cost each sample a microsecond
        return dataset._load_fn(*(item if is_pair else (item,)), **dataset._load_kwargs)
    except Exception as error:
        error.add_note(_loading(dataset, item, index))
        raise


def _loading(dataset: Any, item: Any, index: int) -> str:
    return f"while {describe_callable(dataset._load_fn)} loaded item {index}: {item!r}"


# ------------------------------------------------------------------ what they load from: a directory, or a list


def list_items(path: object) -> list[Any]:
    """List the entries of a directory in sorted order, or the items of an iterable.

    Raises
    ------
    ConfigError
        If ``path`` is neither a directory nor an iterable of items.
    """
    if isinstance(path, (str, os.PathLike)):
        _check_directory(path)
        # sorted: the order of os.listdir differs from machine to machine
        return [os.path.join(path, name) for name in sorted(os.listdir(path))]
    if isinstance(path, Mapping) or not isinstance(path, Iterable):
        raise ConfigError(
            f"data_path must be a directory or a list of items to load, got a {type(path).__name__}; "
            "a dict of arrays goes into DictDataset"
        )
    return list(path)


def list_pairs(path: object, img_extensions: object, gt_extensions: object) -> list[Any]:
    """Search a directory for images, and pair each with its ground truth; parameters as in ``BaseLazyDataset``.

    Returns
    -------
    list of str, or of tuple of str
        Images, sorted by path; with ``gt_extensions`` tuples of an image and its ground truth, in the order
        of ``gt_extensions``.

    Raises
    ------
    ConfigError
        If ``path`` is no directory, or the endings contradict each other.
    DataError
        If there is no image, or what is there does not pair.
    """
    images_end = to_endings(img_extensions, "img_extensions")
    truths_end = to_endings(gt_extensions, "gt_extensions") if gt_extensions else []
    if both := [ending for ending in images_end if ending in truths_end]:
        raise ConfigError(f"{both} cannot be endings of images and of ground truth at once")
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(
            f"with img_extensions data_path must be a directory to search, got a {type(path).__name__}; "
            "a list of items needs no extensions"
        )
    _check_directory(path)
    found: dict[str, _Group] = {}
    others: collections.Counter[str] = collections.Counter()
    for file in _walk(path):
        if (ending := ending_of(file, images_end + truths_end)) is None:
            others[os.path.splitext(file)[1].lower() or "no ending"] += 1
            continue
        images, truths = found.setdefault(file[: -len(ending)], ([], collections.defaultdict(list)))
        (images if ending in images_end else truths[truths_end.index(ending)]).append(file)
    if not any(images for images, _ in found.values()):
        seen = ", ".join(f"{ending} ({count})" for ending, count in others.most_common(_SHOWN)) or "none"
        raise DataError(
            f"no file below {os.fspath(path)!r} ends in {' or '.join(images_end)}; other files there: {seen}"
        )
    # sorted by folder and name, a folder's files stay together on every system
    return _pair(
        os.fspath(path), [found[stem] for stem in sorted(found, key=lambda stem: stem.split(os.sep))], truths_end
    )


def _pair(path: str, groups: list[_Group], truths_end: list[str]) -> list[Any]:
    items: list[Any] = []
    wrong: list[str] = []
    kinds = sorted({position for _, truths in groups for position in truths})
    for images, by_kind in groups:
        truths = [file for kind in sorted(by_kind) for file in by_kind[kind]]
        if not images:
            wrong.append(f"{truths[0]} has no image")
        elif len(images) > 1:
            wrong.append(f"{' and '.join(images)} are images of the same name")
        elif truths_end and not truths:
            wrong.append(f"{images[0]} has no ground truth")
        elif lacking := [truths_end[kind] for kind in kinds if kind not in by_kind and kind < max(by_kind)]:
            # load_fn tells them by their place: the next kind would be taken for the one that is missing
            wrong.append(f"{images[0]} has {truths[0]} but no {' or '.join(lacking)}, which others have")
        elif len(truths) > len(by_kind):
            wrong.append(f"{' and '.join(truths)} are ground truth of one name and ending")
        else:
            items.append((images[0], *truths) if truths_end else images[0])
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataError(
            f"images and ground truth below {path!r} do not pair: {'; '.join(wrong[:_SHOWN])}{more}; "
            "ground truth lies next to its image and is called the same up to the ending"
        )
    return items


def to_endings(extensions: Any, name: str) -> list[str]:
    """Return endings of files in lower case, ``name`` being the argument that lists them."""
    is_list = isinstance(extensions, Iterable) and not isinstance(extensions, (str, bytes))
    given = list(extensions) if is_list else [extensions]
    if not given or not all(isinstance(ending, str) and ending.strip(".") for ending in given):
        raise ConfigError(f"{name} must list endings of files, e.g. ['.png', '.nii.gz'], got {extensions!r}")
    # "png" is meant as ".png"; "_seg.nii.gz" is meant as it stands
    return [(f".{ending}" if ending[0].isalnum() else ending).lower() for ending in given]


def ending_of(file: str, endings: list[str]) -> str | None:
    """Return the longest ending that a file has; None if it has none of them."""
    name = os.path.basename(file).lower()
    # a.nii.gz is called "a", whether or not ".gz" is an ending too
    fitting = [ending for ending in endings if name.endswith(ending) and len(name) > len(ending)]
    return max(fitting, key=len, default=None)


def _walk(path: Any) -> Iterator[str]:
    """Yield the files below a directory, hidden ones left out; links to folders are followed, each folder once."""
    visited = set()
    for folder, subfolders, names in os.walk(path, onerror=_raise, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:  # a link back up would never end
            subfolders.clear()
            continue
        visited.add(real)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (os.path.join(folder, name) for name in sorted(names) if not name.startswith("."))


def _raise(error: OSError) -> None:
    raise error


def _check_directory(path: Any) -> None:
    if not os.path.isdir(path):
        raise ConfigError(f"data_path={os.fspath(path)!r} is no directory; pass a directory or a list of items to load")
