from delira.testing.toy.backend import mean_squared_error as mean_squared_error
from delira.testing.toy.backend import ToyBackend as ToyBackend
from delira.testing.toy.backend import ToyExperiment as ToyExperiment
from delira.testing.toy.backend import ToyNetwork as ToyNetwork
from delira.testing.toy.backend import ToySGD as ToySGD
from delira.testing.toy.backend import ToyTrainer as ToyTrainer

__all__ = [
    "ToyBackend",
    "ToyExperiment",
    "ToyNetwork",
    "ToySGD",
    "ToyTrainer",
    "mean_squared_error",
]
