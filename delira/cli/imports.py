"""``--import``: the modules and scripts whose classes the files of runs name."""

import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from delira.errors import ConfigError


def import_all(names: Sequence[str]) -> dict[str, Any]:
    """Import modules and scripts.

    Parameters
    ----------
    names
        Modules (``ears.networks``), which are looked for below the present folder, too, after all others; or scripts
        (``train.py``), which are imported under their stem, so that what stands below ``if __name__ == "__main__":``
        does not run.

    Returns
    -------
    dict
        Their classes and functions, as a run knows them whose script they were: ``{"__main__:Net": Net}``; of several
        with one name that of the first.

    Raises
    ------
    ConfigError
        If one cannot be imported, naming it.
    """
    found: dict[str, Any] = {}
    for name in names:
        is_script = name.endswith(".py") or Path(name).is_file()
        try:
            module = _script(Path(name)) if is_script else _module(name)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:  # whatever code of the user's raises
            raise ConfigError(f"--import {name}: {type(error).__name__}: {error}; --debug shows where") from error
        own = {
            key: value for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
        }
        found = {f"__main__:{key}": value for key, value in own.items()} | found
    return found


def scripts(names: Sequence[str]) -> list[str]:
    """Return the modules that scripts among the names are imported as."""
    return [Path(name).stem for name in names if name.endswith(".py") or Path(name).is_file()]


def _module(name: str) -> types.ModuleType:
    with _on_path(Path.cwd(), first=False):
        return importlib.import_module(name)


def _script(file: Path) -> types.ModuleType:
    if not file.is_file():
        raise ConfigError(f"--import {file}: there is no such file")
    name = file.stem
    if (known := sys.modules.get(name)) is not None:
        if Path(getattr(known, "__file__", None) or "").absolute() == file.absolute():
            return known
        raise ConfigError(f"--import {file}: there is another module {name!r}; give the script another name")
    spec = importlib.util.spec_from_file_location(name, file.absolute())
    if spec is None or spec.loader is None:
        raise ConfigError(f"--import {file}: it is no script of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # classes find their module while they are made
    try:
        with _on_path(file.absolute().parent, first=True):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def add_to_path(name: str) -> None:
    """Let what was imported be found from now on, also by processes that train folds.

    Parameters
    ----------
    name
        A module or a script, as of ``--import``.
    """
    is_script = bool(scripts([name]))
    place = str(Path(name).absolute().parent if is_script else Path.cwd())
    if place not in sys.path:
        sys.path.insert(_place(is_script), place)


def _place(first: bool) -> int:
    """Where a folder goes: that of a script to the front, as Python has it; the present one behind all others.

    It may be a folder that somebody has downloaded, whose ``joblib.py`` is not to stand in for the package.
    """
    return 0 if first else len(sys.path)


@contextmanager
def _on_path(folder: Path, *, first: bool) -> Iterator[None]:
    """Scope in which modules are looked for in a folder, too."""
    sys.path.insert(_place(first), str(folder))
    try:
        yield
    finally:
        # one of the same name may stand there already: the last for a folder behind, the first for one in front
        places = [number for number, each in enumerate(sys.path) if each == str(folder)]
        if places:
            del sys.path[places[0 if first else -1]]
