"""The fluent methods of a trial that say what it is fitted to."""

from collections.abc import Callable
from typing import Any, Self

from delira import state as keys
from delira.contract.kinds import Array, Data, Tree
from delira.data_loading import BaseDataManager, SequentialSampler
from delira.errors import ConfigError
from delira.state import State
from delira.trial.data import ENDLESS, TrialData, check_generator, check_steps
from delira.utils.checks import check_flags, check_functions

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
            check_generator(generator)
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
        """
        return self._set(keys.TRAIN_DATA, _manager(x, y, batch_size, shuffle, num_workers), steps)

    def with_val_data(
        self,
        x: Array,
        y: Array = None,
        batch_size: int = 1,
        shuffle: bool = False,
        num_workers: int = 0,
        steps: int | None = None,
    ) -> Self:
        """Validate on arrays; see :meth:`with_train_data`."""
        return self._set(keys.VALIDATION_DATA, _manager(x, y, batch_size, shuffle, num_workers), steps)

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
        if loader is not None:
            check_functions("with_loader", loader=loader)
        self.state[keys.LOADER] = loader
        self._data = dict.fromkeys(SETS)
        return self


def _manager(x: Array, y: Array, batch_size: int, shuffle: bool, num_workers: int) -> BaseDataManager:
    check_flags("a trial's data", shuffle=shuffle)
    arrays = {"data": _as_array(x)} | ({} if y is None else {"label": _as_array(y)})
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
