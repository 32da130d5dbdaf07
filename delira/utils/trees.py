"""The import path that backends have of :func:`delira.utils.arrays.map_leaves`, as the example showed it."""

from delira.utils.lazy import moved_names

__getattr__, __dir__ = moved_names(__name__, "delira.utils.arrays")
