"""Finders: what to begin a training with, found by steps that are undone."""

from delira.training.finders.batch_size import find_batch_size
from delira.training.finders.learning_rate import RateSearch, find_learning_rate
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
