"""All groups equally often, e.g. patients with different numbers of slices."""

from typing import Any, Self

import numpy as np

from delira.data_loading._checks import check_count
from delira.data_loading.sampler._classes import Classes, made_from_labels, read_values
from delira.data_loading.sampler.abstract_sampler import AbstractSampler
from delira.errors import ConfigError


class GroupRandomSampler(AbstractSampler):
    """Random samples, the same number from every group, e.g. patient, however many it has.

    An epoch consists of rounds, each of which visits every group once, in an order of its own. A group
    repeats a sample only after all its others.

    Parameters
    ----------
    groups : array of shape (n,) or (n, 1)
        The group of each sample, numbers or strings.
    samples_per_group
        Rounds of an epoch, whose length is this times the number of groups. By default the mean size of
        a group, rounded up: an epoch is about as long as the dataset.
    seed
        As in :class:`AbstractSampler`.

    Raises
    ------
    ConfigError
        If ``groups`` are not one for each sample.
    """

    def __init__(self, groups: object, samples_per_group: int | None = None, seed: int = 0) -> None:
        self._groups = Classes(groups, type(self).__name__, "group")
        super().__init__(len(self._groups.numbers), seed)
        if samples_per_group is None:
            samples_per_group = -(-len(self.indices) // max(1, len(self._groups)))
        else:
            check_count(samples_per_group, "samples_per_group", 1)
        self.samples_per_group = samples_per_group

    @classmethod
    def from_dataset(cls, dataset: object, key: str | None = None, groups: object = None, **kwargs: Any) -> Self:
        """Build a sampler over all samples of a dataset.

        Parameters
        ----------
        dataset : AbstractDataset
            Its groups are read once and kept by the dataset.
        key
            The entry that holds a sample's group, e.g. ``"patient"``.
        groups
            The group of each sample, so that nothing has to be read. For a subset those of the dataset
            it belongs to will do: a cross-validation takes the same ones for all folds.
        **kwargs
            Handed to the constructor.

        Raises
        ------
        MissingKeyError
            If a sample has no entry ``key``.
        ConfigError
            If neither ``key`` nor ``groups`` are given, or these are not one for each sample.
        """
        if key is None and groups is None:
            raise ConfigError(
                f"{cls.__name__} needs key, the entry that holds a sample's group, or groups; got neither"
            )
        return made_from_labels(
            cls(read_values(dataset, str(key), groups, "groups"), **kwargs), dataset, groups is None
        )

    def __len__(self) -> int:
        return self.samples_per_group * len(self._groups)

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return the indices round by round."""
        rounds = np.tile(np.arange(len(self._groups)), (self.samples_per_group, 1))
        return self._groups.walk(rng.permutation(len(self.indices)), rng.permuted(rounds, axis=1).reshape(-1))
