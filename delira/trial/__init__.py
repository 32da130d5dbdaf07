"""Fit anything: see :class:`Trial`."""

from delira.trial.closures import Closure, base_closure, combined_closure, standard_closure
from delira.trial.data import deep_to
from delira.trial.trial import Trial
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
