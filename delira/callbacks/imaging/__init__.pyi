from delira.callbacks.imaging.callback import CachingImagingCallback as CachingImagingCallback
from delira.callbacks.imaging.callback import FromState as FromState
from delira.callbacks.imaging.callback import ImagingCallback as ImagingCallback
from delira.callbacks.imaging.callback import MakeGrid as MakeGrid
from delira.trial.class_appearance import ClassAppearanceModel as ClassAppearanceModel
from delira.utils.pictures import make_grid as make_grid

__all__ = [
    "CachingImagingCallback",
    "ClassAppearanceModel",
    "FromState",
    "ImagingCallback",
    "MakeGrid",
    "make_grid",
]
