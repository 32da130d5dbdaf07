"""The smallest full room, and what every room must do: for tests of delira and of what is built on it."""

from delira.testing.spec import RoomUnderTest, SpecReport, check_backend, spec_checks
from delira.testing.toy import (
    ToyBackend,
    ToyExperiment,
    ToyNetwork,
    ToySGD,
    ToyTrainer,
    mean_squared_error,
)

__all__ = [
    "RoomUnderTest",
    "SpecReport",
    "ToyBackend",
    "ToyExperiment",
    "ToyNetwork",
    "ToySGD",
    "ToyTrainer",
    "check_backend",
    "mean_squared_error",
    "spec_checks",
]
