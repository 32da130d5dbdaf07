"""Processes that a launcher has started, as ``torchrun`` does: the first does what the script says, others help it.

All of them run the same script. Where it calls delira, the first one works, and the others wait until it needs them for
a training; then each returns, or raises, what the first one did. Only objects of live processes are pickled here.
"""

import atexit
import contextlib
import copy
import dataclasses
import functools
import os
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from delira.errors import ConfigError, WorkerLostError

if TYPE_CHECKING:
    from delira.contract import Backend, DevicesRole

#: of what is sent at a time, in bytes; stores hold messages of less than 2 GiB
_PIECE = 1 << 26
#: seconds between two looks: the first ones, and the longest
_LOOK, _LONGEST = 0.005, 0.2
#: seconds in which the first one has called something of delira, if all run the same script
_SIGNS_IN_WITHIN = 600.0
_TASK, _DONE, _GONE, _HERE = "task", "done", "gone", "here"
_Call = TypeVar("_Call", bound=Callable[..., Any])


@dataclasses.dataclass
class Launch:
    """One of the processes that a launcher has started.

    Parameters
    ----------
    rank, size
        Which of how many; the first one is 0.
    local_rank, local_size
        The same among those of this machine.
    devices
        Of the backend, which know where they leave messages for each other.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    devices: "DevicesRole"
    is_at_work: bool = False
    """Whether a call of delira is at work, so that what it calls is part of it."""
    is_broken: bool = False
    """Whether one of them was lost, so that no further training can begin."""
    _n_orders: int = 0
    _n_meetings: int = 0

    def __post_init__(self) -> None:
        # a store of torchrun may outlive processes that it starts again, with all that those before left there
        self._prefix = f"delira/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        self.store = self.devices.launch_store(self._prefix)

    @property
    def is_first(self) -> bool:
        """Return True if this process does what the script says."""
        return self.rank == 0

    # ------------------------------------------------------------------ the first

    def lead(self, name: str, work: Callable[[], Any], tell: Callable[[Any], Any]) -> Any:
        """Do some work; the others return, or raise, what comes of it.

        Parameters
        ----------
        name
            Of what the script calls.
        work
            What is done.
        tell
            Makes of its value what is sent.
        """
        self.is_at_work = True
        try:
            value = work()
            told = self._dumps(value, tell)
        except BaseException as error:
            told = _failure(error)
            raise
        finally:
            self.is_at_work = False
            self._order(_DONE, (name, told))
        return value

    @staticmethod
    def _dumps(value: Any, tell: Callable[[Any], Any]) -> Any:
        try:
            return _dumps(tell(value))
        except Exception as error:
            return _failure(ConfigError(f"what the first process returned cannot be sent to the others: {error}"))

    def start(self, task: Callable[[int], None]) -> "list[LaunchedHandle]":
        """Have each of the others call ``task`` with its rank.

        Raises
        ------
        ConfigError
            If it cannot be sent, saying what is in its way.
        WorkerLostError
            If one of them was lost before.
        """
        from delira.execution.worker import refusing_what_cannot_travel

        if self.is_broken:
            raise WorkerLostError("a process of the launcher was lost; no further training can begin in this script")
        with refusing_what_cannot_travel(task, "the training"):
            packed = _dumps(task)
        number = self._order(_TASK, packed)
        return [LaunchedHandle(self, f"answer/{number}/{rank}") for rank in range(1, self.size)]

    def meet(self) -> int:
        """Return the number of a new :meth:`meeting`."""
        self._n_meetings += 1
        return self._n_meetings

    def meeting(self, number: int) -> Any:
        """Return the place where all of them meet for a training."""
        return self.devices.launch_store(f"{self._prefix}/meeting/{number}")

    def _order(self, kind: str, value: Any) -> int:
        self._n_orders += 1
        self._put(f"order/{self._n_orders}", _dumps((kind, value)))
        return self._n_orders

    def sign_in(self) -> None:
        """Tell the others that this process is there."""
        self.store.set(_HERE, "")

    def leave(self) -> None:
        """Tell the others that this process ends: who still waits for it ends, too."""
        with contextlib.suppress(Exception):  # the launcher may be gone
            self._order(_GONE, None)

    # ------------------------------------------------------------------ the others

    def follow(self, name: str) -> Any:
        """Help the first one until it has done what the script calls here as well; return what it says.

        Parameters
        ----------
        name
            Of what the script calls.

        Raises
        ------
        ConfigError
            If the first one has done something else.
        WorkerLostError
            If it has ended.
        Exception
            What it raised.
        """
        self._wait_for_first(name)
        while True:
            self._n_orders += 1
            kind, value = _loads(self._take(f"order/{self._n_orders}"))
            if kind == _GONE:
                raise WorkerLostError(
                    f"the first process has ended, and process {self.rank} waits for it in {name}: all processes of a "
                    "launcher run the same script"
                )
            if kind == _TASK:
                self._put(f"answer/{self._n_orders}/{self.rank}", self._answer(value))
                continue
            done, told = value
            if done != name:
                raise ConfigError(
                    f"the first process has called {done}, and process {self.rank} calls {name}: all processes of a "
                    "launcher run the same script; have what only the first one does call nothing of delira"
                )
            return _unpacked(told)

    def _wait_for_first(self, name: str) -> None:
        deadline = time.monotonic() + _SIGNS_IN_WITHIN
        while not self.has(_HERE):
            time.sleep(_LOOK)
            if time.monotonic() > deadline:
                raise WorkerLostError(
                    f"the first process has called nothing of delira in {_SIGNS_IN_WITHIN:g} s, and process "
                    f"{self.rank} waits for it in {name}: all processes of a launcher run the same script"
                )

    def _answer(self, packed: bytes) -> bytes:
        self.is_at_work = True
        try:
            _loads(packed)(self.rank)
            return _dumps(_dumps(None))
        except BaseException as error:  # the first one decides
            traceback.clear_frames(error.__traceback__)  # they hold what was trained
            return _dumps(_failure(error))
        finally:
            self.is_at_work = False

    # ------------------------------------------------------------------ messages

    def _put(self, key: str, content: bytes) -> None:
        starts = range(0, len(content), _PIECE)
        for number, start in enumerate(starts):
            self.store.set(f"{key}/{number}", content[start : start + _PIECE])
        self.store.set(key, str(len(starts)))  # last: then all is there

    def has(self, key: str) -> bool:
        """Return True if a message is there; waits for nothing."""
        return bool(self.store.check([key]))

    def _take(self, key: str) -> bytes:
        seconds = _LOOK
        while not self.has(key):
            time.sleep(seconds)
            seconds = min(_LONGEST, seconds * 1.5)
        pieces = [f"{key}/{number}" for number in range(int(self.store.get(key)))]
        content = b"".join(map(self.store.get, pieces))
        # who reads last clears up: the launcher would hold all of it
        if self.store.add(f"{key}/read", 1) == (self.size - 1 if key.startswith("order") else 1):
            for piece in pieces:
                self.store.delete_key(piece)
        return content

    def answer(self, key: str) -> Any:
        """Wait for an answer, and return it."""
        return _loads(self._take(key))


class LaunchedHandle:
    """What one of the others does, as a :class:`delira.execution.Handle` has it."""

    def __init__(self, launch: Launch, key: str):
        self._launch, self._key = launch, key
        self._told: Any = None

    def done(self) -> bool:
        """Return True if it has answered."""
        return self._told is not None or self._launch.has(self._key)

    def result(self) -> None:
        """Wait for its end, or raise what it raised."""
        if self._told is None:  # it can be read once
            self._told = self._launch.answer(self._key)
        _unpacked(self._told)


def launched(devices: "DevicesRole") -> Launch | None:
    """Return this process among those that ``torchrun`` has started; ``None`` if it was started alone.

    Parameters
    ----------
    devices
        Of the backend.

    Raises
    ------
    ConfigError
        If the backend does not train in several processes.
    """
    if not is_launched():
        return None
    if not devices.in_processes:
        raise devices.lacking("trains in one process, and torchrun has started several; start the script with python")
    process = os.getpid()
    if process not in _here:
        _here[process] = launch = Launch(
            rank=int(os.environ["RANK"]), size=int(os.environ["WORLD_SIZE"]), devices=devices,
            local_rank=int(os.environ["LOCAL_RANK"]), local_size=int(os.environ["LOCAL_WORLD_SIZE"]),
        )  # fmt: skip
        if launch.is_first:
            launch.sign_in()
            atexit.register(launch.leave)
    return _here[process]


#: this process among those of a launcher, by its number: not that of one that was forked
_here: dict[int, Launch] = {}


def is_launched() -> bool:
    """Return True if torchrun has started this process, beside others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def follows(backend: "Backend") -> bool:
    """Return True if another process that a launcher has started does what scripts say, and this one helps it."""
    launch = launched(backend.devices)
    return launch is not None and not launch.is_first


def on_cpu(owner: Any, network: Any) -> Any:
    """Return a copy of a network that any process can have, whatever devices it has."""
    devices = owner.backend.devices
    return devices.place(copy.deepcopy(network), {}, devices.resolve([], "cpu"))


def led(
    tell: Callable[[Any, Any], Any] = lambda owner, value: value,
    hear: Callable[[Any, Any], Any] = lambda owner, told: told,
) -> Callable[[_Call], _Call]:
    """A method that only the first of several launched processes does; the others help it, and return what it says.

    Parameters
    ----------
    tell
        Called in the first one with the owner and what the method returned; gives what is sent.
    hear
        Called in the others with the owner and what was sent; gives what is returned there.
    """

    def wrap(method: _Call) -> _Call:
        if not is_launched():  # nobody else has to pass through this
            return method

        @functools.wraps(method)
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            launch = launched(self.backend.devices)
            if launch is None or launch.is_at_work:
                return method(self, *args, **kwargs)
            name = method.__qualname__
            if launch.is_first:
                return launch.lead(name, lambda: method(self, *args, **kwargs), functools.partial(tell, self))
            return hear(self, launch.follow(name))

        return called  # type: ignore[return-value]

    return wrap


def _dumps(value: Any) -> bytes:
    from delira.execution.worker import dumps_task

    return dumps_task({})(value)


def _loads(body: bytes) -> Any:
    from delira.execution.worker import loads_task

    return loads_task({})(body)


def _failure(error: BaseException) -> Any:
    from delira.data_loading.workers.process import Failure
    from delira.execution.worker import dumps_answer

    return Failure.of(error, dumps_answer)


def _unpacked(told: Any) -> Any:
    from delira.data_loading.workers.pool import WorkerTraceback
    from delira.data_loading.workers.process import Failure

    if not isinstance(told, Failure):
        return _loads(told)
    error = told.unpacked()
    error.__cause__ = WorkerTraceback(told.text)
    raise error
