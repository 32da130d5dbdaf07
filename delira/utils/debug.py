"""Debug mode: everything in this process, so that a debugger and ``print`` reach it."""

import contextlib
from collections.abc import Iterator

from delira.errors import expect

_is_on = False


def get_current_debug_mode() -> bool:
    """Return True if debug mode is on; data managers then start no workers."""
    return _is_on


def set_debug_mode(mode: bool) -> None:
    """Switch debug mode on or off.

    Parameters
    ----------
    mode
        Whether it is on.
    """
    global _is_on
    # the older library took numbers, too
    expect(("set_debug_mode: mode", mode, isinstance(mode, int) and mode in (0, 1), "True or False"))
    _is_on = bool(mode)


def switch_debug_mode() -> None:
    """Switch debug mode to what it is not."""
    set_debug_mode(not _is_on)


@contextlib.contextmanager
def DebugMode(mode: bool) -> Iterator[None]:
    """Set debug mode for the length of a ``with`` block.

    Parameters
    ----------
    mode
        Whether it is on inside.
    """
    before = _is_on
    set_debug_mode(mode)
    try:
        yield
    finally:
        set_debug_mode(before)


def DebugEnabled() -> contextlib.AbstractContextManager[None]:
    """Switch debug mode on for the length of a ``with`` block."""
    return DebugMode(True)


def DebugDisabled() -> contextlib.AbstractContextManager[None]:
    """Switch debug mode off for the length of a ``with`` block."""
    return DebugMode(False)
