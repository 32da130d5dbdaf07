"""The historic import path of :mod:`delira.experiments.parameters`."""

from delira.utils.lazy import moved_names

__getattr__, __dir__ = moved_names(__name__, "delira.experiments.parameters")
