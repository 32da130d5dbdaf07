"""The historic way to make a dataset of a list and another dataset's ``__getitem__``."""

from collections.abc import Callable, Sequence
from typing import Any

from delira.data_loading.abstract_dataset import AbstractDataset, Sample
from delira.errors import ConfigError


class BlankDataset(AbstractDataset):
    """A list of items, read by the ``__getitem__`` of another class.

    Subsets used to be of this class; what ``get_subset`` returns now is a :class:`Subset`, a view that
    needs no list of attributes.

    Parameters
    ----------
    data
        One item for each sample, kept as ``data``.
    old_getitem
        Called as ``old_getitem(self, index)``, e.g. ``BaseLazyDataset.__getitem__``; returns a sample.
    **kwargs
        Whatever attributes ``old_getitem`` reads from the dataset.

    Raises
    ------
    ConfigError
        If ``old_getitem`` cannot be called, or ``data`` is no list.
    """

    def __init__(self, data: Sequence[Any], old_getitem: Callable[[Any, int], Sample], **kwargs: Any) -> None:
        super().__init__()
        if not callable(old_getitem):
            raise ConfigError(f"old_getitem must be a function of (dataset, index), got {old_getitem!r}")
        if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise ConfigError(f"data of a BlankDataset must be a list of items, got {data!r}")
        self.data = data
        self.old_getitem = old_getitem
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __getitem__(self, index: int) -> Sample:
        return self.old_getitem(self, index)
