"""The settings of a data manager: each is checked when it is set, several change together or not at all."""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from delira.data_loading._build import NamedSampler, name_sampler
from delira.data_loading._checks import check_count
from delira.data_loading._transform import Transform, TransformCall
from delira.data_loading.abstract_dataset import AbstractDataset
from delira.data_loading.array_dataset import as_dataset
from delira.data_loading.data_loader import BaseDataLoader
from delira.data_loading.sampler import AbstractSampler, RandomSampler, SequentialSampler
from delira.data_loading.workers.settings import WorkerSettings, as_worker_settings
from delira.errors import ConfigError, MissingKeyError
from delira.utils.suggest import did_you_mean

SETTINGS = (
    "batch_size", "n_process_augmentation", "transforms", "data_loader_cls", "worker_settings", "bad_samples",
    "drop_last",
)  # fmt: skip
SAMPLER_SETTINGS = ("sampler", "sampler_cls", "sampler_kwargs", "sampling_kwargs")


class ManagerSettings:
    """What can be set on a data manager, by attribute or with :meth:`update_state_from_dict`."""

    _dataset: AbstractDataset
    _named: NamedSampler | None
    _batch_size: int
    _drop_last: bool

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
        if not isinstance(new_state, Mapping):
            raise ConfigError(f"new_state must be a dict of settings, got {new_state!r}")
        known = SETTINGS + SAMPLER_SETTINGS
        if unknown := [key for key in new_state if key not in known]:
            wrong = "; ".join(f"{key!r}{did_you_mean(key, known)}" for key in unknown)
            raise MissingKeyError(f"a data manager has no such settings: {wrong}")
        changed = copy.copy(self)
        changed._drop_last = False  # checked last, against the new batch size and sampler
        if any(name in new_state for name in SAMPLER_SETTINGS):
            changed._update_sampler(new_state)
        for name in SETTINGS[:-1]:
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

    @property
    def worker_settings(self) -> WorkerSettings:
        """How worker processes are started and watched; a dict of settings may be set."""
        return self._worker_settings

    @worker_settings.setter
    def worker_settings(self, settings: WorkerSettings | Mapping[str, Any] | None) -> None:
        self._worker_settings = as_worker_settings(settings)

    @property
    def bad_samples(self) -> str:
        """What happens to samples that cannot be loaded: ``"raise"`` or ``"skip"``."""
        return self._bad_samples

    @bad_samples.setter
    def bad_samples(self, bad_samples: str) -> None:
        if bad_samples not in ("raise", "skip"):
            raise ConfigError(f"bad_samples must be 'raise' or 'skip', got {bad_samples!r}")
        self._bad_samples = bad_samples

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
    def dataset(self, dataset: object) -> None:
        changed = copy.copy(self)
        changed._dataset = not_empty(as_dataset(dataset))
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
        """Return True if the last batch is left out if it is smaller than the others."""
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


def not_empty(dataset: AbstractDataset) -> AbstractDataset:
    if not len(dataset):
        name = type(dataset).__name__
        raise ConfigError(f"the dataset ({name}) is empty; check the path and the filter it was built with")
    return dataset
