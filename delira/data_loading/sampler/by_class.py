"""Orders by a value of each sample: its class, its group or its weight."""

from collections.abc import Mapping
from typing import Any, Self, TypeVar

import numpy as np

from delira.data_loading._exact import Indices, check_count, check_flag, exact_array
from delira.data_loading.abstract_dataset import times_set
from delira.data_loading.dataset import Subset, read_labels
from delira.data_loading.sampler.orders import AbstractSampler, count_draws
from delira.errors import ConfigError

AnySampler = TypeVar("AnySampler", bound=AbstractSampler)


class Classes:
    """The classes of all samples.

    Parameters
    ----------
    values
        One class for each sample: shape (n,) or (n, 1), numbers or strings, or one-hot rows (n, C).
    owner
        For whom they are, in messages.
    what
        What they are called there.

    Attributes
    ----------
    names : ndarray of shape (k,)
        The different classes, sorted; of one-hot rows the columns.
    numbers : ndarray of shape (n,), dtype int64
        For each sample the place of its class in ``names``.
    counts : ndarray of shape (k,), dtype int64
        Samples of each class.

    Raises
    ------
    ConfigError
        If there is not exactly one class for each sample.
    """

    def __init__(self, values: object, owner: str, what: str = "class") -> None:
        classes = _one_for_each(exact_array(values, f"{what} of {owner}"), f"{owner} needs one {what} for each sample")
        try:
            self.names, self.numbers, self.counts = np.unique(classes, return_inverse=True, return_counts=True)
        except TypeError as error:  # objects of several types, or with None among them
            raise ConfigError(
                f"{owner} cannot tell the {what} of each sample ({error}); use numbers or strings"
            ) from error
        self._starts = np.cumsum(self.counts) - self.counts

    def __len__(self) -> int:
        return len(self.names)

    def walk(self, samples: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """Return one sample for each visit of a class.

        Parameters
        ----------
        samples : ndarray of shape (n,)
            All samples, in the order in which each class is gone through; at its end a class starts again.
        visits : ndarray of shape (m,)
            Numbers of classes, in rounds: each ``len(self)`` of them name every class once.

        Returns
        -------
        ndarray of shape (m,), dtype int64
        """
        by_class = samples[np.argsort(self.numbers[samples], kind="stable")]
        return by_class[self._starts[visits] + np.arange(len(visits)) // max(1, len(self)) % self.counts[visits]]


def read_values(dataset: Any, key: str, given: Any, name: str) -> np.ndarray:
    """Return one value for each sample: those given, else an entry of the samples.

    Parameters
    ----------
    dataset : AbstractDataset
        Asked for its labels only if none are given.
    key
        The entry that is read.
    given
        The user's values, or None.
    name
        The argument by which they were given, for the message.
    """
    return read_labels(dataset, key) if given is None else values_for(dataset, given, name)


def made_from_labels(sampler: AnySampler, dataset: Any, given: object = None) -> AnySampler:
    """Return a sampler that remembers whose labels it was made from, and how often they had been set by then.

    Parameters
    ----------
    sampler : AbstractSampler
        The sampler.
    dataset : AbstractDataset
        Whose labels they are.
    given
        The user's labels, or None if they were read from the dataset.
    """
    if given is None:
        sampler.made_from = id(dataset), times_set(dataset)
    return sampler


def values_for(dataset: Any, values: Any, name: str) -> np.ndarray:
    """Return the values of a dataset's samples.

    Parameters
    ----------
    dataset : AbstractDataset
        A subset takes its part of the values of the dataset it belongs to, so that each fold of a
        cross-validation can be given the same ones.
    values
        One for each sample, of the subset itself or of that whole dataset; if both are equally long, they are
        taken for its own.
    name
        The argument by which they were given, for the message.

    Raises
    ------
    ConfigError
        If there are more or fewer values than samples.
    """
    values = exact_array(values, name)
    whole: Any = dataset
    places = np.arange(len(dataset))
    while isinstance(whole, Subset):
        whole, places = whole.parent, whole.indices[places]
    length = len(values) if values.ndim else None
    if length in (len(dataset), len(whole)):
        return values if length == len(dataset) else values[places]
    got = "is a single value" if length is None else f"has {length} entries"
    part = "" if whole is dataset else f" (a subset of {len(whole)})"
    raise ConfigError(f"{name} {got}, but the dataset has {len(dataset)} samples{part}; pass one for each sample")


def _one_for_each(values: np.ndarray, needed: str) -> np.ndarray:
    if values.ndim == 0:
        raise ConfigError(f"{needed}, got {values!r}; pass a list or array of shape (n,)")
    is_table = values.dtype.kind in "biuf" and values.ndim == 2 and values.shape[1] > 1
    if is_table and (values.sum(axis=1) == 1).all() and (values.max(axis=1) == 1).all():  # one-hot
        return values.argmax(axis=1)
    if values.size != len(values):
        raise ConfigError(f"{needed}, got values of shape {values.shape[1:]}; choose another entry by key")
    values = values.reshape(len(values))
    if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.round(values))).all():
        raise ConfigError(
            f"{needed}, got continuous or missing values; round or bin them, or choose another entry by key"
        )
    return values


class _PrevalenceSampler(AbstractSampler):
    """The classes take turns, so any piece of an epoch has all classes equally often, give or take one.

    ``indices``, ``shuffle_batch`` and ``seed`` are those of :class:`PrevalenceRandomSampler`.
    """

    _is_random = True
    _stops = False

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
        return made_from_labels(cls(read_values(dataset, key, labels, "labels"), **kwargs), dataset, labels)

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
        return order[np.lexsort((rng.random(len(order)), np.arange(len(order)) // batch_size))]


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


class PrevalenceSequentialSampler(_PrevalenceSampler):
    """The first samples of all classes, equally often; parameters as in :class:`PrevalenceRandomSampler`.

    An epoch is as long as the dataset. Each class is gone through in the order of the dataset: a rare one
    several times, of a frequent one the end is never reached.
    """

    _is_random = False


class StoppingPrevalenceRandomSampler(_PrevalenceSampler):
    """Random samples, all classes equally often, none twice; parameters as in :class:`PrevalenceRandomSampler`.

    An epoch ends when the smallest class is used up: its length is the number of classes times the size
    of the smallest.
    """

    _stops = True


class StoppingPrevalenceSequentialSampler(_PrevalenceSampler):
    """The first samples of all classes, none twice; parameters as in :class:`PrevalenceRandomSampler`.

    An epoch ends when the smallest class is used up: its length is the number of classes times the size
    of the smallest.
    """

    _is_random = False
    _stops = True


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
        if samples_per_group is not None:
            check_count(samples_per_group, "samples_per_group", 1)
        self.samples_per_group = samples_per_group or -(-len(self.indices) // max(1, len(self._groups)))

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
        return made_from_labels(cls(read_values(dataset, str(key), groups, "groups"), **kwargs), dataset, groups)

    def __len__(self) -> int:
        return self.samples_per_group * len(self._groups)

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return the indices round by round."""
        rounds = np.tile(np.arange(len(self._groups)), (self.samples_per_group, 1))
        return self._groups.walk(rng.permutation(len(self.indices)), rng.permuted(rounds, axis=1).reshape(-1))


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
        drawable = length if self.replacement else int(np.count_nonzero(self._chances))
        what = "indices there are" if self.replacement else "indices with a weight above 0"
        self.num_samples = count_draws(num_samples, self.replacement, drawable, what)

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
        if isinstance(weights, str):
            values = read_labels(dataset, weights)
        elif isinstance(weights, Mapping):
            classes = read_values(dataset, key or "label", labels, "labels")
            values = _of_classes(weights, Classes(classes, cls.__name__))
        else:
            given = None if weights is None else values_for(dataset, weights, "weights")
            return cls(len(dataset), weights=given, **kwargs)
        return made_from_labels(cls(len(dataset), weights=values, **kwargs), dataset, labels)

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
        return made_from_labels(cls(read_values(dataset, key, labels, "labels"), **kwargs), dataset, labels)


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
    if (wrong := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))).size:
        raise ConfigError(f"weight {wrong[0]} is {weights[wrong[0]]}; weights must be finite and not negative")
    if not weights.max():
        raise ConfigError(f"all {length} weights are 0, so there is nothing to draw; give one index a weight")
    weights /= weights.max()  # the sum of very large ones would be infinite
    return weights / weights.sum()
