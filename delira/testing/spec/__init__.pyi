from delira.testing.spec.check import Check as Check
from delira.testing.spec.check import check_backend as check_backend
from delira.testing.spec.check import Outcome as Outcome
from delira.testing.spec.check import spec_checks as spec_checks
from delira.testing.spec.check import SpecReport as SpecReport
from delira.testing.spec.under_test import BackendUnderTest as BackendUnderTest
from delira.testing.spec.under_test import FEATURES as FEATURES

__all__ = [
    "FEATURES",
    "BackendUnderTest",
    "Check",
    "Outcome",
    "SpecReport",
    "check_backend",
    "spec_checks",
]
