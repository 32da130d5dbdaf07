from delira.training.finders.batch_size import find_batch_size as find_batch_size
from delira.training.finders.learning_rate import find_learning_rate as find_learning_rate
from delira.training.finders.learning_rate import RateSearch as RateSearch

__all__ = [
    "RateSearch",
    "find_batch_size",
    "find_learning_rate",
]
