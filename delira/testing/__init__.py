"""The smallest full backend, and what every backend must do: for tests of delira and of what is built on it."""

from delira.testing.spec import BackendUnderTest, SpecReport, check_backend, spec_checks
from delira.testing.toy import ToyBackend, ToyExperiment, ToyNetwork, ToySGD, ToyTrainer, mean_squared_error
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, renamed={"RoomUnderTest": "BackendUnderTest"})
