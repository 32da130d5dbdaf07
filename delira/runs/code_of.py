"""What the user has written, told apart by its byte code: comments, line numbers and docstrings are none of it."""

import builtins
import contextlib
import dis
import functools
import hashlib
import importlib
import inspect
import sys
import types
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from delira.utils import yaml_codec
from delira.utils.references import walk
from delira.utils.user_code import codes_inside, content_of, is_foreign, is_own_file, names_used

#: of the byte code; that of another version says nothing
PYTHON = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"

PLAIN = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType)
_NUMBERS = (bool, int, float)
#: instructions that stand for nothing, or that tools put in
_SILENT = {"CACHE", "EXTENDED_ARG", "NOP", "RESUME"}
#: what the body of a class inside of a function stores besides its code
_OF_BODIES = {"__doc__", "__firstlineno__", "__static_attributes__", "__qualname__", "__module__"}
#: attributes under which wrappers keep the function that they call
_INNER = ("__wrapped__", "__func__", "fget", "func", "original_method", "python_function", "fun", "_fun")
_GENERATED = {"__annotate__", "__annotate_func__", "__annotations_cache__"}


def code_of(cls: type, given: Iterable[Any] = ()) -> dict[str, Any]:
    """Return what the user has written of a class, for the manifest.

    Functions of the class and of its bases count, and functions and classes that these name, as far as they are the
    user's: delira's own and those of installed packages are told by their versions.

    Parameters
    ----------
    cls
        Class of a network.
    given
        Its arguments: estimators, layers, functions and classes among them count, too.

    Returns
    -------
    dict
        ``python``, whose byte code it is; ``functions``, by name a SHA-256 in 16 hex digits; ``missing``, those whose
        code cannot be had.
    """
    reader = _Reader()
    reader.follow(cls)
    reader.read_given([*given, *getattr(cls, "made_of", ())])
    return reader.told()


def code_of_functions(given: Iterable[Any]) -> dict[str, Any]:
    """Return what the user has written of losses, metrics and transforms, and of functions and classes in them.

    Parameters
    ----------
    given
        Functions, classes, and objects with functions inside of them, e.g. a chain of transforms; also lists and dicts.
    """
    reader = _Reader()
    reader.read_called([value for value in given if value is not None])
    return reader.told()


def describe_metrics(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return by name how metrics were given, as files write it, and what the user has written of each.

    Parameters
    ----------
    given
        Metrics by name, in any form.
    """
    return {
        name: {"metric": yaml_codec.encode(metric), "code": code_of_functions([metric])}
        for name, metric in given.items()
    }


class _Reader:
    """Collects functions by name, each once."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.missing: set[str] = set()
        self._seen: set[int] = set()

    def told(self) -> dict[str, Any]:
        """What was read, as manifests have it."""
        return {"python": PYTHON, "functions": dict(sorted(self.found.items())), "missing": sorted(self.missing)}

    def _read_classes(self, classes: Iterable[type]) -> None:
        """The functions and plain attributes of those classes that are the user's."""
        for cls in classes:
            if id(cls) not in self._seen:
                self._seen.add(id(cls))
                if is_own(cls):
                    self._read_class(cls)

    def _read_class(self, cls: type) -> None:
        plain = {}
        for name, value in vars(cls).items():
            place = f"{cls.__qualname__}.{name}"
            is_special = name.startswith("__")
            if name in _GENERATED:
                continue
            if isinstance(value, type) and not is_special:
                self._read_classes([value])
            elif (function := _function_in(value)) is not None:
                self.read_function(function, place)
            elif isinstance(value, Mapping) and any(hasattr(one, "original_method") for one in value.values()):
                for method, stub in value.items():  # TorchScript takes its methods away from the class
                    self.read_function(stub.original_method, f"{cls.__qualname__}.{method}")
            elif isinstance(value, PLAIN) and not is_special:
                plain[name] = _describe(value)
            elif callable(value) and not is_special:
                self.missing.add(place)
        if plain:
            self._note(cls.__qualname__, sorted(plain.items()))

    def read_function(self, function: types.FunctionType, place: str) -> None:
        """A function, and what of the user's it names."""
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        values = [_describe(each) for each in function.__defaults__ or ()]
        named = sorted((name, _describe(value)) for name, value in (function.__kwdefaults__ or {}).items())
        cells = [content_of(cell) for cell in function.__closure__ or ()]
        used = names_used(function.__code__)
        around = {name: function.__globals__[name] for name in sorted(used & function.__globals__.keys())}
        for value in (*around.values(), *cells):
            self.follow(value, used)
        numbers = [
            (name, _describe(value))
            for name, value in around.items()
            if isinstance(value, _NUMBERS) and not name.startswith("__")
        ]
        self._note(place, [*instructions(function.__code__), values, named, [*map(_describe, cells)], numbers])

    def _note(self, place: str, content: object) -> None:
        """Keep what was read; of two with one name, from different modules, both count."""
        before = [self.found[place]] if place in self.found else []
        self.found[place] = _digest([*before, content], 16)

    def read_given(self, value: Any) -> None:
        """The code of an argument: of an object that of its class, and of the layers and estimators inside of it."""
        if isinstance(value, (list, tuple, set, frozenset, Mapping)):
            for one in value.values() if isinstance(value, Mapping) else value:
                self.read_given(one)
        elif isinstance(value, (type, types.FunctionType)):
            self.follow(value)
        elif not isinstance(value, PLAIN) and id(value) not in self._seen:
            self._seen.add(id(value))
            self.follow(type(value))
            with contextlib.suppress(Exception):  # what an object answers is its own affair
                self.read_given([*value.modules()])
            with contextlib.suppress(Exception):
                self.read_given(value.get_params(deep=True))

    def read_called(self, value: object) -> None:
        """The code of what is called: of an object that of its class, and of whatever it calls in its turn."""
        if isinstance(value, (list, tuple, Mapping)):
            for one in value.values() if isinstance(value, Mapping) else value:
                self.read_called(one)
        elif isinstance(value, functools.partial):
            self.read_called([value.func, *value.args, *value.keywords.values()])
        elif isinstance(value, (type, types.FunctionType)) or _function_in(value) is not None:
            self.follow(value)
            self.read_called(getattr(value, "__self__", None))
        elif callable(value) and id(value) not in self._seen:
            self._seen.add(id(value))
            self.follow(type(value))
            held = getattr(value, "__dict__", {}).values()
            self.read_called([one for one in held if callable(one) or isinstance(one, (list, tuple))])

    def follow(self, value: object, used: Set[str] = frozenset()) -> None:
        """Go on with a function or a class of the user's, and with those that are taken from a module of the user's."""
        if isinstance(value, types.ModuleType):
            if _is_own_module(value):
                for name in sorted(used & vars(value).keys()):
                    if not isinstance(vars(value)[name], types.ModuleType):
                        self.follow(vars(value)[name])
        elif isinstance(value, type):
            self._read_classes(reversed(value.__mro__))
        elif (function := _function_in(value)) is not None and is_own(function):
            self.read_function(function, function.__qualname__)


def _function_in(value: object) -> types.FunctionType | None:
    """Return the function of Python in a method, a property, or something that was compiled."""
    for _ in range(10):
        if isinstance(value, types.FunctionType):
            # what wraps a function is code of another: that of the user counts
            inner = getattr(value, "__wrapped__", None)
            if inner is None or is_own(value):
                return value
        elif isinstance(value, (type, types.ModuleType, *PLAIN)):
            return None
        else:
            inner = _inner_of(value)
        value = inner
    return None


def _inner_of(value: object) -> types.FunctionType | types.MethodType | None:
    """The function or method that a wrapper keeps."""
    for name in _INNER:
        with contextlib.suppress(Exception):  # what an object does for its attributes is its own affair
            inner = getattr(value, name, None)
            if isinstance(inner, (types.FunctionType, types.MethodType)):
                return inner
    return None


@functools.lru_cache(512)
def instructions(code: types.CodeType) -> tuple[Any, ...]:
    """What code does, without where it stands; code never changes, so that it is remembered."""
    flags = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE)
    found: list[list[Any]] = [[code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags]]
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME" and step.argval in _OF_BODIES:
            found.pop()  # what would be stored
        elif step.opname not in _SILENT:
            found.append([step.opname, None if step.arg is None else _describe(step.argval)])
    return tuple(found)


def _describe(value: object) -> Any:
    """Return a constant as plain values; of what is none its type, or its name."""
    if isinstance(value, types.CodeType):
        return [*instructions(value)]
    if isinstance(value, tuple):
        return ["tuple", *map(_describe, value)]
    if isinstance(value, (frozenset, set)):
        return ["set", *sorted(map(repr, value))]
    if isinstance(value, PLAIN):
        return [type(value).__name__, repr(value)]
    return (value if isinstance(value, (type, types.FunctionType)) else type(value)).__qualname__


def _digest(content: object, length: int) -> str:
    return hashlib.sha256(repr(content).encode(errors="surrogatepass")).hexdigest()[:length]


def is_own(value: object) -> bool:
    """Return True if a class or a function is the user's, and none of Python, delira or an installed package."""
    module = str(getattr(value, "__module__", None) or "")
    if is_foreign(module):
        return False
    if isinstance(value, types.FunctionType):
        return is_own_file(value.__code__.co_filename)
    return is_own_file(getattr(sys.modules.get(module), "__file__", None) or "")


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
    with contextlib.suppress(_Untold, RecursionError):
        return _digest([PYTHON, _ContentReader().content(function)], 40)
    return None


class _ContentReader:
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
        codes = _codes(function.__code__)
        steps = [step for code in codes for step in dis.get_instructions(code)]
        inside = {cell for code in codes for cell in code.co_cellvars}
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
    if walk(module, str(name)) is not value or not callable(value):
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


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """Code, and that of the functions inside of it."""
    return [code, *(each for inside in codes_inside(code) for each in _codes(inside))]
