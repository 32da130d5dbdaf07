"""Batches of any structure as a trainer takes them: with steps of any number, with a loader, without data."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira import state as keys
from delira.contract.kinds import Data, Tree
from delira.data_loading import BaseDataManager
from delira.data_loading.epoch import EpochIterator
from delira.errors import ConfigError, DataError
from delira.state import State
from delira.training.checks import count_batches
from delira.training.feed import has_epochs, is_foreign_loader
from delira.training.state import TrainingState
from delira.utils.trees import n_rows

#: number of steps: until the training is stopped
ENDLESS = -1
#: entries of the batches of a trial
X_ENTRY, Y_ENTRY = "x", "y_true"

#: entries of the usual batch of a data manager
_OF_MANAGERS = {"data", "label"}


class Batch(dict[str, Any]):
    """The input and the target of one step."""

    @property
    def n_samples(self) -> int:
        """Length of the first array of the input, or of the target; 1 without data."""
        return n_rows(self[X_ENTRY], self[Y_ENTRY])


def as_batch(values: Tree) -> Batch:
    """The input and the target of what a loader gave.

    A tuple or list of two is both of them. So is a dict of ``"data"`` and ``"label"``, as data managers give it.
    Anything else is an input.

    Raises
    ------
    DataError
        If it is nothing, a text or a single number, or a tuple or list of more than two, of which nobody knows what is
        the target.
    """
    given, target = _in_parts(values)
    is_pair = isinstance(values, (tuple, list)) and len(values) == 2
    is_nothing = given is None and target is None and not is_pair
    if is_nothing or type(given) in (int, float, bool, complex):
        raise DataError(
            f"a batch is {values!r}, and a trial takes (input, target), several inputs as ((x1, x2), target), all of "
            "them arrays; steps without data: for_train_steps"
        )
    return Batch({X_ENTRY: given, Y_ENTRY: target})


def _in_parts(values: Tree) -> tuple[Any, Any]:
    is_list = isinstance(values, (tuple, list))
    if isinstance(values, (str, bytes)) or (is_list and len(values) not in (1, 2)):
        what = f"a {type(values).__name__} of {len(values)} parts" if is_list else repr(values)
        raise DataError(f"a batch is {what}; a trial takes (input, target), several inputs as ((x1, x2), target)")
    if is_list:
        return values[0], values[1] if len(values) == 2 else None
    if not isinstance(values, Mapping):
        return values, None
    rest = {key: value for key, value in values.items() if key != "label"}
    return rest["data"] if rest.keys() == {"data"} else rest, values.get("label")


class TrialData:
    """One of the data sets of a trial, as a trainer takes it.

    Parameters
    ----------
    generator
        Iterable of batches, a data manager, or None: then there are steps without data.
    steps
        Batches of an epoch; None: all of the generator. More than it has go on from its beginning;
        ``-1``: until the training is stopped.
    state
        Of the trial; a ``loader`` works on it.
    loader
        Function of the state that sets X and Y_TRUE, usually with ``next(state[ITERATOR])``; None: the batch itself.
    keeps_iterator
        Whether an epoch goes on in the generator where the one before it ended.
    """

    def __init__(
        self,
        generator: Data,
        steps: int | None,
        state: State,
        loader: Callable[[State], None] | None = None,
        keeps_iterator: bool = False,
    ):
        self.generator, self.steps, self.state = generator, steps, state
        self.loader, self.keeps_iterator = loader, keeps_iterator
        self._kept: Iterator[Any] | None = None
        #: epoch in which the iterator that is kept began, and batches that it gave; None: there is none yet
        self.place: tuple[int, int] | None = None

    @property
    def n_batches(self) -> int | None:
        """Batches of an epoch, if they can be counted."""
        if self.steps == ENDLESS:
            return None
        return count_batches(self.generator) if self.steps is None else self.steps

    def __len__(self) -> int:
        if (number := self.n_batches) is None:
            raise TypeError("the number of batches is not known")
        return number

    @property
    def is_enterable(self) -> bool:
        """Whether an epoch can be continued at any of its batches: not where a loader of the user's draws them."""
        if self.loader is not None or self.keeps_iterator:
            return False
        if self.generator is None or isinstance(self.generator, Sequence):
            return True
        return isinstance(self.generator, BaseDataManager)

    def epoch(self, seed: int, fold: int, epoch: int, start: int = 0, shuffle: bool = False) -> Iterator[Batch]:
        """The batches of an epoch, from one on."""
        is_plain = self.steps is None and self.loader is None and not self.keeps_iterator
        if is_plain and isinstance(self.generator, BaseDataManager):
            return self._managed((seed, fold, epoch), start, shuffle)
        return self._drawn((seed, fold, epoch), start, shuffle)

    def anew(self) -> "TrialData":
        """Return the same data without the iterator that a fit goes on with."""
        return TrialData(self.generator, self.steps, self.state, self.loader)

    def again(self, counters: tuple[int, int, int], state: TrainingState) -> Iterator[Batch]:
        """Return the batches of an epoch that has ended once more; an iterator that is kept stays where it is."""
        batches = self.epoch(*counters, shuffle=not self.keeps_iterator)
        if self.steps != ENDLESS:
            return batches
        n_steps = state.step_in_epoch or (state.history[-1]["train_steps"] if state.history else 1)
        return itertools.islice(batches, int(n_steps))

    def _managed(self, counters: tuple[int, int, int], start: int, shuffle: bool) -> Iterator[Batch]:
        """The batches of a data manager, as they come."""
        with contextlib.closing(self.generator.epoch(*counters, start=start, shuffle=shuffle)) as batches:
            self.state[keys.ITERATOR] = batches
            yield from map(as_batch, batches)

    def _drawn(self, counters: tuple[int, int, int], start: int, shuffle: bool) -> Iterator[Batch]:
        """As many batches as there are steps; of a generator of which nobody knows the number, all; or without end."""
        state, number = self.state, self.n_batches
        is_open = self.steps is None and number is None
        source = itertools.islice(self.generator, start, None) if is_open else self._source(counters, start, shuffle)
        for _ in itertools.count() if number is None else range(start, number):
            state[keys.ITERATOR] = source
            try:
                batch = self._next(source)
            except StopIteration:
                if is_open:
                    return
                why = "; a generator gives its batches once: pass a list, or a loader"
                once = why if hasattr(self.generator, "__next__") else ""
                raise DataError(f"the data, a {type(self.generator).__name__}, gave no batch{once}") from None
            yield batch
            if self.steps == ENDLESS and state.get(keys.STOP_TRAINING):
                return

    def _next(self, source: Iterator[Any] | None) -> Batch:
        """The next batch; what a loader of the user's leaves out is not that of the batch before."""
        state = self.state
        if self.loader is not None:
            state[keys.X] = state[keys.Y_TRUE] = None
            self.loader(state)
            return Batch({X_ENTRY: state[keys.X], Y_ENTRY: state[keys.Y_TRUE]})
        if source is None:
            return Batch({X_ENTRY: None, Y_ENTRY: None})
        values = next(source)
        # entries of a dict whose names say nothing
        is_named = isinstance(values, Mapping) and not values.keys() & _OF_MANAGERS
        if is_named and not isinstance(self.generator, BaseDataManager):
            raise DataError(
                f"a batch is a dict of {[*values]}, and nothing says what is the target; a trial takes (input, "
                "target), or a dict of 'data' and 'label'"
            )
        return as_batch(values)

    def _source(self, counters: tuple[int, int, int], start: int, shuffle: bool) -> Iterator[Any] | None:
        """The batches, over and over again, from one on; None without data."""
        if self.generator is None:
            return None
        if not (self.keeps_iterator and shuffle):  # they are kept for learning only
            return self._again(counters, start, shuffle)
        self._kept = self._kept or self._going_on(counters)
        return self._kept

    def go_to(self, place: tuple[int, int]) -> None:
        """Let the iterator that is kept go on from a place."""
        self._kept, self.place = None, place

    def _going_on(self, counters: tuple[int, int, int]) -> Iterator[Any]:
        """The iterator that is kept over the epochs; it counts what it gives."""
        first, given = self.place or (counters[2], 0)
        counters = (*counters[:2], first)
        skipped = 0 if count_batches(self.generator) is not None else given
        batches = itertools.islice(self._again(counters, given - skipped, True), skipped, None)
        for number, batch in enumerate(batches, given + 1):
            self.place = (first, number)
            yield batch

    def _again(self, counters: tuple[int, int, int], start: int, shuffle: bool) -> Iterator[Any]:
        """The batches of the generator from one on, over and over; each round through it has an order of its own."""
        seed, fold, epoch = counters
        length = count_batches(self.generator) if start else None
        first, start = divmod(start, length) if length else (0, 0)
        for round_ in itertools.count(first):
            is_empty = True
            if has_epochs(self.generator):
                batches = self.generator.epoch(seed, fold, epoch + round_ * 2**20, start=start, shuffle=shuffle)
            else:
                batches = itertools.islice(self.generator, start, None)
            try:
                for batch in batches:
                    is_empty = False
                    yield batch
            finally:  # also where the pass ends before the data: workers are told
                if isinstance(batches, EpochIterator):
                    batches.close()
            if is_empty and not start:
                return
            start = 0


def check_generator(generator: Data) -> None:
    """Refuse what gives no batches.

    Raises
    ------
    ConfigError
        Saying what is needed.
    """
    if generator is None or has_epochs(generator) or is_foreign_loader(generator) or hasattr(generator, "__iter__"):
        return
    raise ConfigError(f"batches come from an iterable or a data manager, got a {type(generator).__name__}")


def check_steps(steps: Any) -> int | None:
    """A number of steps, ``-1`` for no end, or None.

    Raises
    ------
    ConfigError
        If it is anything else.
    """
    if steps is None:
        return None
    is_number = isinstance(steps, (int, float, np.number)) and not isinstance(steps, bool)
    if not is_number or steps % 1 != 0 or steps < ENDLESS or steps == 0:
        raise ConfigError(f"steps must be a positive whole number, or -1 for no end, got {steps!r}")
    return int(steps)
