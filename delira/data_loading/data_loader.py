"""The loader: indices in, one batch out; and the sampler that a user names for it."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from delira.data_loading._checks import Indices, check_count, refuse_outside, to_index_array
from delira.data_loading._exact import collate
from delira.data_loading.abstract_dataset import AbstractDataset, name_sample, numbers_of, times_set
from delira.data_loading.array_dataset import as_dataset
from delira.data_loading.sampler import AbstractSampler, SequentialSampler
from delira.errors import ConfigError, DataError
from delira.utils.checks import did_you_mean
from delira.utils.seeding import check_seed, derive, seeded_globals

Batch = dict[str, Any]

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
    """

    #: told the index of each sample that is loaded singly
    watch: Callable[[int | None], None] | None = None

    def __init__(
        self,
        dataset: object,
        batch_size: int = 1,
        num_batches: int | None = None,
        seed: int = 1,
        sampler: AbstractSampler | None = None,
        *,
        sampler_cls: type[AbstractSampler] | None = None,
        sampler_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.dataset = as_dataset(dataset)
        self.batch_size = check_count(batch_size, "batch_size", 1)
        self.seed = check_seed(seed)
        named = name_sampler(sampler, sampler_cls, sampler_kwargs, self.dataset)
        self._named = named
        self.sampler = None if named is None else named.sampler
        n_samples = len(self.dataset if self.sampler is None else self.sampler)
        available = -(-n_samples // self.batch_size)
        self.num_batches = available if num_batches is None else check_count(num_batches, "num_batches", 1)
        if self.num_batches > available:
            raise ConfigError(
                f"num_batches={num_batches} is more than the {available} batches that "
                f"{n_samples} samples in batches of {self.batch_size} make"
            )

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
            batch = self.dataset.get_batch(indices)
            if batch is not None:
                return batch
            # Python integers: users' datasets may look them up anywhere
            samples = [self._load(number) for number in indices.tolist()]
            return collate(samples, numbers_of(self.dataset, indices).tolist())
        except (IndexError, KeyError):
            refuse_outside(indices, len(self.dataset), self.dataset)  # names the index, unless it is not to blame
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
            indices = order[number * self.batch_size : (number + 1) * self.batch_size]
            with seeded_globals(derive(self.seed, 0, 0, number, stream="loading")):
                batch = self(indices)
            yield batch

    def _load(self, index: int) -> Any:
        if self.watch is not None:
            self.watch(index)
        try:
            return self.dataset[index]
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
    if not isinstance(kwargs, Mapping | None):
        raise ConfigError(f"sampler_kwargs must be a dict of arguments, got {kwargs!r}")
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
