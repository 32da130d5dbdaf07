"""One training as its parts share it: where it stands, what changes while it runs, and what it takes of its process."""

import contextlib
import dataclasses
import logging
import operator
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from delira.callbacks.abstract_callback import CallbackList
from delira.contract import NO_HOOKS, Backend, Data, Devices, StepHooks
from delira.data_loading.stream import DataStream
from delira.errors import (
    CheckpointError,
    ConfigError,
    check_flags,
    check_texts,
    check_whole,
)
from delira.settings.config import REDUCTIONS, TrainerConfig, check_epochs, check_fold
from delira.state import State
from delira.training.epoch import EpochData, RunningEpoch, is_foreign_loader
from delira.training.ranks import ALONE, Ranks
from delira.utils import optimizing, seeding
from delira.utils.signals import StopSignals

_log = logging.getLogger("delira")

Tree = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Data, length and score of one training."""

    num_epochs: int
    train_data: Any
    val_data: Any
    val_score_key: str | None
    """Name of the value among those of the epoch, with ``val_``; ``None``: no score is watched."""
    val_score_mode: str
    """``"lowest"`` or ``"highest"``."""
    reduce_mode: str

    def validates(self, epoch: int, val_freq: int) -> bool:
        """Return True if ``epoch`` (from 1) ends with a validation."""
        return self.val_data is not None and epoch % val_freq == 0


def warn_of_score(key: str, stacklevel: int) -> None:
    """Say that a score cannot be watched; ``stacklevel`` as seen from the caller."""
    text = f"val_score_key={key!r} is ignored: there are no validation data, so the last weights are kept"
    warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


def make_plan(config: TrainerConfig, asked: TrainingPlan, *, validates_losses: bool) -> TrainingPlan:
    """Check what was asked for and name the score as the epochs will.

    Parameters
    ----------
    config
        Settings of the trainer.
    asked
        The arguments of ``train``, with the settings in place of those that were left out.
    validates_losses
        Whether losses are computed on validation data.

    Raises
    ------
    ConfigError
        If an argument is impossible, or the score is one that nothing computes.
    """
    config.check_score_key(asked.val_score_key)
    key = asked.val_score_key
    if key is not None and asked.val_data is None:
        warn_of_score(key, stacklevel=4)
        key = None
    if key is not None:
        name = key.removeprefix("val_")
        if name in config.losses and not validates_losses:
            raise ConfigError(
                f"val_score_key={key!r} is a loss, but the network brings its own closure, so no validation losses "
                "are computed; use a validation metric"
            )
        key = f"val_{name}"
    if asked.reduce_mode not in REDUCTIONS:
        raise ConfigError(f"reduce_mode must be one of {REDUCTIONS}, got {asked.reduce_mode!r}")
    return dataclasses.replace(asked, num_epochs=check_epochs(asked.num_epochs), val_score_key=key)


_COUNTS = ("epoch", "step_in_epoch", "batch_in_epoch", "global_step", "fold", "rollbacks")
_KINDS: dict[str, type] = {
    "history": list, **dict.fromkeys(("callbacks", "accumulators", "generators", "loader", "outputs"), Mapping),
}  # fmt: skip


@dataclasses.dataclass
class TrainingState:
    """Counters count what is finished: ``0`` means that nothing is."""

    epoch: int = 0
    """Finished epochs."""

    step_in_epoch: int = 0
    """Finished steps of the running epoch; 0 between epochs."""

    batch_in_epoch: int = 0
    """Number of the next batch inside an epoch; more than the steps if batches were left out as a whole."""

    has_all_steps: bool = False
    """Whether the running epoch has only its validation left."""

    global_step: int = 0
    """Finished steps of all epochs."""

    fold: int = 0
    """Fold of the cross-validation; a counter of every random decision."""

    seed: int = 0
    """Seed of every random decision."""

    best_score: float | None = None
    """Best validation score so far."""

    best_epoch: int | None = None
    """Epoch of the best score, counted from 1."""

    score_key: str | None = None
    """What the best score is a score of."""

    score_mode: str | None = None
    """``"lowest"`` or ``"highest"``: which score is good."""

    outputs: dict[str, Any] = dataclasses.field(default_factory=dict)
    """How outputs are read of which nobody says what they are, by name: ``"output"``, and ``"since"`` which epoch."""

    stop_training: bool = False
    """Set by a callback to end the training after the running epoch."""

    rollbacks: int = 0
    """How often the run went back to a checkpoint because of numbers that were not finite."""

    micro_batches: int = 1
    """Parts that a batch is computed in."""

    history: list[dict[str, float]] = dataclasses.field(default_factory=list)
    """One record for each finished epoch."""

    callbacks: dict[str, Any] = dataclasses.field(default_factory=dict)
    """States of the callbacks, by name."""

    accumulators: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Values of the running epoch; empty between epochs."""

    generators: dict[str, Any] = dataclasses.field(default_factory=dict)
    """States of the random generators inside an epoch; empty between epochs, where they are seeded anew."""

    loader: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Position of a loader of the user's that can tell one; a data manager needs only ``step_in_epoch``."""

    def __post_init__(self) -> None:
        check_whole(self, at_least=0, **{name: getattr(self, name) for name in _COUNTS})
        check_whole(self, seed=self.seed)
        check_whole(self, at_least=1, micro_batches=self.micro_batches)
        check_flags(self, has_all_steps=self.has_all_steps, stop_training=self.stop_training)
        for name, kind in _KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"TrainingState: {name} is a {kind.__name__.lower()}, got {getattr(self, name)!r}")
        if self.best_epoch is not None:
            check_whole(self, at_least=1, best_epoch=self.best_epoch)
        if self.best_score is not None and (isinstance(self.best_score, bool) or not isinstance(self.best_score, Real)):
            raise ConfigError(f"TrainingState: best_score is a number, got {self.best_score!r}")
        texts = {"score_key": self.score_key, "score_mode": self.score_mode}
        check_texts(self, **{name: text for name, text in texts.items() if text is not None})

    @property
    def is_new(self) -> bool:
        """Return True if nothing was trained yet."""
        return self.global_step == 0

    def to_tree(self) -> dict[str, Any]:
        """The state as a checkpoint tree; it shares its parts with the state."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "TrainingState":
        """Read a state back; entries that later versions add keep their defaults."""
        if unknown := tree.keys() - {field.name for field in dataclasses.fields(cls)}:
            raise CheckpointError(
                f"the checkpoint's training state has the unknown entries {sorted(unknown)}; "
                "it was written by a newer version of delira"
            )
        for name, default in vars(cls()).items():
            kind = list if isinstance(default, list) else Mapping
            if isinstance(default, (list, dict)) and not isinstance(tree.get(name, default), kind):
                raise CheckpointError(f"the checkpoint's training state has a {type(tree[name]).__name__} as {name!r}")
        if not isinstance(tree.get("epoch"), Integral):
            raise CheckpointError(f"the checkpoint's training state has the epoch {tree.get('epoch')!r}, no number")
        try:
            return cls(**tree)
        except ConfigError as error:
            raise CheckpointError(f"the checkpoint's training state is none: {error}") from error


class Run:
    """Where a training stands, and what it works with.

    The parts of a trainer share one. Each reads here what is current, since callbacks and users may replace the
    network, the optimizers, the losses and the callbacks themselves.

    Parameters
    ----------
    config
        Settings of the trainer.
    backend
        The verbs of the framework.
    fold
        Fold of the cross-validation; a counter of every random decision.
    save_path
        Folder of the run; None: no file is written.
    callbacks
        The callbacks.
    epoch
        Epochs that count as done before the first.
    ranks
        Which of several processes this is.
    """

    network: Any = None
    key_mapping: dict[str, str]
    inputs: dict[str, list[int]]  # entry of a batch that the network reads -> shape of a sample of the first batch
    spacing: list[list[float]]  # of volumes that it learned from: the least and the largest along each axis, or none
    optimizers: dict[str, Any]
    devices: Devices
    closure: Callable[..., Any]
    hooks: StepHooks = NO_HOOKS
    #: what callbacks of hooks see and change
    hook_state: State
    #: what a call of ``train`` was asked for; None between such calls
    plan: TrainingPlan | None = None
    phase = "fit"  #: of :data:`delira.callbacks.abstract_callback.PHASES`
    #: the epoch at work, its batches, and the number of the update that was begun last
    running: RunningEpoch | None = None
    epoch_data: EpochData | None = None
    begun_step = 0
    #: whether network, optimizers and counters are those of a checkpoint; not while an epoch is at work, or when the
    #: best weights were loaded after it
    is_whole = True
    #: how often network, optimizers or losses were replaced, so that a bound step is no longer theirs
    n_replaced = 0

    def __init__(
        self,
        config: TrainerConfig,
        backend: Backend,
        *,
        fold: int = 0,
        save_path: Path | None = None,
        callbacks: Iterable[Any] = (),
        epoch: int = 0,
        ranks: Ranks | None = None,
    ):
        if not isinstance(config, TrainerConfig):
            raise ConfigError(f"config is a TrainerConfig, with all settings of a trainer, got {config!r}")
        if not isinstance(ranks, Ranks | None):
            raise ConfigError(f"ranks says which of several processes this is, as Ranks(rank, size), got {ranks!r}")
        self.config, self.backend, self.seed, self._fold = config, backend, config.seed, check_fold(fold)
        self.state = TrainingState(epoch=epoch, fold=self._fold, seed=self.seed)
        self.ranks, self.stop_signals = ranks or ALONE, StopSignals()
        self.save_path, self.callbacks = save_path, CallbackList(callbacks)
        self._warned, self.inputs, self.spacing = set[str](), {}, []

    def _set_fold(self, fold: int) -> None:
        self._fold = self.state.fold = check_fold(fold)

    #: fold of the cross-validation, which is read at each step
    fold: int = property(operator.attrgetter("_fold"), _set_fold)  # type: ignore[assignment]

    def _set_callbacks(self, callbacks: CallbackList) -> None:
        self._callbacks, callbacks.is_first = callbacks, self.ranks.is_first

    callbacks: CallbackList = property(operator.attrgetter("_callbacks"), _set_callbacks)  # type: ignore[assignment]

    def set_seed(self, seed: int) -> None:
        """Derive every random decision from another seed from now on."""
        self.config = dataclasses.replace(self.config, seed=seed)
        self.seed = self.state.seed = seed

    def set_losses(self, losses: Mapping[str, Any]) -> None:
        """Compute these losses from now on."""
        self.config = dataclasses.replace(self.config, losses=dict(losses))

    @property
    def learned_names(self) -> frozenset[str]:
        """Names of the weights that the training changes."""
        return self.backend.weights.learned_names(self.network)

    @property
    def weights(self) -> dict[str, Any]:
        """All weights of the network by name, without copying them."""
        return dict(self.backend.checkpoints.state_tree(self.network, {})["model"])

    @property
    def train_data(self) -> Any:
        """The data that the training is at work on; None if it is not."""
        return None if self.plan is None else self.plan.train_data

    @property
    def score_mode(self) -> str:
        """``"lowest"`` or ``"highest"``: which score is good."""
        return self.config.score(None, None)[1] if self.plan is None else self.plan.val_score_mode

    @property
    def score_key(self) -> str | None:
        """Validation score that decides which epoch is the best, as the running training names it."""
        return None if self.plan is None else self.plan.val_score_key

    @property
    def skips_validation(self) -> bool:
        """Return True if the epoch that just ended was not validated though others are."""
        plan = self.plan
        if plan is None or plan.val_data is None:
            return False
        return not plan.validates(self.state.epoch, self.config.val_freq)

    @property
    def has_default_closure(self) -> bool:
        """Return True if the network uses the closure of its backend, so that its losses can be validated."""
        return bool(getattr(self.closure, "is_backend_default", False))

    @property
    def is_unfinished(self) -> bool:
        """Return True if there is something left to do of what was asked for, in all processes alike."""
        state, plan = self.state, self.plan
        wants_more = plan is not None and state.epoch < plan.num_epochs and not state.stop_training
        return bool(self.ranks.agree(bool(state.step_in_epoch) or wants_more))

    def agree_to_stop(self) -> None:
        """Let all processes stop where the first one does, and hear of a signal that it got."""
        state, signals = self.state, self.stop_signals
        state.stop_training, number = self.ranks.agree((state.stop_training, signals.arrived))
        if signals.is_shared:
            signals.received = number

    def bring_network(self) -> None:
        """Bring a network to its device that lies on the host between trainings, as those with spread weights do."""
        if self.config.shard and self.ranks.group is None:
            self.backend.devices.place(self.network, {}, self.devices)

    def learning_rates(self) -> list[float]:
        """Return the learning rates of every group of parameters, as far as the optimizers tell them."""
        made = [getattr(optimizer, "optimizer", optimizer) for optimizer in self.optimizers.values()]
        return optimizing.rates_of_groups(made) or [*self.backend.optimizers.learning_rates(self.optimizers).values()]

    def scale_rates(self, factor: float) -> None:
        """Multiply the learning rates, and those that schedules of the backend go back to."""
        self.backend.optimizers.scale_rates(self.optimizers, factor)
        for callback in self.callbacks:
            if hasattr(callback, "scale_rates"):
                callback.scale_rates(factor)

    @property
    def makes_shares(self) -> bool:
        """Return True if each of several processes makes its share of a batch, and none has a whole one."""
        return self.ranks.group is not None and self.config.shard_transforms

    def enter(self, data: Data, epoch: int) -> Any:
        """Return the training batches of an epoch from where the run stands in it."""
        state = self.state
        if is_foreign_loader(data) and hasattr(data, "set_epoch"):
            data.set_epoch(epoch - 1)
        if state.loader and is_foreign_loader(data) and (state.has_all_steps or not state.step_in_epoch):
            data.load_state_dict(dict(state.loader))  # it may stand where an epoch was broken off
            if isinstance(data, DataStream):  # older checkpoints may say that no batch is left of it
                data.end_epoch()
        how: dict[str, Any] = {"shuffle": self.backend.step.shuffles(self.network)}
        if self.makes_shares:
            how["ranks"] = self.ranks
        self.epoch_data = EpochData(data, (self.seed, self.fold, epoch), state, **how)
        state.batch_in_epoch, state.loader = 0, {}
        return self.epoch_data.batches

    def leave_epoch(self) -> None:
        """Forget the steps of an epoch that was broken off; the weights stay as they are."""
        self.state.step_in_epoch, self.is_whole = 0, True
        self.running = self.epoch_data = None

    def warn_once(self, text: str) -> None:
        """Log a warning of what all processes have in common, unless it was logged before."""
        if self.ranks.is_first and text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)


def update_best(
    run: Run, plan: TrainingPlan, values: Mapping[str, float], is_better: Callable[[float | None, float, str], bool]
) -> bool:
    """Compare the score of the epoch that has ended with the best so far; returns whether it is better.

    Parameters
    ----------
    run
        The run, whose state has the best so far.
    plan
        Says which score is watched.
    values
        Values of the epoch by name.
    is_better
        Called with the best score so far, that of the epoch, and which score is good.

    Raises
    ------
    ConfigError
        If the score was not computed.
    """
    key, state = plan.val_score_key, run.state
    if (state.score_key, state.score_mode) != (key, plan.val_score_mode):  # another score: none of it yet
        if state.score_key == key is not None and state.best_epoch is not None:
            _log.warning(
                "until now the %s %s was the best; from now on it is the %s: the epochs before are not looked at",
                state.score_mode, key, plan.val_score_mode,
            )  # fmt: skip
        state.score_key, state.score_mode = key, plan.val_score_mode
        state.best_score = state.best_epoch = None
    if key is None or not plan.validates(state.epoch, run.config.val_freq):
        return False
    if key not in values:
        raise ConfigError(f"val_score_key={key!r} was not computed; the epoch has {sorted(values)}")
    better, score = run.ranks.agree((is_better(state.best_score, values[key], plan.val_score_mode), values[key]))
    if better:
        state.best_score, state.best_epoch = score, state.epoch
    return bool(better)


@contextlib.contextmanager
def threads_if_possible(backend: Backend, number: int | None) -> Iterator[None]:
    """Scope in which a framework computes with so many threads, unless it cannot choose them any more."""
    with contextlib.ExitStack() as scope:
        with contextlib.suppress(ConfigError):  # the training says it
            scope.enter_context(backend.devices.threads(number))
        yield


@contextlib.contextmanager
def own_generators(backend: Backend) -> Iterator[None]:
    """Give the caller's generators back on exit."""
    state = backend.generators.state()
    with seeding.restored_globals():
        try:
            yield
        finally:
            backend.generators.set_state(state)


def seed_generators(backend: Backend, seed: int, *counters: int, stream: str) -> None:
    """Seed all generators as a function of the seed, the counters and what they are for."""
    backend.generators.seed(seeding.derive_int(seed, *counters, stream=stream))
    seeding.seed_globals(seeding.derive(seed, *counters, stream=f"{stream} globals"))


def generators_state(backend: Backend) -> dict[str, Any]:
    """State of all generators, as a checkpoint tree."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    return {
        "framework": backend.generators.state(),
        "python": {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss},
        "numpy": {"name": name, "keys": keys, "rest": [int(position), int(has_gauss), float(cached)]},
    }


def set_generators(backend: Backend, state: Mapping[str, Any]) -> None:
    """Give all generators the state that :func:`generators_state` told."""
    backend.generators.set_state(state["framework"])
    python, legacy = state["python"], state["numpy"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    position, has_gauss, cached = legacy["rest"]
    np.random.set_state((legacy["name"], legacy["keys"], position, has_gauss, cached))  # noqa: NPY002


class Scopes:
    """Threads, exact algorithms, generators of random numbers and signals, as a run wants them.

    Parameters
    ----------
    run
        The run.
    """

    def __init__(self, run: Run):
        self._run = run
        self._entered = contextlib.ExitStack()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Scope of a training."""
        try:
            self._enter()
            yield
        finally:
            self._entered.close()

    @contextlib.contextmanager
    def left(self) -> Iterator[None]:
        """Scope in the midst of a training in which the process is as it was before, so that others may work there.

        The generators of the run go on afterwards where they were: several trainings may take turns in one process.
        """
        run = self._run
        own, received = generators_state(run.backend), run.stop_signals.received
        self._entered.close()
        try:
            yield
        finally:
            self._enter()
            run.stop_signals.received = received
            set_generators(run.backend, own)

    def _enter(self) -> None:
        run, config, backend = self._run, self._run.config, self._run.backend
        enter = self._entered.enter_context
        enter(backend.devices.threads(config.num_threads))
        enter(own_generators(backend))
        if config.guards.deterministic:
            enter(backend.devices.deterministic())
        enter(run.stop_signals.caught(config.saving.on_signal))
