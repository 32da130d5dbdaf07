"""Finders: what to begin a training with, found by steps that are undone."""

from delira.training.finders.batch_size import find_batch_size
from delira.training.finders.learning_rate import RateSearch, find_learning_rate

__all__ = [
    "RateSearch",
    "find_batch_size",
    "find_learning_rate",
]
