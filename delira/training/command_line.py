"""The historic import path of :mod:`delira.experiments.command_line`."""

from delira.utils.lazy import moved_names

__getattr__, __dir__ = moved_names(__name__, "delira.experiments.command_line")
