"""delira: write a network once and get the whole experiment, with whatever framework."""

from delira.rooms import installed_rooms
from delira.utils.debug import get_current_debug_mode, set_debug_mode, switch_debug_mode
from delira.utils.seeding import seed_all

__version__ = "1.0.0.dev0"

__all__ = [
    "__version__",
    "get_backends",
    "get_current_debug_mode",
    "seed_all",
    "set_debug_mode",
    "switch_debug_mode",
]


def get_backends() -> tuple[str, ...]:
    """Upper-case names of the backends whose package is installed, e.g. ``("TORCH",)``."""
    return tuple(room.upper() for room in installed_rooms())
