"""Threads of numpy's algebra, OpenMP and PyTorch: with one, sums have the same bits wherever they are computed."""

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

#: packages that bring thread pools
_WITH_POOLS = ("cv2", "scipy", "sklearn", "torch")


def single_threaded() -> contextlib.AbstractContextManager[None]:
    """Scope in which numpy's algebra, OpenMP and torch (CPU) use one thread; about 15 us."""
    return threads_limited(1)


@contextlib.contextmanager
def threads_limited(number: int) -> Iterator[None]:
    """Scope in which numpy's algebra, OpenMP and torch (CPU), as far as they are loaded, use so many threads."""
    torch = sys.modules.get("torch")
    set_threads = getattr(torch, "set_num_threads", None)
    before = None if set_threads is None else torch.get_num_threads()  # type: ignore[union-attr]
    with _pools(tuple(name in sys.modules for name in _WITH_POOLS)).limit(limits=number):
        if set_threads is not None:
            set_threads(number)
        try:
            yield
        finally:
            if set_threads is not None:
                set_threads(before)


def use_one_thread() -> None:
    """Let numpy's algebra, OpenMP and torch (CPU) use one thread for good, in a process that was forked."""
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)  # else torch waits for ever for threads that were not forked


@functools.cache
def _pools(imported: tuple[bool, ...]) -> Any:
    """Return the thread pools of this process; looked for anew when a package with pools was imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
