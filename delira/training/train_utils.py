"""Historic import path of the backends' small functions."""

from delira.utils.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
