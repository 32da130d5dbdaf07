"""From samples to batches: dataset, sampler, loader, manager; numpy only."""

from delira.data_loading.array_dataset import DictDataset, IterableDataset
from delira.data_loading.data_loader import BaseDataLoader
from delira.data_loading.data_loader import BaseDataLoader as DataLoader
from delira.data_loading.data_manager import BaseDataManager
from delira.data_loading.data_manager import BaseDataManager as DataManager
from delira.data_loading.dataset import (
    AbstractDataset,
    BaseCacheDataset,
    BaseLazyDataset,
    ConcatDataset,
    Subset,
)
from delira.data_loading.sampler import AbstractSampler, RandomSampler, SequentialSampler

__all__ = [
    "AbstractDataset",
    "AbstractSampler",
    "BaseCacheDataset",
    "BaseDataLoader",
    "BaseDataManager",
    "BaseLazyDataset",
    "ConcatDataset",
    "DataLoader",
    "DataManager",
    "DictDataset",
    "IterableDataset",
    "RandomSampler",
    "SequentialSampler",
    "Subset",
]
