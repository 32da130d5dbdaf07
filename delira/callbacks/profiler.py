"""Where the time of a training goes, part by part; and traces of the frameworks' own profilers."""

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from delira.callbacks.abstract_callback import Callback, Trainer, is_first, trainer_of
from delira.errors import ConfigError, check_flags, check_paths, check_that, check_whole, did_you_mean, if_given
from delira.metrics.tree.metric import Metric
from delira.state import CALLBACK_LIST, METRICS, PHASE, TIMINGS, State

#: parts that belong to steps
STEP_PARTS = ("data", "prepare", "forward", "criterion", "backward", "update", "step", "compile", "callbacks")
PARTS = (*STEP_PARTS, "validation", "checkpoint", "other")
#: events, which torchbearer names the parts by that end there
_OF_EVENTS = {
    "on_sample": "data", "on_forward": "forward", "on_criterion": "criterion", "on_backward": "backward",
    "on_step_training": "update", "on_end_validation": "validation", "on_checkpoint": "checkpoint",
}  # fmt: skip


class _Clock:
    """Adds seconds up by name; a part inside of another is not counted in that."""

    def __init__(self) -> None:
        self.wait: Callable[[], Any] = _nothing
        self.begin({})

    def begin(self, seconds: dict[str, float]) -> None:
        """Count into another dictionary."""
        self.seconds, self._stack, self._since = seconds, ["other"], perf_counter()

    def mark(self, name: str) -> None:
        """Count the time since the last mark under ``name``."""
        self.wait()
        now = perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now

    def between(self, name: str) -> None:
        """Count the time outside of all parts under ``name`` from now on."""
        self.mark(self._stack[0])
        self._stack[0] = name

    @contextlib.contextmanager
    def part(self, name: str, outside: str = "") -> Iterator[None]:
        """Scope whose time counts under ``name``, unless it lies inside of the part ``outside``."""
        if outside in self._stack:
            yield
            return
        self.mark(self._stack[-1])
        self._stack.append(name)
        try:
            yield
        finally:
            self.mark(self._stack.pop())

    def rename(self, name: str) -> None:
        """Count the rest of the current part under ``name``."""
        self._stack[-1] = name


class Profiler(Callback):
    """Measure the seconds of each epoch that its parts take, in the state's ``TIMINGS`` and in :meth:`summary`.

    ``data`` is the time in which the loop waits for a batch, ``prepare`` brings it to its device; ``forward`` (with
    ``on_sample``), ``criterion``, ``backward`` and ``update`` are the step; ``callbacks`` are metrics and callbacks
    after it; then come ``validation``, ``checkpoint``, and what is ``other``. No part is counted in another; to
    prepare the batches of a validation belongs to that.

    A compiled step, and a closure of one's own, is one ``step`` that cannot be divided; one at which it is compiled
    (the first; those of another shape) is ``compile``.

    A GPU computes while Python goes on, so that its time shows up where Python waits for it; with ``wait`` each part
    ends when its results are there.

    Parameters
    ----------
    wait
        Whether to wait for the device at the end of each part. The training is slower then.
    trace_dir
        Folder for a trace by the framework's own profiler (``torch.profiler``: a file for the viewer Perfetto;
        ``tf.profiler`` and ``jax.profiler``: for TensorBoard and XProf); None: no trace. That of a further fold goes
        to a folder ``fold_1`` inside, and so on.
    trace_steps
        The first and the last step that is traced, from 1, of those that this fit makes.

    Raises
    ------
    ConfigError
        If ``trace_steps`` are impossible; at the start of the fit, if the framework has no trace.

    Examples
    --------
    >>> import numpy, torch, delira
    >>> net, profiler, x = torch.nn.Linear(3, 1), Profiler(), numpy.zeros((8, 3), "f4")
    >>> optimizer = torch.optim.SGD(net.parameters(), 0.1)
    >>> trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), ["loss"], [profiler], verbose=0)
    >>> _ = trial.with_train_data(x, x[:, :1], 4).run(2)
    >>> profiler.summary().splitlines()[0].split()
    ['part', 'seconds', 'share', 'ms/step']
    >>> profiler.epochs[0].keys() >= {"data", "forward", "criterion", "backward", "update"}
    True
    """

    phases: tuple[str, ...] = ("fit",)
    traceable = True  # it looks at the clock only, which a compiled step leaves out
    _attached: Callable[[], Any]
    _clock: _Clock
    _traces: contextlib.ExitStack

    def __init__(self, wait: bool = False, trace_dir: str | Path | None = None, trace_steps: tuple[int, int] = (2, 4)):
        check_flags(self, wait=wait)
        check_paths(self, **if_given(trace_dir=trace_dir))
        is_pair = isinstance(trace_steps, (list, tuple)) and len(trace_steps) == 2
        for step in trace_steps if is_pair else ():
            check_whole(self, at_least=1, trace_steps=step)
        is_right = is_pair and trace_steps[0] <= trace_steps[1]
        check_that(is_right, "Profiler", "trace_steps are the first and the last step, from 1", trace_steps)
        self.wait, self.trace_dir = wait, None if trace_dir is None else Path(trace_dir).absolute()
        self.trace_steps = trace_steps
        #: seconds by part, for each epoch of the fit
        self.epochs: list[dict[str, float]] = []
        self._n_steps, self._has_marks = 0, False
        vars(self).update(self._of_this_process())

    def _of_this_process(self) -> dict[str, Any]:
        return {"_attached": _nothing, "_clock": _Clock(), "_traces": contextlib.ExitStack()}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | self._of_this_process()

    def attach(self, trainer: Trainer) -> None:
        """Measure what this trainer does from now on."""
        if self._attached() is trainer:
            return
        self._attached = weakref.ref(trainer)  # a copy for another training does not copy the trainer
        if self.wait:
            self._clock.wait = functools.partial(trainer.backend.devices.synchronize, trainer.devices)
        _measure(trainer.step, "train_on", functools.partial(self._whole_step, trainer))
        _measure(trainer.step, "compute", functools.partial(self._step, trainer))
        _measure(trainer.feed, "prepare", lambda: self._clock.part("prepare", outside="validation"))
        _measure(trainer.evaluator, "validate", lambda: self._clock.part("validation"))
        for method in ("save", "save_epoch"):
            _measure(trainer.saving, method, lambda: self._clock.part("checkpoint"))

    @contextlib.contextmanager
    def _whole_step(self, trainer: Any) -> Iterator[None]:
        is_time = self._n_steps + 1 == self.trace_steps[0] and trainer.run.ranks.is_first
        if self.trace_dir is not None and is_time:
            folder = self.trace_dir / f"fold_{trainer.fold}" if trainer.fold else self.trace_dir
            self._traces.enter_context(trainer.backend.trace(folder))
        with self._clock.part("callbacks"):
            yield
        self._n_steps += 1
        if self._n_steps == self.trace_steps[1]:
            self._traces.close()

    @contextlib.contextmanager
    def _step(self, trainer: Trainer) -> Iterator[None]:
        self._has_marks = False
        with self._clock.part("step"):
            yield
            if self._has_marks:
                # hooks of a compiled step run where it is traced only
                self._clock.rename("compile" if trainer.step.is_compiled else "update")

    def _mark(self, state: State, part: str) -> None:
        self._has_marks = True
        if not trainer_of(state).step.is_compiled:
            self._clock.mark(part)

    # ------------------------------------------------------------------ events

    def on_start(self, state: State) -> None:
        """Begin to measure."""
        backend = trainer_of(state).backend
        if self.trace_dir is not None and backend.trace is None:
            raise ConfigError(f"Profiler: the backend {backend.name!r} has no trace; leave trace_dir out")
        self.epochs, self._n_steps = [], 0
        self._begin_epoch(state)

    def on_start_epoch(self, state: State) -> None:
        """Begin the times of an epoch."""
        if any(part != "other" for part in self.epochs[-1]):
            self._begin_epoch(state)

    def _begin_epoch(self, state: State) -> None:
        self.epochs.append({})
        state[TIMINGS] = self.epochs[-1]
        self._clock.begin(self.epochs[-1])

    def on_start_training(self, state: State) -> None:
        """Note that what is between steps is the loading of data."""
        self._clock.between("data")

    def on_end_training(self, state: State) -> None:
        """Note that what follows is no loading of data."""
        self._clock.between("other")

    def on_forward(self, state: State) -> None:
        """Note that the network was called."""
        self._mark(state, "forward")

    def on_criterion(self, state: State) -> None:
        """Note that the loss is there."""
        self._mark(state, "criterion")

    def on_backward(self, state: State) -> None:
        """Note that the gradients are there."""
        self._mark(state, "backward")

    def on_end(self, state: State) -> None:
        """Stop measuring, and tracing."""
        self._traces.close()
        self._clock.between("other")
        self._clock.begin({})

    def summary(self) -> str:
        """Return the parts of all epochs as a table: seconds, share, and milliseconds for each step.

        Returns
        -------
        str
            Lines; of a fit that runs, of what is done.
        """
        totals = {part: sum(epoch.get(part, 0.0) for epoch in self.epochs) for part in PARTS}
        whole = sum(totals.values()) or 1.0
        lines = [f"{'part':12}{'seconds':>10}{'share':>8}{'ms/step':>10}"]
        for part, seconds in totals.items():
            if seconds:
                per_step = f"{1000 * seconds / self._n_steps:10.3f}" if part in STEP_PARTS and self._n_steps else ""
                lines.append(f"{part:12}{seconds:10.3f}{seconds / whole:8.1%}{per_step}")
        lines.append(f"{'all':12}{whole:10.3f}{1:8.1%}")
        if totals["step"]:
            lines.append("a compiled step, or a closure of one's own, cannot be divided into forward to update")
        return "\n".join(lines)


class TimerMetric(Profiler, Metric):
    """Report seconds of parts of each epoch, under names like ``forward_seconds``; a metric as well as a callback.

    Given as a metric to a trial, it makes itself one of its callbacks. What was measured is recorded with the epoch,
    so ``checkpoint`` is that of the time before the epoch was recorded.

    Parameters
    ----------
    *parts
        Which ones, see :class:`Profiler`; by default all that there are.
    prints
        Whether the table of :meth:`Profiler.summary` is written to the standard error stream at the end of the fit.
    wait
        As for :class:`Profiler`.

    Raises
    ------
    ConfigError
        If there is no such part.

    Examples
    --------
    >>> TimerMetric("data", "validation", prints=False)
    TimerMetric('data', 'validation')
    """

    def __init__(self, *parts: str, prints: bool = True, wait: bool = False):
        parts = tuple(_OF_EVENTS.get(part, part) if isinstance(part, str) else part for part in parts)
        if unknown := [part for part in parts if not isinstance(part, str) or part not in PARTS]:
            raise ConfigError(
                f"TimerMetric: there is no part {unknown[0]!r}{did_you_mean(unknown[0], PARTS)}; there are "
                f"{', '.join(PARTS)}"
            )
        check_flags(self, prints=prints)
        Profiler.__init__(self, wait=wait)
        Metric.__init__(self, "timer")
        self.parts, self.prints = parts, prints

    def reset(self, state: State) -> None:
        """Register this metric as a callback of the fit, if it is not one yet."""
        if state.get(PHASE) == "fit" and not any(one is self for one in state[CALLBACK_LIST]):
            trainer_of(state).register_callback(self)
            self.on_start(state)

    def on_end_epoch(self, state: State) -> None:
        """Report the epoch."""
        self._clock.between("other")  # what runs is counted up to here
        found = self.epochs[-1]
        state[METRICS] |= {f"{part}_seconds": found.get(part, 0.0) for part in self.parts or found}

    def on_end(self, state: State) -> None:
        """Stop measuring, and write the table."""
        super().on_end(state)
        if self.prints and self._n_steps and is_first(state):
            sys.stderr.write(f"{self.summary()}\n")

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state: seconds are those of one process."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return f"TimerMetric({', '.join(map(repr, self.parts))})"


def _measure(part: object, method: str, scope: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
    """Let a method of a part of a trainer run in a scope."""
    own = getattr(part, method)

    def measured(*args: Any, **kwargs: Any) -> Any:
        with scope():
            return own(*args, **kwargs)

    setattr(part, method, measured)


def _nothing() -> None:
    """Do nothing."""
