"""delira: write a network once and get the whole experiment, with whatever framework."""

from typing import TYPE_CHECKING, Any

from delira.rooms import installed_rooms
from delira.state import State, StateKey, state_key
from delira.utils.debug import get_current_debug_mode, set_debug_mode, switch_debug_mode
from delira.utils.seeding import seed_all

if TYPE_CHECKING:  # what type checkers and editors see; at run time see __getattr__
    from delira.training.trial import Trial as Trial

#: the version, by the rules of docs/versioning.md
__version__ = "1.0.0.dev0"

__all__ = [
    "State",
    "StateKey",
    "__version__",
    "get_backends",
    "get_current_debug_mode",
    "seed_all",
    "set_debug_mode",
    "state_key",
    "switch_debug_mode",
]


def get_backends() -> tuple[str, ...]:
    """Upper-case names of the backends whose package is installed, e.g. ``("TORCH",)``."""
    return tuple(room.upper() for room in installed_rooms())


def __getattr__(name: str) -> Any:
    if name != "Trial":
        raise AttributeError(f"module 'delira' has no attribute {name!r}")
    from delira.training.trial import Trial

    return Trial


def __dir__() -> list[str]:
    return sorted({*globals(), "Trial"})
