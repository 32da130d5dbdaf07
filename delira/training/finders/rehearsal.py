"""Steps of a training that leave no trace: for what tries something out."""

import contextlib
import copy
import dataclasses
import itertools
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.callbacks.abstract_callback import MEMORY, CallbackList
from delira.callbacks.hooks import IN_STEP, PHASES
from delira.contract.kinds import Data, Tree
from delira.errors import ConfigError, DataError
from delira.training.checkpoints import losses_with_state
from delira.training.events import telling_the_end
from delira.training.feed import batches_source, has_epochs, is_foreign_loader
from delira.training.process import own_generators, seed_generators
from delira.training.run import close_workers
from delira.training.running_epoch import RunningEpoch

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer

#: what a callback that acts inside the step may need besides
_KEPT = ("on_start", "on_start_epoch", "on_start_training", *IN_STEP, "on_end")


class _Losses:
    """A callback that keeps the losses of the last step."""

    values: Mapping[str, Any] = {}

    def at_iter_end(self, trainer: "BaseNetworkTrainer", losses: Mapping[str, Any], **facts: Any) -> None:
        """Keep them."""
        self.values = losses


class _InStep:
    """The part of a callback that acts inside the step: what it does at other moments would be seen."""

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
    parts = []
    for callback in callbacks:
        hooks = [hook for hook in _KEPT if id(callback) in heard[hook]]
        if any(hook in IN_STEP for hook in hooks):
            parts.append(_InStep(callback, hooks))
    return parts


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

    def __init__(self, trainer: "BaseNetworkTrainer", data: Data):
        self._trainer, self._data, self._losses = trainer, data, _Losses()
        self._running = RunningEpoch.of(trainer.run, trainer.readings)
        self.batches = self._batches()
        #: the state before the first step
        self.facts: dict[Any, Any] = {}
        self._tree = trainer.backend.arrays.snapshot(
            trainer.backend.checkpoints.state_tree(trainer.module, trainer.optimizers)
        )

    def _batches(self) -> Generator[Any]:
        trainer = self._trainer
        for epoch in itertools.count(trainer.state.epoch + 1):
            is_empty, data = True, self._data
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

    def step(self, batch: Tree) -> float:
        """Train on a batch; returns the sum of the losses, and waits for it."""
        self._trainer.step.train_on(batch, None, False, self._running)
        values = list(self._losses.values.values())
        if not values:
            raise ConfigError("the steps tell no loss, which is what is looked at; let the closure return its losses")
        return float(self._trainer.backend.arrays.read_scalars(values).sum())

    def put_back(self) -> None:
        """Give network, optimizers and state back what they had; what the steps have put there is freed."""
        trainer = self._trainer
        trainer.facts.clear()
        trainer.facts.update(self.facts)
        trainer.backend.optimizers.discard_parts(trainer.optimizers)
        trainer.backend.checkpoints.load_state_tree(self._tree, trainer.module, trainer.optimizers)
        for optimizer in trainer.optimizers.values():
            if hasattr(optimizer, "zero_grad"):
                optimizer.zero_grad()

    @contextlib.contextmanager
    def callbacks(self) -> Iterator[CallbackList]:
        """Scope in which the trainer has those callbacks alone that act inside the step."""
        trainer, before = self._trainer, self._trainer.callbacks
        parts = _parts_in_step(before)
        trainer.callbacks = CallbackList([*parts, self._losses])
        try:
            yield trainer.callbacks
        finally:
            trainer.callbacks = before
            for part in parts:
                part.put_back()


@contextlib.contextmanager
def rehearsing(trainer: "BaseNetworkTrainer", data: Data) -> Iterator[Rehearsal]:
    """Scope whose steps leave no trace: weights, optimizers, generators, history and state are as they were after it.

    Callbacks that change what a step computes take part in it; nothing else of them is called, and no file is written.

    Parameters
    ----------
    trainer
        The trainer; of a trial, its trainer.
    data
        To train on.
    """
    backend, config, facts = trainer.backend, trainer.config, trainer.facts
    exact = backend.devices.deterministic() if config.guards.deterministic else contextlib.nullcontext()
    position = copy.deepcopy(data.state_dict()) if is_foreign_loader(data) else None
    with backend.devices.threads(config.num_threads), own_generators(backend), exact:
        seed_generators(backend, trainer.seed, trainer.fold, trainer.state.epoch + 1, stream="framework")
        state, known, phase = trainer.state, dict(facts), trainer.run.phase
        _give_shapes(trainer, data)
        rehearsal = Rehearsal(trainer, data)
        losses = [(loss, copy.deepcopy(loss.state_dict())) for _, loss in losses_with_state(trainer.run)]
        trainer.state = _scratch(state)
        try:
            with rehearsal.callbacks() as callbacks, _begun(trainer, callbacks, data):
                rehearsal.facts = dict(facts)
                with backend.calls.training(trainer.module), contextlib.closing(rehearsal.batches):
                    yield rehearsal
        finally:
            trainer.state, trainer.run.phase, rehearsal.facts = state, phase, known
            rehearsal.put_back()
            for loss, kept in losses:
                loss.load_state_dict(kept)
            if position is not None:
                data.load_state_dict(position)
            close_workers(batches_source(data))


@contextlib.contextmanager
def _begun(trainer: "BaseNetworkTrainer", callbacks: CallbackList, data: Data) -> Iterator[None]:
    """Scope of a training pass, as callbacks are told."""
    facts, epoch = trainer.facts, trainer.state.epoch
    trainer.run.phase = "fit"
    facts.update({keys.PHASE: "fit", keys.EPOCH: epoch, keys.MAX_EPOCHS: epoch + 1, keys.STOP_TRAINING: False})
    with telling_the_end(callbacks, facts, "fit"):
        for hook in ("on_start", "on_start_epoch"):
            callbacks.fire(hook, facts, "fit")
        trainer.events.begin_pass(keys.TRAIN_DATA, data, "on_start_training")
        yield


def _scratch(state: Any) -> Any:
    """Counters of an epoch that begins, without those of the run."""
    return dataclasses.replace(
        state, step_in_epoch=0, batch_in_epoch=0, has_all_steps=False, stop_training=False, accumulators={},
        generators={}, loader={},
    )  # fmt: skip


def _give_shapes(trainer: "BaseNetworkTrainer", data: Data) -> None:
    """Call a network whose weights have no shape yet, as the first step would."""
    module = trainer.module
    if hasattr(module, "named_parameters"):
        has_shapes = not any(hasattr(weight, "materialize") for _, weight in module.named_parameters())
    else:
        has_shapes = bool(trainer.learned_names)
    if not has_shapes:
        counters = (trainer.seed, trainer.fold, trainer.state.epoch + 1)
        batches = iter(data.epoch(*counters, shuffle=True) if has_epochs(data) else data)
        with trainer.backend.calls.evaluating(module):
            trainer.forward(trainer.feed.prepare(next(batches)))
        if hasattr(batches, "close"):
            batches.close()
