"""Some samples more often than others."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from delira.data_loading._checks import Indices
from delira.data_loading.dataset import read_labels
from delira.data_loading.sampler._arguments import check_flag, count_draws
from delira.data_loading.sampler._classes import Classes, made_from_labels, read_values, values_for
from delira.data_loading.sampler.abstract_sampler import AbstractSampler
from delira.errors import ConfigError


class WeightedRandomSampler(AbstractSampler):
    """Draws each index with a chance in proportion to its weight.

    Parameters
    ----------
    indices : int, or sequence of int
        The indices to choose from; an integer ``n`` means ``range(n)``.
    weights : array of shape (n,)
        Not negative, of any sum; an index of weight 0 is never drawn. By default all are equal.
    num_samples
        Length of an epoch; by default the number of indices, without replacement of those that can be drawn.
    replacement
        Draw each index independently; otherwise each is drawn at most once an epoch.
    seed
        As in :class:`AbstractSampler`.

    Raises
    ------
    ConfigError
        If the weights are not one finite number for each index, negative or all zero; if more samples are
        asked for than can be drawn and ``replacement`` is off.
    """

    def __init__(
        self,
        indices: int | Indices,
        weights: object = None,
        num_samples: int | None = None,
        replacement: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(indices, seed)
        length = len(self.indices)
        self._chances = _to_chances(np.ones(length) if weights is None else np.asarray(weights), length)
        self.replacement = check_flag(replacement, "replacement")
        if self.replacement:
            self.num_samples = count_draws(num_samples, True, length, "indices there are")
        else:
            drawable = int(np.count_nonzero(self._chances))
            self.num_samples = count_draws(num_samples, False, drawable, "indices with a weight above 0")

    @classmethod
    def from_dataset(
        cls, dataset: Any, *, weights: Any = None, key: Any = None, labels: Any = None, **kwargs: Any
    ) -> Self:
        """Build a sampler over all samples of a dataset.

        Parameters
        ----------
        dataset : AbstractDataset
            What is read of it is read once and kept by the dataset.
        weights
            One for each sample; or ``{class: weight}``; or the name of the entry that holds a sample's weight.
            For a subset those of the dataset it belongs to will do: a cross-validation takes the same ones
            for all folds.
        key
            The entry that holds a sample's class, ``"label"`` by default; for weights of classes.
        labels
            The class of each sample, so that it does not have to be read; a subset's as its weights.
        **kwargs
            Handed to the constructor.

        Raises
        ------
        MissingKeyError
            If a sample has no such entry.
        ConfigError
            If there are more or fewer weights or labels than samples, or a class has no weight.
        """
        if not isinstance(weights, Mapping) and (key is not None or labels is not None):
            raise ConfigError(
                f"{cls.__name__} reads classes (key, labels) only for weights={{class: weight}}, got {weights!r}; "
                "WeightedPrevalenceRandomSampler makes all classes equally likely"
            )
        is_read = isinstance(weights, str) or (isinstance(weights, Mapping) and labels is None)
        if isinstance(weights, str):
            weights = read_labels(dataset, weights)
        elif isinstance(weights, Mapping):
            classes = read_values(dataset, key or "label", labels, "labels")
            weights = _of_classes(weights, Classes(classes, cls.__name__))
        elif weights is not None:
            weights = values_for(dataset, weights, "weights")
        return made_from_labels(cls(len(dataset), weights=weights, **kwargs), dataset, is_read)

    def __len__(self) -> int:
        return self.num_samples

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return ``num_samples`` drawn indices."""
        if not self.num_samples:
            return self.indices[:0]
        return rng.choice(self.indices, self.num_samples, replace=self.replacement, p=self._chances)


class WeightedPrevalenceRandomSampler(WeightedRandomSampler):
    """Draws samples independently, each class with the same chance.

    A batch has all classes equally often on average only; :class:`PrevalenceRandomSampler` counts.

    Parameters
    ----------
    indices : array of shape (n,) or (n, 1), or one-hot rows (n, C)
        The class of each sample (the historic name).
    num_samples
        Length of an epoch; by default the number of samples.
    seed
        As in :class:`AbstractSampler`.

    Raises
    ------
    ConfigError
        If ``indices`` are not one class for each sample.
    """

    def __init__(self, indices: object, num_samples: int | None = None, seed: int = 0) -> None:
        classes = Classes(indices, type(self).__name__)
        weights = 1 / classes.counts[classes.numbers]
        super().__init__(len(weights), weights, num_samples, seed=seed)

    @classmethod
    def from_dataset(cls, dataset: Any, key: str = "label", labels: Any = None, **kwargs: Any) -> Self:
        """Build a sampler over all samples of a dataset; parameters as in :class:`PrevalenceRandomSampler`."""
        return made_from_labels(cls(read_values(dataset, key, labels, "labels"), **kwargs), dataset, labels is None)


def _of_classes(weights: Mapping[Any, Any], classes: Classes) -> np.ndarray:
    names = classes.names.tolist()
    if missing := [name for name in names if name not in weights]:
        listed = ", ".join(map(repr, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise ConfigError(f"weights has no weight for class {listed}, only for {list(weights)}; a weight may be 0")
    return np.array([weights[name] for name in names])[classes.numbers]


def _to_chances(weights: np.ndarray, length: int) -> np.ndarray:
    if weights.dtype.kind not in "biuf" or weights.ndim == 0 or weights.size != len(weights):
        raise ConfigError(
            f"weights must be one number for each index, got shape {weights.shape} and dtype {weights.dtype}"
        )
    if len(weights) != length:
        raise ConfigError(f"weights has {len(weights)} entries, but there are {length} indices; pass one for each")
    weights = weights.reshape(length).astype(np.float64)
    if not length:
        return weights
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise ConfigError(f"weight {wrong[0]} is {weights[wrong[0]]}; weights must be finite and not negative")
    if not weights.max():
        raise ConfigError(f"all {length} weights are 0, so there is nothing to draw; give one index a weight")
    weights /= weights.max()  # the sum of very large ones would be infinite
    return weights / weights.sum()
