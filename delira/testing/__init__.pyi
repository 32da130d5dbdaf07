from delira.testing.spec import BackendUnderTest as BackendUnderTest
from delira.testing.spec import check_backend as check_backend
from delira.testing.spec import spec_checks as spec_checks
from delira.testing.spec import SpecReport as SpecReport
from delira.testing.toy import mean_squared_error as mean_squared_error
from delira.testing.toy import ToyBackend as ToyBackend
from delira.testing.toy import ToyExperiment as ToyExperiment
from delira.testing.toy import ToyNetwork as ToyNetwork
from delira.testing.toy import ToySGD as ToySGD
from delira.testing.toy import ToyTrainer as ToyTrainer

__all__ = [
    "BackendUnderTest",
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
