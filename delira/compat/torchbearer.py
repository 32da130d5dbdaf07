"""What torchbearer's scripts import besides trials, callbacks and metrics: splits of data, and what reads a metric."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delira.compat.helpers import named_module
from delira.errors import ConfigError
from delira.state import METRICS, State


def _order(length: int, shuffle: bool, seed: int | None = None) -> np.ndarray:
    """Indices in order, or in one that is drawn: with a seed always the same, else from numpy's generator."""
    if not shuffle:
        return np.arange(length)
    return (np.random if seed is None else np.random.default_rng(seed)).permutation(length)


def _n_validated(length: int, split: float) -> int:
    if isinstance(split, bool) or not isinstance(split, (int, float)) or not 0 < split < 1:
        raise ConfigError(f"the part of the samples to validate on is a number between 0 and 1, got {split!r}")
    return int(length * split)


def train_valid_splitter(x: Any, y: Any, split: float, shuffle: bool = True) -> tuple[Any, Any, Any, Any]:
    """Divide arrays or tensors.

    Parameters
    ----------
    x, y : of shape (n, ...)
        Inputs and targets.
    split
        Part of the samples to validate on: the first, after shuffling.
    shuffle
        Whether to shuffle, by numpy's global generator.

    Returns
    -------
    tuple
        ``(x_train, y_train, x_valid, y_valid)``.
    """
    order, number = _order(len(x), shuffle), _n_validated(len(x), split)
    valid, train = order[:number], order[number:]
    return x[train], y[train], x[valid], y[valid]


def get_train_valid_sets(
    x: Any, y: Any, validation_data: Sequence[Any] | None, validation_split: float | None, shuffle: bool = True
) -> tuple[Any, Any]:
    """Make datasets of tensors of PyTorch to train and to validate on.

    Parameters
    ----------
    x, y : tensors of shape (n, ...)
        Inputs and targets.
    validation_data
        ``(x, y)`` to validate on; then nothing is divided.
    validation_split
        Part of the samples to validate on; without both there is no second dataset.
    shuffle
        As in :func:`train_valid_splitter`.

    Returns
    -------
    tuple
        Two datasets, the second of which may be None.
    """
    make = named_module("torch.utils.data").TensorDataset
    if validation_data is not None:
        return make(x, y), make(*validation_data)
    if validation_split is None:
        return make(x, y), None
    x_train, y_train, x_valid, y_valid = train_valid_splitter(x, y, validation_split, shuffle)
    return make(x_train, y_train), make(x_valid, y_valid)


class SubsetDataset:
    """Some samples of a dataset.

    Parameters
    ----------
    dataset
        Anything with an index.
    ids
        Indices into it.
    """

    def __init__(self, dataset: Any, ids: Sequence[int]):
        self.dataset, self.ids = dataset, list(map(int, ids))

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.ids[index]]

    def __len__(self) -> int:
        return len(self.ids)


class DatasetValidationSplitter:
    """Divides the indices of datasets of one length.

    Parameters
    ----------
    dataset_len
        Number of samples.
    split_fraction
        Part of them to validate on.
    shuffle_seed
        Shuffles before; None: the first are those to validate on. No global generator is touched.
    """

    def __init__(self, dataset_len: int, split_fraction: float, shuffle_seed: int | None = None):
        order = _order(dataset_len, shuffle_seed is not None, shuffle_seed)
        number = _n_validated(dataset_len, split_fraction)
        self.valid_ids, self.train_ids = order[:number].tolist(), order[number:].tolist()

    def get_train_dataset(self, dataset: Any) -> SubsetDataset:
        """Return the samples to train on."""
        return SubsetDataset(dataset, self.train_ids)

    def get_val_dataset(self, dataset: Any) -> SubsetDataset:
        """Return the samples to validate on."""
        return SubsetDataset(dataset, self.valid_ids)


def get_metric(callback_name: str, state: State, metric_name: str) -> Any:
    """Return a metric of the state, or None, with a warning, if it is not there."""
    metrics: Mapping[str, Any] = state.get(METRICS, {})
    if metric_name not in metrics:
        warnings.warn(f"{callback_name}: there is no metric {metric_name!r} yet", stacklevel=2)
    return metrics.get(metric_name)
