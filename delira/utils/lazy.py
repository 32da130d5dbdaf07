"""Resolve public names on first use, so that no framework is imported early."""

import contextlib
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from delira.errors import ConfigError, MissingBackendError
from delira.frameworks import FRAMEWORKS, NAMES, homes_in, installed_backends

#: what a module is given: ``__getattr__`` and ``__dir__``
Lookup = tuple[Callable[[str], Any], Callable[[], list[str]]]


def public_names(
    module: str,
    elsewhere: Mapping[str, str] | None = None,
    renamed: Mapping[str, str] | None = None,
    *,
    lists_backends: bool = False,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Build ``__getattr__``, ``__dir__`` and ``__all__`` of a public package: the one statement of its names.

    Public is what the package has imported when it calls this, and what it names in ``elsewhere``; of a package below
    ``delira.backends`` what ``delira/frameworks.py`` says of it. Names of backends are shown elsewhere, too, but are no
    part of ``__all__``. What editors see is made from this by ``make stubs``.

    Parameters
    ----------
    module
        ``__name__`` of the package, e.g. ``"delira.models"``.
    elsewhere
        Module -> names, separated by blanks, that are imported from it when they are first used. ``Old=New`` shows
        ``New`` under its older name.
    renamed
        Older name -> name of today. It works with a ``DeprecationWarning``, and is no part of ``__all__``.
    lists_backends
        Whether ``import *`` gives the names of backends that are installed, too.
    """
    homes = {
        name: (home, real) for home, names in (elsewhere or {}).items() for name, real in map(_names, names.split())
    } | {name: (home, name) for name, home in homes_in(module).items()}
    imported = [
        name
        for name, value in vars(sys.modules[module]).items()
        if not isinstance(value, ModuleType) and (not name.startswith("_") or name == "__version__")
        if value is not public_names
    ]
    if (old := of_old_scripts("names")) is not None:
        old.register(module)
    listed, package = sorted({*imported, *homes}, key=_order), module.removeprefix("delira.")
    if lists_backends:
        listed += [name for backend in installed_backends() for name in NAMES[backend].get(package, ())]
    return *lazy_names(module, homes, renamed or {}), listed


def of_old_scripts(part: str) -> Any:
    """A module of :mod:`delira.compat`, which only scripts for older versions need; None in a copy without it.

    Parameters
    ----------
    part
        Its name.
    """
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(f"delira.compat.{part}")
    return None


def for_old_scripts(part: str) -> Any:
    """A module of :mod:`delira.compat` without which a script for an older version cannot go on.

    Parameters
    ----------
    part
        Its name.

    Raises
    ------
    ConfigError
        In a copy without it.
    """
    if (module := of_old_scripts(part)) is None:
        raise ConfigError(
            "the script uses what only older versions had, which needs the package delira.compat, and it is not there; "
            "install delira anew, or see docs/migrating.md for today's spelling"
        )
    return module


def old_names(module: str) -> Callable[[str], Any]:
    """Build ``__getattr__`` of a module that shows names of older versions besides its own.

    Parameters
    ----------
    module
        Its ``__name__``.
    """

    def __getattr__(name: str) -> Any:
        old = None if name.startswith("__") else of_old_scripts("names")
        if old is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return old.find(module, name)

    return __getattr__


def moved_names(module: str, home: str) -> Lookup:
    """Build ``__getattr__`` and ``__dir__`` of a module that is only a historic import path of another one.

    Parameters
    ----------
    module
        Its ``__name__``.
    home
        The module that has the names now.
    """

    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # those of a module are its own
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)

    return __getattr__, lambda: dir(importlib.import_module(home))


def _names(entry: str) -> tuple[str, str]:
    """Return the name that is shown, and that under which it is defined."""
    shown, _, real = entry.partition("=")
    return shown, real or shown


def _order(name: str) -> tuple[bool, bool, str]:
    """Sort key of ``__all__``: constants, then classes, then the rest."""
    return not name.isupper(), not name[0].isupper(), name


def lazy_names(module: str, homes: Mapping[str, tuple[str, str]] = {}, renamed: Mapping[str, str] = {}) -> Lookup:
    """Build ``__getattr__`` and ``__dir__`` of a public module, which shows names of backends anyway.

    Parameters
    ----------
    module
        Its ``__name__``, e.g. ``"delira.training.losses"``.
    homes
        Further name -> module that has it, and its name there.
    renamed
        As for :func:`public_names`.
    """
    package = module.removeprefix("delira.")
    backends = {name: backend for backend, names in NAMES.items() for name in names.get(package, ())}
    old = old_names(module)

    def __getattr__(name: str) -> Any:
        if name in renamed:
            warnings.warn(f"{module}.{name} is now called {renamed[name]}", DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[module], renamed[name])
        if name in homes:
            home, real = homes[name]
            value = getattr(importlib.import_module(home), real)
        elif name in backends:
            value = _name_of_backend(module, name, backends[name])
        else:
            return old(name)
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes, *backends})

    return __getattr__, __dir__


def _name_of_backend(module: str, name: str, backend: str) -> Any:
    try:
        return getattr(importlib.import_module(f"delira.backends.{backend}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("delira"):
            raise
        # the framework itself, if it is missing, and not the part of it that happened to be imported first
        framework = FRAMEWORKS[backend]
        missing = framework if importlib.util.find_spec(framework) is None else str(error.name).split(".")[0]
        raise MissingBackendError(
            f"{module}.{name} needs the package {missing!r}, which is not installed. "
            f"Install it with: pip install 'delira[{backend}]'"
        ) from error
