"""Where the time of a fold goes: waiting for data, the parts of the step, validation, checkpoints, test."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from delira.contract import tell_marks
from delira.runs.results import TIMES_FILE, VERSION, read_timings
from delira.utils.files import publish_text, sealed

_log = logging.getLogger("delira")
_Item = TypeVar("_Item")

#: what a closure tells apart, by ``delira.contract.mark``
_STEP_PARTS = ("forward", "backward", "update")
_PHASES = ("data", *_STEP_PARTS, "step", "validation", "checkpoint", "test", "other")
#: of the steps that begin a session these are measured, then each 50th: measuring waits for the device
_FIRST_SAMPLES = 32
_BETWEEN_SAMPLES = 50
#: seconds from one writing of the file to the next, while the training runs
_BETWEEN_WRITES = 30.0
#: the pass over the training data, which is divided when it is told
_PASS = "pass"


class PhaseTimes:
    """Adds up the seconds of one fold, over all sessions that worked on it.

    The clock runs inside of :meth:`phase` only, and no second counts twice. The waiting for data is measured at every
    step. Forward, backward and update are measured at a few steps, since that waits for the device, and stand for the
    others; a closure that does not tell them apart, as a compiled one, is one ``step``.

    Parameters
    ----------
    folder
        Folder of the fold, whose ``timings.json`` is continued; None: nothing is written.
    wait
        Returns when the device has done what it was given.
    """

    def __init__(self, folder: Path | None, wait: Callable[[], Any]):
        self._path, self._wait = None if folder is None else folder / TIMES_FILE, wait
        self._before = (None if folder is None else read_timings(folder)) or {"steps": 0, "seconds": {}}
        #: whether the step at hand is one that is measured
        self.is_sampling = False
        self._seconds = dict.fromkeys((_PASS, *_PHASES), 0.0)
        self._stack: list[str] = []
        self._since = self._marked = 0.0
        self._steps, self._next_sample, self._samples = 0, 0, 0
        self._parts: dict[str, float] = {}
        self._written_at = perf_counter()

    # ------------------------------------------------------------------ measuring

    @contextlib.contextmanager
    def phase(self, name: str, since: float | None = None) -> Iterator[None]:
        """Scope whose seconds count as ``name``, but for those of phases inside of it.

        Parameters
        ----------
        name
            ``"validation"``, ``"checkpoint"``, ``"test"`` or ``"other"``.
        since
            When it began by ``time.perf_counter``, if that was before now and outside of all phases.
        """
        if self.is_sampling:
            self.mark("other")
        self._count()
        if since is not None and not self._stack:
            self._since = since
        self._stack.append(name)
        try:
            yield
        finally:
            self._count()
            self._stack.pop()
            self._marked = perf_counter()

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Scope of a pass over the training data."""
        try:
            with self.phase(_PASS):
                yield
        finally:  # an error leaves the batches where they are
            self._forget_listener()

    def steps(self, batches: Iterable[_Item]) -> Iterator[_Item]:
        """The batches; from one that is handed out to the question for the next is a step, the rest waits for data."""
        waited, begin = 0.0, perf_counter()
        try:
            for batch in batches:
                waited += perf_counter() - begin
                if self._steps == self._next_sample:
                    self._begin_sample()
                yield batch
                if self.is_sampling:
                    self.mark("other")
                    self._samples += 1
                    self._forget_listener()
                    if self._steps and not self._can_divide:
                        self._next_sample = -1  # nobody tells the parts, so there is nothing to wait for
                self._steps += 1
                begin = perf_counter()
            waited += perf_counter() - begin
        finally:
            self._forget_listener()
            self._seconds["data"] += waited
            self._seconds[_PASS] -= waited

    def _begin_sample(self) -> None:
        """Measure a step; the first, with all that happens once, only counts if there is no other."""
        number = self._steps
        self._next_sample = number + _BETWEEN_SAMPLES if number >= _FIRST_SAMPLES else 2 * number or 1
        if number == 1:
            self._parts, self._samples = {}, 0
        self._wait()
        self._marked = perf_counter()
        self.is_sampling = True
        tell_marks(self.mark)

    def _forget_listener(self) -> None:
        if self.is_sampling:
            self.is_sampling = False
            tell_marks(None)

    @property
    def _can_divide(self) -> bool:
        return any(part in self._parts for part in _STEP_PARTS)

    def mark(self, part: str) -> None:
        """What has passed since the last mark of the step was this."""
        self._wait()
        now = perf_counter()
        part = part if part in _STEP_PARTS else "other"
        self._parts[part] = self._parts.get(part, 0.0) + now - self._marked
        self._marked = now

    def _count(self) -> None:
        now = perf_counter()
        if self._stack:
            self._seconds[self._stack[-1]] += now - self._since
        self._since = now

    # ------------------------------------------------------------------ telling

    def to_dict(self) -> dict[str, Any]:
        """Everything so far, as ``timings.json`` has it.

        Returns
        -------
        dict
            ``version``; ``steps``, those of the training; ``seconds`` by phase, whose sum is the time in which the
            fold was worked on; ``note``, what is to be known about them.
        """
        self._count()
        seconds = dict(self._seconds)
        whole, measured = max(seconds.pop(_PASS), 0.0), sum(self._parts.values())
        is_told = self._can_divide and measured
        shares = {part: taken / measured for part, taken in self._parts.items()} if is_told else {"step": 1.0}
        for part, share in shares.items():
            seconds[part] += share * whole
        earlier: Mapping[str, float] = self._before["seconds"]
        total = {name: round(seconds.get(name, 0.0) + earlier.get(name, 0.0), 6) for name in {**seconds, **earlier}}
        if total["step"]:
            note = "step is forward, backward and update together: a compiled step, or a closure that marks no parts"
            shown = {name: value for name, value in total.items() if name not in _STEP_PARTS or value}
        else:
            note = f"forward, backward and update are estimated from {self._samples} steps" if self._samples else ""
            shown = {name: value for name, value in total.items() if name != "step"}
        return {"version": VERSION, "steps": self._before["steps"] + self._steps, "seconds": shown, "note": note}

    def write(self, *, at_once: bool = True) -> None:
        """Write the file, or, if that is not to be at once, when it is time again."""
        if self._path is None or not (at_once or perf_counter() - self._written_at > _BETWEEN_WRITES):
            return
        self._written_at = perf_counter()
        try:
            publish_text(self._path, json.dumps(sealed(self.to_dict()), indent=1), durable=False)
        except OSError as error:
            _log.warning("the times of the phases could not be written: %s", error)
