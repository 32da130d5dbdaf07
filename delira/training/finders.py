"""Finders: what to begin a training with, found by steps that are undone."""

import contextlib
import copy
import dataclasses
import itertools
import logging
import math
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.abstract_callback import IN_STEP, MEMORY, PHASES, CallbackList, Trainer
from delira.contract.kinds import Data, Tree
from delira.errors import ConfigError, DataError, check_flags, check_numbers, check_that, check_whole, if_given
from delira.training import checkpoints, objective, run
from delira.training.epoch import (
    RunningEpoch,
    StepValues,
    batch_length,
    batches_source,
    close_workers,
    has_epochs,
    is_foreign_loader,
    map_samples,
)
from delira.utils.pictures import Figure, picture_class

__all__ = ["RateSearch", "find_batch_size", "find_learning_rate"]

_log = logging.getLogger("delira")

_BLUE, _RED, _GREY = "#0072b2", "#d55e00", "#9aa1ab"
#: in the names of devices with memory of their own, which they refuse to give where there is none left
_ACCELERATORS = ("cuda", "gpu")
#: what a callback that acts inside the step may need besides
_KEPT = ("on_start", "on_start_epoch", "on_start_training", *IN_STEP, "on_end")


# ---- a learning rate


@dataclasses.dataclass(frozen=True)
class RateSearch:
    """What :func:`find_learning_rate` has seen, one entry for each rate that was tried.

    Parameters
    ----------
    rates
        Learning rates, shape ``(n,)``.
    losses
        Losses of the steps at these rates, before their update, shape ``(n,)``; the last one may be infinite or no
        number.
    smoothed
        Their moving mean, of which the suggestion is made, shape ``(n,)``.
    n_unsettled
        So many of its first entries are means of a few losses only, and not looked at.
    """

    rates: np.ndarray
    losses: np.ndarray
    smoothed: np.ndarray
    n_unsettled: int = 0

    def __post_init__(self) -> None:
        curves = {"rates": self.rates, "losses": self.losses, "smoothed": self.smoothed}
        length = next((len(curve) for curve in curves.values() if _is_curve(curve)), 0)
        for name, curve in curves.items():
            if not _is_curve(curve) or len(curve) != length:
                raise ConfigError(
                    f"RateSearch: {name} is an array of numbers, as long as the others of rates, losses and smoothed, "
                    f"got {curve!r:.80}"
                )
        check_whole(self, at_least=0, n_unsettled=self.n_unsettled)

    @property
    def suggestion(self) -> float | None:
        """The rate at which the smoothed loss falls the fastest, over the logarithm of the rate, on its way down.

        Slopes are those of lines through a tenth of the entries. None if the loss never falls, or too few rates were
        tried. See Smith, Cyclical learning rates for training neural networks, section 3.3, arXiv:1506.01186 (2015),
        for the test; to take the steepest place of its curve is the rule of fastai (Howard and Gugger,
        arXiv:2002.04688, 2020).
        """
        from scipy.signal import savgol_filter

        finite = np.flatnonzero(np.isfinite(self.smoothed))[self.n_unsettled :]
        lowest = int(np.argmin(self.smoothed[finite])) if len(finite) else 0
        window = max(3, len(self.rates) // 10 | 1)
        if lowest + 1 < window:
            return None
        falling = finite[: lowest + 1]
        slopes = savgol_filter(self.smoothed[falling], window, polyorder=1, deriv=1)
        return float(self.rates[falling[int(np.argmin(slopes))]])

    def plot(self) -> "Figure":
        """The losses over the rates, with the suggestion.

        Returns
        -------
        matplotlib.figure.Figure
            Notebooks show it; ``.savefig(path)`` writes it.
        """
        figure = picture_class()(figsize=(5.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(self.rates, self.losses, color=_GREY, linewidth=0.8, label="loss")
        axes.plot(self.rates, self.smoothed, color=_BLUE, linewidth=1.8, label="smoothed")
        if (rate := self.suggestion) is not None:
            at = int(np.argmin(abs(self.rates - rate)))
            axes.plot([rate], [self.smoothed[at]], "o", color=_RED, label=f"suggestion: {rate:.2g}")
        axes.set_xscale("log")
        axes.set_xlabel("learning rate")
        axes.set_ylabel("loss")
        finite, single = (values[np.isfinite(values)] for values in (self.smoothed, self.losses))
        if len(finite) and (span := finite.max() - single.min()) > 0:  # single losses may be far above
            axes.set_ylim(single.min() - 0.05 * span, finite.max() + 0.05 * span)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        return figure


def _is_curve(curve: Any) -> bool:
    return isinstance(curve, np.ndarray) and curve.ndim == 1 and curve.dtype.kind in "fiu"


def find_learning_rate(
    of: Any,
    data: Data = None,
    start: float = 1e-7,
    end: float = 10.0,
    steps: int = 100,
    smoothing: float = 0.9,
    divergence: float = 4.0,
) -> RateSearch:
    """Try learning rates from small to large, one for each update, until the loss diverges.

    Everything is put back afterwards, bit for bit: weights, optimizers, generators, history, callbacks. The rate itself
    is left as it was, too.

    Parameters
    ----------
    of
        A :class:`delira.Trial`, or a trainer.
    data
        To train on; a trial has its own.
    start, end
        The first and the last rate; those between grow geometrically.
    steps
        How many rates. Data that are shorter begin again.
    smoothing
        Share of the mean so far in the moving mean of the losses, from 0 to 1; its first values are corrected for their
        small number.
    divergence
        The search ends when the smoothed loss is this many times the lowest so far; from 1 on. (Where that is near 0 or
        below, when it is as far above it as the first loss was that often.)

    Returns
    -------
    RateSearch
        With ``rates``, ``losses``, ``suggestion`` and ``plot()``.

    Raises
    ------
    ConfigError
        If an argument is impossible, there are no data, or nobody can change the rate of an optimizer.

    Examples
    --------
    >>> import delira, torch
    >>> x = torch.randn(64, 3)
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), verbose=0).with_train_data(x, x[:, :1], 16)
    >>> search = find_learning_rate(trial, end=0.1, steps=50)
    >>> float(search.rates[0]), len(search.rates)
    (1e-07, 50)
    """
    _check(start, end, steps, smoothing, divergence)
    trainer, data = participants(of, data)
    if hasattr(of, "data_of") and of.state[keys.OPTIMIZER] is None:
        raise ConfigError("the trial has no optimizer whose learning rate could be found")
    tried = np.geomspace(start, end, steps)
    losses, smoothed, mean = [], [], 0.0
    n_batches = range(trainer.config.update.accumulation_steps)  # that make one update
    with rehearsing(trainer, data) as rehearsal, _rates_kept(trainer):
        for number, rate in enumerate(tried, 1):
            trainer.backend.optimizers.set_rates(trainer.optimizers, float(rate))
            losses.append(float(np.mean([rehearsal.step(next(rehearsal.batches)) for _ in n_batches])))
            mean = smoothing * mean + (1 - smoothing) * losses[-1]
            smoothed.append(mean / (1 - smoothing**number))
            if _has_diverged(smoothed, divergence):
                break
    return RateSearch(tried[: len(losses)], np.array(losses), np.array(smoothed), round(1 / (1 - smoothing)) - 1)


@contextlib.contextmanager
def _rates_kept(trainer: Trainer) -> Iterator[None]:
    """Scope after which optimizers have their rates: those of JAX remember the one that was set last."""
    before = {name: getattr(optimizer, "rate", None) for name, optimizer in trainer.optimizers.items()}
    try:
        yield
    finally:
        for name, rate in before.items():
            if rate is not None:
                trainer.optimizers[name].rate = rate


def _has_diverged(smoothed: list[float], divergence: float) -> bool:
    if not math.isfinite(smoothed[-1]):
        return True
    first, lowest = smoothed[0], min(smoothed)
    return smoothed[-1] > lowest + (divergence - 1) * max(abs(lowest), first - lowest)


def _check(start: float, end: float, steps: int, smoothing: float, divergence: float) -> None:
    who = "find_learning_rate"
    check_numbers(who, above=0, start=start, end=end)
    if not start < end:
        raise ConfigError(f"{who}: rates go from start up to end, got {start!r} and {end!r}")
    check_whole(who, at_least=3, steps=steps)
    check_numbers(who, at_least=0, smoothing=smoothing)
    check_numbers(who, above=1, divergence=divergence)
    check_that(smoothing < 1, who, "smoothing is at least 0 and below 1", smoothing)


# ---- a size of batches


def find_batch_size(
    of: Any,
    data: Data = None,
    max_batch_size: int | None = None,
    start: int = 2,
    steps: int = 2,
    is_exact: bool = False,
) -> int:
    """Train on larger and larger batches until the device runs out of memory.

    The samples of the first batch are repeated as often as it takes, so a batch of larger ones may need more memory.
    Everything is put back afterwards, as by :func:`find_learning_rate`.

    Parameters
    ----------
    of
        A :class:`delira.Trial`, or a trainer.
    data
        To train on; a trial has its own.
    max_batch_size
        The largest batch that is tried. It must be given on a CPU: there the system ends processes that need too much
        memory rather than refuse it.
    start
        The first size that is tried; it is doubled as long as there is memory. (Batch normalisation refuses batches of
        one.)
    steps
        Updates with each size. The second one has the optimizer's state beside the gradients.
    is_exact
        Whether to go on between the last size that fitted and the first that did not, down to one sample.

    Returns
    -------
    int
        The largest size that fitted: ``start`` times a power of two, or ``max_batch_size``, unless ``is_exact``.

    Raises
    ------
    ConfigError
        If an argument is impossible, there are no data, not even a batch of ``start`` samples fits, or
        ``micro_batches="auto"``, with which all sizes fit.

    Examples
    --------
    >>> import delira, torch
    >>> x = torch.randn(64, 3)
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), verbose=0).with_train_data(x, x[:, :1], 16)
    >>> find_batch_size(trial, max_batch_size=100)
    100
    """
    sizes = {"start": start, "steps": steps, **if_given(max_batch_size=max_batch_size)}
    check_whole("find_batch_size", at_least=1, **sizes)
    check_flags("find_batch_size", is_exact=is_exact)
    trainer, data = participants(of, data)
    _check_limit(trainer, start, max_batch_size)
    with rehearsing(trainer, data) as rehearsal:
        first = next(rehearsal.batches)
        good, bad = 0, None
        size: int | None = start
        while size is not None:
            if _fits(trainer, rehearsal, first, size, steps):
                good = size
            else:
                bad = size
            size = _next(good, bad, max_batch_size, is_exact)
    if not good:
        raise ConfigError(
            f"the device has not the memory for a batch of {start} samples; begin with a smaller start, or see "
            "micro_batches and mixed_precision"
        )
    return int(good)


def _next(good: int, bad: int | None, limit: int | None, is_exact: bool) -> int | None:
    """The size to try after the largest that fitted and the smallest that did not."""
    if bad is not None:
        return (good + bad) // 2 if is_exact and good and bad - good > 1 else None
    size = 2 * good if limit is None else min(2 * good, limit)
    return size if size > good else None


def _fits(trainer: Trainer, rehearsal: "Rehearsal", first: Any, size: int, steps: int) -> bool:
    """Return True if the device has memory for batches of a size, which repeat the samples of the first one."""
    batch = resized(first, batch_length(first), size)
    is_good = True
    try:
        for _ in range(steps * trainer.config.update.accumulation_steps):
            rehearsal.step(batch)
    except Exception as error:
        if not trainer.backend.devices.is_out_of_memory(error):
            raise
        is_good = False
    if not is_good:  # outside of the handler: the error's traceback holds the memory that is missing
        del batch
        rehearsal.put_back()  # a step that was broken off may have left neither the old nor the new
        trainer.backend.devices.free_memory()
    _log.info("a batch of %d samples %s", size, "fits" if is_good else "does not fit into the device's memory")
    return is_good


def resized(batch: Tree, n_samples: int, size: int) -> Any:
    """A batch with another number of samples: they are repeated.

    Parameters
    ----------
    batch
        Arrays whose first axis are the samples, in any structure; what has another length stays as it is.
    n_samples
        Its number of samples.
    size
        The number that is wanted.
    """
    rows = np.arange(size) % n_samples

    def repeated(entry: Any) -> Any:
        if isinstance(entry, (list, tuple)):
            return type(entry)([entry[row] for row in rows])
        if hasattr(entry, "__array_namespace__") or hasattr(entry, "detach") or isinstance(entry, np.ndarray):
            return entry[rows]
        return np.asarray(entry)[rows] if hasattr(entry, "shape") else entry  # TensorFlow takes no rows

    changed = map_samples(repeated, batch, n_samples)
    return type(batch)(changed) if isinstance(batch, dict) and hasattr(batch, "n_samples") else changed


def _check_limit(trainer: Trainer, start: int, limit: int | None) -> None:
    if trainer.config.guards.micro_batches == "auto":
        raise ConfigError("micro_batches='auto' divides batches that do not fit, so all sizes do; set it to 1")
    if limit is not None and limit < start:
        raise ConfigError(f"find_batch_size: max_batch_size={limit} is below start={start}")
    device = str(trainer.devices.input)
    if limit is None and not any(name in device.lower() for name in _ACCELERATORS):
        raise ConfigError(
            f"find_batch_size: on the device {device!r} the system ends a process that needs too much memory; pass "
            "max_batch_size= as a limit"
        )


# ---- steps that leave no trace


class _InStep:
    """The part of a callback that acts inside the step: what it does at other events would be seen."""

    def __init__(self, callback: Any, hooks: list[str]):
        self.callback, self.phases = callback, getattr(callback, "phases", PHASES)
        for hook in hooks:
            setattr(self, hook, getattr(callback, hook))
        self._state = copy.deepcopy(callback.state_dict()) if hasattr(callback, "state_dict") else None
        self._memory = copy.deepcopy(getattr(callback, "__dict__", {}).get(MEMORY))

    def put_back(self) -> None:
        """Give the callback back what it had counted and remembered."""
        if self._state:
            self.callback.load_state_dict(self._state)
        if MEMORY in getattr(self.callback, "__dict__", {}):
            vars(self.callback)[MEMORY] = self._memory or {}


def _parts_in_step(callbacks: CallbackList) -> list[_InStep]:
    heard = {hook: set(map(id, callbacks.at_hook(hook))) for hook in _KEPT}
    hooks = [(one, [hook for hook in _KEPT if id(one) in heard[hook]]) for one in callbacks]
    return [_InStep(one, names) for one, names in hooks if not set(IN_STEP).isdisjoint(names)]


def participants(of: Any, data: Data) -> tuple[Any, Any]:
    """The trainer of a trial, or the trainer itself, and the data to train on.

    Raises
    ------
    ConfigError
        If there are none, or what is taken from them would be gone; if the framework has no optimizers.
    """
    if hasattr(of, "data_of"):
        if data is not None:
            raise ConfigError("a trial has its data already; leave data out")
        trainer, data = of.trainer, of.data_of(keys.TRAIN_DATA)
        if data is None:
            raise ConfigError("there are no data to train on; give the trial some, e.g. by with_train_data")
        # not the iterator that a fit goes on with
        data = data.anew()
    else:
        trainer = of
        if data is None:
            raise ConfigError("a trainer needs data to train on; pass data=")
    if not trainer.optimizers:
        raise ConfigError(
            f"the backend {trainer.backend.name!r} trains without optimizers, so there is nothing to find"
        )
    given = batches_source(data)
    if hasattr(given, "__next__"):
        raise ConfigError(
            f"batches that are taken from a {type(given).__name__} would be missing in the training; pass a data "
            "manager, a loader or a list"
        )
    return trainer, data


class Rehearsal:
    """Steps of a trainer that are undone: see :func:`rehearsing`."""

    def __init__(self, trainer: Trainer, data: Data):
        self._trainer, self.batches = trainer, _batches(trainer, data)
        self._running = RunningEpoch.of(trainer.run, trainer.readings)
        #: the state that :meth:`put_back` returns to
        self.hook_state: dict[Any, Any] = {}
        self._tree = trainer.backend.arrays.snapshot(
            trainer.backend.checkpoints.state_tree(trainer.module, trainer.optimizers)
        )

    def step(self, batch: Tree) -> float:
        """Train on a batch; returns the sum of the losses, and waits for it."""
        losses = self._running.losses = StepValues(self._trainer.backend.arrays.read_scalars)
        self._trainer.step.train_on(batch, None, False, self._running)
        if not losses.keys():
            raise ConfigError("the steps tell no loss, which is what is looked at; let the closure return its losses")
        return float(np.concatenate([losses[name] for name in losses]).sum())

    def put_back(self) -> None:
        """Give network, optimizers and state back what they had; what the steps have put there is freed."""
        trainer = self._trainer
        trainer.hook_state.clear()
        trainer.hook_state.update(self.hook_state)
        trainer.backend.optimizers.discard_parts(trainer.optimizers)
        trainer.backend.checkpoints.load_state_tree(self._tree, trainer.module, trainer.optimizers)
        for optimizer in trainer.optimizers.values():
            if hasattr(optimizer, "zero_grad"):
                optimizer.zero_grad()


@contextlib.contextmanager
def rehearsing(trainer: Trainer, data: Data) -> Iterator[Rehearsal]:
    """Scope whose steps leave no trace: weights, optimizers, generators, history and state are as they were after it.

    Callbacks that change what a step computes take part in it; nothing else of them is called, and no file is written.

    Parameters
    ----------
    trainer
        The trainer; of a trial, its trainer.
    data
        To train on.
    """
    backend, config, hook_state, state = trainer.backend, trainer.config, trainer.hook_state, trainer.state
    exact = backend.devices.deterministic() if config.guards.deterministic else contextlib.nullcontext()
    position = copy.deepcopy(data.state_dict()) if is_foreign_loader(data) else None
    trainer.run.bring_network()
    with backend.devices.threads(config.num_threads), run.own_generators(backend), exact:
        run.seed_generators(backend, trainer.seed, trainer.fold, state.epoch + 1, stream="framework")
        known, phase, inputs = dict(hook_state), trainer.run.phase, dict(trainer.run.inputs)
        _give_shapes(trainer, data)
        rehearsal, callbacks = Rehearsal(trainer, data), trainer.callbacks
        losses = [(loss, copy.deepcopy(loss.state_dict())) for _, loss in checkpoints.losses_with_state(trainer.run)]
        trainer.state = dataclasses.replace(
            state, step_in_epoch=0, batch_in_epoch=0, has_all_steps=False, stop_training=False, accumulators={},
            generators={}, loader={},
        )  # fmt: skip
        try:
            parts = _parts_in_step(callbacks)
            try:
                with _begun(trainer, data, CallbackList(parts)), contextlib.closing(rehearsal.batches):
                    rehearsal.hook_state = dict(hook_state)
                    yield rehearsal
            finally:
                trainer.callbacks = callbacks
                for part in parts:
                    part.put_back()
        finally:
            trainer.state, trainer.run.phase, rehearsal.hook_state = state, phase, known
            trainer.run.inputs = inputs
            rehearsal.put_back()
            for loss, kept in losses:
                loss.load_state_dict(kept)
            if position is not None:
                data.load_state_dict(position)
            close_workers(batches_source(data))


@contextlib.contextmanager
def _begun(trainer: Trainer, data: Data, callbacks: CallbackList) -> Iterator[None]:
    """Scope of a training pass, as those callbacks are told that act inside the step; the trainer has no other."""
    hook_state, epoch = trainer.hook_state, trainer.state.epoch
    trainer.callbacks, trainer.run.phase = callbacks, "fit"
    hook_state.update({keys.PHASE: "fit", keys.EPOCH: epoch, keys.MAX_EPOCHS: epoch + 1, keys.STOP_TRAINING: False})
    with objective.telling_the_end(callbacks, hook_state, "fit"):
        for hook in ("on_start", "on_start_epoch"):
            callbacks.fire(hook, hook_state, "fit")
        trainer.events.begin_pass(keys.TRAIN_DATA, data, "on_start_training")
        with trainer.backend.calls.training(trainer.module):
            yield


def _batches(trainer: Trainer, data: Data) -> Generator[Any]:
    """The batches to train on, from those of the next epoch on, over and over."""
    for epoch in itertools.count(trainer.state.epoch + 1):
        is_empty = True
        given = iter(data.epoch(trainer.seed, trainer.fold, epoch, shuffle=True) if has_epochs(data) else data)
        try:
            for batch in given:
                is_empty = False
                yield batch
        finally:
            if hasattr(given, "close"):
                given.close()
        if is_empty:
            raise DataError(f"the data to train on, a {type(data).__name__}, gave no batch")


def _give_shapes(trainer: Trainer, data: Data) -> None:
    """Call a network whose weights have no shape yet, as the first step would."""
    module = trainer.module
    if hasattr(module, "named_parameters"):
        has_shapes = not any(hasattr(weight, "materialize") for _, weight in module.named_parameters())
    else:
        has_shapes = bool(trainer.learned_names)
    if not has_shapes:
        with contextlib.closing(_batches(trainer, data)) as batches, trainer.backend.calls.evaluating(module):
            trainer.forward(trainer.feed.prepare(next(batches)))
