"""What a data manager is given becomes a dataset and a sampler; contradictions are refused."""

import dataclasses
import inspect
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.data_loading.abstract_dataset import times_set
from delira.data_loading.array_dataset import as_dataset
from delira.data_loading.dataset import AbstractDataset, BaseCacheDataset, BaseLazyDataset
from delira.data_loading.sampler import AbstractSampler
from delira.errors import ConfigError
from delira.utils.suggest import did_you_mean


def build_dataset(data: Any, dataset_cls: Any, load_fn: Any, from_disc: bool, kwargs: Any) -> AbstractDataset:
    """Build what a manager works on; parameters as in :class:`BaseDataManager`.

    Raises
    ------
    ConfigError
        If ``data`` cannot be used, or needs loading and nothing says how.
    """
    if not isinstance(data, (AbstractDataset, Mapping)) and not (load_fn is None and dataset_cls is None):
        if dataset_cls is None:
            dataset_cls = BaseLazyDataset if from_disc else BaseCacheDataset
        _check_builds(dataset_cls, data, load_fn, kwargs)
        return as_dataset(dataset_cls(data, load_fn, **kwargs))
    if load_fn is not None or dataset_cls is not None:
        raise ConfigError(
            "load_fn and dataset_cls are for a directory or a list of items, "
            f"but data is a {type(data).__name__} and needs no loading; leave them out"
        )
    if isinstance(data, (str, os.PathLike)):
        raise ConfigError(
            f"data={os.fspath(data)!r} is a path, and nothing says how to load a sample from it; pass load_fn"
        )
    return as_dataset(data)


def _check_builds(dataset_cls: object, data: object, load_fn: object, kwargs: Mapping[str, Any]) -> None:
    """Refuse what makes no dataset of data, a function that loads, and keywords."""
    if not callable(dataset_cls) or (isinstance(dataset_cls, type) and not hasattr(dataset_cls, "__getitem__")):
        raise ConfigError(f"dataset_cls must be a class of datasets, e.g. BaseCacheDataset, got {dataset_cls!r}")
    try:
        signature = inspect.signature(dataset_cls)
    except ValueError:  # some builtins have none
        return
    try:
        signature.bind(data, load_fn, **kwargs)
    except TypeError as error:
        raise ConfigError(
            f"dataset_cls={dataset_cls!r} is built as dataset_cls(data, load_fn, **kwargs), which it does not take: "
            f"{error}"
        ) from error


#: arguments of samplers that have a value for each sample
_PER_SAMPLE = ("weights", "labels", "groups")


@dataclasses.dataclass(frozen=True)
class NamedSampler:
    """A sampler that the user named, and how to build its like for other data."""

    sampler: AbstractSampler
    cls: type[AbstractSampler] | None = None
    """None if the user passed a finished sampler."""
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def for_part(self, indices: object, length: int) -> "NamedSampler":
        """Take of arguments with a value for each of ``length`` samples those at ``indices``."""
        kwargs = {
            name: np.asarray(value)[np.asarray(indices)]
            if name in _PER_SAMPLE and _has_length(value, length)
            else value
            for name, value in self.kwargs.items()
        }
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


def _has_length(value: Any, length: int) -> bool:
    is_array = hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping))
    return is_array and len(value) == length


def _built(cls: type[AbstractSampler], kwargs: Mapping[str, Any], dataset: AbstractDataset) -> NamedSampler:
    parameters = {
        name: parameter
        for function in (cls.__init__, cls.from_dataset)
        for name, parameter in inspect.signature(function).parameters.items()
    }
    known = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]
    is_open = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(cls.__init__).parameters.values())
    if not is_open and (unknown := [name for name in kwargs if name not in known]):
        known = [name for name in known if name not in ("self", "dataset", "indices")]
        raise ConfigError(f"{cls.__name__} takes no {unknown[0]!r}{did_you_mean(str(unknown[0]), known)}")
    return NamedSampler(_not_empty(cls.from_dataset(dataset, **kwargs)), cls, kwargs)


def _not_empty(sampler: AbstractSampler) -> AbstractSampler:
    if not len(sampler):
        raise ConfigError(f"an epoch of the {type(sampler).__name__} has no samples; check its arguments")
    return sampler
