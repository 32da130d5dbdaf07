from delira.data_loading.array_dataset import DictDataset as DictDataset
from delira.data_loading.array_dataset import IterableDataset as IterableDataset
from delira.data_loading.array_dataset import WrappedDataset as WrappedDataset
from delira.data_loading.cached_dataset import CachedDataset as CachedDataset
from delira.data_loading.data_loader import BaseDataLoader as BaseDataLoader
from delira.data_loading.data_loader import BaseDataLoader as DataLoader
from delira.data_loading.data_manager import BaseDataManager as BaseDataManager
from delira.data_loading.data_manager import BaseDataManager as DataManager
from delira.data_loading.dataset import AbstractDataset as AbstractDataset
from delira.data_loading.dataset import BaseCacheDataset as BaseCacheDataset
from delira.data_loading.dataset import BaseExtendCacheDataset as BaseExtendCacheDataset
from delira.data_loading.dataset import BaseLazyDataset as BaseLazyDataset
from delira.data_loading.dataset import BlankDataset as BlankDataset
from delira.data_loading.dataset import ConcatDataset as ConcatDataset
from delira.data_loading.dataset import Nii3DCacheDataset as Nii3DCacheDataset
from delira.data_loading.dataset import Nii3DCacheDatset as Nii3DCacheDatset
from delira.data_loading.dataset import Nii3DLazyDataset as Nii3DLazyDataset
from delira.data_loading.dataset import Subset as Subset
from delira.data_loading.dataset import TorchvisionClassificationDataset as TorchvisionClassificationDataset
from delira.data_loading.load_utils import default_load_fn_2d as default_load_fn_2d
from delira.data_loading.load_utils import LoadSample as LoadSample
from delira.data_loading.load_utils import LoadSampleLabel as LoadSampleLabel
from delira.data_loading.load_utils import norm_range as norm_range
from delira.data_loading.load_utils import norm_zero_mean_unit_std as norm_zero_mean_unit_std
from delira.data_loading.mapped_dataset import MappedDataset as MappedDataset
from delira.data_loading.nii import load_nii as load_nii
from delira.data_loading.nii import load_sample_nii as load_sample_nii
from delira.data_loading.open_array import load_array as load_array
from delira.data_loading.patches import Patches as Patches
from delira.data_loading.remote import RemoteSettings as RemoteSettings
from delira.data_loading.resampling import resample as resample
from delira.data_loading.resampling import resample_like as resample_like
from delira.data_loading.sampler import AbstractSampler as AbstractSampler
from delira.data_loading.sampler import BatchSampler as BatchSampler
from delira.data_loading.sampler import GroupRandomSampler as GroupRandomSampler
from delira.data_loading.sampler import LambdaSampler as LambdaSampler
from delira.data_loading.sampler import PrevalenceRandomSampler as PrevalenceRandomSampler
from delira.data_loading.sampler import PrevalenceSequentialSampler as PrevalenceSequentialSampler
from delira.data_loading.sampler import RandomSampler as RandomSampler
from delira.data_loading.sampler import RandomSamplerNoReplacement as RandomSamplerNoReplacement
from delira.data_loading.sampler import RandomSamplerWithReplacement as RandomSamplerWithReplacement
from delira.data_loading.sampler import SequentialSampler as SequentialSampler
from delira.data_loading.sampler import StoppingPrevalenceRandomSampler as StoppingPrevalenceRandomSampler
from delira.data_loading.sampler import StoppingPrevalenceSequentialSampler as StoppingPrevalenceSequentialSampler
from delira.data_loading.sampler import WeightedPrevalenceRandomSampler as WeightedPrevalenceRandomSampler
from delira.data_loading.sampler import WeightedRandomSampler as WeightedRandomSampler
from delira.data_loading.shards import ShardDataset as ShardDataset
from delira.data_loading.stream import DataStream as DataStream
from delira.data_loading.transforms import Compose as Compose
from delira.data_loading.transforms import FittedPreprocessing as FittedPreprocessing
from delira.data_loading.transforms import PerSampleTransform as PerSampleTransform
from delira.data_loading.workers import WorkerSettings as WorkerSettings

__all__ = [
    "AbstractDataset",
    "AbstractSampler",
    "BaseCacheDataset",
    "BaseDataLoader",
    "BaseDataManager",
    "BaseExtendCacheDataset",
    "BaseLazyDataset",
    "BatchSampler",
    "BlankDataset",
    "CachedDataset",
    "Compose",
    "ConcatDataset",
    "DataLoader",
    "DataManager",
    "DataStream",
    "DictDataset",
    "FittedPreprocessing",
    "GroupRandomSampler",
    "IterableDataset",
    "LambdaSampler",
    "LoadSample",
    "LoadSampleLabel",
    "MappedDataset",
    "Nii3DCacheDataset",
    "Nii3DCacheDatset",
    "Nii3DLazyDataset",
    "Patches",
    "PerSampleTransform",
    "PrevalenceRandomSampler",
    "PrevalenceSequentialSampler",
    "RandomSampler",
    "RandomSamplerNoReplacement",
    "RandomSamplerWithReplacement",
    "RemoteSettings",
    "SequentialSampler",
    "ShardDataset",
    "StoppingPrevalenceRandomSampler",
    "StoppingPrevalenceSequentialSampler",
    "Subset",
    "TorchvisionClassificationDataset",
    "WeightedPrevalenceRandomSampler",
    "WeightedRandomSampler",
    "WorkerSettings",
    "WrappedDataset",
    "default_load_fn_2d",
    "load_array",
    "load_nii",
    "load_sample_nii",
    "norm_range",
    "norm_zero_mean_unit_std",
    "resample",
    "resample_like",
]
