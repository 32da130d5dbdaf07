"""Callbacks that make pictures."""

from delira.training.callbacks.imaging.appearance import ClassAppearanceModel
from delira.training.callbacks.imaging.caching import CachingImagingCallback, MakeGrid
from delira.training.callbacks.imaging.callback import FromState, ImagingCallback
from delira.training.callbacks.imaging.grid import make_grid

__all__ = [
    "CachingImagingCallback",
    "ClassAppearanceModel",
    "FromState",
    "ImagingCallback",
    "MakeGrid",
    "make_grid",
]
