"""What every backend must do, as checks that anyone can run on his own.

:class:`BackendUnderTest` says what has to be filled in; :func:`check_backend` runs the checks and gives a table.
"""

from delira.testing.spec.check import Check, Outcome, SpecReport, check_backend, spec_checks
from delira.testing.spec.under_test import FEATURES, BackendUnderTest
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, renamed={"RoomUnderTest": "BackendUnderTest"})
