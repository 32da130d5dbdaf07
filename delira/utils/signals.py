"""Signals of people and schedulers, and one that is for nobody but processes of delira."""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

from delira.errors import TrainingInterrupted

_log = logging.getLogger("delira")

#: makes a worker write down what each of its threads is doing; not one that a scheduler sends to all processes of a job
DUMP_SIGNAL = signal.SIGRTMIN + 3 if hasattr(signal, "SIGRTMIN") else getattr(signal, "SIGUSR2", signal.SIGTERM)
#: SIGUSR1 is what SLURM is usually told to send before the time is over; Windows has none
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))
#: seconds in which signals are one: launchers send to the process and to its group, some send two kinds
_ONE_SIGNAL = 0.25


def of_submitit() -> tuple[int, ...]:
    """What submitit has SLURM send before a job is queued again, and means something only where somebody hears it."""
    names = ("SIGUSR2", f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}")
    numbers = {getattr(signal, name) for name in names if isinstance(getattr(signal, name, None), signal.Signals)}
    return tuple(sorted(numbers - {*STOP_SIGNALS, DUMP_SIGNAL}))


class StopSignals:
    """Notes the first signal, so that the training can stop at a good place; the second one stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        #: what has come; it counts as received when all processes of a training know of it, if there are several
        self.arrived: int | None = None
        self.is_shared = False
        #: the line that was written of it, whatever else is on the screen
        self.told = ""
        self._at = 0.0
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def caught(self, wanted: bool = True) -> Iterator[None]:
        """Scope in which signals are noted; only the main thread can."""
        self.received = self.arrived = None
        asked = of_submitit()
        is_main = threading.current_thread() is threading.main_thread()
        for number in (*STOP_SIGNALS, *asked) if wanted and is_main else ():
            before = signal.getsignal(number)
            if number in asked and not callable(before):  # nobody would queue the job again
                continue
            # ignored on purpose (nohup), or installed by C code, which could not be given back
            if before is not signal.SIG_IGN and before is not None:
                self._before[number] = signal.signal(number, self._note)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Give the signals back to those who had them before."""
        while self._before:
            signal.signal(*self._before.popitem())

    def stop(self, message: str) -> NoReturn:
        """Give the signals back and end the training: raises KeyboardInterrupt or TrainingInterrupted.

        A handler that the program had before is called with the signal first.
        """
        number = self.received or signal.SIGINT
        handler = self._before.get(number)
        self.release()
        if number != signal.SIGINT:  # a traceback shows that of KeyboardInterrupt, and nobody that of SystemExit
            _log.warning("%s", message)
        if callable(handler) and handler is not signal.default_int_handler:
            handler(number, None)
        raise _exception(number, message)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.arrived is None:
            self.arrived, self._at = number, time.monotonic()
            if not self.is_shared:
                self.received = number
            name = signal.Signals(number).name
            self.told = f"{name}: finishing the step, then a checkpoint is written; once more stops at once"
            with contextlib.suppress(OSError):  # not by logging, whose stream may be in the midst of a write
                os.write(2, f"\n{self.told}\n".encode())
            return
        if time.monotonic() - self._at < _ONE_SIGNAL:
            return
        self.release()
        raise _exception(number, f"{signal.Signals(number).name} came twice; stopped without a further checkpoint")


def _exception(number: int, message: str) -> BaseException:
    if number == signal.SIGINT:
        return KeyboardInterrupt(message)
    return TrainingInterrupted(number, message)
