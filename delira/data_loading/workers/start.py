"""How a worker process comes to life: what each start method needs, and what can be told before it fails."""

import ast
import contextlib
import logging
import multiprocessing
import os
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from delira.data_loading.recipe import BatchRecipe
from delira.data_loading.workers.process import Progress, serve
from delira.data_loading.workers.transport import Packed, anonymous_file
from delira.errors import ConfigError

_log = logging.getLogger(__name__)


class Starter:
    """Starts workers for one recipe.

    Parameters
    ----------
    recipe
        How batches are made.
    method
        ``"fork"``, ``"forkserver"`` or ``"spawn"``.

    Raises
    ------
    ConfigError
        If the method is not fork and the recipe cannot be pickled, or the script that runs has no guard.
    """

    def __init__(self, recipe: BatchRecipe, method: str) -> None:
        self._context: Any = multiprocessing.get_context(method)
        self._recipe: BatchRecipe | None = recipe
        self._packed: Packed | None = None
        if method != "fork":
            refuse_unguarded_script(method)
            self._packed = _pack(recipe, method)
            self._recipe = None

    def start(self, name: str) -> "tuple[Any, socket.socket, Progress, int]":
        """Start one process.

        Returns
        -------
        tuple
            The process, our end of its socket, its progress, and the file that it writes its stack to.

        Raises
        ------
        OSError
            If the system gives no further process or file.
        """
        with contextlib.ExitStack() as at_end, contextlib.ExitStack() as if_it_fails:
            ours, theirs = socket.socketpair()
            at_end.callback(theirs.close)
            if_it_fails.callback(ours.close)
            shared = anonymous_file()
            at_end.callback(os.close, shared)
            dump = anonymous_file()
            if_it_fails.callback(os.close, dump)
            os.ftruncate(shared, Progress.size)
            progress = Progress(shared)
            process = self._started(theirs, name)
            socket.send_fds(ours, [b"f"], [shared, dump])
            if self._packed is not None:
                self._packed.send(ours)
            if_it_fails.pop_all()
        return process, ours, progress, dump

    def _started(self, theirs: socket.socket, name: str) -> Any:
        dies_with = os.getpid() if threading.current_thread() is threading.main_thread() else None
        process = self._context.Process(target=serve, args=(theirs, self._recipe, dies_with), name=name, daemon=False)
        with _may_have_children(), warnings.catch_warnings():
            # of a fork beside other threads; workers call none of them
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            process.start()
        # at its exit multiprocessing ends or awaits the children it knows of; a fork of this process would end ours
        getattr(multiprocessing.process, "_children", set()).discard(process)
        return process

    def close(self) -> None:
        """Free what is kept for starting further workers."""
        self._recipe = None
        if self._packed is not None:
            self._packed.close()


def can_have_workers() -> bool:
    """Return True if this system can have workers; elsewhere batches, the same ones, are made in this process."""
    if hasattr(socket, "send_fds") and hasattr(os, "pread"):
        return True
    _log.warning("worker processes need a Unix system; the batches are made in this process, and they are the same")
    return False


def refuse_unguarded_script(method: str) -> None:
    """Refuse to start processes that would run the user's script again from its top.

    Raises
    ------
    ConfigError
        If the script that runs has no ``if __name__ == "__main__":``.
    """
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):  # interactive, or -c: nothing is run again
        return
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (SyntaxError, ValueError):  # no Python source
        return
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    if any(isinstance(node, ast.Name) and node.id == "__name__" for test in tests for node in ast.walk(test)):
        return
    raise ConfigError(
        f"with start_method={method!r} each worker process runs {path} again, and it has no guard; put what it does "
        'below the line\n    if __name__ == "__main__":\nor set n_process_augmentation=0'
    )


def _pack(recipe: BatchRecipe, method: str) -> Packed:
    import cloudpickle  # carries lambdas, and classes of notebooks

    if getattr(sys.modules.get("__main__"), "__file__", None) is not None:
        # the worker imports the script too, and finds its classes there: they stay the same ones
        with contextlib.suppress(Exception):
            return Packed(recipe, together=True)
    try:
        return Packed(recipe, dumps=cloudpickle.dumps, together=True)
    except Exception as error:
        place, reason = _find_unpicklable(recipe, cloudpickle.dumps) or ("the dataset or the transforms", error)
        raise ConfigError(
            f"with start_method={method!r} the dataset and the transforms are sent to each worker process, but "
            f"{place} cannot be pickled: {reason}; open it when the first sample is read and leave it out of "
            "__getstate__, or set n_process_augmentation=0"
        ) from error


def _find_unpicklable(recipe: BatchRecipe, dumps: Any) -> tuple[str, Exception] | None:
    """Return the innermost attribute that cannot be pickled, and why."""
    place: str = ""
    current: Any = recipe
    reason: Exception | None = None
    for _ in range(20):
        parts = current if isinstance(current, Mapping) else getattr(current, "__dict__", {})
        for name, value in parts.items():
            try:
                dumps(value)
            except Exception as error:
                place = f"{place}.{name}" if place else str(name)
                current, reason = value, error
                break
        else:
            break
    kind = f" (a {type(current).__name__})"
    return None if reason is None else (f"{place.removeprefix('loader.')}{kind}", reason)


@contextlib.contextmanager
def _may_have_children() -> Iterator[None]:
    """Let a process of a pool, which may have no children, have some: ours end when it ends."""
    config: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    daemon = config.get("daemon")
    if daemon:
        config["daemon"] = False
    try:
        yield
    finally:
        if daemon:
            config["daemon"] = True
