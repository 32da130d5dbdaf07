"""Files that are complete or not there."""

import contextlib
import errno
import functools
import glob
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from delira.errors import ConfigError
from delira.utils.lock import refuse_moved

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


def publish(path: str | Path, write: Callable[[BinaryIO], Any], *, durable: bool = True) -> Path:
    """Let ``write`` fill a file that appears under its name only when it is complete.

    The bytes go to a temporary file in the same folder, which is flushed, synced and renamed;
    then the folder is synced. A crash at any instant leaves the previous file intact. A folder that is
    missing, e.g. because it was deleted under a running training, is made again.

    Parameters
    ----------
    path
        Name of the file; an existing one is replaced.
    write
        Called with the open temporary file.
    durable
        ``False`` leaves the syncing out: for files that can be made again.

    Raises
    ------
    OSError
        If the file cannot be written, e.g. since the disk is full; it names the file. The previous file is intact.
    """
    path = Path(path)
    refuse_moved(path.parent)
    if not path.parent.is_dir():
        make_folder(path.parent)
    partial = path.with_name(f"{path.name}{_PARTIAL}{uuid.uuid4().hex[:8]}")
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
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        _name(refused[0] if refused else error, path)
        if refused and isinstance(error, Exception):
            raise refused[0] from None
        raise
    if durable:
        sync_folder(path.parent)
    else:  # nobody holds a lock of the folder, who could sweep it
        _sweep_abandoned(path)
    return path


def _sweep_abandoned(path: Path) -> None:
    """Remove what writers of this file left half written when they were killed; not what is being written."""
    if fcntl is None:
        return
    for partial in path.parent.glob(f"{glob.escape(path.name)}{_PARTIAL}*"):
        if not _PARTIAL_NAME.fullmatch(partial.name):
            continue
        with contextlib.suppress(OSError), open(partial, "rb") as file:
            about = os.fstat(file.fileno())
            if not about.st_size and time.time() - about.st_mtime < _JUST_NOW:
                continue  # its writer has not come to mark it
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


def publish_link(source: Path, target: Path, *, durable: bool = True) -> Path:
    """Give the complete file ``source`` a second name, atomically; a copy where links are not possible.

    Parameters
    ----------
    source, target
        The file, and its second name, which replaces a file that has it.
    durable
        ``False`` leaves the syncing of the folder to who writes into it next.
    """
    partial = target.with_name(f"{target.name}{_PARTIAL}{uuid.uuid4().hex[:8]}")
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
    if durable:
        sync_folder(target.parent)
    return target


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and make their names survive a power loss, as those of files do.

    Raises
    ------
    OSError
        If the folder cannot be made, or a file has its name.
    CheckpointError
        If it is, or is in, a folder that this process had locked and that was moved.
    """
    refuse_moved(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(made):
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` survive a power loss (where the platform and the file system can)."""
    if os.name == "nt":
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


def sweep_partials(folder: Path) -> None:
    """Remove what a crash left half written, as far as that is possible.

    It cannot tell what a crash left from what another process is writing: call it only where no other writes,
    e.g. while the folder is locked.
    """
    for partial in folder.glob(f"*{_PARTIAL}*"):
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
