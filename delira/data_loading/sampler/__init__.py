"""Samplers: the order in which the samples of one epoch are visited."""

from delira.data_loading.sampler.by_class import (
    GroupRandomSampler,
    PrevalenceRandomSampler,
    PrevalenceSequentialSampler,
    StoppingPrevalenceRandomSampler,
    StoppingPrevalenceSequentialSampler,
    WeightedPrevalenceRandomSampler,
    WeightedRandomSampler,
)
from delira.data_loading.sampler.orders import (
    AbstractSampler,
    BatchSampler,
    LambdaSampler,
    RandomSampler,
    RandomSamplerNoReplacement,
    RandomSamplerWithReplacement,
    SequentialSampler,
)
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
