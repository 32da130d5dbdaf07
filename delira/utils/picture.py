"""Figures that notebooks show."""

import functools
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@functools.cache
def picture_class() -> type["Figure"]:
    """Return a figure that notebooks show although pyplot, which would draw it for them, was never imported."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

    return Picture
