"""Losses of the backends, called as ``loss(prediction, target)``."""

from delira.utils.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
