"""The historic import path of :mod:`delira.metrics`."""

from delira.metrics import *  # noqa: F403
from delira.metrics import __all__ as __all__
