"""One training in several processes of this machine: others are started, do what the first does, and end with it."""

import contextlib
import dataclasses
import functools
import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.contract.process_settings import SettingsOfProcess
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, TrainingInterrupted, TrialPruned, WorkerLostError, listed
from delira.metrics.tree.criteria import adds_up, weigh
from delira.settings.config import TrainerConfig
from delira.training.launched import Launch, LaunchedHandle, follows, launched, led
from delira.training.ranks import ALONE, Ranks, number_of_processes, resolve_devices

if TYPE_CHECKING:
    from delira.execution import Handle, Shared
    from delira.training.run import Run, TrainingPlan
    from delira.training.trainer import BaseNetworkTrainer

#: seconds after which one that waits for another process gives up, and those in which that may tell why it ended
GIVES_UP_AFTER, _LAST_WORDS = 600.0, 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Training:
    """What each of the processes trains."""

    trainer_cls: type
    network: Any
    save_path: Path | None
    key_mapping: Mapping[str, Any] | None
    config: TrainerConfig
    settings: Mapping[str, Any]
    """As they were given."""
    fold: int
    callbacks: Sequence[Any]
    state: Mapping[str, Any]
    """A checkpoint of now: also the first epoch and the rates of what is new may be others than settings say."""
    plan: "TrainingPlan"
    size: int
    meeting: int
    """Port where they meet; of a launcher the number of their meeting."""
    seconds: float

    def __getstate__(self) -> dict[str, Any]:  # first of all the other process computes by the settings of this one
        backend = self.trainer_cls.backend  # type: ignore[attr-defined]
        return {"process": SettingsOfProcess(backend.devices), **vars(self)}


def _take_part(shared: "Shared[_Training]", rank: int) -> None:
    """Train in a process that is not the first; what it would say the first says."""
    training, cls = shared.value, shared.value.trainer_cls
    backend = cls.backend  # type: ignore[attr-defined]
    devices, launch = resolve_devices(training.config, backend.devices, rank), launched(backend.devices)
    meeting = training.meeting if launch is None else launch.meeting(training.meeting)
    place = rank, training.size, meeting, training.seconds, devices
    with _silent(), backend.devices.group(*place, int) as group:
        trainer = cls(
            training.network, training.save_path, training.key_mapping, fold=training.fold,
            callbacks=training.callbacks, ranks=_ranks(group, training.config), config=training.config,
            **training.settings,
        )  # fmt: skip
        trainer.saving.take(training.state)
        plan, ends = training.plan, (KeyboardInterrupt, TrainingInterrupted, TrialPruned)
        with contextlib.suppress(*ends), _joined(trainer.run, plan, group):
            trainer.train(
                plan.num_epochs, plan.train_data, plan.val_data, plan.val_score_key, plan.val_score_mode,
                plan.reduce_mode, 0,
            )  # fmt: skip


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def ranks_of(backend: Any) -> Ranks | None:
    """Return which one this process is of those that a launcher has started; ``None`` if it does what scripts say."""
    launch = launched(backend.devices)
    return Ranks(launch.rank, launch.size) if launch is not None and follows(backend) else None


def _take_over(trainer: "BaseNetworkTrainer", tree: Mapping[str, Any]) -> Any:
    trainer.saving.take(tree)
    trainer.backend.calls.set_evaluating(trainer.network)
    return trainer.network


#: the training of a trainer, of which those in other processes of a launcher have all that it ends with
led_training = led(lambda trainer, network: trainer.saving.copy(), _take_over)


def _ranks(group: Any, config: TrainerConfig) -> Ranks:
    parts = {"gather": group.gather} if config.shard else {}
    return Ranks(group.rank, group.size, agree=group.agree, group=group, **parts)


@contextlib.contextmanager
def _spread(run: "Run", group: Any) -> Iterator[None]:
    """Scope in which the weights are spread over the processes, if that is wanted."""
    if not run.config.shard:
        yield
        return
    network = run.network
    try:
        with group.spread(network, run.optimizers) as run.network:
            run.hook_state[keys.MODEL] = run.network
            yield
    finally:
        run.network = run.hook_state[keys.MODEL] = network


@contextlib.contextmanager
def in_all_processes(trainer: "BaseNetworkTrainer", plan: "TrainingPlan") -> Iterator[None]:
    """Scope in which the other processes that settings ask for train the same, and take part of each batch.

    Parameters
    ----------
    trainer
        Of the first.
    plan
        What it trains.

    Raises
    ------
    ConfigError
        If it cannot be trained in several processes, or something cannot be sent to them.
    WorkerLostError
        If one of them was lost, or does not answer any more.
    Exception
        What one of them raised.
    """
    run = trainer.run
    devices, size = run.backend.devices, number_of_processes(run.config, run.backend.devices)
    is_done = run.state.epoch >= plan.num_epochs and not run.state.step_in_epoch
    if size == 1 or run.ranks.size > 1 or is_done:
        _tell_what_is_idle(run, size)
        yield
        return
    from delira.execution import Shared
    from delira.execution.executor import usable_cores

    _check(trainer, plan, size)
    launch = launched(devices)
    threads = run.config.num_threads or max(1, usable_cores() // (size if launch is None else launch.local_size))
    seconds = GIVES_UP_AFTER
    meeting: Any = devices.meeting(size, seconds) if launch is None else launch.meet()
    shared = Shared(_Training(
        trainer_cls=type(trainer), network=run.network, save_path=run.save_path, key_mapping=trainer.asked_mapping,
        config=dataclasses.replace(run.config, num_threads=threads), settings=trainer.given_settings, fold=run.fold,
        callbacks=trainer.given_callbacks, state=trainer.saving.copy(), plan=plan,
        size=size, meeting=meeting.port if launch is None else meeting, seconds=seconds,
    ))  # fmt: skip
    with contextlib.ExitStack() as stack:
        with _on_host(trainer):  # what is sent arrives where it lies: all would take memory of one GPU
            others = stack.enter_context(_others(launch, shared, threads))
        stack.enter_context(devices.threads(threads))
        place = meeting if launch is None else launch.meeting(meeting)

        def look() -> None:
            for other in others:
                if other.done():
                    other.result()

        try:
            with devices.group(0, size, place, seconds, run.devices, look) as group, _joined(run, plan, group):
                yield
        except BaseException as error:
            try:
                _tell_cause(error, others)
            finally:
                if launch is not None and isinstance(error, WorkerLostError):
                    launch.is_broken = not all(other.done() for other in others)
            raise
        for other in others:
            other.result()


@contextlib.contextmanager
def _on_host(trainer: "BaseNetworkTrainer") -> Iterator[None]:
    """Scope in which the network, its losses and metrics lie on the host."""
    run, devices, functions = trainer.run, trainer.run.backend.devices, trainer.objective.functions()
    host, before = devices.resolve([], "cpu"), devices.of(run.network)
    if run.devices == host:
        yield
        return
    devices.place(run.network, functions, host)
    try:
        yield
    finally:
        devices.place(run.network, functions, before._replace(output=run.devices.output))


@contextlib.contextmanager
def _others(
    launch: Launch | None, shared: "Shared[_Training]", threads: int
) -> Iterator["Sequence[Handle[None] | LaunchedHandle]"]:
    """Scope in which the others train: those that a launcher has started, or processes of its own."""
    if launch is not None:
        yield launch.start(functools.partial(_take_part, shared))
        return
    from delira.execution import ProcessExecutor, Resources

    size = shared.value.size
    executor = ProcessExecutor(size - 1, gpus=[])
    try:
        tasks = (functools.partial(_take_part, shared, rank) for rank in range(1, size))
        yield [executor.submit(task, Resources(cpus=threads)) for task in tasks]
    finally:
        executor.shutdown()


@contextlib.contextmanager
def _joined(run: "Run", plan: "TrainingPlan", group: Any) -> Iterator[None]:
    """Scope in which a run is that of one of several processes."""
    batch_size, needs_two = getattr(plan.train_data, "batch_size", None), group.normalises(run.network)
    # shares that are planned to be of one sample, such as volumes, have pixels to normalise by
    is_planned = isinstance(batch_size, int) and batch_size >= 2 * group.size
    least = 2 if needs_two and is_planned and not run.config.sync_batchnorm else 1
    run.ranks = dataclasses.replace(_ranks(group, run.config), least=least)
    _tell_what_differs(run, group)
    together = group.normalising(run.network) if run.config.sync_batchnorm else contextlib.nullcontext()
    run.stop_signals.is_shared = True
    for optimizer in run.optimizers.values():
        optimizer.join(group)
    try:
        with together, _spread(run, group):
            yield
    finally:
        run.stop_signals.is_shared = False
        for optimizer in run.optimizers.values():
            optimizer.join(None)
        run.ranks = ALONE


def _check(trainer: "BaseNetworkTrainer", plan: "TrainingPlan", size: int) -> None:
    """Refuse what several processes cannot train together, before they are started."""
    run = trainer.run
    batch_size = getattr(plan.train_data, "batch_size", None)
    if isinstance(batch_size, int) and batch_size < size:
        raise ConfigError(
            f"a batch of {batch_size} samples cannot be shared out to {size} processes; set batch_size={size} or more, "
            "or fewer devices"
        )
    if run.config.shard_transforms and not isinstance(plan.train_data, BaseDataManager):
        raise ConfigError(
            "shard_transforms=True has each process make its share of a batch, for which training data are a "
            f"BaseDataManager, got {type(plan.train_data).__name__}; leave it out"
        )
    if run.config.shard:
        _check_spread(trainer)
    if run.config.guards.micro_batches != 1:
        raise ConfigError(
            f"micro_batches={run.config.guards.micro_batches!r} is for one process; with {size} use a smaller "
            "batch_size and gradient_accumulation_steps"
        )
    if type(trainer.objective) is not trainer.objective_cls:
        raise ConfigError(f"a {type(trainer.objective).__name__} trains in one process; leave devices out")
    for name, optimizer in run.optimizers.items():
        if getattr(optimizer, "evaluates", False):
            raise ConfigError(
                f"the optimizer {name!r} evaluates the loss itself, which works in one process; leave devices out"
            )


def _tell_what_differs(run: "Run", group: Any) -> None:
    names, config = sorted(run.backend.weights.statistics_names(run.network)), run.config
    if (names or group.normalises(run.network)) and not config.sync_batchnorm:
        kept = f", and the running statistics ({listed(names, 2)}) are those of the first one's shares" if names else ""
        run.warn_once(
            f"each of the {group.size} processes normalises its share of a batch by itself{kept}; normalise by groups "
            "if they are small"
        )
    if not run.has_default_closure and (sums := [name for name, loss in config.losses.items() if adds_up(loss)]):
        run.warn_once(
            f"{listed(sums, 3)}: a sum, in a closure of your own, which is taken to learn means: what is learned of a "
            f"batch is the mean of the sums over its {group.size} shares; use reduction='mean'"
        )
    if not run.has_default_closure and config.train_metrics:
        run.warn_once(
            f"{listed(sorted(config.train_metrics), 3)}: computed in a closure of your own, of its share of a batch; "
            "what is recorded is the mean over samples of the shares' values, which for a metric that is no mean over "
            "samples is not that of the batch; metrics=… is computed of all predictions of the epoch"
        )
    counting = [name for name, loss in config.losses.items() if weigh(loss) is not None]
    if getattr(run.closure, "is_over_scales", False) and counting:
        run.warn_once(
            f"{listed(counting, 3)}: over outputs of several scales, what it counts in a share is known of the finest "
            "one alone; with ignored targets or weights of classes it is not quite that of one process, and no number "
            "if no target of a coarser output counts in a share"
        )


def _tell_what_is_idle(run: "Run", size: int) -> None:
    idle = [name for name in ("shard", "shard_transforms", "sync_batchnorm") if size == 1 and getattr(run.config, name)]
    if idle:
        run.warn_once(f"{listed(idle, 3)}: nothing changes, as one process trains the network; set devices=2 or more")


def _check_spread(trainer: "BaseNetworkTrainer") -> None:
    """Refuse what does not work with weights of which no process has all."""
    run, config = trainer.run, trainer.run.config
    compiled = config.compiling.compiled
    wanted = {
        "a closure of one's own": not run.has_default_closure,
        "averaged weights": trainer.weight_average is not None,
        "compile": compiled is not None and compiled is not False,
        "mixed_precision='fp16'": config.update.precision == "fp16",
        "nonfinite='rollback'": config.guards.nonfinite == "rollback",
        "save_in_background": config.saving.background,
        "save_freq_minutes": config.saving.minutes is not None,
    }
    if found := [name for name, is_wanted in wanted.items() if is_wanted]:
        raise ConfigError(f"shard=True spreads the weights over the processes, which excludes {listed(found, 3)}")


def _tell_cause(error: BaseException, others: "Sequence[Handle[None] | LaunchedHandle]") -> None:
    """Raise what another process raised, if it is why this one could not go on."""
    if not isinstance(error, WorkerLostError):
        return
    for rank, other in enumerate(others, 1):
        cause = _raised_by(other)
        if cause is None or (isinstance(cause, WorkerLostError) and cause.__cause__ is not None):
            continue  # it lost another, too
        cause.add_note(f"in process {rank} of the {len(others) + 1} that train the network")
        raise cause


def _raised_by(other: "Handle[None] | LaunchedHandle") -> Exception | None:
    deadline = time.monotonic() + _LAST_WORDS
    while not other.done():
        if time.monotonic() > deadline:
            return WorkerLostError(f"a process did not end within {_LAST_WORDS:g} s after the others: it hangs")
        time.sleep(0.02)
    try:
        other.result()
    except Exception as cause:
        return cause
    return None
