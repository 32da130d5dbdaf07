"""Files that are complete or not there."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from delira.errors import ConfigError

_PARTIAL = ".partial-"


def publish(path: str | Path, write: Callable[[BinaryIO], Any], *, durable: bool = True) -> Path:
    """Let ``write`` fill a file that appears under its name only when it is complete.

    The bytes go to a temporary file in the same folder, which is flushed, synced and renamed;
    then the folder is synced. A crash at any instant leaves the previous file intact.

    Parameters
    ----------
    path
        Name of the file; an existing one is replaced.
    write
        Called with the open temporary file.
    durable
        ``False`` leaves the syncing out: for files that can be made again.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}{_PARTIAL}{uuid.uuid4().hex[:8]}")
    try:
        with open(partial, "xb") as file:
            write(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        raise
    if durable:
        sync_folder(path.parent)
    return path


def publish_text(path: str | Path, text: str, *, durable: bool = True) -> Path:
    """Write ``text`` (UTF-8) as :func:`publish` does."""
    return publish(path, lambda file: file.write(text.encode()), durable=durable)


def publish_link(source: Path, target: Path) -> Path:
    """Give the complete file ``source`` a second name, atomically; a copy where links are not possible."""
    partial = target.with_name(f"{target.name}{_PARTIAL}{uuid.uuid4().hex[:8]}")
    try:
        try:
            os.link(source, partial)
        except OSError:
            return publish(target, lambda file: _copy(source, file))
        os.replace(partial, target)
    finally:
        # replacing a name by another name of the same file does nothing and leaves both
        partial.unlink(missing_ok=True)
    sync_folder(target.parent)
    return target


def _copy(source: Path, file: BinaryIO) -> None:
    with open(source, "rb") as original:
        shutil.copyfileobj(original, file, 1 << 20)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` survive a power loss (where the platform can)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_partials(folder: Path) -> None:
    """Remove what a crash left half written."""
    for partial in folder.glob(f"*{_PARTIAL}*"):
        partial.unlink(missing_ok=True)


def writable_folder(path: str | Path) -> Path:
    """Create the folder if needed and make sure that files can be written into it.

    Raises
    ------
    ConfigError
        If ``path`` or one of its parents is a file, or the folder is not writable.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f"probe{_PARTIAL}{uuid.uuid4().hex[:8]}"
        probe.touch()
        probe.unlink()
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(
            f"save_path={str(folder)!r} cannot be a folder: {error.filename!r} is a file; choose another path"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"save_path={str(folder)!r} is not writable ({error.strerror}); choose another path"
        ) from error
    return folder
