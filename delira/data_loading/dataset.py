"""All datasets under their historic import path."""

from delira.data_loading.abstract_dataset import (
    AbstractDataset,
    LoadFunction,
    Sample,
    Subset,
    given_labels,
    read_labels,
    split_indices,
)
from delira.data_loading.blank_dataset import BlankDataset
from delira.data_loading.concat_dataset import ConcatDataset
from delira.data_loading.file_dataset import BaseCacheDataset, BaseExtendCacheDataset, BaseLazyDataset
from delira.data_loading.nifti_dataset import Nii3DCacheDataset, Nii3DCacheDatset, Nii3DLazyDataset
from delira.data_loading.torchvision_dataset import TorchvisionClassificationDataset

__all__ = [
    "AbstractDataset",
    "BaseCacheDataset",
    "BaseExtendCacheDataset",
    "BaseLazyDataset",
    "BlankDataset",
    "ConcatDataset",
    "LoadFunction",
    "Nii3DCacheDataset",
    "Nii3DCacheDatset",
    "Nii3DLazyDataset",
    "Sample",
    "Subset",
    "TorchvisionClassificationDataset",
    "given_labels",
    "read_labels",
    "split_indices",
]
