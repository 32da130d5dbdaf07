"""An outline of an object: tells cheaply whether it was changed since."""

import dis
import functools
import logging
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

_LONG = 100  # entries from which on a container is known by its identity and length alone
_LARGE = 2**16  # bytes, likewise for arrays
_MOST = 20_000  # objects looked into; the others are known by identity
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(...))


class Outline:
    """What an object consists of: everything small by value, what is large by identity.

    Changes inside of large arrays and of long containers go unseen.

    Parameters
    ----------
    *objects
        What is outlined, with all that it refers to.
    """

    def __init__(self, *objects: Any) -> None:
        self._kept: list[Any] = []  # alive, so that no other object gets their addresses
        self._parts: list[Any] = []
        seen: dict[int, int] = {}
        alive: list[Any] = []
        waiting = [*objects]
        while waiting:
            value = waiting.pop()
            if isinstance(value, _PLAIN):
                self._parts.append((type(value), repr(value)))  # 2 is no 2.0, 0.0 no -0.0
            elif id(value) in seen:
                self._parts.append(("again", seen[id(value)]))
            else:
                seen[id(value)] = len(alive)
                alive.append(value)
                inside = _look_into(value) if len(alive) < _MOST else None
                if inside is None:
                    self._kept.append(value)
                    self._parts.append(("itself", id(value)))
                else:
                    self._parts.append((type(value), len(inside)))
                    waiting += inside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outline) and self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]


def _look_into(value: Any) -> list[Any] | None:
    """What a value consists of; None if only its identity can tell."""
    if isinstance(value, (type, types.ModuleType, types.CodeType, logging.Logger, logging.Handler)):
        return None
    try:
        if (content := _content_of_array(value)) is not None:
            return content or None
        attributes = [part for name_and_value in _attributes(value) for part in name_and_value]
        if isinstance(value, (list, tuple, set, frozenset, dict)):  # other containers may read from disk
            return None if len(value) > _LONG else _entries(value) + attributes
        state = _state_of(value)
    except Exception:  # a closed file, an object that answers nothing
        return None
    return None if state is None and not attributes else [*(state or ()), *attributes]


def _content_of_array(value: Any) -> list[Any] | None:
    """Of a small array or tensor its content, of a large one nothing; None for anything else."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if type(value) is not np.ndarray and not (tensor is not None and isinstance(value, tensor)):
        return None
    if value.nbytes >= _LARGE:
        return []
    array = np.asarray(value)
    return [array.shape, array.dtype.str, repr(array.tolist()) if array.dtype.hasobject else array.tobytes()]


def _entries(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [part for item in container.items() for part in item]
    if isinstance(container, (set, frozenset)):
        return sorted(map(repr, container))
    return [*container]


def _state_of(value: Any) -> list[Any] | None:
    """What is not among the attributes of objects of some kinds; None for all others."""
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
        known = [value.__globals__[name] for name in _names_in(value.__code__) if name in value.__globals__]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *cells, *known]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, random.Random):
        return [repr(value.getstate())]
    if isinstance(value, np.random.Generator):
        return [repr(value.bit_generator.state)]
    if isinstance(value, np.random.RandomState):
        return [repr(value.get_state(legacy=False))]
    return [value.tobytes()] if isinstance(value, np.generic) else None


@functools.lru_cache(maxsize=1000)
def _names_in(code: types.CodeType) -> tuple[str, ...]:
    """Globals that a function reads, with those of the functions inside of it."""
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names_in(part)]
    read = [step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return tuple(sorted({*read, *inner}))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from sorted(getattr(value, "__dict__", {}).items(), key=lambda item: str(item[0]))
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False
