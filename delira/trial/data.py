"""The data of a trial: batches of any structure as a trainer takes them, and the methods that say what they are."""

import contextlib
import itertools
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from delira import state as keys
from delira.contract.kinds import Array, Data, Tree
from delira.data_loading import BaseDataManager, SequentialSampler
from delira.data_loading.data_loader import EpochIterator
from delira.errors import ConfigError, DataError, check_flags, check_functions, check_that, expect, if_given
from delira.state import State
from delira.training.checks import count_batches
from delira.training.epoch import has_epochs, is_foreign_loader
from delira.training.run import TrainingState
from delira.utils.arrays import cast, map_leaves, n_rows, ops_of, shape_of

#: number of steps: until the training is stopped
ENDLESS = -1
#: entries of the batches of a trial
X_ENTRY, Y_ENTRY, W_ENTRY = "x", "y_true", "sample_weight"

#: entries of the usual batch of a data manager
_OF_MANAGERS = {"data", "label"}


class Batch(dict[str, Any]):
    """The input and the target of one step."""

    @property
    def n_samples(self) -> int:
        """Length of the first array of the input, or of the target; 1 without data."""
        return n_rows(self[X_ENTRY], self[Y_ENTRY])


def as_batch(values: Tree) -> Batch:
    """The input and the target of what a loader gave, and the weights of its samples.

    A tuple or list of two is input and target, one of three has weights besides. So is a dict of ``"data"`` and
    ``"label"``, as data managers give it, and ``"sample_weight"``. Anything else is an input.

    Raises
    ------
    DataError
        If it is nothing, a text or a single number, or a tuple or list of more than three, of which nobody knows what
        is the target; if the weights are not one number for each sample.
    """
    given, target, weight = _in_parts(values)
    is_nothing = given is None and target is None and not (isinstance(values, (tuple, list)) and len(values) == 2)
    if is_nothing or type(given) in (int, float, bool, complex):
        raise DataError(
            f"a batch is {values!r}, and a trial takes (input, target), several inputs as ((x1, x2), target), all of "
            "them arrays; steps without data: for_train_steps"
        )
    batch = Batch({X_ENTRY: given, Y_ENTRY: target})
    if weight is not None:
        n_samples, kind = (
            batch.n_samples,
            np.asarray(weight).dtype.kind if isinstance(weight, (list, np.ndarray)) else "f",
        )
        if kind not in "biuf":
            raise DataError("the weights of the samples of a batch are no numbers; convert them: weights.astype('f4')")
        if shape_of(weight) != (n_samples,):
            raise DataError(
                f"the third part of a batch, the weights of its samples, has the shape {shape_of(weight)}, and there "
                f"are {n_samples} samples; several targets come as (input, (target, target))"
            )
        batch[W_ENTRY] = weight
    return batch


def _in_parts(values: Tree) -> tuple[Any, Any, Any]:
    if type(values) is dict and values.keys() == _OF_MANAGERS:  # as nearly always
        return values["data"], values["label"], None
    is_list = isinstance(values, (tuple, list))
    if isinstance(values, (str, bytes)) or (is_list and len(values) not in (1, 2, 3)):
        what = f"a {type(values).__name__} of {len(values)} parts" if is_list else repr(values)
        raise DataError(
            f"a batch is {what}; a trial takes (input, target) or (input, target, weights of the samples), several "
            "inputs as ((x1, x2), target)"
        )
    if is_list:
        first, second, third = (*values, None, None)[:3]
        return first, second, third
    if not isinstance(values, Mapping):
        return values, None, None
    rest = {key: value for key, value in values.items() if key not in ("label", W_ENTRY)}
    return rest["data"] if rest.keys() == {"data"} else rest, values.get("label"), values.get(W_ENTRY)


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
        """Return True if an epoch can be continued at any of its batches, which no loader of the user's draws."""
        if self.loader is not None or self.keeps_iterator:
            return False
        if self.generator is None or isinstance(self.generator, Sequence):
            return True
        return isinstance(self.generator, BaseDataManager)

    def epoch(self, seed: int, fold: int, epoch: int, start: int = 0, shuffle: bool = False) -> Iterator[Batch]:
        """The batches of an epoch, from one on.

        As many as there are steps; else those of a data manager as they come, and of a generator of which nobody knows
        the number all of them; or without end.
        """
        state, counters, is_plain = self.state, (seed, fold, epoch), self.steps is None and self.loader is None
        if is_plain and isinstance(self.generator, BaseDataManager) and not self.keeps_iterator:
            with contextlib.closing(self.generator.epoch(*counters, start=start, shuffle=shuffle)) as batches:
                state[keys.ITERATOR] = batches
                yield from map(as_batch, batches)
            return
        number = self.n_batches
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

    def _next(self, source: Iterator[Any] | None) -> Batch:
        """The next batch; what a loader of the user's leaves out is not that of the batch before."""
        state = self.state
        if self.loader is not None:
            state[keys.X] = state[keys.Y_TRUE] = None
            state.pop(keys.SAMPLE_WEIGHT, None)
            self.loader(state)
            weights = {W_ENTRY: state[keys.SAMPLE_WEIGHT]} if keys.SAMPLE_WEIGHT in state else {}
            return Batch({X_ENTRY: state[keys.X], Y_ENTRY: state[keys.Y_TRUE], **weights})
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


def check_steps(steps: Any) -> int:
    """A number of steps, or ``-1`` for no end.

    Raises
    ------
    ConfigError
        If it is anything else.
    """
    is_number = isinstance(steps, (int, float, np.number)) and not isinstance(steps, bool)
    is_right = is_number and steps % 1 == 0 and steps >= ENDLESS and steps != 0
    expect(("steps", steps, is_right, "a positive whole number, or -1 for no end"))
    return int(steps)


def deep_to(batch: Tree, device: Any = None, dtype: Any = None) -> Any:
    """A batch somewhere else, or in another number format; the batch itself stays as it is.

    Parameters
    ----------
    batch
        Arrays, and tuples, lists, named tuples and dicts of them; what is no array is passed as it is.
    device
        Of PyTorch, for its tensors; None: stay.
    dtype
        For floating-point numbers; None: stay.

    Raises
    ------
    ConfigError
        If there is no such device, or the dtype is none of floating-point numbers.
    """

    def move(leaf: Array) -> Any:
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            return leaf
        if device is not None:
            if not hasattr(leaf, "to"):
                raise ConfigError(f"deep_to moves tensors of PyTorch to devices, got a {type(leaf).__name__}")
            leaf = _moved(leaf, device)
        return _of_type(leaf, dtype) if dtype is not None and ops_of(leaf).is_float(leaf) else leaf

    return map_leaves(move, batch)


def _moved(tensor: Array, device: Any) -> Any:
    check_that(not isinstance(device, bool), "deep_to", "device is one of PyTorch", device)
    try:
        return tensor.to(device=device)
    except Exception as error:  # each kind of device has its own
        raise ConfigError(f"deep_to: there is no device {device!r}: {error}") from error


def _of_type(array: Array, dtype: Any) -> Any:
    why = None
    if not isinstance(dtype, (numbers.Number, list, dict)):  # which PyTorch and numpy make something of
        try:
            if ops_of(made := cast(array, dtype)).is_float(made):
                return made
        except Exception as error:  # each framework has its own
            why = error
    raise ConfigError(f"deep_to: dtype is a floating-point dtype of the framework of the batch, got {dtype!r}") from why


#: key of a data set, under which its generator and its steps are -> keys of each of them
SETS = {
    keys.TRAIN_DATA: (keys.TRAIN_GENERATOR, keys.TRAIN_STEPS),
    keys.VALIDATION_DATA: (keys.VALIDATION_GENERATOR, keys.VALIDATION_STEPS),
    keys.TEST_DATA: (keys.TEST_GENERATOR, keys.TEST_STEPS),
}


class FluentData:
    """The data of a trial; each method returns the trial."""

    state: State

    def __init__(self) -> None:
        self._data: dict[Any, TrialData | None] = dict.fromkeys(SETS)
        for both, (generator, steps) in SETS.items():
            self.state.update({generator: None, steps: None, both: (None, None)})

    def _set(self, data_key: Any, generator: Data = None, steps: int | None = None) -> Self:
        """Take a generator, or steps, for one of the data sets."""
        (generator_key, steps_key), state = SETS[data_key], self.state
        if generator is not None:
            if not (has_epochs(generator) or is_foreign_loader(generator) or hasattr(generator, "__iter__")):
                raise ConfigError(f"batches come from an iterable or a data manager, got a {type(generator).__name__}")
            state[generator_key] = generator
        if steps is not None:
            state[steps_key] = check_steps(steps)
        state[data_key] = (state[generator_key], state[steps_key])
        self._data[data_key] = None
        return self

    def data_of(self, data_key: Any) -> TrialData | None:
        """One of the data sets as a trainer takes it; None if there is neither data nor a number of steps."""
        state, (generator, steps) = self.state, self.state[data_key]
        if generator is None and steps is None:
            return None
        if self._data[data_key] is None:
            keeps = data_key == keys.TRAIN_DATA and state[keys.INF_TRAIN_LOADING]
            self._data[data_key] = TrialData(generator, steps, state, state[keys.LOADER], keeps)
        return self._data[data_key]

    # ------------------------------------------------------------------ generators

    def with_train_generator(self, generator: Data, steps: int | None = None) -> Self:
        """Train on the batches of an iterable.

        Parameters
        ----------
        generator
            A data manager, a DataLoader, a list: anything that gives batches again and again.
        steps
            Batches of an epoch; those of the iterable if it is not said.
        """
        return self._set(keys.TRAIN_DATA, generator, steps)

    def with_val_generator(self, generator: Data, steps: int | None = None) -> Self:
        """Validate on the batches of an iterable; see :meth:`with_train_generator`."""
        return self._set(keys.VALIDATION_DATA, generator, steps)

    def with_test_generator(self, generator: Data, steps: int | None = None) -> Self:
        """Predict the batches of an iterable; see :meth:`with_train_generator`."""
        return self._set(keys.TEST_DATA, generator, steps)

    def with_generators(
        self,
        train_generator: Data = None,
        val_generator: Data = None,
        test_generator: Data = None,
        train_steps: int | None = None,
        val_steps: int | None = None,
        test_steps: int | None = None,
    ) -> Self:
        """Take generators for several data sets at once; what is None stays as it is."""
        self._set(keys.TRAIN_DATA, train_generator, train_steps)
        self._set(keys.VALIDATION_DATA, val_generator, val_steps)
        return self._set(keys.TEST_DATA, test_generator, test_steps)

    # ------------------------------------------------------------------ arrays

    def with_train_data(
        self,
        x: Array,
        y: Array = None,
        batch_size: int = 1,
        shuffle: bool = True,
        num_workers: int = 0,
        steps: int | None = None,
        sample_weight: Array = None,
    ) -> Self:
        """Train on arrays, in an order that depends on the seed and the epoch alone.

        Parameters
        ----------
        x, y
            Arrays or tensors of shape ``(n, ...)``: inputs and targets; ``y=None``: there are no targets.
        batch_size
            Samples of a batch.
        shuffle
            Whether each epoch has an order of its own.
        num_workers
            Processes that make batches; 0: this one.
        steps
            Batches of an epoch; all if it is not said.
        sample_weight
            Weights of the samples in the loss, of shape ``(n,)``. The criterion takes them as its argument
            ``sample_weight``, as those of Keras do; metrics count each sample once.
        """
        return self._set(keys.TRAIN_DATA, _manager(x, y, batch_size, shuffle, num_workers, sample_weight), steps)

    def with_val_data(
        self,
        x: Array,
        y: Array = None,
        batch_size: int = 1,
        shuffle: bool = False,
        num_workers: int = 0,
        steps: int | None = None,
        sample_weight: Array = None,
    ) -> Self:
        """Validate on arrays; see :meth:`with_train_data`."""
        return self._set(keys.VALIDATION_DATA, _manager(x, y, batch_size, shuffle, num_workers, sample_weight), steps)

    def with_test_data(self, x: Array, batch_size: int = 1, num_workers: int = 0, steps: int | None = None) -> Self:
        """Predict arrays; see :meth:`with_train_data`."""
        return self._set(keys.TEST_DATA, _manager(x, None, batch_size, False, num_workers), steps)

    def with_data(  # noqa: PLR0913 - three data sets
        self,
        x_train: Array = None,
        y_train: Array = None,
        x_val: Array = None,
        y_val: Array = None,
        x_test: Array = None,
        batch_size: int = 1,
        num_workers: int = 0,
        train_steps: int | None = None,
        val_steps: int | None = None,
        test_steps: int | None = None,
        shuffle: bool = True,
    ) -> Self:
        """Take arrays for several data sets at once; what is None stays as it is."""
        if x_train is not None:
            self.with_train_data(x_train, y_train, batch_size, shuffle, num_workers, train_steps)
        if x_val is not None:
            self.with_val_data(x_val, y_val, batch_size, False, num_workers, val_steps)
        if x_test is not None:
            self.with_test_data(x_test, batch_size, num_workers, test_steps)
        return self

    # ------------------------------------------------------------------ steps

    def for_train_steps(self, steps: int) -> Self:
        """Let an epoch have a number of steps: with or without data; ``-1``: until the training is stopped."""
        return self._set(keys.TRAIN_DATA, None, steps)

    def for_val_steps(self, steps: int) -> Self:
        """Let a validation have a number of steps."""
        return self._set(keys.VALIDATION_DATA, None, steps)

    def for_test_steps(self, steps: int) -> Self:
        """Let a prediction have a number of steps."""
        return self._set(keys.TEST_DATA, None, steps)

    def for_steps(
        self, train_steps: int | None = None, val_steps: int | None = None, test_steps: int | None = None
    ) -> Self:
        """Numbers of steps for several data sets at once; what is None stays as it is."""
        return self.with_generators(train_steps=train_steps, val_steps=val_steps, test_steps=test_steps)

    def for_inf_train_steps(self) -> Self:
        """Let the training have no end but STOP_TRAINING."""
        return self.for_train_steps(ENDLESS)

    def for_inf_val_steps(self) -> Self:
        """Let a validation have no end but STOP_TRAINING."""
        return self.for_val_steps(ENDLESS)

    def for_inf_test_steps(self) -> Self:
        """Let a prediction have no end but STOP_TRAINING."""
        return self.for_test_steps(ENDLESS)

    def for_inf_steps(self, train: bool = True, val: bool = True, test: bool = True) -> Self:
        """Let several passes have no end but STOP_TRAINING."""
        return self.for_steps(*(ENDLESS if wanted else None for wanted in (train, val, test)))

    # ------------------------------------------------------------------ loading

    def with_inf_train_loader(self) -> Self:
        """Let an epoch go on in the training data where the one before it ended, over and over again."""
        self.state[keys.INF_TRAIN_LOADING] = True
        return self._set(keys.TRAIN_DATA)

    def with_loader(self, loader: Callable[[State], None] | None) -> Self:
        """Let a function of the state make the batches.

        Parameters
        ----------
        loader
            Sets X and Y_TRUE, usually of ``next(state[ITERATOR])``; None: batches are taken as they come.
        """
        check_functions("with_loader", **if_given(loader=loader))
        self.state[keys.LOADER] = loader
        self._data = dict.fromkeys(SETS)
        return self


def _manager(
    x: Array, y: Array, batch_size: int, shuffle: bool, num_workers: int, weights: Array = None
) -> BaseDataManager:
    check_flags("a trial's data", shuffle=shuffle)
    further = {name: _as_array(one) for name, one in {"label": y, W_ENTRY: weights}.items() if one is not None}
    arrays = {"data": _as_array(x), **further}
    return BaseDataManager(arrays, batch_size, num_workers, sampler_cls=None if shuffle else SequentialSampler)


def _as_array(values: Tree) -> Any:
    """A tensor as an array that shares its memory, where it can."""
    if isinstance(values, tuple) and any(hasattr(one, "shape") for one in values):
        raise ConfigError(
            f"these data are one array, got a tuple of {len(values)}; several inputs or targets come as batches, "
            "((a, b), target): with_train_generator, with_val_generator, with_test_generator"
        )
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return values.numpy() if hasattr(values, "numpy") else values
