"""What the system cannot read now is tried again for a moment, and never taken for damage."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from delira.errors import UnreadableError

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
