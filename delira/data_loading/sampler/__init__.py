"""Samplers: the order in which the samples of one epoch are visited."""

from delira.data_loading.sampler.abstract_sampler import AbstractSampler
from delira.data_loading.sampler.batch import BatchSampler
from delira.data_loading.sampler.group import GroupRandomSampler
from delira.data_loading.sampler.lambda_sampler import LambdaSampler
from delira.data_loading.sampler.prevalence import (
    PrevalenceRandomSampler,
    PrevalenceSequentialSampler,
    StoppingPrevalenceRandomSampler,
    StoppingPrevalenceSequentialSampler,
)
from delira.data_loading.sampler.random import RandomSampler, RandomSamplerNoReplacement, RandomSamplerWithReplacement
from delira.data_loading.sampler.sequential import SequentialSampler
from delira.data_loading.sampler.weighted import WeightedPrevalenceRandomSampler, WeightedRandomSampler
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
