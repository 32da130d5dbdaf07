"""Which code is the user's, and what Python keeps of it."""

import contextlib
import functools
import sys
import sysconfig
import types
from typing import Any


@functools.lru_cache(maxsize=1000)
def is_foreign(module: str) -> bool:
    """Return True if a module is one of Python or of delira."""
    return module.partition(".")[0] in sys.stdlib_module_names | {"delira"}


@functools.lru_cache(maxsize=10_000)
def is_own_file(name: str) -> bool:
    """Return True if a file is neither one of Python nor of an installed package."""
    library = sysconfig.get_paths()["stdlib"]
    return not ("site-packages" in name or "dist-packages" in name or name.startswith((library, "<frozen")))


def codes_inside(code: types.CodeType) -> list[types.CodeType]:
    """Return the code of the functions and classes that are defined inside of a function."""
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


@functools.lru_cache(maxsize=1000)
def names_used(code: types.CodeType) -> frozenset[str]:
    """Return all names of globals and attributes that code uses, with those of the functions inside of it."""
    return frozenset(code.co_names).union(*map(names_used, codes_inside(code)))


def content_of(cell: types.CellType) -> Any:
    """Return the value of a variable of a closure; None if it has none yet."""
    with contextlib.suppress(ValueError):
        return cell.cell_contents
    return None


def overrides(instance: object, base: type, *names: str) -> bool:
    """Return True if a class of the user's below ``base`` has one of these methods of its own."""
    classes = type(instance).__mro__
    own = [cls for cls in classes[: classes.index(base)] if not cls.__module__.startswith("delira.")]
    return any(name in vars(cls) for cls in own for name in names)
