from delira.data_loading.sampler.abstract_sampler import AbstractSampler as AbstractSampler
from delira.data_loading.sampler.batch import BatchSampler as BatchSampler
from delira.data_loading.sampler.group import GroupRandomSampler as GroupRandomSampler
from delira.data_loading.sampler.lambda_sampler import LambdaSampler as LambdaSampler
from delira.data_loading.sampler.prevalence import PrevalenceRandomSampler as PrevalenceRandomSampler
from delira.data_loading.sampler.prevalence import PrevalenceSequentialSampler as PrevalenceSequentialSampler
from delira.data_loading.sampler.prevalence import StoppingPrevalenceRandomSampler as StoppingPrevalenceRandomSampler
from delira.data_loading.sampler.prevalence import StoppingPrevalenceSequentialSampler as StoppingPrevalenceSequentialSampler
from delira.data_loading.sampler.random import RandomSampler as RandomSampler
from delira.data_loading.sampler.random import RandomSamplerNoReplacement as RandomSamplerNoReplacement
from delira.data_loading.sampler.random import RandomSamplerWithReplacement as RandomSamplerWithReplacement
from delira.data_loading.sampler.sequential import SequentialSampler as SequentialSampler
from delira.data_loading.sampler.weighted import WeightedPrevalenceRandomSampler as WeightedPrevalenceRandomSampler
from delira.data_loading.sampler.weighted import WeightedRandomSampler as WeightedRandomSampler

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
