"""How a lost process is told: by errors; and to GPUs, which wait for it without end unless they are woken."""

import contextlib
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import distributed

from delira.errors import WorkerLostError

#: seconds between two looks
_LOOK = 0.5
_ENDED = "ended"
#: what collectives say when another process is gone or does not answer
_LOST = re.compile(r"\bgloo/|NCCL|Connection (closed|reset) by peer")
#: of NCCL in PyTorch: its own threads end the program where a process is lost, unless they are told to leave it alone
_SETTINGS = dict.fromkeys(
    ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT"), "0"
)


def tells_loss(error: BaseException) -> bool:
    """Return True if an error of a collective says that another process is gone, or does not answer."""
    # a line: what follows may be a stack of functions of any name
    is_told = isinstance(error, RuntimeError) and _LOST.search(str(error).split("\n", 1)[0]) is not None
    return isinstance(error, distributed.DistError) or is_told


@contextlib.contextmanager
def left_to_us() -> Iterator[None]:
    """Scope in which PyTorch makes groups of NCCL that end no program."""
    before = {name: os.environ.get(name) for name in _SETTINGS}
    os.environ.update(_SETTINGS)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


class Watch:
    """Looks after the other processes, in a thread; if one is lost, it breaks off what waits for it.

    What was broken off has left no numbers, and says nothing of it: :meth:`check` does.

    Parameters
    ----------
    store
        Where the processes leave messages for each other; nobody else waits for it.
    look
        Raises what another process has raised, as far as it is known here.
    seconds
        After which a process that others wait for counts as lost.
    """

    def __init__(self, store: distributed.Store, look: Callable[[], object], seconds: float):
        self._store, self._look, self._seconds = store, look, seconds
        #: why one is lost
        self.cause: Exception | None = None
        self._given: tuple[Any, float] = None, math.inf
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="delira watch", daemon=True)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Scope that is watched; an error that ends it is told to the others, and follows from the loss of one."""
        self._thread.start()
        try:
            yield
        except Exception as error:
            self._stop()
            self._tell()
            _break_off()  # else the end of the group waits for the others
            if self.cause is not None and not isinstance(error, WorkerLostError):
                raise self._loss() from error
            raise
        finally:
            self._stop()

    def note(self) -> None:
        """Watch what the GPU was given up to now."""
        self._given = _marked(), time.monotonic()

    def check(self) -> None:
        """Raise a :class:`delira.errors.WorkerLostError` if a process is lost, so that what was computed is void."""
        if self.cause is not None:
            raise self._loss() from self.cause

    def _loss(self) -> WorkerLostError:
        return WorkerLostError(f"another of the processes that train the network is lost: {self.cause}")

    def _run(self) -> None:
        while not self._ends.wait(_LOOK):
            try:
                self._look()
                if self._store.check([_ENDED]):
                    raise WorkerLostError("it has ended by an error")
                given, since = self._given
                if time.monotonic() - since > self._seconds and not _is_done(given):
                    raise WorkerLostError(f"the GPU has waited for it for {self._seconds:g} s")
            except Exception as error:
                self.cause = error  # first: the main thread goes on when it is broken off
                self._tell()
                _break_off()
                return

    def _tell(self) -> None:
        with contextlib.suppress(Exception):  # the process with the store may be the one that is lost
            self._store.set(_ENDED, "")

    def _stop(self) -> None:
        self._ends.set()
        self._thread.join()


def _marked() -> Any:
    event = torch.cuda.Event()
    event.record()
    return event


def _is_done(event: Any) -> bool:
    try:
        with torch.cuda.device(event.device):  # this thread has another current one, whose memory it would take
            return bool(event.query())
    except RuntimeError:  # of the device: the main thread gets it, too
        return True


def _break_off() -> None:
    with contextlib.suppress(Exception):  # the group may be gone
        distributed.distributed_c10d._abort_process_group()
