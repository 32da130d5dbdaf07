"""What is to be known about the validation parts that are taken out of the training parts of the folds."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.data_loading.abstract_dataset import reads_cheaply
from delira.data_loading.dataset import read_labels

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
    inner = {number: split for number, split in enumerate(splits) if split.val is not None}
    found = [_told_of_sizes(splitter, inner), _told_of_classes(_classes_of(dataset, splitter), inner)]
    return [text for text in found if text]


def _told_of_sizes(splitter: "Splitter", inner: dict[int, Any]) -> str:
    config = splitter.config
    if splitter.groups is None or config.val_split is None:
        return ""
    uneven = []
    for number, split in inner.items():
        n_val, n_all = len(split.val), len(split.val) + len(split.train)
        if not 1 / _FACTOR <= n_val / (config.val_split * n_all) <= _FACTOR:
            uneven.append(f"{number} ({n_val:,} of {n_all:,} samples)")
    if not uneven:
        return ""
    return (
        f"val_split={config.val_split} is a share of the groups {config.groups_key!r}, which are of uneven size: the "
        f"validation part is another share of the samples in {_folds(uneven)}"
    )


def _told_of_classes(classes: np.ndarray | None, inner: dict[int, Any]) -> str:
    if classes is None:
        return ""
    names = np.unique(classes)
    lacking = []
    for number, split in inner.items():
        if (missing := np.setdiff1d(names, classes[split.val])).size:
            more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
            listed = ", ".join(str(name) for name in missing[:_LISTED].tolist())
            lacking.append(f"{number} ({'class' if len(missing) == 1 else 'classes'} {listed}{more})")
    if not lacking:
        return ""
    return (
        f"the validation part lacks a class in {_folds(lacking)}: a score that needs all classes is no number there, "
        "so that no epoch may be the best; use split_type='stratified', or a larger val_split"
    )


def _folds(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return f"{'fold' if len(texts) == 1 else 'folds'} {', '.join(texts[:_LISTED])}{more}"


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
