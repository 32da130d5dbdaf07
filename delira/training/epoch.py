"""An epoch: its batches in order, or from where it is entered again, and the values that its steps bring."""

import contextlib
import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from delira.contract import Array, Backend, Data, Tree
from delira.data_loading import data_loader, data_manager, stream, transforms
from delira.data_loading._content import with_progress
from delira.errors import CheckpointError, ConfigError, DataError, NonFiniteLossError, expect
from delira.metrics import MetricSet, kind_of
from delira.metrics.per_class import mean_of_values
from delira.settings.config import REDUCTIONS, TrainerConfig
from delira.training.outputs import OutputReadings
from delira.utils.arrays import iterate_leaves

if TYPE_CHECKING:
    from delira.training.run import Run, TrainingState


class BatchesFrom:
    """The batches of a list or tuple from one on; its length is that of the whole epoch.

    Parameters
    ----------
    batches
        All batches of the epoch.
    start
        Number of the first batch wanted.
    """

    def __init__(self, batches: Sequence[Any], start: int):
        self._batches, self._start = batches, start

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self._batches, self._start, None)

    def __len__(self) -> int:
        return len(self._batches)


def batches_source(data: Data) -> Any:
    """Return what gives the batches: a trial has a loader or a manager inside of its data."""
    return data.generator if hasattr(data, "keeps_iterator") else data


def has_epochs(data: Data) -> bool:
    """Return True if the data give the batches of any epoch, as managers do; a loader may count its own epochs."""
    return callable(getattr(data, "epoch", None))


def is_foreign_loader(data: Data) -> bool:
    """Return True if the data is a loader of the user's that can save and load its position."""
    return not has_epochs(data) and hasattr(data, "state_dict") and hasattr(data, "load_state_dict")


def can_be_entered(data: Data) -> bool:
    """Return True if an epoch of the data can be continued at any of its batches."""
    if has_epochs(data):
        return bool(getattr(data, "is_enterable", True))  # a trial's data may be drawn by a function of the user's
    return isinstance(data, (list, tuple)) or is_foreign_loader(data)


def batches_again(data: Data, counters: tuple[int, int, int], state: "TrainingState") -> Any:
    """Return the training batches of an epoch once more.

    Parameters
    ----------
    data
        A data manager or another iterable of batches, that may say itself what they are by ``again``.
    counters
        Seed, fold and epoch.
    state
        Where the run stands.
    """
    if hasattr(data, "again"):
        return data.again(counters, state)
    return data.epoch(*counters, shuffle=True) if has_epochs(data) else data


Batch = Mapping[str, Any]
#: what to type for batches that are tuples
_NAME_THEM = "name its parts, as in run(…, data_keys=('data', 'label'))"


class NamedBatches:
    """A loader whose batches are tuples, with names for their parts; all else is that of the loader.

    Parameters
    ----------
    loader
        E.g. a ``DataLoader`` of PyTorch, or a ``tf.data.Dataset``.
    names
        Of the parts of a batch, in their order.
    """

    def __init__(self, loader: Data, names: Sequence[str]):
        self.loader, self.names = loader, names

    def __iter__(self) -> Iterator[Batch]:
        return (_named(batch, self.names) for batch in self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name in ("loader", "__setstate__"):  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self.loader, name)


def with_names(names: Sequence[str] | None, *data: Data) -> list[Any]:
    """Return data whose batches are dictionaries; those of managers are that already.

    Parameters
    ----------
    names
        Of the parts of batches that are tuples; None: they are no tuples.
    *data
        Whatever gives batches, or None.

    Raises
    ------
    ConfigError
        If there are no names, or nothing to name.
    """
    if names is None:
        return list(data)
    are_names = isinstance(names, (tuple, list)) and all(isinstance(name, str) for name in names) and names
    expect(("data_keys", names, bool(are_names), "the names of the parts of a batch, e.g. ('data', 'label')"))
    if all(one is None or has_epochs(one) for one in data):
        raise ConfigError(f"data_keys={tuple(names)} names nothing: a data manager names the entries of its batches")
    return [one if one is None or has_epochs(one) else _with_names(names, one) for one in data]


def _with_names(names: Sequence[str], data: Data) -> Any:
    return [_named(one, names) for one in data] if isinstance(data, (list, tuple)) else NamedBatches(data, names)


def _named(batch: Any, names: Sequence[str]) -> Batch:
    if isinstance(batch, Mapping):
        return batch
    if not isinstance(batch, (tuple, list)) or len(batch) != len(names):
        found = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else f"a {type(batch).__name__}"
        raise DataError(f"data_keys={tuple(names)} names {len(names)} parts of a batch, and a batch is {found}")
    return dict(zip(names, batch, strict=True))


def close_workers(*data: Any) -> None:
    """End the worker processes of data managers; other iterables are left alone."""
    for manager in data:
        if isinstance(manager, data_manager.BaseDataManager):
            manager.close()


class EpochData:
    """The batches of a training epoch from where a run stands in it, and where in them a later step is.

    Parameters
    ----------
    data
        A data manager or another iterable of batches.
    counters, state
        Seed, fold and epoch; where the run stands.
    **how
        What a data manager is told: whether to ``shuffle`` without a sampler, and ``ranks``, if each makes its shares.

    Raises
    ------
    ConfigError
        If the data cannot be entered there.
    """

    def __init__(self, data: Data, counters: tuple[int, int, int], state: "TrainingState", **how: Any):
        self._first_step, self._is_shared_out = state.step_in_epoch, "ranks" in how
        self.batches = _enter(data, counters, state, {"shuffle": True, **how})

    def n_samples(self, step: int) -> int | None:
        """Samples of the whole batch of a step, of which a share was made; ``None``: whole batches are made."""
        return self.batches.n_samples_of(self.position(step)) if self._is_shared_out else None

    def position(self, step: int) -> int:
        """Number of the batch after ``step`` steps of the epoch; batches that were left out as a whole count."""
        if isinstance(self.batches, data_loader.EpochIterator):
            return self.batches.position_after(step - self._first_step)
        return step


def _enter(data: Data, counters: tuple[int, int, int], state: "TrainingState", how: Mapping[str, Any]) -> Any:
    step = state.step_in_epoch
    if state.has_all_steps:
        return BatchesFrom(range(step), step)
    if has_epochs(data):
        return data.epoch(*counters, start=max(step, state.batch_in_epoch), **how)
    if not step:
        return data
    if isinstance(data, (list, tuple)):
        return BatchesFrom(data, step)
    if not is_foreign_loader(data) or not state.loader:
        raise ConfigError(
            f"the checkpoint is inside epoch {counters[2]}, after batch {step}, where the training data, a "
            f"{type(data).__name__}, cannot be entered; train with the data it was written with, or resume from a "
            "checkpoint of a whole epoch (resume='…/checkpoint_epoch_<n>…')"
        )
    data.load_state_dict(dict(state.loader))
    return data


class Feed:
    """Gives a network its batches.

    Parameters
    ----------
    backend
        The verbs of the framework.
    prepare
        The network's preparation of a batch on its device.
    bar_text
        Shown before a progress bar.
    may_look_ahead
        Whether batches may be prepared before their turn.
    """

    def __init__(
        self,
        backend: Backend,
        prepare: Callable[[Batch], dict[str, Any]],
        bar_text: str = "Test",
        may_look_ahead: Callable[[], bool] = lambda: True,
    ):
        self._backend, self.prepare, self._bar_text = backend, prepare, bar_text
        self._may_look_ahead = may_look_ahead
        #: what batches go through before they are prepared, unless their manager does it itself
        self.preprocessing: transforms.FittedPreprocessing | None = None

    def in_order(self, data: Data, batchsize: int | None, counters: tuple[int, int, int]) -> Iterable[Batch]:
        """Batches in the order of the data.

        Parameters
        ----------
        data
            A data manager or another iterable of batches.
        batchsize
            Another batch size than the manager's.
        counters
            Seed, fold and epoch, which random loading and transforms depend on.
        """
        if not has_epochs(data):
            if batchsize is not None:
                raise ConfigError(f"batch_size={batchsize} needs a data manager; the data is a {type(data).__name__}")
            if isinstance(data, stream.DataStream):  # it goes on in its training
                return stream.InOrder(data.in_order(), self.preprocessing)
            return data if self.preprocessing is None else map(self.preprocessing, data)  # type: ignore[no-any-return]
        if self.preprocessing is not None and getattr(data, "preprocessing", None) is None:
            data = data.with_preprocessing(self.preprocessing)
        if batchsize is not None and batchsize != data.batch_size:
            data = copy.copy(data)
            data.batch_size = batchsize
        return data.epoch(*counters)  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def opened(
        self, batches: Iterable[Batch], *, verbose: bool = False, ahead: bool = True
    ) -> Iterator[Iterable[tuple[Batch, dict[str, Any] | None]]]:
        """Scope of batches with what was prepared of them ahead; an iterator of ours is closed, however this ends.

        Errors that arise while a batch is in use say which one it is, where that is known.
        """
        number, is_in_use = 0, False

        def counted(fed: Iterable[Any]) -> Iterator[Any]:
            nonlocal number, is_in_use
            for one in fed:
                number, is_in_use = number + 1, True
                yield one
                is_in_use = False

        try:
            shown = with_progress(batches, self._bar_text, leave=False) if verbose else batches
            is_ahead = ahead and self._may_look_ahead()
            yield counted(self._backend.step.feed(shown, self.prepare) if is_ahead else ((one, None) for one in shown))
        except (NonFiniteLossError, CheckpointError):  # of an earlier step, which it names, or of no batch
            raise
        except Exception as error:
            if is_in_use and isinstance(batches, data_loader.EpochIterator):
                error.add_note(f"at {batches.describe(number)}")
            raise
        finally:
            if isinstance(batches, (data_loader.EpochIterator, stream.InOrder)):
                batches.close()


def batch_length(batch: Batch) -> int:
    """Number of samples of a batch, at least 1: the first axis of its first entry, unless it knows better."""
    number = getattr(batch, "n_samples", None)
    try:
        number = len(next(iter(batch.values()))) if number is None else int(number)
    except (StopIteration, TypeError, AttributeError) as error:
        raise DataError(
            f"a batch must be a dict of arrays with the samples first, got {type(batch).__name__}"
            f"{f'; {_NAME_THEM}' if isinstance(batch, (tuple, list)) else ''}"
        ) from error
    if not number:
        raise DataError("a batch has no sample: its first entry is empty; leave such batches out")
    return number


def map_samples(function: Callable[[Any], Any], batch: Tree, n_samples: int) -> Any:
    """Apply a function to everything in a batch that has an entry for each sample, and keep the rest as it is.

    Parameters
    ----------
    function
        Gets an array whose first axis are the samples, or a list or tuple of one object for each.
    batch
        Any structure.
    n_samples
        Its number of samples.
    """
    if isinstance(batch, Mapping):
        return {key: map_samples(function, value, n_samples) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        if len(batch) == n_samples and not all(_length(leaf) == n_samples for _, leaf in iterate_leaves(batch)):
            return function(batch)
        parts = [map_samples(function, value, n_samples) for value in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return function(batch) if _length(batch) == n_samples else batch


def _length(leaf: Array) -> int | None:
    is_single = getattr(leaf, "shape", None) == () or not hasattr(leaf, "__len__") or isinstance(leaf, (str, bytes))
    return None if is_single else len(leaf)


@dataclasses.dataclass
class _Series:
    """The values of one name: those still on the device, those that were read, and what each of them counts."""

    pending: list[Any] = dataclasses.field(default_factory=list)
    values: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))
    sizes: list[Any] = dataclasses.field(default_factory=list)
    steps: list[int] = dataclasses.field(default_factory=list)
    #: of the values so many were looked at already
    checked: int = 0


class StepValues:
    """Values of every step by name.

    Parameters
    ----------
    read
        Brings a list of single device values to the host at once, as float64 of shape ``(n,)``.
    """

    def __init__(self, read: Callable[[Sequence[Any]], np.ndarray]):
        self._read = read
        self._series: dict[str, _Series] = {}

    def append(
        self, values: Mapping[str, Any], n_samples: int, step: int, weights: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the values of one step (counted from 1) over ``n_samples`` samples; nothing is read.

        ``weights`` has what means count instead of samples, by name, perhaps on the device.
        """
        for name, value in values.items():
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = _Series()
            series.pending.append(value)
            series.sizes.append(n_samples if weights is None else weights.get(name, n_samples))
            series.steps.append(step)

    def __getitem__(self, name: str) -> np.ndarray:
        """All values of one name so far, float64 of shape ``(n_steps,)``."""
        series = self._series[name]
        if series.pending:
            series.values = np.concatenate([series.values, self._read(series.pending)])
            series.pending = []
        return series.values

    def _sizes_of(self, name: str) -> np.ndarray:
        """Return the weight of each value, float64 of shape ``(n_steps,)``."""
        series = self._series[name]
        if any(not isinstance(size, (int, float)) for size in series.sizes):
            series.sizes = self._read(series.sizes).tolist()
        return np.asarray(series.sizes, dtype=np.float64)

    def after(self, name: str, step: int) -> np.ndarray:
        """The values of the steps after one, float64 of shape ``(n,)``."""
        return self[name][np.asarray(self._series[name].steps) > step]

    def __iter__(self) -> Iterator[str]:
        return iter(self._series)

    def keys(self) -> list[str]:
        """Names seen so far."""
        return list(self._series)

    def check_finite(self, epoch: int) -> None:
        """Refuse values that are infinite or not a number; each value is looked at once.

        Raises
        ------
        NonFiniteLossError
            Naming the epoch, the first bad step and the loss.
        """
        first: tuple[int, str, float] | None = None
        for name, series in self._series.items():
            values = self[name]
            bad = series.checked + np.flatnonzero(~np.isfinite(values[series.checked :]))
            series.checked = len(values)
            if len(bad) and (first is None or series.steps[bad[0]] < first[0]):
                first = (series.steps[bad[0]], name, float(values[bad[0]]))
        if first is not None:
            step, name, value = first
            error = NonFiniteLossError(
                f"loss {name!r} became {value} in epoch {epoch}, step {step} of the epoch. No checkpoint was written "
                "after it. Look at the learning rate and the data of that batch, or set nonfinite='skip' to leave "
                "such updates out (nonfinite='ignore' to go on)"
            )
            error.step = step
            raise error

    def merge(self, other: "StepValues") -> None:
        """Take in the steps of another one, as if they had come after the own; it stays as it is."""
        for name, series in other.copy()._series.items():
            if name in self._series:
                own, values = self._series[name], np.concatenate([self[name], series.values])
                series = _Series([], values, [*own.sizes, *series.sizes], [*own.steps, *series.steps], own.checked)
            self._series[name] = series

    def copy(self) -> "StepValues":
        """The same values, to be continued apart."""
        twin = StepValues(self._read)
        twin.load_state_dict(self.state_dict())
        return twin

    def state_dict(self) -> dict[str, Any]:
        """The values as a checkpoint tree; what is still on the device is read."""
        return {
            name: {
                "values": self[name],
                "sizes": _as_integers(self._sizes_of(name)),
                "steps": np.array(series.steps, dtype=np.int64),
                "checked": series.checked,
            }
            for name, series in self._series.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        for name, kept in state.items():
            values = np.asarray(kept["values"], dtype=np.float64)
            self._series[name] = _Series([], values, kept["sizes"].tolist(), kept["steps"].tolist(), kept["checked"])

    def reduce(self, mode: str = "mean", *, finite_only: bool = False) -> dict[str, float]:
        """One number for each name: the mean over samples, or the sum, first or last of the steps."""
        reduced = {}
        for name in self:
            values, sizes = self[name], self._sizes_of(name)
            if finite_only and (keep := np.isfinite(values)).any():
                values, sizes = values[keep], sizes[keep]
            reduced[name] = reduce_values(values, mode, sizes)
        return reduced


def _as_integers(sizes: np.ndarray) -> np.ndarray:
    """Numbers of samples as such; sums of weights as they are."""
    whole = sizes.astype(np.int64)
    return whole if np.array_equal(whole, sizes) else sizes


def reduce_values(values: Tree, mode: str = "mean", sizes: np.ndarray | None = None) -> float:
    """Reduce the values of one name; without ``sizes`` all steps count the same."""
    array = np.asarray(values, dtype=np.float64).ravel()
    if mode == "mean" and sizes is not None:
        counts = sizes > 0  # the mean of nothing is no number
        return float(np.average(array[counts], weights=sizes[counts])) if counts.any() else math.nan
    expect(("reduce_mode", mode, mode in REDUCTIONS, f"one of {REDUCTIONS}"))
    if mode in ("mean", "sum"):
        return float(array.mean() if mode == "mean" else array.sum())
    return float(array[0 if mode == "first_only" else -1])


class RunningEpoch:
    """Losses and metrics of one epoch.

    Parameters
    ----------
    config
        Settings of the trainer.
    backend
        The backend's verbs.
    rates
        Learning rates with which the epoch began, by name.
    left_out
        Batches that were left out of updates before it began.
    metrics
        Those over the epoch, with what is known of the predictions that they read; as losses and settings say if
        ``None``.
    """

    def __init__(
        self,
        config: TrainerConfig,
        backend: Backend,
        rates: Mapping[str, float],
        left_out: int = 0,
        metrics: Mapping[str, Any] | None = None,
    ):
        self.losses, self.metrics = StepValues(backend.arrays.read_scalars), StepValues(backend.arrays.read_scalars)
        self.rates, self.left_out = dict(rates), left_out
        self._skips = config.guards.nonfinite == "skip"
        if metrics is None:
            metrics = config.bound(config.metrics, backend=backend)
        self.over_epoch = MetricSet(metrics, config.keys_of(metrics)) if metrics else None
        self._kinds = {name: kind_of(metric, name) for name, metric in metrics.items()}

    @classmethod
    def of(cls, run: "Run", readings: OutputReadings | None) -> Self:
        """Make the record of an epoch that begins now.

        Parameters
        ----------
        run
            The run.
        readings
            Outputs of which nobody says what they are.
        """
        config, optimizers = run.config, run.backend.optimizers
        metrics = config.bound(config.metrics, backend=run.backend)
        if readings is not None:
            metrics = readings.settled(metrics, config.keys_of(metrics), run.state.outputs)
        rates, left_out = optimizers.learning_rates(run.optimizers), optimizers.count_left_out(run.optimizers)
        return cls(config, run.backend, rates, left_out, metrics)

    def finish(self, n_steps: int) -> tuple[StepValues, StepValues]:
        """Compute the metrics over the epoch; returns ``(metrics, losses)``."""
        if self.over_epoch is None:
            return self.metrics, self.losses
        metrics = self.metrics.copy()  # a checkpoint in the validation holds only what the steps brought
        partial = self.over_epoch.lacking
        for name, array in self.over_epoch.compute().items():
            metrics.append({name: mean_of_values(array, name in partial)}, 1, n_steps)
        return metrics, self.losses

    def reduce(self, values: Tree, mode: str) -> dict[str, float]:
        """Return one number for each name of what the steps brought, as :meth:`finish` or a user's loop has it."""
        if isinstance(values, StepValues):
            return values.reduce(mode, finite_only=self._skips)
        return {name: reduce_values(steps, mode) for name, steps in values.items()}

    @property
    def is_storable(self) -> bool:
        """Return True if all of it can be put into a checkpoint; not if a streaming metric hides its state."""
        return self.over_epoch is None or self.over_epoch.is_storable

    def state_dict(self) -> dict[str, Any]:
        """Return the losses, metrics and rates so far as a checkpoint tree."""
        return {
            "losses": self.losses.state_dict(),
            "metrics": self.metrics.state_dict(),
            "over_epoch": {} if self.over_epoch is None else self.over_epoch.state_dict(),
            "kinds": self._kinds,
            "rates": self.rates,
            "left_out": self.left_out,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint.

        Raises
        ------
        CheckpointError
            If the metrics over the epoch were others: they would be computed over a part of it.
        """
        kinds = state.get("kinds", self._kinds)
        if kinds != self._kinds:
            raise CheckpointError(
                f"the checkpoint is inside an epoch with the metrics {_listed(kinds)}, but the trainer has "
                f"{_listed(self._kinds)}; train with the same metrics, or resume from a checkpoint of a whole epoch "
                "(resume='…/checkpoint_epoch_<n>…')"
            )
        self.losses.load_state_dict(state["losses"])
        self.metrics.load_state_dict(state["metrics"])
        self.rates, self.left_out = dict(state["rates"]), state.get("left_out", 0)
        if self.over_epoch is not None:
            self.over_epoch.load_state_dict(state["over_epoch"])


def _listed(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name!r} ({kind})" for name, kind in sorted(kinds.items())) or "none"
