"""An outline of an object: tells cheaply whether it was changed since."""

import contextlib
import itertools
import operator
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.data_loading._object_state import has_hidden_state
from delira.data_loading._own_code import is_own
from delira.data_loading.workers.inside import CONTAINERS, LONG, PLAIN, Place, as_memory, own_state, places_in

_MOST = 20_000  # objects looked into; the others are known by identity
_MOST_SAMPLES, _MOST_ENTRIES = 10_000, 200  # looked into of a long list of dicts of arrays, or of other objects
_WHOLE = 2**26  # bytes of arrays looked at; of the rest, blocks from all over each array. A GB takes 0.25 s
_N_BLOCKS, _BLOCK = 64, 2**12
_SETS = (set, frozenset)
_AT_ONCE = (str, int, float, bool, type(None), bytes, complex)


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
        seen: dict[int, int] = {}
        alive: list[Any] = []
        waiting = [*objects]
        while waiting:
            value = waiting.pop()
            if isinstance(value, PLAIN):
                self._parts.append((type(value), repr(value)))  # 2 is no 2.0, 0.0 no -0.0
            elif id(value) in seen:
                self._parts.append(("again", seen[id(value)]))
            else:
                seen[id(value)] = len(alive)
                alive.append(value)
                inside = self._look_into(value) if len(alive) < _MOST else None
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
            parts = [part for place in places for part in _named(place)]
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
        inside = self._samples(_spread(entries, _MOST_SAMPLES))
        if inside is None:
            inside = _spread(entries)
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
            now: Any
            if names is not None:
                now = map(keeper.get, names)
            elif len(keeper) != len(before):
                return True
            else:
                now = keeper.values() if isinstance(keeper, Mapping) else keeper
            if not all(map(operator.is_, now, before)) and not _are_equal(Place(keeper, names).values(), before):
                return True
            if 0 <= length != len(keeper):
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


def _named(place: Place) -> list[Any]:
    """Return the names and values of a place."""
    values = place.values()
    return values if place.names is None else [part for pair in zip(place.names, values, strict=True) for part in pair]


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
