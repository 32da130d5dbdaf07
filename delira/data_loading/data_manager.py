"""The manager: a dataset and the way it is turned into batches."""

import copy
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from delira.data_loading._build import build_dataset, check_order, name_sampler
from delira.data_loading._checks import Indices, check_count
from delira.data_loading._transform import Transform, TransformCall
from delira.data_loading.array_dataset import as_dataset
from delira.data_loading.data_loader import BaseDataLoader, Batch
from delira.data_loading.dataset import AbstractDataset, LoadFunction, split_indices
from delira.data_loading.epoch import EpochBatches, EpochIterator
from delira.data_loading.sampler import AbstractSampler, RandomSampler, SequentialSampler
from delira.errors import ConfigError, MissingKeyError
from delira.utils.seeding import check_seed, derive
from delira.utils.suggest import did_you_mean

_SETTINGS = ("batch_size", "n_process_augmentation", "transforms", "data_loader_cls", "drop_last")
_SAMPLER_SETTINGS = ("sampler", "sampler_cls", "sampler_kwargs", "sampling_kwargs")


class BaseDataManager:
    """Turns a dataset into batches.

    A manager holds no position: each call of :meth:`epoch` gives an iterator of its own. So one manager
    may serve training and validation at once, and an iteration that was broken off leaves no trace.

    Parameters
    ----------
    data
        A dataset, a dict of arrays or an iterable of dicts; with ``load_fn``, a directory or a list of items.
    batch_size
        Samples per batch.
    n_process_augmentation
        Worker processes that load and transform; 0 means in this process.
    transforms
        Called on each batch, returns it: as ``transforms(**batch)`` if its signature has ``**kwargs``
        (batchgenerators), else as ``transforms(batch)``. A parameter ``rng`` gets a numpy ``Generator``.
    sampler_cls
        Class of the sampler, built with ``from_dataset``. Without a sampler the order is sequential,
        or random where :meth:`epoch` is asked to shuffle.
    sampler_kwargs
        Handed to ``sampler_cls.from_dataset``.
    data_loader_cls
        :class:`BaseDataLoader` or a subclass.
    dataset_cls
        Built as ``dataset_cls(data, load_fn, **kwargs)``; by default :class:`BaseLazyDataset`.
    load_fn
        Turns an item of ``data`` into a sample.
    from_disc
        Whether samples are loaded each time they are needed; else once, by :class:`BaseCacheDataset`.
    sampler
        A sampler, instead of ``sampler_cls``. A manager with one has no subsets.
    drop_last
        Whether to leave out the last batch if it is smaller than the others.
    **kwargs
        Handed to the dataset that is built, thus to ``load_fn``.

    Raises
    ------
    ConfigError
        If a setting is wrong, the data are empty, or ``drop_last`` leaves no batch.
    """

    def __init__(  # noqa: PLR0913  historic signature
        self,
        data: Any,
        batch_size: int = 1,
        n_process_augmentation: int = 0,
        transforms: Transform | None = None,
        sampler_cls: type[AbstractSampler] | None = None,
        sampler_kwargs: Mapping[str, Any] | None = None,
        data_loader_cls: type[BaseDataLoader] | None = None,
        dataset_cls: type[AbstractDataset] | None = None,
        load_fn: LoadFunction | None = None,
        from_disc: bool = True,
        *,
        sampler: AbstractSampler | None = None,
        drop_last: bool = False,
        **kwargs: Any,
    ) -> None:
        if load_fn is None and dataset_cls is None:
            _refuse_unknown(kwargs, (*_SETTINGS, *_SAMPLER_SETTINGS, "dataset_cls", "load_fn", "from_disc"))
        self._warned_of_workers = False
        self._drop_last = False
        self._dataset = _not_empty(build_dataset(data, dataset_cls, load_fn, from_disc, kwargs))
        self._named = name_sampler(sampler, sampler_cls, sampler_kwargs, self._dataset)
        self.batch_size = batch_size
        self.n_process_augmentation = n_process_augmentation
        self.transforms = transforms
        self.data_loader_cls = data_loader_cls
        self.drop_last = drop_last

    def epoch(self, seed: int, fold: int, epoch: int, start: int = 0, *, shuffle: bool = False) -> EpochIterator:
        """Return the batches of one epoch, which depend on these arguments and the settings alone.

        Parameters
        ----------
        seed
            The seed of the run.
        fold, epoch
            Where in the run this is; both count from 0.
        start
            Number of the first batch wanted; earlier ones are not loaded.
        shuffle
            Whether to shuffle if no sampler was named; a named one always decides itself.
        """
        counters = (check_seed(seed), check_count(fold, "fold", 0), check_count(epoch, "epoch", 0))
        sampler = self._named.sampler if self._named else self._default_sampler(shuffle)
        order = np.asarray(sampler.order(np.random.default_rng(derive(*counters, stream="order"))))
        loader = self._data_loader_cls(self._dataset, batch_size=self._batch_size)
        plain = type(loader) is BaseDataLoader and self._dataset.is_deterministic()
        batches = EpochBatches(
            load=loader,
            order=check_order(order, sampler, len(self._dataset)),
            batch_size=self._batch_size,
            n_batches=self.n_batches,
            counters=counters,
            transform=self._transform,
            draws=not plain or self._transform is not None,
        )
        return EpochIterator(batches, start)

    def get_batchgen(self, seed: int = 1) -> EpochIterator:
        """Return the batches of one pass over the data; the same seed gives the same batches."""
        return self.epoch(seed, 0, 0)

    def __iter__(self) -> Iterator[Batch]:
        return self.get_batchgen()

    def get_subset(self, indices: Indices) -> Self:
        """Return the same manager over a part of the data; no sample is copied.

        Raises
        ------
        ConfigError
            If the sampler was given as an instance, which cannot be rebuilt, or no batch is left.
        IndexError
            If an index is negative or beyond the end.
        """
        if self._named is not None and self._named.cls is None:
            name = type(self._named.sampler).__name__
            raise ConfigError(
                f"a subset needs a sampler of its own, but this manager was given a finished {name}; "
                f"pass sampler_cls={name} (and sampler_kwargs) instead of sampler"
            )
        subset = copy.copy(self)  # not the constructor: a subclass may have another signature and more state
        subset.dataset = self._dataset.get_subset(indices)
        return subset

    def train_test_split(self, *args: Any, **kwargs: Any) -> tuple[Self, Self]:
        """Split at random in two; keywords as in :meth:`AbstractDataset.train_test_split`."""
        train, test = split_indices(len(self._dataset), *args, **kwargs)
        return self.get_subset(train), self.get_subset(test)

    def update_state_from_dict(self, new_state: Mapping[str, Any]) -> None:
        """Change several settings at once, all or none.

        Parameters
        ----------
        new_state
            Any of ``batch_size``, ``n_process_augmentation``, ``transforms``, ``data_loader_cls``,
            ``drop_last``, ``sampler`` or ``sampler_cls``, ``sampler_kwargs`` or ``sampling_kwargs``.

        Raises
        ------
        MissingKeyError
            If it has another key.
        ConfigError
            If a value is wrong.
        """
        known = _SETTINGS + _SAMPLER_SETTINGS
        if unknown := [key for key in new_state if key not in known]:
            wrong = "; ".join(f"{key!r}{did_you_mean(key, known)}" for key in unknown)
            raise MissingKeyError(f"a data manager has no such settings: {wrong}")
        changed = copy.copy(self)
        changed._drop_last = False  # checked last, against the new batch size and sampler
        if any(name in new_state for name in _SAMPLER_SETTINGS):
            changed._update_sampler(new_state)
        for name in _SETTINGS[:-1]:
            if name in new_state:
                setattr(changed, name, new_state[name])
        changed.drop_last = new_state.get("drop_last", self._drop_last)
        self.__dict__.update(changed.__dict__)

    @property
    def batch_size(self) -> int:
        """Samples per batch."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: int) -> None:
        batch_size = check_count(batch_size, "batch_size", 1)
        self._check_drop_last(self._drop_last, batch_size)
        self._batch_size = batch_size

    @property
    def n_process_augmentation(self) -> int:
        """Worker processes that load and transform; 0 means in this process."""
        return self._n_process_augmentation

    @n_process_augmentation.setter
    def n_process_augmentation(self, number: int) -> None:
        self._n_process_augmentation = check_count(number, "n_process_augmentation", 0)
        if number and not self._warned_of_workers:
            self._warned_of_workers = True
            warnings.warn(
                f"n_process_augmentation={number}: worker processes arrive with the data pipeline; "
                "until then the batches are made in this process, and they are the same",
                UserWarning,
                stacklevel=3,
            )

    @property
    def transforms(self) -> Transform | None:
        """Called on each batch, or None."""
        return None if self._transform is None else self._transform.transform

    @transforms.setter
    def transforms(self, transforms: Transform | None) -> None:
        self._transform = None if transforms is None else TransformCall(transforms)

    @property
    def data_loader_cls(self) -> type[BaseDataLoader]:
        """What makes batches of samples; built anew for each epoch."""
        return self._data_loader_cls

    @data_loader_cls.setter
    def data_loader_cls(self, loader_cls: type[BaseDataLoader] | None) -> None:
        loader_cls = BaseDataLoader if loader_cls is None else loader_cls
        if not (isinstance(loader_cls, type) and issubclass(loader_cls, BaseDataLoader)):
            raise ConfigError(f"data_loader_cls must be BaseDataLoader or a subclass of it, got {loader_cls!r}")
        self._data_loader_cls = loader_cls

    @property
    def dataset(self) -> AbstractDataset:
        """The samples; a new dataset gets a new sampler of the class that was named."""
        return self._dataset

    @dataset.setter
    def dataset(self, dataset: Any) -> None:
        changed = copy.copy(self)
        changed._dataset = _not_empty(as_dataset(dataset))
        changed._named = self._named and self._named.for_dataset(changed._dataset)
        self._adopt(changed)

    @property
    def sampler(self) -> AbstractSampler:
        """The sampler that was named (an instance or a class may be set), else that of direct iteration."""
        return self._named.sampler if self._named else self._default_sampler(shuffle=False)

    @sampler.setter
    def sampler(self, sampler: AbstractSampler | type[AbstractSampler] | None) -> None:
        changed = copy.copy(self)
        changed._named = name_sampler(sampler, None, None, self._dataset)
        self._adopt(changed)

    @property
    def drop_last(self) -> bool:
        """Whether the last batch is left out if it is smaller than the others."""
        return self._drop_last

    @drop_last.setter
    def drop_last(self, drop_last: bool) -> None:
        if not isinstance(drop_last, (bool, np.bool_)):
            raise ConfigError(f"drop_last must be True or False, got {drop_last!r}")
        self._check_drop_last(bool(drop_last), self._batch_size)
        self._drop_last = bool(drop_last)

    @property
    def n_samples(self) -> int:
        """Samples that one epoch visits, before ``drop_last``."""
        return len(self._named.sampler if self._named else self._dataset)

    @property
    def n_batches(self) -> int:
        """Batches of one epoch."""
        full, rest = divmod(self.n_samples, self._batch_size)
        return full + (rest > 0 and not self._drop_last)

    def describe(self) -> dict[str, Any]:
        """The settings that decide what the batches are, by name; for manifests and fingerprints."""
        named = self._named
        return {
            "batch_size": self._batch_size,
            "drop_last": self._drop_last,
            "transforms": self.transforms,
            "sampler": None if named is None else (named.cls or named.sampler),
            "sampler_kwargs": None if named is None else named.kwargs,
        }

    def with_own_transforms(self) -> Self:
        """The same manager with a copy of the transforms, for those that keep a state."""
        manager = copy.copy(self)
        manager._transform = copy.deepcopy(self._transform)
        return manager

    def _default_sampler(self, shuffle: bool) -> AbstractSampler:
        return (RandomSampler if shuffle else SequentialSampler).from_dataset(self._dataset)

    def _update_sampler(self, new_state: Mapping[str, Any]) -> None:
        kwargs = [new_state[name] for name in ("sampler_kwargs", "sampling_kwargs") if name in new_state]
        if len(kwargs) > 1:
            raise ConfigError("sampler_kwargs and sampling_kwargs are two names of one setting; pass one of them")
        sampler, sampler_cls = new_state.get("sampler"), new_state.get("sampler_cls")
        if "sampler" not in new_state and "sampler_cls" not in new_state and self._named:
            sampler = self._named.cls or self._named.sampler  # only its arguments change
        self._named = name_sampler(sampler, sampler_cls, kwargs[0] if kwargs else None, self._dataset)

    def _adopt(self, changed: Self) -> None:
        """Take over the settings of a changed copy, unless they contradict each other."""
        changed._check_drop_last(changed._drop_last, changed._batch_size)
        self.__dict__.update(changed.__dict__)

    def _check_drop_last(self, drop_last: bool, batch_size: int) -> None:
        if drop_last and self.n_samples < batch_size:
            raise ConfigError(
                f"drop_last leaves no batch of {self.n_samples} samples with batch_size={batch_size}; "
                "use a smaller batch_size or drop_last=False"
            )


def _refuse_unknown(kwargs: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if kwargs:
        wrong = "; ".join(f"{name!r}{did_you_mean(name, known)}" for name in kwargs)
        raise ConfigError(f"a data manager has no such settings: {wrong}")


def _not_empty(dataset: AbstractDataset) -> AbstractDataset:
    if not len(dataset):
        name = type(dataset).__name__
        raise ConfigError(f"the dataset ({name}) is empty; check the path and the filter it was built with")
    return dataset
