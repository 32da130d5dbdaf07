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
        Modules (``ears.networks``), which are also looked for below the present folder; or scripts (``train.py``),
        which are imported under their stem, so that what stands below ``if __name__ == "__main__":`` does not run.

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
    with _first_on_path(Path.cwd()):
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
        with _first_on_path(file.absolute().parent):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Scope in which modules are looked for in a folder first."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
