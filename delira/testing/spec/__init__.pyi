from delira.testing.spec.check import Check as Check
from delira.testing.spec.report import Outcome as Outcome
from delira.testing.spec.report import SpecReport as SpecReport
from delira.testing.spec.room import FEATURES as FEATURES
from delira.testing.spec.room import RoomUnderTest as RoomUnderTest
from delira.testing.spec.runner import check_backend as check_backend
from delira.testing.spec.runner import spec_checks as spec_checks

__all__ = [
    "FEATURES",
    "Check",
    "Outcome",
    "RoomUnderTest",
    "SpecReport",
    "check_backend",
    "spec_checks",
]
