"""The smallest full room, for tests of delira and of what is built on it."""

from delira.testing.toy import (
    ToyBackend,
    ToyExperiment,
    ToyNetwork,
    ToySGD,
    ToyTrainer,
    mean_squared_error,
)

__all__ = ["ToyBackend", "ToyExperiment", "ToyNetwork", "ToySGD", "ToyTrainer", "mean_squared_error"]
