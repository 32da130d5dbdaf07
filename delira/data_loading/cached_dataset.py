"""Preprocess once: samples as they come out, kept on disk and shared by all processes."""

import contextlib
import dataclasses
import hashlib
import json
import mmap
import os
import struct
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import _cache_key, _content, _exact, abstract_dataset
from delira.data_loading.abstract_dataset import AbstractDataset, Subset, name_sample
from delira.data_loading.array_dataset import DictDataset, WrappedDataset, as_dataset, labels_at_hand
from delira.data_loading.dataset import locate, roots_of
from delira.data_loading.mapped_dataset import MappedDataset
from delira.errors import ConfigError, DataError, MissingKeyError, check_paths, noting
from delira.utils.files import publish
from delira.utils.seeding import derive, seeded_globals

_MAGIC = b"delira sample 1\n"
_PREAMBLE = struct.Struct("<16s32sQ8x")  # magic, sha256 of the header, length of the header
_ALIGNMENT = 64  # bytes; arrays that begin at odd addresses are slow
_KINDS = "biufcmMSU"  # numbers, times and strings: their bytes are their values
_MAPPED_FROM = 2**20
"""Files of so many bytes are mapped. A mapping costs a file descriptor as long as an array of it lives, and
a process may have 65,530 of them, so small files are read."""

Stamp = tuple[int, int, int]
_PATIENCE = 60.0  # seconds to wait for another process that makes the same sample


# ------------------------------------------------------------------ each sample in a file that can run no code


class DamagedEntryError(Exception):
    """A file is not what was written; says what is wrong with it."""


def pack(sample: object, index: int, content: str, read: Mapping[str, str] | None = None) -> list[bytes | memoryview]:
    """Turn a sample into the pieces of a file, to be written one behind the other.

    Parameters
    ----------
    sample
        A mapping of arrays, tensors, numbers, strings and such mappings.
    index
        Its number in the dataset, for messages.
    content
        What tells the files that the sample was made from, as they are now, from others.
    read
        Further files that were read for it, and what tells each from others.

    Raises
    ------
    DataError
        If an entry is None or an array of objects, or has a name that is no string.
    """
    _exact.check_mapping(sample, f"sample {index}")
    pieces: list[bytes | memoryview] = []
    size = 0

    def add(value: object, name: str) -> Any:
        nonlocal size
        if isinstance(value, Mapping):
            return {_check_name(key, name, index): add(inner, f"{name}/{key}") for key, inner in value.items()}
        array = _to_array(value, name[1:], index)
        bytes_of = _bytes_of(array)
        start, size = size, size + array.nbytes + -array.nbytes % _ALIGNMENT
        pieces.extend((bytes_of, bytes(size - start - array.nbytes)))
        return [array.dtype.str, list(array.shape), start, hashlib.sha256(bytes_of).hexdigest()]

    header = json.dumps(
        {"content": content, "entries": add(sample, ""), "read": dict(read or {}), "size": size}
    ).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return [_PREAMBLE.pack(_MAGIC, hashlib.sha256(header).digest(), len(header)), header, *pieces]


@dataclasses.dataclass(frozen=True)
class Entry:
    """An opened file."""

    content: str
    """As given to :func:`pack`."""
    read: Mapping[str, str]
    """As given to :func:`pack`."""
    stamp: Stamp
    """Inode, size in bytes and time of the last change (ns) of the file: other if it was written again."""
    _entries: Mapping[str, Any]
    _values: memoryview
    """The part behind the header, in memory or mapped; changes of it do not reach the file."""

    def sample(self, entries: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the sample, its leaves arrays that may be written to; or what ``entries``, a part of it, stand for."""
        return {
            key: self.sample(value) if isinstance(value, Mapping) else self._leaf(value)
            for key, value in (self._entries if entries is None else entries).items()
        }

    def array(self, key: str, index: int) -> np.ndarray:
        """Return a copy of one entry after having checked its checksum; ``index`` is for messages.

        Raises
        ------
        MissingKeyError
            If there is no such entry.
        DamagedEntryError
            If it is not what was written.
        """
        if key not in self._entries:
            raise MissingKeyError(
                f"sample {index} has no entry {key!r}; it has {sorted(self._entries)}; name one of these as key"
            )
        if isinstance(self._entries[key], Mapping):
            raise DataError(f"entry {key!r} of sample {index} is a dict; name an entry that is an array")
        self.check({key: self._entries[key]})
        return self._leaf(self._entries[key]).copy()  # does not keep the whole file

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries that are no dicts."""
        return {key: tuple(leaf[1]) for key, leaf in self._entries.items() if not isinstance(leaf, Mapping)}

    def part(self, parts: Mapping[str, Any], keys: Iterable[str] | None, index: int) -> dict[str, Any]:
        """Return entries of the sample, of which some are cut; as ``AbstractDataset.read_part``."""
        return abstract_dataset.cut_sample(self.sample(), parts, keys, index)  # leaves are views of what is mapped

    def check(self, entries: Mapping[str, Any] | None = None, path: str = "") -> None:
        """Compare all entries, or those of a part whose names begin with ``path``, with their checksums.

        Raises
        ------
        DamagedEntryError
            If one is not what was written.
        """
        for key, value in (self._entries if entries is None else entries).items():
            if isinstance(value, Mapping):
                self.check(value, f"{path}{key}/")
            elif hashlib.sha256(_bytes_of(self._leaf(value))).hexdigest() != value[3]:
                raise DamagedEntryError(f"the checksum of entry {path + key!r} is wrong")

    def _leaf(self, leaf: Any) -> np.ndarray:
        dtype, shape, start, _ = leaf
        return np.ndarray(shape, dtype, self._values, start)


def open_entry(path: Path) -> Entry:
    """Open a file; only its header is checked.

    Raises
    ------
    FileNotFoundError
        If there is none.
    DamagedEntryError
        If the header is not what was written, or the length does not fit to it.
    """
    with open(path, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if status.st_size < _MAPPED_FROM:
            return _unpack(bytearray(file.read()), stamp)
        # a private mapping: who writes to an array changes a copy of its page
        return _unpack(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), stamp)


def _unpack(buffer: Any, stamp: Stamp) -> Entry:
    if len(buffer) < _PREAMBLE.size:
        raise DamagedEntryError(f"it ends after {len(buffer)} bytes")
    magic, checksum, length = _PREAMBLE.unpack_from(buffer)
    values = memoryview(buffer)[_PREAMBLE.size :]
    if magic != _MAGIC or hashlib.sha256(values[:length]).digest() != checksum:
        raise DamagedEntryError("its header is damaged")
    header = json.loads(bytes(values[:length]))
    if len(values) != length + header["size"]:
        raise DamagedEntryError(f"it has {len(buffer)} bytes instead of {_PREAMBLE.size + length + header['size']}")
    return Entry(header["content"], header["read"], stamp, header["entries"], values[length:])


def _bytes_of(array: np.ndarray) -> memoryview | bytes:
    return array.reshape(-1).view(np.uint8).data if array.nbytes else b""


def _check_name(key: object, name: str, index: int) -> str:
    if not isinstance(key, str):
        where = f"entry {name[1:]!r} of sample {index}" if name else f"sample {index}"
        raise DataError(f"{where} has an entry named {key!r}; a cached sample needs names that are strings")
    return key


def _to_array(value: object, name: str, index: int) -> np.ndarray:
    with noting(f"while entry {name!r} of sample {index} was turned into an array, to be cached"):
        array = np.asarray(_exact.as_array(value), order="C")
    if array.dtype.kind not in _KINDS:
        got = "None" if value is None else f"a {type(value).__name__}"
        got += f" of dtype {array.dtype}" if hasattr(value, "dtype") else ""
        raise DataError(
            f"entry {name!r} of sample {index} is {got}, which cannot be cached; "
            "make it an array of numbers or strings, or leave it out"
        )
    return array


# ------------------------------------------------------------------ the dataset


class CachedDataset(AbstractDataset):
    """Keeps each sample of another dataset on disk, as it came out the first time it was asked for.

    Folds, worker processes and runs at once may share a folder: one of them makes a sample, the others read it.
    A sample is made again if a file that it was loaded from has other content, or if the code or a parameter
    of the preprocessing has changed; one that is damaged on disk is made again with a warning. Files are looked
    at, and checksums compared, when a process reads a sample for the first time.

    Parameters
    ----------
    dataset
        What loads and preprocesses; its samples are arrays, numbers, strings and dicts of these.
    path
        The folder; made if it is not there. It may serve several datasets.
    version
        Any value that is changed by hand to have all samples made again, where a change cannot be seen.
    hash_funcs
        ``{type: function}`` for objects whose content cannot be told: the function takes one and returns what tells
        it from others (numbers, texts, arrays). ``None`` instead of a function: it makes no difference to samples.

    Notes
    -----
    What is drawn at random is drawn once: put augmentation into the data manager's ``transforms``.

    Seen as code are ``load_fn`` or the dataset's class, and the functions, classes and global values that these
    name, with defaults, closures and attributes; in your own modules also what is called as ``module.function``,
    and modules that a function imports, found on ``sys.path``; another release of Python counts as other code.
    Objects of other libraries (a fitted scaler, a tree, a data frame) count with all that they hold, and what cannot
    be told is refused. A sample that may look at other items of ``dataset.data`` is made again when any of these, or
    a file that it names, has changed: write ``self.data[index]`` in ``__getitem__`` and hand nothing the dataset
    itself, and its own item alone counts.

    Files that a sample opens while it is made count too, whoever names them: its neighbours, an atlas. Where a
    library opens them past Python (SimpleITK, h5py, OpenCV) or a function keeps what it has read, name them in the
    item or as a parameter.

    Not seen are changes inside installed packages, in modules that are reached otherwise (an attribute of an object,
    ``importlib``), and in what ``load_array`` reads at a URL; of a ``MappedDataset`` there they are. Generators of
    random numbers count with the seed they were given. A transform that keeps what it saw when it was called counts
    as changed afterwards, so make it anew for another dataset.

    All entries come back as arrays that may be written to, numbers and strings with no dimension. Samples of
    1 MiB and more are mapped: of an array of which a part is used, only this part is read once it was checked.

    Raises
    ------
    ConfigError
        If ``path`` cannot be a folder, ``dataset`` is cached already, or samples are made with an object whose
        content cannot be told, or of an array at a URL of which the store says the size alone; names it.

    Examples
    --------
    >>> from delira.data_loading import BaseLazyDataset
    >>> def load_and_scale(number, factor):
    ...     return {"data": np.full(2, number * factor)}
    >>> cached = CachedDataset(BaseLazyDataset([1, 2, 3], load_and_scale, factor=0.5), "cache")
    >>> cached.build()  # or leave it to the first epoch
    >>> cached[2]["data"]
    array([1.5, 1.5])
    """

    def __init__(
        self,
        dataset: object,
        path: str | os.PathLike[str],
        *,
        version: object = None,
        hash_funcs: _content.HashFunctions | None = None,
    ) -> None:
        super().__init__()
        check_paths(self, path=path)
        self.dataset = as_dataset(dataset)
        roots = list(roots_of(self.dataset))
        if any(isinstance(root, CachedDataset) for root in roots):
            raise ConfigError("the dataset is a CachedDataset already; cache what it keeps, or nothing")
        if any(root.whole_cases() is not root for root in roots):
            raise ConfigError(
                "patches are drawn anew in each epoch, and a CachedDataset would keep the first ones; cache the cases: "
                "Patches(CachedDataset(cases, path), size)"
            )
        self.path = Path(os.path.abspath(path))  # another process may have another working directory
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"path={str(self.path)!r} cannot be the folder of a CachedDataset ({error.strerror}); "
                "choose another path"
            ) from error
        self._hash_funcs = _content.check_hash_functions(hash_funcs or {})
        self._roots = [(root, _cache_key.preprocessing_key(root, version, self._hash_funcs)) for root in roots]
        self._hashes = _content.SourceHashes(self.path / "sources.jsonl")
        self._checked: dict[int, tuple[Path, Stamp]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_checked": {}}

    _draws_nothing = True

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._entry(index).sample()

    def entry_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries of a sample; only its file's header is read, once it was checked."""
        return self._entry(index).shapes()

    def read_part(
        self, index: int, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return a sample of which entries are cut; of a mapped sample only the part is read, once it was checked."""
        return self._entry(index).part(parts, keys, index)

    def build(self, *, progress: bool = True) -> None:
        """Make all samples that are not there yet; several processes may share the work.

        Parameters
        ----------
        progress
            Whether to show a bar, if there is a terminal to show it on.
        """
        numbers = list(range(len(self)))
        others: list[_Place] = []
        for index in _content.with_progress(numbers) if progress else numbers:
            place = self._place(index)
            if self._find(place, check=False)[0] is None and self._make(place, patience=0) is None:
                others.append(place)
        for place in others:
            self._make(place, _PATIENCE)

    def prune(self) -> int:
        """Remove what is in the folder and not of this dataset, as it is now; returns the number of files.

        Samples of removed items and of earlier preprocessing stay until then. Other datasets that share the
        folder lose theirs, so call it when nobody else works with it.
        """
        own = {self._place(index).file for index in range(len(self))}
        digit = "[0-9a-f]"
        found = self.path.glob(f"{digit * 16}/{digit * 2}/{digit * 30}.*")  # locks of processes that were killed too
        foreign = [file for file in found if file not in own]
        for file in foreign:
            file.unlink(missing_ok=True)
        return len(foreign)

    def _below(self, index: int) -> tuple[AbstractDataset, int]:
        return self.dataset, index

    def _case_names(self) -> list[str]:
        return self.dataset.case_names

    def _files(self) -> list[str]:
        return self.dataset._files()

    def _content(self) -> Any:
        return self.dataset.fingerprint(), [key for _, key in self._roots]

    def _label_parts(self) -> tuple[AbstractDataset, ...]:
        return (self.dataset,)

    def _read_labels(self, key: str) -> np.ndarray:
        if (labels := _cheap_labels(self.dataset, key)) is not None:
            return labels
        return abstract_dataset.stack_labels([self._label(index, key) for index in range(len(self))], key)

    def _reads_cheaply(self, key: str) -> bool:
        return abstract_dataset.reads_cheaply(self.dataset, key)

    def _label(self, index: int, key: str) -> np.ndarray:
        try:
            return self._entry(index, check=False).array(key, index)  # does not read the rest
        except DamagedEntryError:
            self._checked.pop(index, None)
            return self._entry(index).array(key, index)

    def _entry(self, index: int, check: bool = True) -> Entry:
        number = _exact.to_index(index, len(self), self)
        if (known := self._checked.get(number)) is not None:
            with contextlib.suppress(FileNotFoundError, DamagedEntryError):
                entry = open_entry(known[0])
                if entry.stamp == known[1]:
                    return entry
        place = self._place(number)
        found = self._find(place, check)[0] or self._make(place, _PATIENCE)
        if check:
            self._checked[number] = (place.file, found.stamp)
        return found

    def _place(self, index: int) -> "_Place":
        root, inner = locate(self.dataset, index)
        name, files = _cache_key.sample_key(root, inner, self._hash_funcs)
        key = next(key for known, key in self._roots if known is root)
        file = self.path / key / name[:2] / f"{name[2:]}.sample"
        return _Place(index, file, self._hashes.content_of(files), frozenset(map(os.path.abspath, files)))

    def _find(self, place: "_Place", check: bool) -> tuple[Entry | None, str]:
        """Return an entry, None if it is stale, missing or damaged; and what is damaged."""
        try:
            entry = open_entry(place.file)
            if entry.content != place.content or not self._are_as_read(entry.read):
                return None, ""
            if check:
                entry.check()
        except FileNotFoundError:
            return None, ""
        except DamagedEntryError as error:
            return None, str(error)
        return entry, ""

    def _are_as_read(self, read: Mapping[str, str]) -> bool:
        """Return True if files that a sample was made from, and that are not named by its item, are what they were."""
        try:
            return not read or self._hashes.stamps_of(read) == read
        except OSError:
            return False

    def _make(self, place: "_Place", patience: float) -> Any:
        """Make an entry, unless another process is faster; with ``patience`` of 0 None, as it is left to that one."""
        from filelock import FileLock, Timeout

        lock = FileLock(place.lock)  # the system frees it when its holder dies
        with _writing(place):
            place.file.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=patience)
        if not lock.is_locked and not patience:
            return None
        if not lock.is_locked:
            warnings.warn(
                f"another process has held {place.lock} for {patience:g} seconds; sample {place.index} is made in "
                "this process as well. Is that process slow, or stopped?",
                stacklevel=2,
            )
        try:
            entry, damage = self._find(place, check=True)
            if damage:
                warnings.warn(f"{place.file} is damaged: {damage}; the sample is made again", stacklevel=2)
            entry = entry or self._write(place)
            if lock.is_locked:
                with contextlib.suppress(OSError):
                    place.lock.unlink()  # who waits for it, or locks a new one, finds the entry
            return entry
        finally:
            lock.release()

    def _write(self, place: "_Place") -> Entry:
        # whoever makes it, the same is drawn; and the caller's generators stay as they are
        with seeded_globals(derive(0, int(place.file.stem[:8], 16), stream="cache")):
            opened: list[str] = []
            with (
                noting(lambda: f"while {name_sample(self.dataset, place.index)} was made for the cache in {self.path}"),
                _content.opened_files(opened),
            ):
                sample = self.dataset[place.index]
        others = (path for path in opened if path not in place.files and not path.startswith(f"{self.path}{os.sep}"))
        pieces = pack(sample, place.index, place.content, self._hashes.stamps_of(others))
        with _writing(place):
            publish(place.file, lambda file: file.writelines(pieces), durable=False)
            return open_entry(place.file)


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a sample is kept."""

    index: int
    file: Path
    content: str
    """What tells the files that it is made from, as they are now, from others."""
    files: frozenset[str]
    """These files."""

    @property
    def lock(self) -> Path:
        return self.file.with_suffix(".lock")


def _writing(place: _Place) -> noting:
    text = (
        f"while sample {place.index} was written to {place.file}; "
        "see to it that there is space and that the folder is writable, or choose another path"
    )
    return noting(text, OSError)


def _cheap_labels(dataset: AbstractDataset, key: str) -> np.ndarray | None:
    """Return an entry of all samples if the dataset knows it without making them."""
    cls = type(dataset)
    if key in abstract_dataset.given_labels(dataset):
        return abstract_dataset.read_labels(dataset, key)
    if type(dataset) is Subset:
        labels = _cheap_labels(dataset.parent, key)
        return None if labels is None else labels[dataset.indices]
    if isinstance(dataset, WrappedDataset) and cls._read_labels is WrappedDataset._read_labels:
        return labels_at_hand(dataset, key)
    if cls._read_labels in (DictDataset._read_labels, MappedDataset._read_labels) and key in dataset.data:
        return abstract_dataset.read_labels(dataset, key)
    return None
