"""Files that are complete or not there, and reading what is damaged, busy or somebody else's."""

import contextlib
import contextvars
import errno
import functools
import glob
import io
import json
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from delira.errors import ConfigError, UnreadableError
from delira.utils.owned import check_ours

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PARTIAL = ".partial-"
_JUST_NOW = 60.0  # seconds
_PARTIAL_NAME = re.compile(rf".+{re.escape(_PARTIAL)}[0-9a-f]{{8}}")
#: what opening or syncing a folder answers where file systems cannot do it (CIFS, some of FUSE), or where it may
#: be written but not listed
_UNSYNCABLE = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


#: whether what is written is made to survive a power loss, where the writer wants it to
_syncs = contextvars.ContextVar("_syncs", default=True)


@contextlib.contextmanager
def unsynced() -> Iterator[None]:
    """Scope in which files appear whole, but may be gone after a power loss: for what can be made again."""
    token = _syncs.set(False)
    try:
        yield
    finally:
        _syncs.reset(token)


def sync(file: BinaryIO) -> None:
    """Make what was written into an open file survive a power loss, unless the scope is one that does without."""
    if _syncs.get():
        os.fsync(file.fileno())


def publish(path: str | Path, write: Callable[[BinaryIO], Any], *, durable: bool = True, loose: bool = False) -> Path:
    """Let ``write`` fill a file that appears under its name only when it is complete.

    The bytes go to a temporary file in the same folder, which is flushed, synced and renamed; then the folder is
    synced. A crash at any instant leaves the previous file intact. A folder that was deleted is made again.

    Parameters
    ----------
    path
        Name of the file; an existing one is replaced.
    write
        Called with the open temporary file.
    durable
        ``False`` leaves the syncing out: for files that can be made again.
    loose
        The content is synced, and the syncing of its name left to who writes into the folder next.

    Raises
    ------
    OSError
        If the file cannot be written, e.g. since the disk is full; it names the file. The previous file is intact.
    """
    path = Path(path)
    durable = durable and _syncs.get()
    check_ours(path.parent)
    if not path.parent.is_dir():
        make_folder(path.parent)
    partial = partial_of(path)
    refused: list[OSError] = []
    try:
        with open(partial, "xb") as file:
            if fcntl is not None:
                with contextlib.suppress(OSError):  # a lock on what is being written, which ends with the process
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_raw = file.raw.write

            def watched(data: Any) -> Any:
                try:
                    return write_raw(data)
                except OSError as error:  # kept: PyTorch answers a full disk with "unexpected pos 640 vs 534"
                    refused.append(error)
                    raise

            file.raw.write = watched  # type: ignore[method-assign]
            write(file)
            file.flush()
            if refused:  # and the writer went on: bytes are missing
                raise refused[0]
            if durable:
                os.fsync(file.fileno())
            check_ours(path.parent)  # who was stopped while it wrote is not to replace what is there by now
            if fcntl is not None:  # still marked; elsewhere an open file cannot be renamed
                os.replace(partial, path)
        if fcntl is None:
            os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        _name(refused[0] if refused else error, path)
        if refused and isinstance(error, Exception):
            raise refused[0] from None
        raise
    if not durable:  # nobody holds a lock of the folder, who could sweep it
        sweep_abandoned(path.parent, path.name)
    elif not loose:
        sync_folder(path.parent)
    return path


def partial_of(path: Path) -> Path:
    """Return a name beside a file that nobody has, for what is not to be found under its own yet."""
    return path.with_name(f"{path.name}{_PARTIAL}{uuid.uuid4().hex[:8]}")


def sweep_abandoned(folder: Path, name: str | None = None, *, patience: float = 0) -> None:
    """Remove what writers left half written when they were killed; not what is being written.

    Parameters
    ----------
    folder
        Where.
    name
        Of the file that they wrote; None: any.
    patience
        Seconds to wait for the writer of an empty file to mark it, after which nobody is taken to write it; 0: such a
        file is left alone for a while.
    """
    if fcntl is None:
        return
    for partial in folder.glob(f"{'*' if name is None else glob.escape(name)}{_PARTIAL}*"):
        if not _PARTIAL_NAME.fullmatch(partial.name):
            continue
        with contextlib.suppress(OSError), open(partial, "rb") as file:
            about = os.fstat(file.fileno())
            if not about.st_size and time.time() - about.st_mtime < (patience or _JUST_NOW):
                if not patience:
                    continue
                time.sleep(patience)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            partial.unlink()


def _name(error: BaseException, path: Path) -> None:
    """Let an error of writing or syncing name the file: they come without it."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = str(path)


def publish_text(path: str | Path, text: str, *, durable: bool = True) -> Path:
    """Write ``text`` (UTF-8) as :func:`publish` does."""
    return publish(path, lambda file: file.write(text.encode()), durable=durable)


def publish_copy(source: Path, target: Path) -> Path:
    """Write the content of the complete file ``source`` again, into a file of its own."""
    with open(source, "rb") as original:
        return publish(target, functools.partial(shutil.copyfileobj, original, length=1 << 20))


def publish_link(source: Path, target: Path, *, loose: bool = False) -> Path:
    """Give the complete file ``source`` a second name, atomically; a copy where links are not possible.

    Parameters
    ----------
    source, target
        The file, and its second name, which replaces a file that has it.
    loose
        The syncing of the name is left to who writes into the folder next.
    """
    check_ours(target.parent)
    partial = partial_of(target)
    try:
        try:
            os.link(source, partial)
        except OSError:
            return publish_copy(source, target)
        os.replace(partial, target)
    finally:
        # replacing a name by another name of the same file does nothing and leaves both
        with contextlib.suppress(OSError):
            partial.unlink()
    if not loose:
        sync_folder(target.parent)
    return target


def text_or_file(text: str, path: str | Path | None) -> str | Path:
    """Return a page or another text that can be made again, or, if a file is named, write it there and return that."""
    if path is None:
        return text
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return publish_text(path, text, durable=False)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and make their names survive a power loss, as those of files do.

    Raises
    ------
    OSError
        If the folder cannot be made, or a file has its name.
    CheckpointError
        If it is, or is in, a folder that this process had locked and that was moved.
    """
    check_ours(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(made):
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` survive a power loss (where the platform and the file system can)."""
    if os.name == "nt" or not _syncs.get():
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _UNSYNCABLE:
            _name(error, folder)
            raise


def sweep_partials(folder: Path, pattern: str = "*") -> None:
    """Remove what a crash left half written of files whose names match a ``glob``, as far as that is possible.

    It cannot tell what a crash left from what another process is writing: call it only where no other writes,
    e.g. while the folder is locked.
    """
    for partial in folder.glob(f"{pattern}{_PARTIAL}*"):
        if _PARTIAL_NAME.fullmatch(partial.name):
            with contextlib.suppress(OSError):
                partial.unlink()


def as_path(path: object, name: str = "save_path") -> Path:
    """Return a path out of what a user gave; ``name`` is that of the argument.

    Raises
    ------
    ConfigError
        If it is no path.
    """
    if not isinstance(path, (str, os.PathLike)) or "\0" in (text := str(path)) or not text:
        raise ConfigError(f"{name} must be a path, got {path!r}")
    return Path(path)


def as_target(path: object, name: str = "path", *, is_folder: bool = False) -> Path:
    """The path of a file (or folder) that may be written, out of what a user gave; ``name`` is that of the argument.

    Raises
    ------
    ConfigError
        If it is no path, a folder has it, or one of its folders is a file.
    """
    target = as_path(path, name)
    if target.is_dir() and not is_folder:
        raise ConfigError(f"{name}={str(target)!r} is a folder; give the name of a file in it")
    taken = next((folder for folder in target.parents if folder.exists()), Path(target.anchor or "."))
    if not os.path.isdir(taken):
        raise ConfigError(f"{name}={str(target)!r} cannot be written: {str(taken)!r} is a file, not a folder")
    return target


def writable_folder(path: str | Path) -> Path:
    """Create the folder if needed and make sure that files can be written into it.

    Raises
    ------
    ConfigError
        If ``path`` is none, it or one of its parents is a file, or the folder is not writable.
    """
    folder = as_path(path)
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder):  # has no name where the system can do that: nothing to be left behind
            pass
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(
            f"save_path={str(folder)!r} cannot be a folder: {error.filename!r} is a file; choose another path"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"save_path={str(folder)!r} is not writable ({error.strerror}); choose another path"
        ) from error
    return folder


# ---- reading what somebody else may have put into a folder: nobody waits, nothing grows, and no link leads away

#: bytes of a file that is read as a whole, and of one with an entry for each sample or epoch
MOST_BYTES, MOST_OF_MANY = 1 << 26, 1 << 28
_DEEPEST = 100  # dictionaries and lists inside each other
#: what a terminal or a font would obey: control characters but for line feed and tab, halves of characters, changes of
#: the direction of writing
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def open_regular(path: str | Path) -> io.BufferedReader:
    """Open a file for reading, unless it is something else that has a name, such as a pipe, which would block.

    Raises
    ------
    OSError
        If it is a folder, a pipe or a device, or cannot be opened.
    """
    refused = OSError(f"{str(path)!r} is a folder, a pipe or a device, not a file")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise refused
    at_once = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once))  # noqa: SIM115 - the caller's
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it may have been changed in between
        file.close()
        raise refused
    return file


def refuse_link(path: str | Path) -> None:
    """Refuse a link that leads out of the folder that it is in: what it shows may be meant for nobody else.

    Raises
    ------
    OSError
        Naming where it leads.
    """
    if os.path.islink(path) and os.path.dirname(os.path.realpath(path)) != os.path.realpath(os.path.dirname(path)):
        raise OSError(f"{str(path)!r} is a link to {os.readlink(path)!r}, out of its folder; it is not followed")


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Read a small file as a whole.

    Parameters
    ----------
    path
        A plain file, or a link to one in the same folder.
    most
        Bytes that it may have.

    Raises
    ------
    OSError
        If it is missing, no plain file, a link that leads away, or larger.
    UnreadableError
        If the system cannot read it now.
    """

    def read() -> bytes:
        if os.path.islink(path):
            refuse_link(path)
        with open_regular(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise OSError(f"{str(path)!r} is larger than {most >> 20} MiB")
        return content

    return read_patiently(path, read)


def check_unpacked(file: io.BufferedReader) -> None:
    """Refuse a zip file whose compressed records unpack into more than 256 MiB together.

    Raises
    ------
    zipfile.BadZipFile
        If they do, or it is no zip file.
    """
    with zipfile.ZipFile(file) as archive:
        packed = [entry.file_size for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED]
    if sum(packed) > MOST_OF_MANY:
        raise zipfile.BadZipFile(f"its compressed records unpack into more than {MOST_OF_MANY >> 20} MiB")
    file.seek(0)


def read_json(path: str | Path, most: int = MOST_BYTES) -> Any:
    """Read a small file of JSON; see :func:`read_bytes`.

    Raises
    ------
    ValueError
        If it is no JSON, or nested deeper than any file of a run.
    """
    return parse_json(read_bytes(path, most))


def parse_json(content: str | bytes) -> Any:
    """Values of a text of JSON.

    Raises
    ------
    ValueError
        If it is no JSON, or nested deeper than any file of a run.
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        if isinstance(part, (dict, list)):
            waiting += [(item, depth + 1) for item in (part.values() if isinstance(part, dict) else part)]
    return value


def read_json_lines(path: str | Path, most: int = MOST_OF_MANY) -> tuple[list[dict[str, Any]], int]:
    """Dictionaries of a file with one on each line, and the number of lines; others are left out.

    Raises
    ------
    OSError
        As of :func:`read_bytes`.
    """
    lines = read_bytes(path, most).splitlines()
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            entry = parse_json(line)
            found += [entry] if isinstance(entry, dict) else []
    return found, len(lines)


def harmless(value: Any) -> Any:
    """Return a text, or a tree with texts, without what a terminal would obey; the rest is as it was."""
    if isinstance(value, str):
        return _OBEYED.sub("\ufffd", value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return np.array([harmless(text) for text in value.ravel().tolist()], value.dtype).reshape(value.shape)
    if isinstance(value, Mapping):
        return {harmless(key): harmless(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(harmless(item) for item in value)
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """Return a dictionary as it is, and an empty one instead of anything else."""
    return value if isinstance(value, Mapping) else {}


# ---- what the system cannot read now is tried again for a moment, and never taken for damage

_T = TypeVar("_T")

#: what often passes by itself: a disk or a network that was busy, too many open files
_PASSING = {
    getattr(errno, name, errno.EIO)
    for name in (
        "EAGAIN", "EBUSY", "EINTR", "EIO", "EMFILE", "ENFILE", "ENOBUFS", "ENOLCK", "ENOMEM", "EREMOTEIO", "ESTALE",
        "ETIMEDOUT",
    )
}  # fmt: skip
#: what is said of the name, or of what has it, which another try would not change: there is no file, or no such place
_OF_THE_NAME = {
    errno.EFBIG, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENODEV, errno.ENOENT, errno.ENOTDIR,
    errno.ENXIO, errno.EOVERFLOW, errno.ESPIPE,
}  # fmt: skip
#: part of the message of every such error, where only that is left
SAYS_NOTHING = "which says nothing about what is in it"
_PAUSES = (0.05, 0.2, 0.5)  # seconds between tries


def read_patiently(path: str | Path, read: Callable[[], _T]) -> _T:
    """Call ``read``, again after a short while if the system cannot read the file now.

    Parameters
    ----------
    path
        The file or folder, for the message.
    read
        Reads it from the beginning; may be called four times. Its errors may have that of the system as their cause.

    Raises
    ------
    UnreadableError
        If the system refuses for a reason that says nothing about what is in the file, such as EIO, ESTALE, EMFILE
        (after 0.75 s) or EACCES (at once).
    Exception
        Whatever else ``read`` raises, as it is.
    """
    pauses = [*_PAUSES]
    while True:
        try:
            return read()
        except UnreadableError:
            raise
        except Exception as error:
            if (refused := refusal_behind(error)) is None:
                raise
            code, reason = refused
            if code not in _PASSING or not pauses:
                tried = "" if pauses else f" ({len(_PAUSES) + 1} times in {sum(_PAUSES):.2f} s)"
                told = f"{reason}{tried}, {SAYS_NOTHING}; it was left as it is"
                raise UnreadableError(code, told, str(path)) from error
        time.sleep(pauses.pop(0))


def refusal_behind(error: BaseException) -> tuple[int, str] | None:
    """Number and words of what the system said, if behind an error it could not read; ``None`` if it could.

    Parameters
    ----------
    error
        Of a reader, which may have wrapped that of the system.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, MemoryError):
            return errno.ENOMEM, os.strerror(errno.ENOMEM)
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _OF_THE_NAME:
            return cause.errno, cause.strerror or os.strerror(cause.errno)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return None


# ---- checksums

#: where a small file of JSON, or a line of one, has its checksum: it tells a changed value from what was written
CHECKSUM = "checksum"
OTHER_CHECKSUM = "its checksum is another one, so it is not what was written"


def sealed(content: Mapping[str, Any], default: Callable[[Any], Any] = str) -> dict[str, Any]:
    """Return the content as it would be read back, with a checksum.

    Parameters
    ----------
    content
        What JSON can write.
    default
        Writes what it cannot.
    """
    plain = json.loads(json.dumps(content, default=default))
    return {**plain, CHECKSUM: _sum_of(plain)}


def is_changed(content: Mapping[str, Any]) -> bool:
    """Return True if it has a checksum, and another one; what an older version wrote has none.

    Parameters
    ----------
    content
        As it was read.
    """
    plain = {name: value for name, value in content.items() if name != CHECKSUM}
    return CHECKSUM in content and content[CHECKSUM] != _sum_of(plain)


def unsealed(content: object) -> Any:
    """Return what was read, without its checksum.

    Parameters
    ----------
    content
        As it was read; what is no dictionary has no checksum.

    Raises
    ------
    ValueError
        If it is not what was written.
    """
    if not isinstance(content, Mapping):
        return content
    if is_changed(content):
        raise ValueError(OTHER_CHECKSUM)
    return {name: value for name, value in content.items() if name != CHECKSUM}


def _sum_of(plain: Mapping[str, Any]) -> str:
    """Return the checksum of the values, whatever the order in which they are stored."""
    return f"{zlib.crc32(json.dumps(plain, sort_keys=True).encode()):08x}"
