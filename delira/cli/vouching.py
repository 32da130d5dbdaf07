"""What a file may name though nobody vouches for it: classes of frameworks, and functions that only compute."""

import inspect
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from delira.cli.imports import add_to_path, import_all, scripts
from delira.frameworks import COMPUTE, ELEMENTWISE, KINDS, MAKERS
from delira.utils.references import Vouched, class_on_disk, name_of

#: classes of Python's own that stand for kinds of values
_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, type(None), object)
#: parts of delira whose classes run commands or write where a file says
_ACTING = ("cli", "execution", "logging")


def vouched_for(imports: Sequence[str]) -> Vouched:
    """Import modules and scripts, and return all that they have, by the names that files use.

    Parameters
    ----------
    imports
        As of ``--import``.
    """
    found, modules = import_all(imports), []
    for name in imports:
        module = sys.modules[(scripts([name]) or [name])[0]]
        modules.append(module)
        add_to_path(name)
        found |= {key: value for key, value in _shown_by(module).items() if key not in found}
    homes = {module.__name__ for module in modules}
    return Vouched(found, lambda value: getattr(value, "__module__", None) in homes or may_be_named(value))


def package_of_import(name: str) -> str:
    """Package, or script without its ending, that a word of ``--import`` names."""
    return next(iter(scripts([name])), name.partition(".")[0])


def _shown_by(module: types.ModuleType) -> dict[str, Any]:
    """What a named module has that files may use, under each name that they know it by."""
    # names that delira shows are loaded when they are asked for
    lazy = getattr(module, "__all__", ()) if module.__name__.partition(".")[0] == "delira" else ()
    found: dict[str, Any] = {}
    for key in {*vars(module), *lazy}:
        value = getattr(module, key, None)
        if callable(value) and not key.startswith("_") and _is_own(value, module.__name__):
            found.setdefault(f"{module.__name__}:{key}", value)
            known_as = class_on_disk(value) if isinstance(value, type) else name_of(value)
            if known_as is not None:
                found.setdefault(known_as, value)
    return found


def _is_own(value: Any, module: str) -> bool:
    """Return False for what a file could do harm with, though a module only uses it.

    That is a function of another package, as ``os.system``, or a class of Python's own, as ``subprocess.Popen``. A
    class of another package is a network, a loss or an estimator. Other objects are made by the module.
    """
    if not (isinstance(value, type) or inspect.isroutine(value)):
        return True
    home = _package_of(value) or module.partition(".")[0]
    if home in (module.partition(".")[0], "delira"):
        return True
    return isinstance(value, type) and home not in sys.stdlib_module_names


def _package_of(value: object) -> str:
    # whole packages, as what keras.losses shows lives in keras.src
    return str(getattr(value, "__module__", None) or "").partition(".")[0]


def may_be_named(value: Any) -> bool:
    """Return True for what no file can do harm with, whatever arguments it is called with.

    Parameters
    ----------
    value
        What an ``$object`` of a file has led to among the modules that are imported already.
    """
    if not callable(value) or isinstance(value, np.ufunc):
        return True
    module, name = str(getattr(value, "__module__", None)), str(getattr(value, "__name__", ""))
    if name_of(value) in ELEMENTWISE or type(value).__name__ == "_ScalarMeta":  # a dtype of jax.numpy
        return True
    if not isinstance(value, type):
        computes = any(module == each or module.startswith(f"{each}.") for each in COMPUTE)
        return computes and not name.startswith(MAKERS)
    if value in _PLAIN or issubclass(value, (np.generic, np.ndarray)):
        return True
    if module.partition(".")[0] == "delira":
        return module.split(".")[1] not in _ACTING
    return any((_package_of(base), base.__name__) in KINDS for base in value.__mro__)
