"""Figures that notebooks show."""

import functools
import io
from typing import TYPE_CHECKING

from delira.utils.optional import import_optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@functools.cache
def picture_class() -> type["Figure"]:
    """Return a figure that notebooks show although pyplot, which would draw it for them, was never imported.

    Raises
    ------
    MissingBackendError
        If matplotlib is not there, as after ``pip install --no-deps``.
    """
    import_optional("matplotlib.figure", "a plot", "matplotlib")
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

    return Picture
