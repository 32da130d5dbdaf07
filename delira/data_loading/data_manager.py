"""The manager: a dataset and the way it is turned into batches."""

import contextlib
import copy
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Self

import numpy as np

from delira.data_loading._exact import Indices, check_count, check_flag
from delira.data_loading.abstract_dataset import AbstractDataset, Batch, LoadFunction, split_indices
from delira.data_loading.array_dataset import as_dataset
from delira.data_loading.data_loader import (
    BaseDataLoader,
    BatchRecipe,
    EpochBatches,
    EpochIterator,
    check_order,
    name_sampler,
)
from delira.data_loading.file_dataset import BaseCacheDataset, BaseLazyDataset
from delira.data_loading.sampler import AbstractSampler, SequentialSampler
from delira.data_loading.sampler.orders import count_batches
from delira.data_loading.statistics import DataFingerprint
from delira.data_loading.transforms import FittedPreprocessing, Transform, TransformCall
from delira.data_loading.workers.pool import PoolKeeper, WorkersAhead, WorkerSettings, as_worker_settings
from delira.data_loading.workers.process import can_have_workers
from delira.errors import ConfigError, MissingKeyError, check_flags, did_you_mean, expect
from delira.utils.debug import get_current_debug_mode
from delira.utils.lazy import for_old_scripts, old_names
from delira.utils.seeding import check_seed, derive

#: in the order in which they are set
SETTINGS = (
    "batch_size", "n_process_augmentation", "transforms", "data_loader_cls", "worker_settings", "bad_samples",
    "drop_last",
)  # fmt: skip
SAMPLER_SETTINGS = ("sampler", "sampler_cls", "sampler_kwargs", "sampling_kwargs")


class BaseDataManager:
    """Turns a dataset into batches.

    A manager holds no position: each call of :meth:`epoch` gives an iterator of its own. So one manager
    may serve training and validation at once, and an iteration that was broken off leaves no trace.

    Parameters
    ----------
    data
        A dataset (ours, PyTorch's, or any object with a length and an index), a dict of arrays or an iterable of
        dicts; with ``load_fn``, a directory or a list of items.
    batch_size
        Samples per batch.
    n_process_augmentation
        Worker processes that load and transform; 0 means in this process. The batches are the same.
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
    worker_settings
        How worker processes are started and watched: a :class:`WorkerSettings` or a dict of its settings.
    bad_samples
        What happens to samples that cannot be loaded: ``"raise"``, or ``"skip"``: their batch is smaller, and
        they are listed in :attr:`left_out` and in the report.
    **kwargs
        Handed to the dataset that is built, thus to ``load_fn``.

    Raises
    ------
    ConfigError
        If a setting is wrong, the data are empty, or ``drop_last`` leaves no batch.
    """

    #: fitted transformers that batches go through first; see :meth:`with_preprocessing`
    preprocessing: FittedPreprocessing | None = None
    _batch_size: int
    _drop_last = False

    def __init__(  # noqa: PLR0913  historic signature
        self,
        data: object,
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
        worker_settings: WorkerSettings | Mapping[str, Any] | None = None,
        bad_samples: str = "raise",
        **kwargs: Any,
    ) -> None:
        if "n_process_loading" in kwargs:
            warnings.warn(
                "'n_process_loading' is now called 'n_process_augmentation'", DeprecationWarning, stacklevel=2
            )
            n_process_augmentation = kwargs.pop("n_process_loading")
        if kwargs and load_fn is None and dataset_cls is None:
            raise ConfigError(_unknown(kwargs, (*SETTINGS, *SAMPLER_SETTINGS, "dataset_cls", "load_fn", "from_disc")))
        check_flags(self, from_disc=from_disc)
        self._keeper = PoolKeeper()
        #: samples left out so far because they cannot be loaded: index -> reason
        self.left_out: dict[int, str] = {}
        self._dataset = _not_empty(_build_dataset(data, dataset_cls, load_fn, from_disc, kwargs))
        self._named = name_sampler(sampler, sampler_cls, sampler_kwargs, self._dataset)
        given = (
            batch_size, n_process_augmentation, transforms, data_loader_cls, worker_settings, bad_samples, drop_last,
        )  # fmt: skip
        self._set(dict(zip(SETTINGS, given, strict=True)))

    def epoch(
        self, seed: int, fold: int, epoch: int, start: int = 0, *, shuffle: bool = False, ranks: Any = None
    ) -> EpochIterator:
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
        ranks
            Which of several processes this is, as :class:`delira.training.ranks.Ranks`, to make only its share of each
            batch, with random numbers of its own; whole batches if ``None``.

        Raises
        ------
        ConfigError
            If samples that cannot be loaded are left out: shares would not be those of one batch.
        """
        if ranks is not None and self._bad_samples == "skip":
            raise ConfigError("each process makes its own share of a batch, and must not leave samples out by itself")
        batches = self._batches(seed, fold, epoch, shuffle, self._n_process_augmentation)
        batches.ranks = ranks
        return EpochIterator(batches, start, self.left_out)

    def first_batch(self, seed: int, fold: int = 0, epoch: int = 0) -> Batch | None:
        """Return the first batch of an epoch in the order of the sampler, and have no other made.

        Parameters
        ----------
        seed, fold, epoch
            As in :meth:`epoch`.
        """
        batches = self._batches(seed, fold, epoch, False, self._n_process_augmentation, ahead=0)
        with contextlib.closing(EpochIterator(batches, 0, self.left_out)) as iterator:
            return next(iterator, None)

    def batch_at(
        self, seed: int, fold: int, epoch: int, number: int, shuffle: bool = False
    ) -> tuple[Batch, np.ndarray]:
        """Make one batch of an epoch anew, in this process: to look at what a step was given.

        Parameters
        ----------
        seed, fold, epoch, shuffle
            As in :meth:`epoch`.
        number
            Number of the batch in the epoch, from 0.

        Returns
        -------
        tuple
            The batch (empty if it had only samples that are left out), and the indices of its samples, shape (B,),
            without those that were left out.
        """
        batches = self._batches(seed, fold, epoch, shuffle)
        if check_count(number, "number", 0) >= batches.n_batches:
            raise ConfigError(f"number={number} is beyond the {batches.n_batches} batches of the epoch, counted from 0")
        task = batches.task(number)
        made = batches.recipe.make(task)
        return made.batch or {}, task.indices[~np.isin(task.indices, [index for index, _ in made.bad])]

    def preview(self, n: int = 16, **options: Any) -> Any:
        """Draw samples as the network gets them: shuffled, augmented, with labels or masks.

        Parameters
        ----------
        n
            How many.
        **options
            ``seed``, ``fold``, ``epoch``: which epoch; ``data_key``: the entry drawn, ``"data"`` by default;
            ``label_keys``: entries shown as title, or over the picture if they have its shape.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by notebooks; ``savefig`` writes it.
        """
        from delira.data_loading._preview import preview

        return preview(self, n, **options)

    def fingerprint(self, **options: Any) -> DataFingerprint:
        """Summarise volumes, and suggest a patch size and a normalisation; can be printed.

        Parameters
        ----------
        **options
            ``label_key``, ``data_key``, ``limit``: see :meth:`AbstractDataset.statistics`. (What tells a dataset from
            others, a hash, is :meth:`AbstractDataset.fingerprint`.)
        """
        return self._dataset.statistics(**options)

    def close(self) -> None:
        """End idle worker processes; the next epoch starts new ones."""
        self._keeper.close()

    def get_batchgen(self, seed: int = 1) -> EpochIterator:
        """Return the batches of one pass over the data; the same seed gives the same batches."""
        return self.epoch(seed, 0, 0)

    def __iter__(self) -> Iterator[Batch]:
        return self.get_batchgen()

    def get_subset(self, indices: Indices) -> Self:
        """Return the same manager over a part of the data; no sample is copied.

        Parameters
        ----------
        indices : sequence of int, or ndarray of shape (n,)
            Numbers of samples; if these are patches, of the cases that they are cut from.

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
        part = self._dataset.get_subset(indices)
        subset._named = self._named and self._named.for_part(self._dataset._numbers_in(indices), len(self._dataset))
        subset.left_out = {}
        subset.dataset = part
        return subset

    def train_test_split(self, *args: Any, **kwargs: Any) -> tuple[Self, Self]:
        """Split at random in two, patches by their cases; keywords as in :meth:`AbstractDataset.train_test_split`."""
        train, test = split_indices(len(self._dataset.whole_cases()), *args, **kwargs)
        return self.get_subset(train), self.get_subset(test)

    def whole_cases(self) -> Self:
        """Return the manager of the cases that patches are cut from: each once, in order, one a batch.

        What is no patch is a case already, and the manager returned is this one.
        """
        cases = self._dataset.whole_cases()
        if cases is self._dataset:
            return self
        whole = copy.copy(self)
        whole.left_out = {}
        whole._change(_dataset=cases, _named=None, _drop_last=False, _batch_size=1, _keeper=PoolKeeper())
        return whole

    def as_given(self) -> Self:
        """Return the manager of the whole cases as their dataset gives them: each once, in order, one a batch."""
        given = copy.copy(self.whole_cases())
        given.left_out, given.preprocessing = {}, None
        given._change(_named=None, _drop_last=False, _batch_size=1, _transform=None, _keeper=PoolKeeper())
        return given

    def case_of(self, index: int) -> int:
        """Return the number of the case that a sample is, or is a patch of."""
        below = None if self._dataset.whole_cases() is self._dataset else self._dataset._below(index)
        return index if below is None else below[1]

    def describe(self) -> dict[str, Any]:
        """Return the settings that decide what the batches are, by name; for manifests and fingerprints."""
        named = self._named
        return {
            **({} if self.preprocessing is None else {"preprocessing": self.preprocessing.describe()}),
            "batch_size": self._batch_size,
            "drop_last": self._drop_last,
            "bad_samples": None if self._bad_samples == "raise" else self._bad_samples,
            "transforms": self.transforms,
            "sampler": None if named is None else (named.cls or named.sampler),
            "sampler_kwargs": None if named is None else named.kwargs,
        }

    def with_own_transforms(self) -> Self:
        """Return the same manager with a copy of the transforms, for those that keep a state."""
        manager = copy.copy(self)
        manager._transform = copy.deepcopy(self._transform)
        return manager

    def with_preprocessing(self, fitted: FittedPreprocessing | None) -> Self:
        """Return the same manager, whose batches go through fitted transformers before anything else.

        Parameters
        ----------
        fitted
            What a training has learned, e.g. ``delira.training.load_preprocessing(fold_folder)``; ``None`` takes it
            away again.
        """
        if fitted is not None and not isinstance(fitted, FittedPreprocessing):
            raise ConfigError(
                f"with_preprocessing takes what was fitted in a training (a FittedPreprocessing, from "
                f"delira.training.load_preprocessing), got a {type(fitted).__name__}"
            )
        manager = copy.copy(self)
        manager.preprocessing = fitted
        return manager

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_keeper"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _keeper=PoolKeeper())  # a copy has workers of its own

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._dataset!r}, batch_size={self._batch_size})"

    # ---------------------------------------------------------------- settings, checked when they are set

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
        expect(("new_state", new_state, isinstance(new_state, Mapping), "a dict of settings"))
        known = SETTINGS + SAMPLER_SETTINGS
        if unknown := [key for key in new_state if key not in known]:
            raise MissingKeyError(_unknown(unknown, known))
        changed = copy.copy(self)
        changed._drop_last = False  # checked last, against the new batch size and sampler
        if any(name in new_state for name in SAMPLER_SETTINGS):
            changed._update_sampler(new_state)
        changed._set({"drop_last": self._drop_last, **new_state})
        self.__dict__.update(changed.__dict__)

    @property
    def batch_size(self) -> int:
        """Samples per batch."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: int) -> None:
        self._change(_batch_size=check_count(batch_size, "batch_size", 1))

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
        expect(("bad_samples", bad_samples, bad_samples in ("raise", "skip"), "'raise' or 'skip'"))
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
        is_loader = isinstance(loader_cls, type) and issubclass(loader_cls, BaseDataLoader)
        expect(("data_loader_cls", loader_cls, is_loader, "BaseDataLoader or a subclass of it"))
        self._data_loader_cls = loader_cls

    @property
    def dataset(self) -> AbstractDataset:
        """The samples; a new dataset gets a new sampler of the class that was named."""
        return self._dataset

    @dataset.setter
    def dataset(self, dataset: object) -> None:
        samples = _not_empty(as_dataset(dataset))
        named = self._named and self._named.for_dataset(samples)
        self._change(_dataset=samples, _named=named, _keeper=PoolKeeper())

    @property
    def sampler(self) -> AbstractSampler:
        """The sampler that was named (an instance or a class may be set), else that of direct iteration."""
        return self._named.sampler if self._named else SequentialSampler.from_dataset(self._dataset)

    @sampler.setter
    def sampler(self, sampler: AbstractSampler | type[AbstractSampler] | None) -> None:
        self._change(_named=name_sampler(sampler, None, None, self._dataset), _keeper=PoolKeeper())

    @property
    def drop_last(self) -> bool:
        """Return True if the last batch is left out if it is smaller than the others."""
        return self._drop_last

    @drop_last.setter
    def drop_last(self, drop_last: bool) -> None:
        self._change(_drop_last=check_flag(drop_last, "drop_last"))

    @property
    def n_samples(self) -> int:
        """Samples that one epoch visits, before ``drop_last``."""
        return len(self._named.sampler if self._named else self._dataset)

    @property
    def n_batches(self) -> int:
        """Batches of one epoch."""
        return count_batches(self.n_samples, self._batch_size, self._drop_last)

    # ----------------------------------------------------------------

    def _set(self, settings: Mapping[str, Any]) -> None:
        """Set settings one by one; the setter of each checks it."""
        for name in SETTINGS:
            if name in settings:
                setattr(self, name, settings[name])

    def _update_sampler(self, new_state: Mapping[str, Any]) -> None:
        kwargs = [new_state[name] for name in ("sampler_kwargs", "sampling_kwargs") if name in new_state]
        if len(kwargs) > 1:
            raise ConfigError("sampler_kwargs and sampling_kwargs are two names of one setting; pass one of them")
        sampler, sampler_cls = new_state.get("sampler"), new_state.get("sampler_cls")
        if not {"sampler", "sampler_cls"} & new_state.keys() and self._named:
            sampler = self._named.cls or self._named.sampler  # only its arguments change
        self._named = name_sampler(sampler, sampler_cls, kwargs[0] if kwargs else None, self._dataset)

    def _change(self, **settings: object) -> None:
        """Take over checked settings, unless ``drop_last`` then leaves no batch."""
        before = {**self.__dict__}
        self.__dict__.update(settings)
        try:
            if self._drop_last and self.n_samples < self._batch_size:
                raise ConfigError(
                    f"drop_last leaves no batch of {self.n_samples} samples with batch_size={self._batch_size}; "
                    "use a smaller batch_size or drop_last=False"
                )
        except BaseException:
            self.__dict__ = before
            raise

    def _queues(self) -> dict[str, Any]:
        """What a loader that reads its indices from queues, as in 0.4, is built with."""
        cls = self._data_loader_cls
        if cls.__init__ is BaseDataLoader.__init__ or "sampler_queues" not in inspect.signature(cls).parameters:
            return {}
        return {"sampler_queues": [for_old_scripts("data").Slot()]}

    def _batches(
        self, seed: int, fold: int, epoch: int, shuffle: bool, number: int = 0, ahead: int | None = None
    ) -> EpochBatches:
        counters = (check_seed(seed), check_count(fold, "fold", 0), check_count(epoch, "epoch", 0))
        check_flags(self, shuffle=shuffle)
        n_samples = len(self._dataset)
        rng = np.random.default_rng(derive(*counters, stream="order"))
        if self._named is None:
            order = rng.permutation(n_samples) if shuffle else np.arange(n_samples)
        else:
            self._named = self._named.with_labels_of(self._dataset)
            sampler = self._named.sampler
            order = check_order(np.asarray(sampler.batched_order(rng, self._batch_size)), sampler, n_samples)
        loader = self._data_loader_cls(self._dataset, batch_size=self._batch_size, **self._queues())
        plain = type(loader) is BaseDataLoader and self._dataset.is_deterministic()
        make: Callable[..., EpochBatches] = EpochBatches
        if number and not get_current_debug_mode() and can_have_workers():
            make = partial(
                WorkersAhead, keeper=self._keeper, number=number, settings=self._worker_settings, ahead=ahead
            )
        return make(
            recipe=BatchRecipe(
                loader=loader,
                preprocessing=self.preprocessing,
                transform=self._transform,
                draws=not plain or self._transform is not None or self.preprocessing is not None,
                skips_bad=self._bad_samples == "skip",
            ),
            order=order,
            batch_size=self._batch_size,
            n_batches=count_batches(len(order), self._batch_size, self._drop_last),
            counters=counters,
        )


def _unknown(names: Iterable[str], known: tuple[str, ...]) -> str:
    wrong = "; ".join(f"{name!r}{did_you_mean(name, known)}" for name in names)
    return f"a data manager has no such settings: {wrong}"


def _not_empty(dataset: AbstractDataset) -> AbstractDataset:
    if not len(dataset):
        name = type(dataset).__name__
        raise ConfigError(f"the dataset ({name}) is empty; check the path and the filter it was built with")
    return dataset


def _build_dataset(data: Any, dataset_cls: Any, load_fn: Any, from_disc: bool, kwargs: Any) -> AbstractDataset:
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
        with contextlib.suppress(ValueError):  # some builtins have no signature
            inspect.signature(dataset_cls).bind(data, load_fn, **kwargs)
    except TypeError as error:
        raise ConfigError(
            f"dataset_cls={dataset_cls!r} is built as dataset_cls(data, load_fn, **kwargs), which it does not take: "
            f"{error}"
        ) from error


__getattr__ = old_names(__name__)
