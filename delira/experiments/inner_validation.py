"""What is to be known about the validation parts that are taken out of the training parts of the folds."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from delira.data_loading.abstract_dataset import reads_cheaply
from delira.data_loading.dataset import read_labels
from delira.utils.suggest import listed

if TYPE_CHECKING:
    from delira.data_loading.abstract_dataset import AbstractDataset
    from delira.experiments.splits import Split, Splitter

#: how many times larger or smaller than asked for a validation part may be before that is told
_FACTOR = 1.5
_MAX_CLASSES = 100
_LISTED = 5


def caveats_of_validation(dataset: "AbstractDataset", splitter: "Splitter", splits: Sequence["Split"]) -> list[str]:
    """Sentences about validation parts of another size than asked for, and such without a class.

    Parameters
    ----------
    dataset, splitter, splits
        What is divided, by what, and into which parts.
    """
    found, config = [], splitter.config
    inner = {number: (split.train, split.val) for number, split in enumerate(splits) if split.val is not None}
    if splitter.groups is not None and config.val_split is not None:
        sizes = {number: (len(val), len(val) + len(train)) for number, (train, val) in inner.items()}
        uneven = [
            f"{number} ({n_val:,} of {n_all:,} samples)"
            for number, (n_val, n_all) in sizes.items()
            if not 1 / _FACTOR <= n_val / (config.val_split * n_all) <= _FACTOR
        ]
        if uneven:
            found.append(
                f"val_split={config.val_split} is a share of the groups {config.groups_key!r}, which are of uneven "
                f"size: the validation part is another share of the samples in {_folds(uneven)}"
            )
    if (classes := _classes_of(dataset, splitter)) is not None:
        names = np.unique(classes)
        missing = {number: np.setdiff1d(names, classes[val]).tolist() for number, (_, val) in inner.items()}
        lacking = [
            f"{number} ({'class' if len(lost) == 1 else 'classes'} {listed(lost, _LISTED)})"
            for number, lost in missing.items()
            if lost
        ]
        if lacking:
            found.append(
                f"the validation part lacks a class in {_folds(lacking)}: a score that needs all classes is no number "
                "there, so that no epoch may be the best; use split_type='stratified', or a larger val_split"
            )
    return found


def _folds(texts: Sequence[str]) -> str:
    return f"{'fold' if len(texts) == 1 else 'folds'} {listed(texts, _LISTED)}"


def _classes_of(dataset: "AbstractDataset", splitter: "Splitter") -> np.ndarray | None:
    """One class for each sample, if that is known without loading them; ``None`` of a regression."""
    if splitter.classes is not None:
        return splitter.classes
    key, labels = splitter.config.label_key, None
    with contextlib.suppress(Exception):  # a caveat must not end what the training may survive
        if reads_cheaply(dataset, key):
            labels = np.asarray(read_labels(dataset, key))
    if labels is None or labels.dtype.kind not in "biuUS" or labels.size != len(dataset):
        return None
    labels = labels.reshape(-1)
    n_classes = len(np.unique(labels))
    return labels if 1 < n_classes <= min(_MAX_CLASSES, len(labels) // 2) else None
