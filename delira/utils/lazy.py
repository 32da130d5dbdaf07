"""Resolve public names on first use, so that no framework is imported early."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

from delira.errors import MissingBackendError
from delira.rooms import FRAMEWORKS, NAMES


def lazy_names(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build the ``__getattr__`` and ``__dir__`` of a public package from the table of rooms.

    Parameters
    ----------
    module
        ``__name__`` of the package, e.g. ``"delira.models"``.
    """
    package = module.removeprefix("delira.")
    home = {name: room for room, names in NAMES.items() for name in names.get(package, ())}

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        room = home[name]
        try:
            value = getattr(importlib.import_module(f"delira.backends.{room}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("delira"):
                raise
            # the framework itself, if it is missing, and not the part of it that happened to be imported first
            framework = FRAMEWORKS[room]
            missing = framework if importlib.util.find_spec(framework) is None else str(error.name).split(".")[0]
            raise MissingBackendError(
                f"{module}.{name} needs the package {missing!r}, which is not installed. "
                f"Install it with: pip install 'delira[{room}]'"
            ) from error
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[module]), *home})

    return __getattr__, __dir__


def lazy_members(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build the ``__getattr__`` and ``__dir__`` of a package whose modules are imported when they are asked for.

    Parameters
    ----------
    module
        ``__name__`` of the package.
    homes
        Public name -> module of the package that defines it.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{module}.{homes[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return __getattr__, __dir__
