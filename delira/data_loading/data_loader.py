"""From indices to batches: the loader with its sampler, what makes a batch, and the iterator over an epoch."""

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading._exact import Indices, check_count, collate, from_the_front, to_index_array
from delira.data_loading.abstract_dataset import AbstractDataset, Batch, name_sample, numbers_of, times_set
from delira.data_loading.array_dataset import as_dataset
from delira.data_loading.sampler import AbstractSampler, SequentialSampler
from delira.data_loading.transforms import FittedPreprocessing, TransformCall
from delira.errors import ConfigError, DataError, did_you_mean, expect
from delira.utils.arrays import map_leaves
from delira.utils.lazy import for_old_scripts
from delira.utils.seeding import can_seed_torch, check_seed, counted, derive, seeded_globals
from delira.utils.threads import single_threaded

#: arguments of samplers that have a value for each sample
_PER_SAMPLE = {"weights", "labels", "groups"}


class BaseDataLoader:
    """Collates samples to a batch of arrays of shape ``(B, ...)``.

    Calling it loads the batch of given indices; iterating over it yields the batches of one epoch,
    always the same one.

    Parameters
    ----------
    dataset
        A dataset, a dict of arrays or a list of dicts.
    batch_size
        Samples per batch when iterating.
    num_batches
        Batches of one iteration; by default as many as there are, the last one may be smaller.
    seed
        When iterating, seeds the order and, around the loading of each batch, the global generators of
        Python, numpy and torch (CPU).
    sampler
        The order when iterating; by default sequential.
    sampler_cls, sampler_kwargs
        Class of the sampler, built with ``from_dataset``, and what that is handed; instead of ``sampler``.
    sampler_queues
        Of version 0.4: where :meth:`generate_train_batch` reads indices; it may stand before ``batch_size``.
    """

    #: of the queues, that of this loader
    thread_id = 0
    #: told the index of each sample that is loaded singly
    watch: Callable[[int | None], None] | None = None

    def __init__(  # noqa: PLR0913 - the historic signatures
        self,
        dataset: object,
        batch_size: Any = 1,
        num_batches: int | None = None,
        seed: Any = 1,
        sampler: Any = None,
        *,
        sampler_cls: type[AbstractSampler] | None = None,
        sampler_kwargs: Mapping[str, Any] | None = None,
        sampler_queues: Sequence[Any] = (),
    ) -> None:
        is_queues = isinstance(batch_size, (list, tuple)) and all(hasattr(one, "get") for one in batch_size or [None])
        if is_queues:  # 0.4: (dataset, sampler_queues, batch_size, num_batches, seed)
            sampler_queues, batch_size = batch_size, 1 if num_batches is None else num_batches
            num_batches, seed, sampler = (None, 1, None) if sampler is None else (seed, sampler, None)
        self.sampler_queues = sampler_queues
        self.dataset = as_dataset(dataset)
        self.batch_size = check_count(batch_size, "batch_size", 1)
        self.seed = check_seed(seed)
        self._named = name_sampler(sampler, sampler_cls, sampler_kwargs, self.dataset)
        self.sampler = None if self._named is None else self._named.sampler
        n_samples = len(self.dataset if self.sampler is None else self.sampler)
        available = -(-n_samples // self.batch_size)
        self.num_batches = available if num_batches is None else check_count(num_batches, "num_batches", 1)
        if self.num_batches > available:
            raise ConfigError(
                f"num_batches={num_batches} is more than the {available} batches that "
                f"{n_samples} samples in batches of {self.batch_size} make"
            )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "generate_train_batch" in vars(cls):
            for_old_scripts("data").adapt_loader(cls)

    @property
    def _data(self) -> AbstractDataset:
        return self.dataset

    def _get_sample(self, index: int) -> Any:
        """Return one sample; a loader of the user's may change it here."""
        return self.dataset[index]

    def generate_train_batch(self) -> Batch:
        """Return the batch whose indices are next in ``sampler_queues``; a loader of the user's may change it here."""
        return BaseDataLoader.__call__(self, self.sampler_queues[self.thread_id].get())

    def __call__(self, indices: Indices) -> Batch:
        """Load one batch.

        Parameters
        ----------
        indices : sequence of int, or ndarray of shape (B,)
            Indices into the dataset.

        Raises
        ------
        DataError
            If a sample is no dict or does not have the shapes of the others.
        MissingKeyError
            If a sample has other keys than the others.
        SampleIndexError
            If the dataset has no such sample.
        """
        if not isinstance(indices, np.ndarray) or indices.dtype.kind != "i" or indices.ndim != 1:
            indices = to_index_array(indices, "a batch")
        if not len(indices):
            raise ConfigError("a batch needs at least one index, got none")
        try:
            is_own = type(self)._get_sample is BaseDataLoader._get_sample
            batch = self.dataset.get_batch(indices) if is_own else None
            if batch is not None:
                return batch
            # Python integers: users' datasets may look them up anywhere
            samples = [self._load(number) for number in indices.tolist()]
            return collate(samples, numbers_of(self.dataset, indices).tolist())
        except (IndexError, KeyError):
            from_the_front(indices, len(self.dataset), self.dataset)  # names the index, unless it is not to blame
            raise

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Batch]:
        if self._named is not None and self._named.sampler is self.sampler:
            self._named = self._named.with_labels_of(self.dataset)
            self.sampler = self._named.sampler
        sampler = self.sampler or SequentialSampler.from_dataset(self.dataset)
        rng = np.random.default_rng(derive(self.seed, 0, 0, stream="order"))
        order = check_order(np.asarray(sampler.batched_order(rng, self.batch_size)), sampler, len(self.dataset))
        for number in range(self.num_batches):
            seeds = derive(self.seed, 0, 0, number, stream="loading")
            with counted((self.seed, 0, 0)), seeded_globals(seeds):
                batch = self(order[number * self.batch_size : (number + 1) * self.batch_size])
            yield batch

    def _load(self, index: int) -> Any:
        if self.watch is not None:
            self.watch(index)
        try:
            return self._get_sample(index)
        except StopIteration as error:  # would end the epoch in silence
            raise DataError(
                f"loading {name_sample(self.dataset, index)} raised StopIteration; "
                "call next(iterator, default) there, or give the dataset fewer samples"
            ) from error
        except Exception as error:
            error.add_note(f"while {name_sample(self.dataset, index)} was loaded")
            raise


# ------------------------------------------------------------------ the sampler that a user names


@dataclasses.dataclass(frozen=True)
class NamedSampler:
    """A sampler that the user named, and how to build its like for other data."""

    sampler: AbstractSampler
    cls: type[AbstractSampler] | None = None
    """None if the user passed a finished sampler."""
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def for_part(self, indices: object, length: int) -> "NamedSampler":
        """Take of arguments with a value for each of ``length`` samples those at ``indices``."""
        kwargs = dict(self.kwargs)
        for name in kwargs.keys() & _PER_SAMPLE:
            value = kwargs[name]
            if hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping)) and len(value) == length:
                kwargs[name] = np.asarray(value)[np.asarray(indices)]
        return dataclasses.replace(self, kwargs=kwargs)

    def for_dataset(self, dataset: AbstractDataset) -> "NamedSampler":
        """Build the like of this sampler for ``dataset``; a finished one stays as it is."""
        return self if self.cls is None else _built(self.cls, self.kwargs, dataset)

    def with_labels_of(self, dataset: AbstractDataset) -> "NamedSampler":
        """Return the same, built anew if ``set_labels`` has changed the labels of its dataset since it was built.

        Raises
        ------
        ConfigError
            If it was passed as a finished one.
        """
        whose, number = self.sampler.made_from or (0, 0)
        if self.sampler.made_from is None or number == times_set(dataset):
            return self
        if self.cls is None and whose == id(dataset):
            name = type(self.sampler).__name__
            raise ConfigError(
                f"the {name} was built before set_labels changed the labels of this {type(dataset).__name__}, so it "
                f"draws by the old ones; build it again with {name}.from_dataset, or pass sampler_cls={name}"
            )
        return self.for_dataset(dataset)


def name_sampler(
    sampler: object, sampler_cls: object, kwargs: Mapping[str, Any] | None, dataset: AbstractDataset
) -> NamedSampler | None:
    """Build the sampler that the user named, or return None if there is none.

    Raises
    ------
    ConfigError
        If both ways of naming are used, the wrong kind of object is named, or an epoch would be empty.
    """
    if sampler is not None and sampler_cls is not None:
        raise ConfigError(f"pass either sampler or sampler_cls, got {sampler!r} and {sampler_cls!r}")
    expect(("sampler_kwargs", kwargs, isinstance(kwargs, Mapping | None), "a dict of arguments"))
    if sampler_cls is not None and not isinstance(sampler_cls, type):
        raise ConfigError(f"sampler_cls must be a class, got {sampler_cls!r}; an instance is passed as sampler")
    named = sampler_cls if sampler is None else sampler
    if isinstance(named, type) and issubclass(named, AbstractSampler):
        return _built(named, dict(kwargs or {}), dataset)
    if named is not None and not isinstance(named, AbstractSampler):
        raise ConfigError(f"the sampler must be an AbstractSampler or a subclass of it, got {named!r}")
    if kwargs:
        raise ConfigError(f"sampler_kwargs={kwargs!r} have no effect without sampler_cls; pass sampler_cls too")
    return None if named is None else NamedSampler(_not_empty(named))


def check_order(order: np.ndarray, sampler: AbstractSampler, length: int) -> np.ndarray:
    """Refuse an order that is no list of ``len(sampler)`` integers below ``length``."""
    name = type(sampler).__name__
    if order.dtype.kind not in "iu" or order.shape != (len(sampler),):
        raise ConfigError(
            f"{name}.order must return {len(sampler)} integers (its length), "
            f"got an array of shape {order.shape} and dtype {order.dtype}"
        )
    if not 0 <= order.min() <= order.max() < length:
        raise ConfigError(
            f"{name} asks for samples {order.min()} to {order.max()}, but the dataset has {length}; "
            "build the sampler for this dataset, with from_dataset"
        )
    return order


def _built(cls: type[AbstractSampler], kwargs: Mapping[str, Any], dataset: AbstractDataset) -> NamedSampler:
    own = inspect.signature(cls.__init__).parameters
    parameters = {**own, **inspect.signature(cls.from_dataset).parameters}
    known = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values())
    if not is_open and (unknown := [name for name in kwargs if name not in known]):
        known = [name for name in known if name not in ("self", "dataset", "indices")]
        raise ConfigError(f"{cls.__name__} takes no {unknown[0]!r}{did_you_mean(str(unknown[0]), known)}")
    return NamedSampler(_not_empty(cls.from_dataset(dataset, **kwargs)), cls, kwargs)


def _not_empty(sampler: AbstractSampler) -> AbstractSampler:
    if not len(sampler):
        raise ConfigError(f"an epoch of the {type(sampler).__name__} has no samples; check its arguments")
    return sampler


class BatchTask(NamedTuple):
    """Which batch is wanted."""

    number: int
    """Its number in the epoch."""
    indices: np.ndarray
    """Its samples, shape (B,), dtype int64."""
    counters: tuple[int, int, int]
    """Seed, fold and epoch."""
    banned: tuple[tuple[int, str], ...] = ()
    """Samples that are not to be touched again, with what reading them did to a process."""
    session: int = 0
    """The iteration of a pool of workers that it is of."""
    ranks: tuple[int, ...] = ()
    """A further counter of random numbers: the process whose share of the batch this is."""

    def seed(self, stream: str) -> np.random.SeedSequence:
        """Return the seed of random numbers of one kind."""
        return derive(*self.counters, self.number, *self.ranks, stream=stream)


class Made(NamedTuple):
    """What came of a task."""

    batch: Batch | None
    """None if no sample of it was good."""
    bad: tuple[tuple[int, str], ...] = ()
    """Samples left out, with the reason."""
    drew: tuple[str, ...] = ()
    """Random generators that a worker's copy of the transforms or the dataset keeps, and that were drawn from."""


#: is told what is going on while a batch is made: which sample is being loaded, None: the transform is at work
Watch = Callable[[int | None], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchRecipe:
    """Everything that makes batches of indices; worker processes get it once, when they start."""

    loader: BaseDataLoader
    """Indices in, one batch out."""
    preprocessing: FittedPreprocessing | None = None
    """Applied to each batch first."""
    transform: TransformCall | None = None
    """Applied to each batch."""
    draws: bool = True
    """Whether the global generators (Python, numpy, torch on the CPU) may be drawn from; seeding costs 0.1 ms."""
    skips_bad: bool = False
    """Whether samples that cannot be loaded are left out."""

    def make(self, task: BatchTask, watch: Watch | None = None) -> Made:
        """Load and transform one batch; the caller's global generators are left as they were.

        Errors of the dataset and the transform arrive as they are, with a note that names the batch.
        """
        self.loader.watch = watch
        try:
            with counted(task.counters):
                if not self.draws and not task.banned:
                    return self._load(task)
                knew_torch = can_seed_torch()
                made = self._draw(task, watch)
                if can_seed_torch() and not knew_torch:  # its generator could not be seeded before
                    made = self._draw(task, watch)
                return made
        except StopIteration as error:  # would end the epoch in silence
            raise DataError(
                f"making batch {task.number + 1} raised StopIteration; catch it in the dataset or the transform"
            ) from error
        except Exception as error:
            error.add_note(f"while {describe_task(task, self.loader.dataset)} was made")
            raise

    def _draw(self, task: BatchTask, watch: Watch | None) -> Made:
        with single_threaded(), seeded_globals(task.seed("loading")):
            batch, bad, _ = self._load(task)
            if batch is None:
                return Made(None, bad)
            if self.preprocessing is not None:
                batch = self.preprocessing(batch)
            if self.transform is not None:
                if watch is not None:
                    watch(None)
                batch = _transformed(self.transform, batch, task, len(task.indices) - len(bad))
            return Made({key: map_leaves(_compact, value) for key, value in batch.items()}, bad)

    def _load(self, task: BatchTask) -> Made:
        if not self.skips_bad:
            return Made(self.loader(task.indices))
        banned = dict(task.banned)
        is_banned = np.isin(task.indices, [*banned])
        bad = [(index, banned[index]) for index in task.indices[is_banned].tolist()]
        good = task.indices[~is_banned]
        try:
            return Made(self.loader(good) if good.size else None, tuple(bad))
        except Exception:  # which of them?
            reasons = [_failure(self.loader, index) for index in good]
        bad += [(int(index), reason) for index, reason in zip(good, reasons, strict=True) if reason]
        # where each alone can be loaded, they do not fit together: it is raised again
        good = good[[reason is None for reason in reasons]]
        return Made(self.loader(good) if good.size else None, tuple(bad))


def describe_task(task: BatchTask, dataset: object = None) -> str:
    """Name a batch and its samples, by number in the user's dataset and by case; batches and epochs count from 1.

    Parameters
    ----------
    task
        The batch.
    dataset
        That it is made of; numbers are those of the dataset that a subset looks at.
    """
    seed, fold, epoch = task.counters
    some = task.indices[:16]
    numbers, cases = numbers_of(dataset, some).tolist(), _cases(dataset, some)
    named = (
        f"{one} ({case})" if case not in ("", str(one)) else str(one) for one, case in zip(numbers, cases, strict=True)
    )
    shown = ", ".join(named) + (", ..." if len(task.indices) > 16 else "")
    of_epoch = f" of epoch {epoch}" if epoch else ""  # 0 stands for a pass that is no epoch of a training
    return f"batch {task.number + 1}{of_epoch} (fold {fold}, seed {seed}; samples {shown})"


def _cases(dataset: Any, indices: np.ndarray) -> list[str]:
    """What samples are called; empty where nobody knows."""
    try:
        names = dataset.case_names
        return [str(names[index]) for index in indices.tolist()]
    except Exception:  # a user's dataset, and this is but a message
        return [""] * len(indices)


def _transformed(transform: TransformCall, batch: Batch, task: BatchTask, size: int) -> Batch:
    rng = np.random.default_rng(task.seed("transform")) if transform.takes_rng else None
    samples = [key for key, value in batch.items() if _length(value) == size]
    result = transform(batch, rng, f"batch {task.number + 1}")
    lengths = {key: _length(result[key]) for key in samples}
    if len({*lengths.values()} - {None}) > 1:
        raise DataError(
            f"transform {transform.name} left different numbers of samples in the entries of batch {task.number + 1}: "
            f"{lengths}; it must keep them alike"
        )
    return result


def _length(value: object) -> int | None:
    shape = getattr(value, "shape", ())  # of arrays, and of tensors that a transform may make of them
    return int(shape[0]) if shape else None


def _compact(value: object) -> Any:
    """Return an array in the order that it would have after a journey between processes: sums depend on it."""
    return value.copy(order="C") if isinstance(value, np.ndarray) and not value.flags.c_contiguous else value


def _failure(load: Callable[[np.ndarray], Batch], index: int) -> str | None:
    """Why a sample cannot be loaded; None if it can."""
    try:
        load(np.array([index]))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@dataclasses.dataclass(eq=False, kw_only=True)
class EpochBatches:
    """The batches of one epoch by their number, each made here when it is asked for; workers run ahead."""

    recipe: BatchRecipe
    """How a batch is made."""
    order: np.ndarray
    """The indices of the whole epoch, shape (n,), dtype int64."""
    batch_size: int
    """Samples per batch; the last batch may be smaller."""
    n_batches: int
    """Batches of the whole epoch."""
    counters: tuple[int, int, int]
    """Seed, fold and epoch."""
    ranks: Any = None
    """Which of several processes this is, as :class:`delira.training.ranks.Ranks`, if it makes its shares alone."""

    def indices(self, number: int) -> np.ndarray:
        """Return the samples of batch ``number``, shape (B,), dtype int64."""
        start = number * self.batch_size
        return self.order[start : start + self.batch_size]

    def task(self, number: int) -> BatchTask:
        """Say what batch ``number`` consists of, or the share of it that is made here."""
        indices, ranks = self.indices(number), self.ranks
        if ranks is None:
            return BatchTask(number, indices, self.counters)
        return BatchTask(number, indices[ranks.rows(len(indices))], self.counters, ranks=(ranks.rank,))

    def get(self, number: int) -> Made:
        """Make batch ``number``; nothing has to be loaded to get to a later one."""
        return self.recipe.make(self.task(number))

    def close(self, error: BaseException | None = None) -> None:
        """Let go of what made them; ``error`` is what ended the iteration, if it was not its end."""


class EpochIterator(Iterator[Batch]):
    """Walks once over the batches of an epoch and knows where it is.

    Parameters
    ----------
    batches
        The batches of the epoch.
    start
        Number of the first batch wanted; earlier ones are not loaded.
    bad_samples
        Where samples that were left out are noted: index -> reason.

    Attributes
    ----------
    position : int
        Number of the next batch; stays where it is if that batch cannot be loaded.

    Raises
    ------
    ConfigError
        If the epoch has no batch ``start``; one past the last is allowed and yields nothing.
    """

    def __init__(
        self, batches: EpochBatches, start: int = 0, bad_samples: MutableMapping[int, str] | None = None
    ) -> None:
        self.bad_samples: MutableMapping[int, str] = {} if bad_samples is None else bad_samples
        self._batches = batches
        self._end = batches.n_batches  # where to stop
        self._lost_batches: set[int] = set()
        self._lost_samples: set[int] = set()
        self.seek(start)

    def seek(self, position: int) -> None:
        """Go to a batch by its number; those between are not loaded.

        Raises
        ------
        ConfigError
            If the epoch has no such batch; one past the last is allowed.
        """
        position = check_count(position, "start", 0)
        if position > self._batches.n_batches:
            raise ConfigError(f"start={position} is beyond the {self._batches.n_batches} batches of the epoch")
        self.position = self._origin = position

    def position_after(self, n_batches: int) -> int:
        """Position after so many batches that were handed out since the start or the last :meth:`seek`.

        It is not always ``position``, since somebody may have asked for batches ahead, and batches may have been
        left out as a whole.
        """
        position = self._origin
        while n_batches:
            n_batches -= position not in self._lost_batches
            position += 1
        return position

    def describe(self, n_batches: int) -> str:
        """Name the last of so many batches that were handed out since the start or the last :meth:`seek`."""
        return describe_task(
            self._batches.task(self.position_after(n_batches) - 1), self._batches.recipe.loader.dataset
        )

    def __len__(self) -> int:
        """Count the batches of the whole epoch, wherever the iterator is."""
        return self._batches.n_batches

    @property
    def n_samples(self) -> int:
        """Samples in the batches of the whole epoch."""
        return min(self._batches.n_batches * self._batches.batch_size, len(self._batches.order))

    def n_samples_of(self, number: int) -> int:
        """Samples of batch ``number``, counted from 0."""
        return len(self._batches.indices(number))

    @property
    def order(self) -> np.ndarray:
        """Indices into the dataset in the order of this epoch, shape (n_samples,), dtype int64."""
        return self._batches.order[: self.n_samples]

    @property
    def loaded_order(self) -> np.ndarray:
        """The same without the samples that this iterator has left out, since they could not be loaded."""
        return self.order[~np.isin(self.order, [*self._lost_samples])] if self._lost_samples else self.order

    def __next__(self) -> Batch:
        while self.position < self._end:
            try:
                made = self._batches.get(self.position)
            except BaseException as error:
                if not isinstance(error, Exception):  # the user interrupts: nobody will come back
                    self.close(error)
                raise
            self.position += 1
            if made.bad:
                self._note(made)
            if made.batch is not None:
                return made.batch
        self.close()
        raise StopIteration

    def close(self, error: BaseException | None = None) -> None:
        """End the iteration; further ``next`` calls raise StopIteration, ``position`` stays."""
        self._end = 0
        self._batches.close(error)

    def __del__(self) -> None:
        self.close()

    def _note(self, made: Made) -> None:
        for index, reason in made.bad:
            self._lost_samples.add(int(index))
            if index not in self.bad_samples:
                self.bad_samples[index] = reason
                name = name_sample(self._batches.recipe.loader.dataset, index)
                warnings.warn(f"{name} is left out, it cannot be loaded: {reason}", UserWarning, stacklevel=3)
        if made.batch is None:
            self._lost_batches.add(self.position - 1)
        if len(self._lost_batches) == self._batches.n_batches:
            raise DataError(f"no sample of the epoch can be loaded; the last one: {made.bad[-1][1]}")
