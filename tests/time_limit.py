"""A limit of time for what may hang, within one process."""

import contextlib
import signal
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def within_seconds(seconds: int = 15) -> Iterator[None]:
    """Scope that fails the test when it takes longer; only in the main thread, where there are signals of POSIX."""

    def late(*args: object) -> None:
        pytest.fail(f"it took more than {seconds} s")  # no Exception, which a reader might take for one of a file

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
