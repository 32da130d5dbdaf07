"""Samplers: the order in which the samples of one epoch are visited."""

from delira.data_loading.sampler.abstract_sampler import AbstractSampler
from delira.data_loading.sampler.random import RandomSampler
from delira.data_loading.sampler.sequential import SequentialSampler

__all__ = ["AbstractSampler", "RandomSampler", "SequentialSampler"]
