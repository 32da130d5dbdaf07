"""Values for each sample (classes, groups, weights): how samplers read them and walk through them."""

from typing import Any, TypeVar

import numpy as np

from delira.data_loading._exact import exact_array
from delira.data_loading.abstract_dataset import times_set
from delira.data_loading.dataset import Subset, read_labels
from delira.data_loading.sampler.abstract_sampler import AbstractSampler
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
        rounds = np.arange(len(visits)) // max(1, len(self))
        return by_class[self._starts[visits] + rounds % self.counts[visits]]


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


def made_from_labels(sampler: AnySampler, dataset: Any, is_read: bool) -> AnySampler:
    """Return a sampler that remembers whose labels it was made from, and how often they had been set by then.

    Parameters
    ----------
    sampler : AbstractSampler
        The sampler.
    dataset : AbstractDataset
        Whose labels they are.
    is_read
        Whether they were read from it, and not given by the user.
    """
    if is_read:
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
    if length == len(dataset):
        return values
    if length == len(whole):
        return values[places]
    got = "is a single value" if length is None else f"has {length} entries"
    part = "" if whole is dataset else f" (a subset of {len(whole)})"
    raise ConfigError(f"{name} {got}, but the dataset has {len(dataset)} samples{part}; pass one for each sample")


def _one_for_each(values: np.ndarray, needed: str) -> np.ndarray:
    if values.ndim == 0:
        raise ConfigError(f"{needed}, got {values!r}; pass a list or array of shape (n,)")
    is_number = values.dtype.kind in "biuf"
    if is_number and values.ndim == 2 and values.shape[1] > 1 and _are_one_hot(values):
        return values.argmax(axis=1)
    if values.size != len(values):
        raise ConfigError(f"{needed}, got values of shape {values.shape[1:]}; choose another entry by key")
    values = values.reshape(len(values))
    if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.round(values))).all():
        raise ConfigError(
            f"{needed}, got continuous or missing values; round or bin them, or choose another entry by key"
        )
    return values


def _are_one_hot(rows: np.ndarray) -> bool:
    return bool((rows.sum(axis=1) == 1).all() and (rows.max(axis=1) == 1).all())
