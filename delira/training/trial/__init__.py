"""Fit anything: see :class:`Trial`."""

from delira.training.trial.closures import Closure, base_closure, combined_closure, standard_closure
from delira.training.trial.moving import deep_to
from delira.training.trial.trial import Trial

__all__ = ["Closure", "Trial", "base_closure", "combined_closure", "deep_to", "standard_closure"]
