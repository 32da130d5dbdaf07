"""The classes that a data set has: those to learn, and those that columns stand for."""

import warnings
from typing import Any

import numpy as np

from delira.data_loading.dataset import Subset, given_labels, read_labels
from delira.errors import ConfigError


def find_classes(target: str | None, data: object) -> Any:
    """All classes of the training data; an estimator that is told of more may divide by their number of samples.

    Parameters
    ----------
    target
        Entry that is learned.
    data
        The training data.

    Returns
    -------
    ndarray or list of ndarray
        The sorted labels; of several labels a sample, those of each.

    Raises
    ------
    ConfigError
        If the data can be read only once.
    """
    dataset = getattr(data, "dataset", None)
    if target is not None and dataset is not None:
        labels = read_labels(dataset, target)
    elif target is not None and isinstance(data, (list, tuple)):
        labels = np.concatenate([batch[target] for batch in data])
    else:
        raise ConfigError(
            f"partial_fit must know all classes beforehand, which cannot be found in a {type(data).__name__}; name "
            "them: SklearnEstimator(estimator, classes=[…])"
        )
    labels = np.asarray(labels).reshape(len(labels), -1)
    if labels.shape[1] == 1:
        return np.unique(labels)
    return [np.unique(column) for column in labels.T]


def find_columns(target: str, data: object) -> list[Any] | None:
    """All labels of the data set that the training data are a part of, so that every fold has the same columns.

    Parameters
    ----------
    target
        Entry that is learned.
    data
        The training data.

    Returns
    -------
    list or None
        The sorted labels; ``None`` if the data are no part of a set, or a sample has several labels.
    """
    dataset = getattr(data, "dataset", None)
    if type(dataset) is not Subset or target in given_labels(dataset):
        return None
    try:
        labels = np.asarray(read_labels(dataset.parent, target))
    except Exception as error:  # whatever reading a sample raises; the batches may have other labels than the samples
        warnings.warn(
            f"the classes of the whole data set cannot be found ({error!r}), so the columns of 'pred' may differ "
            "between folds; name them: SklearnEstimator(estimator, classes=[…])",
            stacklevel=2,
        )
        return None
    is_single = labels.size == len(labels) and labels.dtype != object
    return np.unique(labels).tolist() if is_single else None
