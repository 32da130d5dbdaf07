"""All classes equally often, however rare they are."""

from typing import Any, ClassVar, Self

import numpy as np

from delira.data_loading.sampler._arguments import check_flag
from delira.data_loading.sampler._classes import Classes, made_from_labels, read_values
from delira.data_loading.sampler.abstract_sampler import AbstractSampler


class _PrevalenceSampler(AbstractSampler):
    """The classes take turns, so any piece of an epoch has all classes equally often, give or take one.

    ``indices``, ``shuffle_batch`` and ``seed`` are those of :class:`PrevalenceRandomSampler`.
    """

    _is_random: ClassVar[bool]
    _stops: ClassVar[bool]

    def __init__(self, indices: object, shuffle_batch: bool = True, seed: int = 0) -> None:
        self._classes = Classes(indices, type(self).__name__)
        super().__init__(len(self._classes.numbers), seed)
        self.shuffle_batch = check_flag(shuffle_batch, "shuffle_batch")

    @classmethod
    def from_dataset(cls, dataset: object, key: str = "label", labels: object = None, **kwargs: Any) -> Self:
        """Build a sampler over all samples of a dataset.

        Parameters
        ----------
        dataset : AbstractDataset
            Its labels are read once and kept by the dataset.
        key
            The entry that holds a sample's class.
        labels
            The class of each sample, so that nothing has to be read. For a subset those of the dataset
            it belongs to will do: a cross-validation takes the same ones for all folds.
        **kwargs
            Handed to the constructor.

        Raises
        ------
        MissingKeyError
            If a sample has no entry ``key``.
        ConfigError
            If ``labels`` are not one class for each sample.
        """
        return made_from_labels(cls(read_values(dataset, key, labels, "labels"), **kwargs), dataset, labels is None)

    def __len__(self) -> int:
        if self._stops:
            return len(self._classes) * int(self._classes.counts.min(initial=len(self.indices)))
        return len(self.indices)

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return indices of each class in turn."""
        samples, cycle = self.indices, np.arange(len(self._classes))
        if self._is_random:
            samples, cycle = rng.permutation(len(samples)), rng.permutation(cycle)
        return self._classes.walk(samples, np.resize(cycle, len(self)))

    def batched_order(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Return the same with the samples of each batch shuffled, unless ``shuffle_batch`` is off."""
        order = self.order(rng)
        if not self.shuffle_batch:
            return order
        batch = np.arange(len(order)) // batch_size
        return order[np.lexsort((rng.random(len(order)), batch))]


class PrevalenceRandomSampler(_PrevalenceSampler):
    """Random samples, all classes equally often: in a batch their numbers differ by one at most.

    An epoch is as long as the dataset. Rare classes repeat their samples, each only after all others
    of its class; of frequent classes a part is drawn, another one in each epoch.

    Parameters
    ----------
    indices : array of shape (n,) or (n, 1), or one-hot rows (n, C)
        The class of each sample (the historic name).
    shuffle_batch
        Shuffle the samples of each batch; otherwise the classes take turns.
    seed
        As in :class:`AbstractSampler`.

    Raises
    ------
    ConfigError
        If ``indices`` are not one class for each sample.
    """

    _is_random = True
    _stops = False


class PrevalenceSequentialSampler(_PrevalenceSampler):
    """The first samples of all classes, equally often; parameters as in :class:`PrevalenceRandomSampler`.

    An epoch is as long as the dataset. Each class is gone through in the order of the dataset: a rare one
    several times, of a frequent one the end is never reached.
    """

    _is_random = False
    _stops = False


class StoppingPrevalenceRandomSampler(_PrevalenceSampler):
    """Random samples, all classes equally often, none twice; parameters as in :class:`PrevalenceRandomSampler`.

    An epoch ends when the smallest class is used up: its length is the number of classes times the size
    of the smallest.
    """

    _is_random = True
    _stops = True


class StoppingPrevalenceSequentialSampler(_PrevalenceSampler):
    """The first samples of all classes, none twice; parameters as in :class:`PrevalenceRandomSampler`.

    An epoch ends when the smallest class is used up: its length is the number of classes times the size
    of the smallest.
    """

    _is_random = False
    _stops = True
