"""What a function of the user's computes, as a digest that changes whenever its result may."""

import builtins
import dis
import functools
import hashlib
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from delira.runs.code_of import PLAIN, PYTHON, content_of, instructions, is_foreign, is_own, is_own_file

#: modules of Python that answer the same for the same arguments
_STEADY = {
    "abc", "array", "bisect", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "decimal",
    "enum", "fractions", "functools", "heapq", "itertools", "math", "numbers", "operator", "re", "statistics",
    "string", "struct", "typing", "warnings",
}  # fmt: skip
#: functions of Python that reach what nobody can follow
_FAR = {
    "__import__", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "id", "input", "locals",
    "open", "setattr", "vars",
}  # fmt: skip
#: how names of attributes begin by which files, chance or the time are had
_UNSTEADY = ("default_rng", "environ", "fromfile", "genfromtxt", "imread", "load", "memmap", "now", "open", "rand",
             "read", "today")  # fmt: skip
_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}
#: by which a call changes what the next one finds
_CHANGES = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}


class _Untold(Exception):
    """What a function depends on cannot be had."""


def function_identity(function: object) -> str | None:
    """Return the digest of a function of the user's own: its code, and all that it names.

    What it names counts by its content: numbers, texts, arrays, other functions of the user's; functions of installed
    packages by name and version. Comments, line numbers and docstrings don't count.

    Parameters
    ----------
    function
        A function, or a ``functools.partial`` of one.

    Returns
    -------
    str or None
        ``None`` if anything is left that cannot be told: objects of classes, what is read from files or changed by a
        call, chance, the time.
    """
    if not isinstance(function, (types.FunctionType, functools.partial)):
        return None
    try:
        content = _Reader().content(function)
    except (_Untold, RecursionError):
        return None
    return hashlib.sha256(repr([PYTHON, content]).encode(errors="surrogatepass")).hexdigest()[:40]


class _Reader:
    """Follows names; each function once."""

    def __init__(self) -> None:
        self._seen: list[types.FunctionType] = []

    def content(self, value: Any) -> Any:
        """Return a value by its content, as plain values.

        Raises
        ------
        _Untold
            If it has none that can be told.
        """
        kind = type(value)
        if kind in PLAIN or kind in (range, slice):
            return [kind.__name__, repr(value)]
        if kind in (list, tuple):
            return [kind.__name__, *map(self.content, value)]
        if kind in (set, frozenset):
            return [kind.__name__, *sorted(repr(self.content(each)) for each in value)]
        if kind is dict:
            return ["dict", *([self.content(key), self.content(each)] for key, each in value.items())]
        if isinstance(value, np.generic) or kind is np.ndarray:
            return _of_array(np.asarray(value))
        if kind is functools.partial:
            return ["partial", *map(self.content, (value.func, value.args, value.keywords))]
        if kind is types.ModuleType:
            return _of_package(value.__name__)
        if kind is types.FunctionType and is_own(value):
            return self._of_function(value)
        return _of_installed(value)

    def _of_function(self, function: types.FunctionType) -> Any:
        if function in self._seen:
            return ["again", self._seen.index(function)]
        self._seen.append(function)
        if vars(function).keys() - {"__wrapped__"}:
            raise _Untold
        steps = [step for code in _codes(function.__code__) for step in dis.get_instructions(code)]
        inside = {cell for code in _codes(function.__code__) for cell in code.co_cellvars}
        attributes = {str(step.argval) for step in steps if step.opname in _ATTRIBUTES}
        is_changing = any(
            step.opname in _CHANGES or (step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval not in inside)
            for step in steps
        )
        if is_changing or any(name.startswith(_UNSTEADY) for name in attributes):
            raise _Untold
        used = {str(step.argval) for step in steps if step.opname in _GLOBAL}
        imported = {str(step.argval) for step in steps if step.opname == "IMPORT_NAME"}
        return [
            [*instructions(function.__code__)],
            self.content(function.__defaults__),
            self.content(function.__kwdefaults__),
            [self.content(content_of(cell)) for cell in function.__closure__ or ()],
            [self._of_global(name, function, attributes) for name in sorted(used)],
            [_of_package(name) for name in sorted(imported)],
        ]

    def _of_global(self, name: str, function: types.FunctionType, attributes: set[str]) -> Any:
        if name not in function.__globals__:
            if name in _FAR or not hasattr(builtins, name):
                raise _Untold
            return name
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType) and _is_own_module(value):
            found = vars(value)
            return [name, *([each, self.content(found[each])] for each in sorted(attributes & found.keys()))]
        return [name, self.content(value)]


def _of_array(array: np.ndarray) -> Any:
    if array.dtype.hasobject:
        raise _Untold
    content = np.ascontiguousarray(array)
    return [content.dtype.descr, content.shape, hashlib.sha256(content.tobytes()).hexdigest()]


def _of_installed(value: object) -> Any:
    """Return a class or function of an installed package by its name, where it is found under it."""
    module = str(getattr(value, "__module__", None))
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    found: Any = sys.modules.get(module)
    for part in str(name).split("."):
        found = getattr(found, part, None)
    if found is not value or not callable(value):
        raise _Untold
    return [module, name, _of_package(module)]


def _of_package(module: str) -> Any:
    """Return an installed package and its version; of Python those that answer the same every time."""
    package = module.partition(".")[0]
    if package in _STEADY:
        return package
    if package in sys.stdlib_module_names:
        raise _Untold
    try:
        root = importlib.import_module(package)
    except Exception:  # what a package does when it is imported is its own affair
        raise _Untold from None
    version = getattr(root, "__version__", None)
    if _is_own_module(root) or not isinstance(version, str):
        raise _Untold
    return [module, version]


def _is_own_module(module: types.ModuleType) -> bool:
    return not is_foreign(module.__name__) and is_own_file(getattr(module, "__file__", None) or "")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code, and that of the functions inside of it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)
