"""Packages that must be imported before others, where both are installed."""

import importlib
import importlib.util
import sys
import warnings

from delira.frameworks import IMPORT_ORDER

FIRST, LATER, USER = IMPORT_ORDER
CURE = f"write 'import {FIRST}' above 'import {LATER}' in your script"


def import_triton_first() -> None:
    """Import triton, which PyTorch's CUDA builds import at their first update, while TensorFlow is not there yet.

    Nothing happens where one of triton, PyTorch and TensorFlow is not installed. Where the script has imported
    TensorFlow already there is a warning with the cure.
    """
    if FIRST in sys.modules or not needs_order():
        return
    if LATER in sys.modules:
        warnings.warn(
            f"{LATER} was imported before {FIRST}, which PyTorch imports at its first update: that may end in a "
            f"segmentation fault. {CURE[0].upper()}{CURE[1:]}",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    try:
        importlib.import_module(FIRST)
    except Exception:  # of a broken triton PyTorch tells more, if it needs it at all
        return


def needs_order() -> bool:
    """Return True if all three are installed, so that their order matters."""
    return all(name in sys.modules or importlib.util.find_spec(name) is not None for name in (FIRST, LATER, USER))
