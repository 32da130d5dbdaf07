"""Callbacks that make pictures."""

from delira.callbacks.imaging.callback import CachingImagingCallback, FromState, ImagingCallback, MakeGrid
from delira.callbacks.imaging.grid import make_grid
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, {"delira.trial.class_appearance": "ClassAppearanceModel"})
