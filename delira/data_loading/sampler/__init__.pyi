from delira.data_loading.sampler.by_class import GroupRandomSampler as GroupRandomSampler
from delira.data_loading.sampler.by_class import PrevalenceRandomSampler as PrevalenceRandomSampler
from delira.data_loading.sampler.by_class import PrevalenceSequentialSampler as PrevalenceSequentialSampler
from delira.data_loading.sampler.by_class import StoppingPrevalenceRandomSampler as StoppingPrevalenceRandomSampler
from delira.data_loading.sampler.by_class import StoppingPrevalenceSequentialSampler as StoppingPrevalenceSequentialSampler
from delira.data_loading.sampler.by_class import WeightedPrevalenceRandomSampler as WeightedPrevalenceRandomSampler
from delira.data_loading.sampler.by_class import WeightedRandomSampler as WeightedRandomSampler
from delira.data_loading.sampler.orders import AbstractSampler as AbstractSampler
from delira.data_loading.sampler.orders import BatchSampler as BatchSampler
from delira.data_loading.sampler.orders import LambdaSampler as LambdaSampler
from delira.data_loading.sampler.orders import RandomSampler as RandomSampler
from delira.data_loading.sampler.orders import RandomSamplerNoReplacement as RandomSamplerNoReplacement
from delira.data_loading.sampler.orders import RandomSamplerWithReplacement as RandomSamplerWithReplacement
from delira.data_loading.sampler.orders import SequentialSampler as SequentialSampler

__all__ = [
    "AbstractSampler",
    "BatchSampler",
    "GroupRandomSampler",
    "LambdaSampler",
    "PrevalenceRandomSampler",
    "PrevalenceSequentialSampler",
    "RandomSampler",
    "RandomSamplerNoReplacement",
    "RandomSamplerWithReplacement",
    "SequentialSampler",
    "StoppingPrevalenceRandomSampler",
    "StoppingPrevalenceSequentialSampler",
    "WeightedPrevalenceRandomSampler",
    "WeightedRandomSampler",
]
