"""Callbacks that make pictures."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.callbacks.imaging.callback": "CachingImagingCallback FromState ImagingCallback MakeGrid",
        "delira.utils.pictures": "make_grid",
        "delira.trial.class_appearance": "ClassAppearanceModel",
    },
)
