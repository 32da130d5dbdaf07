"""Whose code a function, a class or a module is: the user's, or that of Python, delira or an installed package."""

import functools
import sys
import sysconfig
import types


def is_own(code: types.FunctionType | type) -> bool:
    """Return True if code is the user's, and not part of Python, delira or an installed package."""
    if is_deliras(code):
        return False
    if isinstance(code, types.FunctionType):
        return is_own_file(code.__code__.co_filename)
    if str(code.__module__).startswith("_cython_"):  # the class of functions that Cython compiled, in no file
        return False
    return not is_pythons(code) and is_own_file(getattr(sys.modules.get(code.__module__), "__file__", None) or "")


def is_own_module(module: types.ModuleType) -> bool:
    return not is_foreign(module.__name__) and is_own_file(getattr(module, "__file__", None) or "")


def is_foreign(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names | {"delira"}


def is_pythons(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in sys.stdlib_module_names


def is_deliras(code: types.FunctionType | type) -> bool:
    return str(code.__module__).partition(".")[0] == "delira"


@functools.lru_cache(maxsize=10_000)
def is_own_file(name: str) -> bool:
    paths = sysconfig.get_paths()
    return not ("site-packages" in name or "dist-packages" in name or name.startswith((paths["stdlib"], "<frozen")))
