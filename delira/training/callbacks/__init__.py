"""The name under which everybody knows :mod:`delira.callbacks`."""

from delira.utils.lazy import moved_names

__getattr__, __dir__ = moved_names(__name__, "delira.callbacks")
