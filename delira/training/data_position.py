"""Where an epoch is entered again: exact for data that can tell a position, refused for other data."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delira.errors import ConfigError


class BatchesFrom:
    """The batches of a list or tuple from one on; its length is that of the whole epoch.

    Parameters
    ----------
    batches
        All batches of the epoch.
    start
        Number of the first batch wanted.
    """

    def __init__(self, batches: Sequence[Any], start: int):
        self._batches, self._start = batches, start

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self._batches, self._start, None)

    def __len__(self) -> int:
        return len(self._batches)


def has_epochs(data: Any) -> bool:
    """Whether the data gives the batches of any epoch, as data managers do; a loader may count its own epochs."""
    return callable(getattr(data, "epoch", None))


def is_foreign_loader(data: Any) -> bool:
    """Whether the data is a loader of the user's that can save and load its position."""
    return not has_epochs(data) and hasattr(data, "state_dict") and hasattr(data, "load_state_dict")


def can_be_entered(data: Any) -> bool:
    """Whether an epoch of the data can be continued at any of its batches."""
    return has_epochs(data) or isinstance(data, (list, tuple)) or is_foreign_loader(data)


def training_batches(data: Any, counters: tuple[int, int, int], step: int, loader_state: Mapping[str, Any]) -> Any:
    """The batches of a training epoch from batch ``step`` on.

    Parameters
    ----------
    data
        A data manager or another iterable of batches.
    counters
        Seed, fold and epoch.
    step
        Batches that are done.
    loader_state
        Position that the data, if it is no data manager, has told at that batch.

    Raises
    ------
    ConfigError
        If the data cannot be entered there.
    """
    if has_epochs(data):
        return data.epoch(*counters, start=step, shuffle=True)
    if not step:
        return data
    if isinstance(data, (list, tuple)):
        return BatchesFrom(data, step)
    if not is_foreign_loader(data) or not loader_state:
        raise ConfigError(
            f"the checkpoint is inside epoch {counters[2]}, after batch {step}, where the training data, a "
            f"{type(data).__name__}, cannot be entered; train with the data it was written with, or resume from a "
            "checkpoint of a whole epoch (resume='…/checkpoint_epoch_<n>…')"
        )
    data.load_state_dict(dict(loader_state))
    return data
