from delira.trial.closures import base_closure as base_closure
from delira.trial.closures import Closure as Closure
from delira.trial.closures import combined_closure as combined_closure
from delira.trial.closures import standard_closure as standard_closure
from delira.trial.data import deep_to as deep_to
from delira.trial.trial import Trial as Trial

__all__ = [
    "Closure",
    "Trial",
    "base_closure",
    "combined_closure",
    "deep_to",
    "standard_closure",
]
