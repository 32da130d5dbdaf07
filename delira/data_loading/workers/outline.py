"""An outline of an object: tells cheaply whether it was changed since."""

import contextlib
import dis
import functools
import itertools
import logging
import mmap
import operator
import random
import types
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading._content import has_hidden_state, is_generator, is_own, slots_of
from delira.data_loading._exact import owner_of_memory
from delira.utils.arrays import tensor_class
from delira.utils.user_code import codes_inside, content_of, names_used

_MOST = 20_000  # objects looked into; the others are known by identity
_MOST_SAMPLES, _MOST_ENTRIES = 10_000, 200  # looked into of a long list of dicts of arrays, or of other objects
_WHOLE = 2**26  # bytes of arrays looked at; of the rest, blocks from all over each array. A GB takes 0.25 s
_N_BLOCKS, _BLOCK = 64, 2**12
_SETS = (set, frozenset)
_AT_ONCE = (str, int, float, bool, type(None), bytes, complex)
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

    def named_values(self) -> list[Any]:
        """Return the names that count, each before its part, and the parts."""
        values = self.values()
        return values if self.names is None else [*itertools.chain(*zip(self.names, values, strict=True))]


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
        match value:
            case types.FunctionType():
                return places + _places_of_function(value)
            case types.MethodType():
                return [*places, _fixed(value.__func__, value.__self__)]
            case functools.partial():
                return [*places, _fixed(value.func, value.args, value.keywords)]
            case list() | tuple() | dict() | set() | frozenset() if len(value) > LONG:
                return places
            case set() | frozenset():
                return [*places, _fixed(*sorted(map(repr, value)))]
            case dict():
                return [*places, Place(value, None), _fixed(*value)]
            case list() | tuple():
                return [*places, Place(value, None)]
        if is_own(type(value)):
            places.append(_fixed(type(value)))
    except Exception:  # a closed file, an object that answers nothing
        return None
    return places or (None if own_state(value) is None else [])


def own_state(value: Any) -> Any:
    """Return what is not among the parts of arrays of one value and of random generators; None for all others."""
    match value:
        case np.generic():
            return value.tobytes()
        case _ if not is_generator(value):
            return None
        case random.Random():
            return value.getstate()
        case np.random.RandomState():
            return repr(value.get_state(legacy=False))
        case np.random.Generator():
            return repr(value.bit_generator.state)
        case np.random.BitGenerator():
            return repr(value.state)
    return value.get_state().numpy().tobytes()  # of torch


def as_memory(value: object) -> np.ndarray | None:
    """An array or a CPU tensor as an array on the same memory; None for others, and for those in mapped files."""
    if type(value) is not np.ndarray and not isinstance(value, tensor_class()):
        return None
    array = value if isinstance(value, np.ndarray) else np.asarray(value.detach())
    root = owner_of_memory(array)
    # mapped files are shared with the workers; and reading them may take long
    is_mapped = isinstance(root, mmap.mmap) or (isinstance(root, memoryview) and isinstance(root.obj, mmap.mmap))
    return None if is_mapped else array


def generators_in(*objects: Any) -> dict[str, Any]:
    """Find the random generators that objects keep; by where they are kept."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(type(value).__name__, value) for value in objects]
    while waiting and len(seen) < _MOST:
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
        is_ours = type(value).__module__.partition(".")[0] == "delira"
        leaves_out = is_ours and type(value).__getstate__ is not object.__getstate__  # what each process finds anew
        state: Any = value.__getstate__() if leaves_out else own
        names = sorted(
            (name for name in own if name[:8] != "_delira_" and name in state and state[name] is own[name]), key=str
        )
        places.append(Place(own, tuple(names)))
    if slots := [name for name in slots_of(value) if hasattr(value, name)]:
        places.append(_fixed(*(getattr(value, name) for name in slots)))
    return places


def _places_of_class(cls: type) -> list[Place]:
    names = tuple(name for name in vars(cls) if (name[:2] != "__" and name[:5] != "_abc_") or name in _MAKING)
    kept = [vars(cls)[name] for name in names]
    functions = [getattr(value, "__func__", None) or getattr(value, "fget", None) for value in kept]
    bases = [base for base in cls.__bases__ if is_own(base)]
    return [Place(vars(cls), names), _fixed(*(one for one in functions if one is not None)), _fixed(*bases)]


def _places_of_function(function: types.FunctionType) -> list[Place]:
    places = [_fixed(function.__code__, function.__defaults__, function.__kwdefaults__)]
    if function.__closure__:
        places.append(Place(_Cells(function), function.__code__.co_freevars))
    if function.__dict__:
        places.append(Place(function.__dict__, None))
    if not is_own(function):
        return places
    known = function.__globals__
    read = [name for name in _globals_read(function.__code__) if name in known]
    places.append(Place(known, tuple(read)))
    modules = [known[name] for name in read if isinstance(known[name], types.ModuleType) and is_own(known[name])]
    used = names_used(function.__code__)
    return places + [Place(vars(module), tuple(sorted(used & vars(module).keys()))) for module in modules]


@functools.lru_cache(maxsize=1000)
def _globals_read(code: types.CodeType) -> tuple[str, ...]:
    """Globals that a function reads, with those of the functions inside of it."""
    read = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return tuple(sorted(read.union(*map(_globals_read, codes_inside(code)))))


class _Cells:
    """What the variables of a closure hold now."""

    def __init__(self, function: types.FunctionType) -> None:
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def get(self, name: str) -> Any:
        """Return the value of a variable; None if it has none yet."""
        return content_of(self._cells[name])


# ------------------------------------------------------------------ what is told of an object


class Outline:
    """What an object consists of: what is small by its value, what is large by a checksum.

    Go unseen: changes of single values in arrays beyond 64 MiB in all; inside of a long list, beyond 10,000 samples
    (dicts or tuples of arrays and numbers) or 200 other objects from all over it; and inside of objects written in C.

    Parameters
    ----------
    *objects
        What is outlined, with all that it refers to.
    """

    def __init__(self, *objects: Any) -> None:
        self._kept: list[Any] = []  # alive, so that no other object gets their addresses
        self._parts: list[Any] = []
        self._bytes_left = _WHOLE
        seen: dict[int, tuple[int, Any]] = {}  # alive until the end, too
        waiting = [*objects]
        while waiting:
            value = waiting.pop()
            if isinstance(value, PLAIN):
                self._parts.append((type(value), repr(value)))  # 2 is no 2.0, 0.0 no -0.0
            elif id(value) in seen:
                self._parts.append(("again", seen[id(value)][0]))
            else:
                seen[id(value)] = (len(seen), value)
                inside = self._look_into(value) if len(seen) < _MOST else None
                if inside is None:
                    self._kept.append(value)
                    self._parts.append(("itself", id(value)))
                else:
                    self._parts.append((type(value), len(inside)))
                    waiting += inside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outline) and self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]

    def _look_into(self, value: object) -> list[Any] | None:
        """Return what a value consists of; None if only its identity can tell."""
        try:
            if (array := as_memory(value)) is not None:
                return self._array(array)
            if (state := own_state(value)) is not None:
                return [repr(state)]
            places = places_in(value)
            if places is None:
                return None
            parts = [part for place in places for part in place.named_values()]
            if not isinstance(value, CONTAINERS) and is_own(type(value)) and has_hidden_state(type(value)):
                self._kept.append(value)
                parts.append(id(value))
            if isinstance(value, CONTAINERS) and len(value) > LONG:
                parts += self._long(value)
        except Exception:  # a closed file, an object that answers nothing, a tensor on a GPU
            return None
        return parts

    def _array(self, array: np.ndarray) -> list[Any]:
        if array.dtype.hasobject:
            return [array.shape, repr(array.tolist()) if array.size <= LONG else repr(_spread(array.reshape(-1)))]
        return [array.shape, array.dtype.str, self._checksum(array)]

    def _checksum(self, array: np.ndarray) -> int:
        if array.nbytes <= self._bytes_left:
            self._bytes_left -= array.nbytes
            return _checksum_of(np.ascontiguousarray(array))
        if not array.flags.c_contiguous:
            array = array[:: max(1, len(array) // _N_BLOCKS)][:_N_BLOCKS]
            return _checksum_of(np.ascontiguousarray(array.reshape(len(array), -1)[:, :_BLOCK]))
        memory = array.reshape(-1).view(np.uint8)
        starts = np.linspace(0, max(0, len(memory) - _BLOCK), _N_BLOCKS).astype(np.int64).tolist()
        checksum = 0
        for start in starts:
            checksum = zlib.crc32(memory[start : start + _BLOCK].data, checksum)
        return checksum

    def _long(self, value: Any) -> list[Any]:
        """Return a long container: entries that are plain by their values, others by identity and a look into some."""
        entries = [*value.items()] if isinstance(value, dict) else [*value]
        checksum = _plain_checksum(sorted(map(repr, entries)) if isinstance(value, _SETS) else entries)
        if checksum is not None:
            return [len(entries), checksum]
        if isinstance(value, dict):
            entries = [part for entry in entries for part in entry]
        self._kept.append(entries)
        identities = np.fromiter(map(id, entries), np.int64, len(entries))
        inside = self._samples(_spread(entries, _MOST_SAMPLES)) or _spread(entries)
        return [len(entries), _checksum_of(identities), *inside]

    def _samples(self, samples: list[Any]) -> list[Any] | None:
        """Return a checksum of samples in memory; None if they are something else. A microsecond for each."""
        checksum = 0
        for sample in samples:
            if type(sample) not in (dict, tuple, list):
                return None
            for value in sample.values() if type(sample) is dict else sample:
                if type(value) is np.ndarray and value.nbytes <= _BLOCK and value.flags.c_contiguous:
                    if value.dtype.hasobject:
                        return None
                    checksum = _checksum_of(value, checksum)
                elif type(value) in _AT_ONCE or isinstance(value, np.generic):
                    checksum = zlib.crc32(repr(value).encode(), checksum)
                elif (array := as_memory(value)) is not None and not array.dtype.hasobject:
                    checksum = zlib.crc32(b"%d" % self._checksum(array), checksum)
                else:
                    return None
        return [checksum]


class StepWatch:
    """Tells, in every step, whether an object or a part of it was replaced since.

    Attributes, entries of short lists and dicts, globals, attributes of classes and the values of small arrays are
    looked at, half a microsecond for each; an object that is equal to the one before is no change.

    Parameters
    ----------
    value
        What is watched, with what it refers to.
    most
        How many places are watched: those that are nearest.
    """

    def __init__(self, value: object, most: int) -> None:
        self._checks: list[tuple[Any, tuple[Any, ...] | None, list[Any], int]] = []
        self._arrays: list[tuple[np.ndarray, int]] = []
        seen: dict[int, Any] = {}
        waiting = deque([value])
        while waiting and len(self._checks) + len(self._arrays) < most:
            value = waiting.popleft()
            if isinstance(value, PLAIN) or id(value) in seen:
                continue
            seen[id(value)] = value
            with contextlib.suppress(Exception):  # what cannot be looked at is not watched
                if (array := as_memory(value)) is not None:
                    if array.nbytes <= _BLOCK and array.flags.c_contiguous and not array.dtype.hasobject:
                        self._arrays.append((array, _checksum_of(array)))
                    continue
                for place in places_in(value) or ():
                    inside = place.values()
                    waiting.extend(inside)
                    if not isinstance(place.keeper, tuple):
                        is_own = place.keeper is getattr(value, "__dict__", None)
                        self._checks.append((place.keeper, place.names, inside, len(place.keeper) if is_own else -1))

    def has_changed(self) -> bool:
        """Return True if anything was."""
        for keeper, names, before, length in self._checks:
            if (names is None and len(keeper) != len(before)) or 0 <= length != len(keeper):
                return True
            now: Any = keeper.values() if isinstance(keeper, Mapping) else keeper
            now = now if names is None else map(keeper.get, names)
            if not all(map(operator.is_, now, before)) and not _are_equal(Place(keeper, names).values(), before):
                return True
        return any(_checksum_of(array) != before for array, before in self._arrays)


def _are_equal(values: list[Any], others: list[Any]) -> bool:
    return all(
        value is other or (type(value) is type(other) and isinstance(value, PLAIN) and repr(value) == repr(other))
        for value, other in zip(values, others, strict=True)
    )


def _checksum_of(array: np.ndarray, before: int = 0) -> int:
    """Go on with a checksum by the bytes of an array, which lie one behind the other."""
    # of dates and texts numpy gives no memory
    return zlib.crc32(array.data if array.dtype.kind in "biufc" else array.reshape(-1).view(np.uint8).data, before)


def _plain_checksum(entries: list[Any]) -> int | None:
    """Return a checksum of texts and numbers, or of tuples and lists of these; None if they are something else."""
    kinds = [*map(type, entries)]
    if {*kinds} <= {tuple, list}:
        kinds = [*map(type, itertools.chain.from_iterable(entries))]
        entries = [*map(tuple, entries)]
    if not {*kinds} <= {*_AT_ONCE}:
        return None
    if {float, complex}.isdisjoint(kinds):
        return hash((*entries, *kinds))  # Python keeps the hashes of texts: a tenth of the time
    return zlib.crc32(repr(entries).encode(errors="backslashreplace"))  # 0.0 is no -0.0


def _spread(entries: Any, most: int = _MOST_ENTRIES) -> list[Any]:
    """Entries from all over a list, or all of them."""
    if len(entries) <= most and isinstance(entries, list):
        return entries
    places = np.unique(np.linspace(0, len(entries) - 1, min(len(entries), most)).astype(np.int64))
    return [entries[place] for place in places.tolist()]
