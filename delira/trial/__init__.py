"""Fit anything: see :class:`Trial`."""

from delira.trial.closures import Closure, base_closure, combined_closure, standard_closure
from delira.trial.moving import deep_to
from delira.trial.trial import Trial

__all__ = ["Closure", "Trial", "base_closure", "combined_closure", "deep_to", "standard_closure"]
