"""Batches of any data, in order, and as they are prepared for a network."""

import contextlib
import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from delira.contract import Backend
from delira.contract.kinds import Data
from delira.data_loading.epoch import EpochIterator
from delira.data_loading.preprocessing import FittedPreprocessing
from delira.errors import ConfigError, DataError
from delira.training.data_position import has_epochs

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
