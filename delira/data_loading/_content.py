"""What tells contents from others: fingerprints, the files that items name, and what objects consist of."""

import contextlib
import copyreg
import functools
import hashlib
import io
import itertools
import json
import logging
import os
import random
import sys
import threading
import time
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.utils import frameworks, references, user_code
from delira.utils.urls import shown

_CHUNK = 2**24  # bytes hashed at once, so that memory-mapped arrays need not fit into memory
HashFunctions = Mapping[type, Callable[[Any], Any] | None]

_NOTHING_IN_IT = (type(threading.Lock()), type(threading.RLock()), threading.local, logging.Handler)
"""What two of them hold makes no difference to a sample."""
ARRAYS = frameworks.LIBRARIES | {"zarr", "h5py"}
"""Packages of arrays of which the values are all there is."""
_GENERATORS = ("Generator", "RandomState", "BitGenerator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_ADDRESSES = ("KDTree", "cKDTree")
"""Classes of scipy whose pickled state has addresses in memory; they follow from their arguments."""
_LARGE = 2**28  # bytes; reading a mapped file of a terabyte would take hours
_SETTLED = 2 * 10**9  # ns; a file changed twice within one tick of the clock would look unchanged
_NOT_DATA = (".py", ".pyc", ".so", ".pyd", ".dll")
_SYSTEM = ("/proc/", "/dev/", "/sys/", "/etc/", "/usr/", "/lib")
_recording = threading.local()


def fingerprint_of(content: object) -> str:
    """Return the sha256 (hex) of a tree of mappings, lists, arrays and plain values."""
    digest = hashlib.sha256()
    _add(digest, content)
    return digest.hexdigest()


def describe_callable(function: object) -> str:
    """Name a function so that moving it to another module does not change the name."""
    return str(getattr(function, "__qualname__", None) or references.strip_addresses(repr(function)))


def _add(digest: Any, value: Any) -> None:
    # each value starts with its type and length: ["ab"] and ["a", "b"] must differ
    if isinstance(value, Mapping):
        digest.update(b"mapping %d;" % len(value))
        _add_each(digest, (part for key in sorted(value, key=repr) for part in (key, value[key])))
    elif isinstance(value, (set, frozenset)):  # their order differs from process to process
        digest.update(b"set %d;%s" % (len(value), "".join(sorted(map(fingerprint_of, value))).encode()))
    elif isinstance(value, (list, tuple)):
        digest.update(b"sequence %d;" % len(value))
        _add_each(digest, value)
    elif isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        _add_array(digest, np.asarray(value))
    else:
        text = f"{type(value).__name__} {references.strip_addresses(repr(value))}".encode()
        digest.update(b"value %d;%s" % (len(text), text))


def _add_each(digest: Any, values: Iterable[Any]) -> None:
    for value in values:
        _add(digest, value)


def _add_array(digest: Any, array: np.ndarray) -> None:
    digest.update(f"array {array.dtype.str} {array.shape};".encode())
    if array.dtype.hasobject or array.dtype.kind == "T":  # the bytes are addresses
        _add_each(digest, array.reshape(-1).tolist())
        return
    rows = array if array.ndim else array.reshape(1)
    step = max(1, _CHUNK * len(rows) // max(1, rows.nbytes))
    for start in range(0, len(rows), step):
        chunk = np.ascontiguousarray(rows[start : start + step])
        digest.update(chunk.reshape(-1).view(np.uint8).data)


# ------------------------------------------------------------------ items that samples are loaded from


def describe_item(item: object) -> tuple[Any, ...]:
    """Describe what a lazy dataset loads from: the item, and the size of the file or files it names.

    Tuples, lists and dicts of items are described one by one. Modification times are left out, because a
    copy of the data is the same data.
    """
    if isinstance(item, Mapping):
        return tuple((key, *describe_item(value)) for key, value in item.items())
    if isinstance(item, (list, tuple)):
        return tuple(map(describe_item, item))
    if not isinstance(item, (str, os.PathLike)) or not os.path.exists(item):
        return (item,)
    if os.path.isdir(item):
        with os.scandir(os.fspath(item)) as entries:
            return (item, sorted((entry.name, entry.stat().st_size) for entry in entries if entry.is_file()))
    return (item, os.path.getsize(item))


def strings_in(item: object) -> dict[tuple[Any, ...], str]:
    """Find strings and paths in an item: where in its tuples, lists and dicts they are -> what they are."""
    if isinstance(item, (str, os.PathLike)):  # first of all: a path may be a tuple, too
        return {(): os.fsdecode(item)}
    inner = item.items() if isinstance(item, Mapping) else enumerate(item) if isinstance(item, (list, tuple)) else ()
    return {(place, *rest): text for place, value in inner for rest, text in strings_in(value).items()}


#: entries that say whose a sample is, or where it comes from
CASES = (
    "case", "case_id", "file", "filename", "file_name", "path", "patient", "patient_id", "subject", "subject_id",
    "name", "id",
)  # fmt: skip


def case_in(entries: Mapping[str, Any], index: int | None = None) -> str:
    """Return what entries say of the case that a sample is of, e.g. ``"patient 'P07'"``; empty if they do not.

    Parameters
    ----------
    entries
        Of a sample.
    index
        Which sample, if they are those of all samples.
    """
    for key in CASES:
        value = entries.get(key)
        if value is not None and index is not None:
            value = value[index]
        value = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.shape == () else value
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return f"{key} {value!r}"
    return ""


def paths_of(items: Iterable[Any]) -> list[str]:
    """Return the paths among the strings in ``items``, each once.

    Items may be names, and pairs may hold a path and the name of a class. So the strings at one place of
    all items are taken for paths if one of them is absolute or exists.
    """
    by_place: dict[tuple[Any, ...], dict[str, None]] = {}
    for item in items:
        for place, text in strings_in(item).items():
            by_place.setdefault(place, {})[text] = None
    are_paths = (
        texts for texts in by_place.values() if any(os.path.isabs(text) or os.path.exists(text) for text in texts)
    )
    return list(dict.fromkeys(itertools.chain.from_iterable(are_paths)))


def names_of(sources: Sequence[Any], called: Callable[[int], str]) -> list[str]:
    """Name samples after their files, so that no two have one name as long as their paths differ.

    Parameters
    ----------
    sources
        What each sample is loaded from, e.g. a path or a tuple of paths; None if nobody knows.
    called
        Says what the sample of a number is called, where it comes from no file.
    """
    paths = [_first_path(source) for source in sources]
    names = [path and stem_of(path) for path in paths]
    for depth in range(1, max((path.count(os.sep) for path in paths if path), default=0) + 1):
        counts = Counter(names)
        if not (again := [place for place, name in enumerate(names) if name and counts[name] > 1]):
            break
        for place in again:
            folders = os.path.dirname(str(paths[place])).split(os.sep)[-depth:]
            names[place] = "/".join([*folders, stem_of(str(paths[place]))])
    return [name or _as_name(called(place)) or str(place) for place, name in enumerate(names)]


def _as_name(called: str) -> str:
    """Make a name of what :func:`case_in` says, or of a path."""
    key, _, value = called.partition(" ")
    return value.strip("'") if key in CASES else stem_of(called)


def _first_path(source: Any) -> str:
    """The path that names a sample: of the files in a dict like ``{"img": [...], "label": ...}`` their folder."""
    is_flat = isinstance(source, Mapping) and all(isinstance(place, tuple) for place in source)  # of a cached dataset
    texts = source if is_flat else strings_in(source)
    paths = [shown(text) for text in texts.values() if os.sep in text or os.path.splitext(text)[1]]
    folders = {os.path.dirname(path) for path in paths}
    if len(folders) == 1 and any(place and isinstance(place[0], str) for place in texts):
        return folders.pop()
    return os.path.normpath(paths[0]) if paths else next((text for place, text in texts.items() if not place), "")


def stem_of(path: str) -> str:
    """The name of a file without its endings, e.g. ``"case_01"`` of ``"x/case_01.nii.gz"``; of a folder its name."""
    name = os.path.basename(path)
    stem, ending = os.path.splitext(name)
    if ending.lower() in (".gz", ".bz2", ".zst", ".xz"):
        stem = os.path.splitext(stem)[0]
    return name if os.path.isdir(path) or not stem else stem


def with_progress(items: Iterable[Any], text: str = "Loading samples", **settings: Any) -> Iterable[Any]:
    """Show a bar of tqdm while the items are iterated, if there is a terminal to show it on."""
    if sys.stderr is None or not sys.stderr.isatty():  # no bars in log files
        return items
    from tqdm import tqdm

    return tqdm(items, desc=text, **settings)


# ------------------------------------------------------------------ objects of other libraries
# Told the way pickle tells them; what has no such way is refused.


class OpaqueError(Exception):
    """The content of an object cannot be told.

    Attributes
    ----------
    where : list of str
        The way to it from the dataset, added on the way back.
    """

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value
        self.where: list[str] = []

    def as_config_error(self) -> ConfigError:
        """Say what it is, and what to do."""
        cls = type(self.value)
        name = f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")
        place = ".".join(self.where)
        return ConfigError(
            f"samples are made with a {name} ({place}), and what is in it cannot be told: after a change samples of "
            f"the old one would be read. Pass hash_funcs={{{cls.__qualname__}: function}}, whose function takes it and "
            "returns what tells it from others (numbers, texts, arrays), or None instead of the function if it makes "
            "no difference; or make it inside of load_fn"
        )


def check_hash_functions(functions: object) -> HashFunctions:
    """Refuse ``hash_funcs`` that name no types or are no functions."""
    wanted = "hash_funcs must be a dict {type: function, or None to pass over such objects}"
    if not isinstance(functions, Mapping):
        raise ConfigError(f"{wanted}, got {functions!r}")
    for cls, function in functions.items():
        if not isinstance(cls, type) or not (function is None or callable(function)):
            raise ConfigError(f"{wanted}, got {cls!r}: {function!r}")
    return dict(functions)


def parts_of(value: Any) -> Any:
    """Return what an object consists of, to be described further.

    Raises
    ------
    OpaqueError
        If it keeps something that it does not show.
    """
    if isinstance(value, _NOTHING_IN_IT):
        return None
    if isinstance(value, weakref.ref):
        return value()
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
        return getattr(value, "name", None)
    if is_generator(value):
        return _seed_of(value)
    if str(type(value).__module__).startswith("scipy.spatial") and type(value).__name__ in _ADDRESSES:
        return [value.data, value.leafsize, value.boxsize]
    if hasattr(value, "get_weights") and hasattr(value, "get_config"):  # of Keras, whose pickles have a date in them
        return [value.get_config(), value.get_weights()]
    if isinstance(value, np.ufunc) and value.__name__.endswith("(vectorized)"):  # of a user's function that it hides
        raise OpaqueError(value)
    return _pickled(value)


def is_generator(value: object) -> bool:
    """Return True if it is a generator of random numbers of Python, numpy or torch."""
    cls = type(value)
    is_of_arrays = frameworks.package_of(cls) == "numpy" or hasattr(cls, "initial_seed")
    return isinstance(value, random.Random) or (cls.__name__ in _GENERATORS and is_of_arrays)


def _seed_of(value: object) -> Any:
    """The seed that a generator was made with, as far as it tells: what it has drawn since makes no difference."""
    sequence = getattr(getattr(value, "bit_generator", value), "seed_seq", None)
    entropy = getattr(sequence, "entropy", None)
    return entropy if isinstance(entropy, int) and entropy < 2**64 else None  # larger ones come from the system


def _pickled(value: object) -> Any:
    if isinstance(value, types.GeneratorType | types.CoroutineType | types.FrameType):
        raise OpaqueError(value)
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except Exception as error:
        raise OpaqueError(value) from error
    if isinstance(reduced, str):  # a name of its module
        return reduced
    function, args, *rest = reduced
    state, items, pairs = (*rest, None, None, None)[:3]
    is_program = frameworks.is_of_framework(type(value)) and hasattr(value, "graph_for")
    if isinstance(state, Mapping) and is_program and "_c" not in state:
        raise OpaqueError(value)  # its weights and its code are there
    return [function, args, state, None if items is None else [*items], None if pairs is None else [*pairs]]


def has_hidden_state(cls: type) -> bool:
    """Return True if a class of the user's is built on one written in C, which may keep more than attributes."""
    known = (object, BaseException, Exception, dict, list, tuple, set, frozenset, str, int, float)
    heap_type = 1 << 9
    return any(not base.__flags__ & heap_type and base not in known for base in cls.__mro__)


def is_foreign_array(value: object) -> bool:
    """Return True if it is an array of another library, of which the values are all there is."""
    return frameworks.package_of(type(value)) in ARRAYS and hasattr(value, "__array__")


def is_own(code: types.FunctionType | type | types.ModuleType) -> bool:
    """Return True if code is the user's, and not part of Python, delira or an installed package."""
    if isinstance(code, types.FunctionType):
        return not is_deliras(code) and user_code.is_own_file(code.__code__.co_filename)
    name = str(code.__name__ if isinstance(code, types.ModuleType) else code.__module__)
    module = code if isinstance(code, types.ModuleType) else sys.modules.get(name)
    # the class of functions that Cython compiled is in no file
    if user_code.is_foreign(name) or name.startswith("_cython_"):
        return False
    return user_code.is_own_file(getattr(module, "__file__", None) or "")


def is_deliras(code: types.FunctionType | type) -> bool:
    return str(code.__module__).partition(".")[0] == "delira"


# ------------------------------------------------------------------ what Python keeps of objects


def slots_of(value: object) -> list[str]:
    """Return the names of the attributes that an object keeps outside of its ``__dict__``."""
    declared = [vars(cls).get("__slots__", ()) for cls in type(value).__mro__]
    names = [name for slots in declared for name in ((slots,) if isinstance(slots, str) else slots)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]


# ------------------------------------------------------------------ what files contain, without reading them each time


class SourceHashes:
    """Hashes of files, kept in a file under (size, times of last change of content and status, inode).

    Parameters
    ----------
    file
        Where hashes are kept, a line of JSON for each. Processes append to it at once; a line that one of
        them did not finish is passed over.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __getstate__(self) -> dict[str, Any]:
        return {"_file": self._file}

    def content_of(self, paths: Iterable[str]) -> str:
        """Return what tells files, and folders with all that is in them, from others; their names do not count."""
        return fingerprint_of([self._tree(path) if os.path.isdir(path) else self._hash(path) for path in paths])

    def stamps_of(self, paths: Iterable[str]) -> dict[str, str]:
        """Return what tells each file from others: its content, of files above 256 MiB size and time of change.

        Raises
        ------
        OSError
            If one is not there any more.
        """
        return {
            path: self._hash(path) if status.st_size <= _LARGE else f"{status.st_size} {status.st_mtime_ns}"
            for path, status in [(path, os.stat(path)) for path in paths]
        }

    def _tree(self, folder: str) -> list[Any]:
        files = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
        return [(os.path.relpath(file, folder), self._hash(file)) for file in sorted(files) if os.path.isfile(file)]

    def _hash(self, path: str) -> str:
        path = os.path.abspath(path)
        status = os.stat(path)
        # who sets the time of a file cannot set that of its status
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED:
            self._known[path] = (stamp, content)
            # the line break in front parts it from a line that was not finished
            line = f"\n{json.dumps({'path': path, 'stamp': stamp, 'sha256': content})}\n".encode()
            with contextlib.suppress(OSError), open(self._file, "ab", buffering=0) as file:  # only saves time
                file.write(line)
        return content

    @functools.cached_property
    def _known(self) -> dict[str, tuple[list[int], str]]:
        known = {}
        with contextlib.suppress(OSError), open(self._file, encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    known[entry["path"]] = (entry["stamp"], entry["sha256"])
        return known


# ------------------------------------------------------------------ which files are read while a sample is made


@contextlib.contextmanager
def opened_files(files: list[str]) -> Iterator[None]:
    """Append the files that this thread opens for reading through Python, each once, as absolute paths.

    Left out are files of Python, of packages and of the system, and those that were written meanwhile.
    """
    _listen()
    found: dict[str, bool] = {}  # whether it was only read
    outer, _recording.found = getattr(_recording, "found", None), found
    try:
        yield
    finally:
        _recording.found = outer
    files += filter(
        _is_data, dict.fromkeys(os.path.abspath(path) for path, is_only_read in found.items() if is_only_read)
    )


@functools.cache
def _listen() -> None:
    sys.addaudithook(_note)  # for good: Python takes none away again


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (found := getattr(_recording, "found", None)) is None:
        return
    path, _, flags = arguments
    if isinstance(flags, int) and isinstance(path, (str, bytes)):
        name = os.fsdecode(path)
        found[name] = found.get(name, True) and not flags & (os.O_WRONLY | os.O_RDWR)


def _is_data(path: str) -> bool:
    is_code = path.endswith(_NOT_DATA) or path.startswith(_SYSTEM) or not user_code.is_own_file(path)
    return not is_code and os.path.isfile(path)
