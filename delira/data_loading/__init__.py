"""From samples to batches: datasets, samplers, loader, transforms, manager, workers; numpy only."""

from delira.data_loading.array_dataset import DictDataset, IterableDataset, WrappedDataset
from delira.data_loading.cached_dataset import CachedDataset
from delira.data_loading.data_loader import BaseDataLoader
from delira.data_loading.data_loader import BaseDataLoader as DataLoader
from delira.data_loading.data_manager import BaseDataManager
from delira.data_loading.data_manager import BaseDataManager as DataManager
from delira.data_loading.dataset import (
    AbstractDataset,
    BaseCacheDataset,
    BaseExtendCacheDataset,
    BaseLazyDataset,
    BlankDataset,
    ConcatDataset,
    Nii3DCacheDataset,
    Nii3DCacheDatset,
    Nii3DLazyDataset,
    Subset,
    TorchvisionClassificationDataset,
)
from delira.data_loading.load_utils import (
    LoadSample,
    LoadSampleLabel,
    default_load_fn_2d,
    norm_range,
    norm_zero_mean_unit_std,
)
from delira.data_loading.mapped_dataset import MappedDataset
from delira.data_loading.nii import load_nii, load_sample_nii
from delira.data_loading.open_array import load_array
from delira.data_loading.patches import Patches
from delira.data_loading.remote import RemoteSettings
from delira.data_loading.resampling import resample, resample_like
from delira.data_loading.sampler import (
    AbstractSampler,
    BatchSampler,
    GroupRandomSampler,
    LambdaSampler,
    PrevalenceRandomSampler,
    PrevalenceSequentialSampler,
    RandomSampler,
    RandomSamplerNoReplacement,
    RandomSamplerWithReplacement,
    SequentialSampler,
    StoppingPrevalenceRandomSampler,
    StoppingPrevalenceSequentialSampler,
    WeightedPrevalenceRandomSampler,
    WeightedRandomSampler,
)
from delira.data_loading.shards import ShardDataset
from delira.data_loading.stream import DataStream
from delira.data_loading.transforms import Compose, FittedPreprocessing, PerSampleTransform
from delira.data_loading.workers import WorkerSettings
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
