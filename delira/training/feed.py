"""The batches of any data: in order, from where an epoch is entered again, and as they are prepared for a network."""

import contextlib
import copy
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from delira.contract import Array, Backend, Data, Tree
from delira.data_loading.data_loader import EpochIterator
from delira.data_loading.data_manager import BaseDataManager
from delira.data_loading.transforms import FittedPreprocessing
from delira.errors import ConfigError, DataError
from delira.utils.arrays import iterate_leaves

if TYPE_CHECKING:
    from delira.training.run import TrainingState


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


def close_workers(*data: Any) -> None:
    """End the worker processes of data managers; other iterables are left alone."""
    for manager in data:
        if isinstance(manager, BaseDataManager):
            manager.close()


class EpochData:
    """The batches of a training epoch from where a run stands in it, and where in them a later step is.

    Parameters
    ----------
    data
        A data manager or another iterable of batches.
    counters
        Seed, fold and epoch.
    state
        Where the run stands.
    shuffle
        Whether a data manager without a sampler shuffles.

    Raises
    ------
    ConfigError
        If the data cannot be entered there.
    """

    def __init__(self, data: Data, counters: tuple[int, int, int], state: "TrainingState", shuffle: bool = True):
        self._first_step = state.step_in_epoch
        self.batches = _enter(data, counters, state, shuffle)

    def position(self, step: int) -> int:
        """Number of the batch after ``step`` steps of the epoch; batches that were left out as a whole count."""
        if isinstance(self.batches, EpochIterator):
            return self.batches.position_after(step - self._first_step)
        return step


def _enter(data: Data, counters: tuple[int, int, int], state: "TrainingState", shuffle: bool) -> Any:
    step = state.step_in_epoch
    if state.has_all_steps:
        return BatchesFrom(range(step), step)
    if has_epochs(data):
        return data.epoch(*counters, start=max(step, state.batch_in_epoch), shuffle=shuffle)
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


Batch = Mapping[str, Any]


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
        self.preprocessing: FittedPreprocessing | None = None

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
        """Scope of batches with what was prepared of them ahead; an iterator of ours is closed, however this ends."""
        shown = self.with_bar(batches, verbose)
        try:
            is_ahead = ahead and self._may_look_ahead()
            yield self._backend.step.feed(shown, self.prepare) if is_ahead else ((batch, None) for batch in shown)
        finally:
            if isinstance(batches, EpochIterator):
                batches.close()

    def with_bar(self, batches: Iterable[Batch], verbose: bool) -> Iterable[Batch]:
        """The batches, with a progress bar in a terminal if that is wanted."""
        if not verbose or sys.stderr is None or not sys.stderr.isatty():
            return batches
        from tqdm import tqdm

        bar: Iterable[Batch] = tqdm(batches, desc=self._bar_text, leave=False)
        return bar


def batch_length(batch: Batch) -> int:
    """Number of samples of a batch, at least 1: the first axis of its first entry, unless it knows better."""
    number = getattr(batch, "n_samples", None)
    try:
        number = len(next(iter(batch.values()))) if number is None else int(number)
    except (StopIteration, TypeError, AttributeError) as error:
        raise DataError(
            f"a batch must be a dict of arrays with the samples first, got {type(batch).__name__}"
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
