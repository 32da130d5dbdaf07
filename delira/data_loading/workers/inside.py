"""What an object consists of: the parts through which it can be changed, without reading anything from disk."""

import dis
import functools
import logging
import mmap
import random
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading._object_state import is_generator
from delira.data_loading._own_code import is_own, is_own_module
from delira.utils.arrays import tensor_class

PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(...))
CONTAINERS = (list, tuple, set, frozenset, dict)
LONG = 100
"""Entries from which on a container is not looked through entry by entry."""
_OPAQUE = (types.ModuleType, types.CodeType, logging.Logger, logging.Handler)
#: methods that make no samples, of those with two underscores
_MAKING = ("__call__", "__getitem__", "__getitems__", "__iter__", "__len__", "__getattr__", "__getattribute__")


class Place(NamedTuple):
    """Where parts of an object are kept, and can be replaced."""

    keeper: Any
    """A mapping, a list, or the variables of a closure."""
    names: tuple[Any, ...] | None
    """The keys that count; None for all entries."""

    def values(self) -> list[Any]:
        """Return the parts that are there now."""
        if self.names is None:
            return [*(self.keeper.values() if isinstance(self.keeper, Mapping) else self.keeper)]
        return [self.keeper.get(name) for name in self.names]


def places_in(value: object) -> list[Place] | None:
    """Return where the parts of an object are; None if only its identity can tell it from another.

    Arrays have none, and neither have long containers.
    """
    if isinstance(value, type):
        return _places_of_class(value) if is_own(value) else None
    if isinstance(value, _OPAQUE):
        return None
    try:
        places = _attributes(value)
        if isinstance(value, types.FunctionType):
            return places + _places_of_function(value)
        if isinstance(value, types.MethodType):
            return [*places, _fixed(value.__func__, value.__self__)]
        if isinstance(value, functools.partial):
            return [*places, _fixed(value.func, value.args, value.keywords)]
        if isinstance(value, CONTAINERS):  # other containers may read from disk
            if len(value) > LONG:
                return places
            if isinstance(value, (set, frozenset)):
                return [*places, _fixed(*sorted(map(repr, value)))]
            names = _fixed(*value) if isinstance(value, dict) else None
            return [*places, Place(value, None), *([names] if names else [])]
        if is_own(type(value)):
            places.append(_fixed(type(value)))
    except Exception:  # a closed file, an object that answers nothing
        return None
    return places or (None if own_state(value) is None else [])


def own_state(value: Any) -> Any:
    """Return what is not among the parts of arrays of one value and of random generators; None for all others."""
    if isinstance(value, np.generic):
        return value.tobytes()
    if not is_generator(value):
        return None
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.BitGenerator):
        return repr(value.state)
    return value.get_state().numpy().tobytes()  # of torch


def as_memory(value: object) -> np.ndarray | None:
    """An array or a CPU tensor as an array on the same memory; None for others, and for those in mapped files."""
    if type(value) is not np.ndarray and not isinstance(value, tensor_class()):
        return None
    array = value if isinstance(value, np.ndarray) else np.asarray(value.detach())
    root: Any = array
    while isinstance(root, np.ndarray):
        root = root.base
    # mapped files are shared with the workers; and reading them may take long
    is_mapped = isinstance(root, mmap.mmap) or (isinstance(root, memoryview) and isinstance(root.obj, mmap.mmap))
    return None if is_mapped else array


def generators_in(*objects: Any) -> dict[str, Any]:
    """Find the random generators that objects keep; by where they are kept."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(type(value).__name__, value) for value in objects]
    while waiting and len(seen) < 20_000:
        name, value = waiting.pop()
        if isinstance(value, PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        if is_generator(value):
            found[name] = value
            continue
        owner = getattr(value, "__name__", None) or type(value).__name__
        for place in places_in(value) or ():
            keys = place.names if place.names is not None else [*place.keeper] if isinstance(place.keeper, dict) else ()
            inner = place.values()
            labels = [f"{owner}.{key}" for key in keys] if len(keys) == len(inner) else [name] * len(inner)
            waiting += zip(labels, inner, strict=True)
    return found


def _fixed(*values: Any) -> Place:
    return Place(values, None)


def _attributes(value: object) -> list[Place]:
    places = []
    own: Any = getattr(value, "__dict__", ())
    # of the user's an empty one too, to which something may be added
    if (own or (isinstance(own, dict) and is_own(type(value)))) and not isinstance(value, (type, types.FunctionType)):
        state = own
        if type(value).__module__.partition(".")[0] == "delira" and "__getstate__" in _names_of(type(value)):
            state = value.__getstate__()  # what it leaves out is found anew by each process
        names = sorted(
            (name for name in own if name[:8] != "_delira_" and name in state and state[name] is own[name]), key=str
        )
        places.append(Place(own, tuple(names)))
    slots = [name for cls in type(value).__mro__ for name in _slots(cls) if hasattr(value, name)]
    if slots:
        places.append(_fixed(*(getattr(value, name) for name in slots)))
    return places


def _names_of(cls: type) -> set[str]:
    return {name for base in cls.__mro__[:-1] for name in vars(base)}


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    named = (slots,) if isinstance(slots, str) else slots
    return tuple(name for name in named if name not in ("__dict__", "__weakref__"))


def _places_of_class(cls: type) -> list[Place]:
    names = tuple(name for name in vars(cls) if (name[:2] != "__" and name[:5] != "_abc_") or name in _MAKING)
    functions = [
        function
        for name in names
        for function in [getattr(vars(cls)[name], "__func__", None) or getattr(vars(cls)[name], "fget", None)]
        if function is not None
    ]
    return [Place(vars(cls), names), _fixed(*functions), _fixed(*(base for base in cls.__bases__ if is_own(base)))]


def _places_of_function(function: types.FunctionType) -> list[Place]:
    places = [_fixed(function.__code__, function.__defaults__, function.__kwdefaults__)]
    if function.__closure__:
        places.append(Place(_Cells(function), function.__code__.co_freevars))
    if function.__dict__:
        places.append(Place(function.__dict__, None))
    if not is_own(function):
        return places
    known = function.__globals__
    read, used = _names_in(function.__code__)
    places.append(Place(known, tuple(name for name in read if name in known)))
    modules = [known[name] for name in read if isinstance(known.get(name), types.ModuleType)]
    for module in modules:
        if is_own_module(module):
            places.append(Place(vars(module), tuple(name for name in used if name in vars(module))))
    return places


@functools.lru_cache(maxsize=1000)
def _names_in(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Globals that a function reads, with those of the functions inside of it; and all names that it uses."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    read = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    read = read.union(*(_names_in(part)[0] for part in inner))
    used = set(code.co_names).union(*(_names_in(part)[1] for part in inner))
    return tuple(sorted(read)), tuple(sorted(used))


class _Cells:
    """What the variables of a closure hold now."""

    def __init__(self, function: types.FunctionType) -> None:
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def get(self, name: str) -> Any:
        """Return the value of a variable; None if it has none yet."""
        try:
            return self._cells[name].cell_contents
        except ValueError:
            return None
