"""Settings as readable YAML: plain values as they are, the rest in small tagged mappings.

========================  ======================================================================
``{$tuple: [0.9, 1]}``    also ``$set``, ``$frozenset``; ``{$dict: [[key, value]]}`` for keys that
                          are no strings or begin with ``$``
``{$float: inf}``         also ``$complex``, ``$bytes`` (base64), ``$path``
``{$array: [1, 2],        a numpy array of up to 1,024 numbers; ``$numpy`` is a numpy scalar,
dtype: int64}``           ``{$dtype: int64}`` a dtype
``{$object: "m:f"}``      the class, function, enum member or constant ``f`` of module ``m``
``{$call: "m:C",          an instance, or a ``$partial``, by the arguments it was made with
arguments: {a: 1}}``
``{$repr: "text"}``       anything else: text only
========================  ======================================================================

Reading imports and executes nothing. ``$object`` is looked up in ``objects`` and among the modules that are
imported already; ``$call`` and ``$partial`` are made only of what ``objects`` vouches for. The rest becomes
:class:`Unresolved`. A name is only a name: what a file from a stranger calls a metric is run as one.

Subclasses of dictionaries, lists and tuples (named ones too) are written as the plain kind.
"""

import base64
import enum
import functools
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from delira.utils import references
from delira.utils.references import NOTHING, Unresolved
from delira.utils.yaml_decode import DTYPE_KINDS, decode, find_unresolved
from delira.utils.yaml_text import read_yaml, write_yaml

__all__ = ["Unresolved", "decode", "dumps", "encode", "find_unresolved", "fingerprint", "loads"]

#: kinds of values that are plain already, and of plain ones that hold others: most of a tree is the former
_AS_IT_IS, _INNER = (bool, int, str, type(None)), (list, dict)
_MAX_ARRAY = 1024
_MAX_DEPTH = 100
_MAX_ARGUMENTS = 20_000  # characters


def dumps(tree: object) -> str:
    """Write any tree as YAML."""
    return write_yaml(encode(tree))


def loads(text: str | bytes, objects: Mapping[str, Any] | None = None) -> Any:
    """Read YAML as :func:`dumps` writes it; see :func:`decode`."""
    return decode(read_yaml(text), objects)


def fingerprint(tree: object) -> str:
    """Return a sha256 of the content: the same in every process, whatever the order of dictionaries."""
    return digest(encode(tree))


def digest(plain: Any) -> str:
    """Return the :func:`fingerprint` of a tree that :func:`encode` has made plain already."""
    return hashlib.sha256(_canonical(plain).encode()).hexdigest()


def _canonical(plain: object) -> str:
    return json.dumps(_unordered(plain), sort_keys=True, separators=(",", ":"), default=str)


def _unordered(plain: object) -> Any:
    if isinstance(plain, list):
        return [_unordered(value) if isinstance(value, _INNER) else value for value in plain]
    if not isinstance(plain, dict):
        return plain
    plain = {str(key): _unordered(value) if isinstance(value, _INNER) else value for key, value in plain.items()}
    if "$dict" in plain:
        plain["$dict"] = sorted(plain["$dict"], key=_canonical)
    return plain


def encode(tree: object) -> Any:
    """Turn any tree into dictionaries with string keys, lists, strings, finite numbers, booleans and None."""
    return _encode(tree, frozenset())


def _encode(value: object, active: frozenset[int]) -> Any:
    if type(value) in _AS_IT_IS:
        return value
    if id(value) in active or len(active) > _MAX_DEPTH:
        return {"$repr": f"<{type(value).__module__}.{type(value).__qualname__} inside itself>"}
    active |= {id(value)}
    for kind, encoder in _ENCODERS:
        if isinstance(value, kind) and (plain := encoder(value, active)) is not NOTHING:
            return plain
    return {"$repr": references.safe_repr(value)}


def _encode_mapping(value: Mapping[Any, Any], active: frozenset[int]) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: item if type(item) in _AS_IT_IS else _encode(item, active) for key, item in value.items()}
    return {"$dict": [[_encode(key, active), _encode(item, active)] for key, item in value.items()]}


def _encode_sequence(value: Any, active: frozenset[int]) -> Any:
    items = [item if type(item) in _AS_IT_IS else _encode(item, active) for item in value]
    return {"$tuple": items} if isinstance(value, tuple) else items


def _encode_set(value: Any, active: frozenset[int]) -> Any:
    items = sorted((_encode(item, active) for item in value), key=_canonical)
    return {"$set" if isinstance(value, set) else "$frozenset": items}


def _encode_float(value: float, active: frozenset[int]) -> Any:
    return float(value) if math.isfinite(value) else {"$float": str(float(value))}


def _encode_numpy(value: Any, active: frozenset[int]) -> Any:
    """Write the shortest numbers that are the same in the array's own precision."""
    dtype = value.dtype
    known = dtype.kind in "biuU" or (dtype.kind in "fc" and dtype.itemsize <= 16 and dtype.char not in "gG")
    if not known or value.size > _MAX_ARRAY or type(value) not in (np.ndarray, dtype.type):
        return _describe_array(value, active)
    numbers = np.asarray(value)
    if dtype.char in "ef":
        short = numbers.astype(str).astype(np.float64)
        numbers = short if np.array_equal(short.astype(dtype), numbers, equal_nan=True) else numbers
    tag = "$array" if isinstance(value, np.ndarray) else "$numpy"
    plain = {tag: _encode(numbers.tolist(), active), "dtype": str(dtype)}
    return plain | ({"shape": list(value.shape)} if value.size == 0 else {})


def _describe_array(value: object, active: frozenset[int]) -> Any:
    """Tell arrays and tensors apart by their content, which their repr does not show in full."""
    try:
        if isinstance(value, type) or not (hasattr(value, "__array__") and hasattr(value, "dtype")):
            return NOTHING
        array = np.asarray(value)
        full = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
        content = array.tolist() if array.size <= 16 else f"sha256 {hashlib.sha256(full).hexdigest()[:16]}"
        shape = tuple(array.shape)
    except Exception:  # tensors on other devices or with gradients refuse; then the repr must do
        return NOTHING
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return {"$repr": references.strip_addresses(f"{kind} {value.dtype} {shape} {content}")}


def _encode_object(value: object, active: frozenset[int]) -> Any:
    if name := references.name_of(value):
        return {"$object": name}
    if isinstance(value, functools.partial):
        if (name := references.name_of(value.func)) is None:
            return NOTHING
        positional = {"args": [_encode(item, active) for item in value.args]} if value.args else {}
        arguments = {key: _encode(item, active) for key, item in value.keywords.items()}
        return {"$partial": name, **positional, "arguments": arguments}
    return _encode_instance(value, active)


def _encode_instance(value: object, active: frozenset[int]) -> Any:
    if isinstance(value, type) or type(value).__module__ == "builtins":  # functions, methods, ranges
        return NOTHING
    name = references.name_of(type(value))
    arguments = references.constructor_arguments(value) if name else None
    if arguments is None:
        return NOTHING
    plain = {key: _encode(item, active) for key, item in arguments.items()}
    if len(text := _canonical(plain)) > _MAX_ARGUMENTS:  # a dataset with its samples is no setting
        return {"$repr": f"{references.safe_repr(value)} sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"}
    return {"$call": name, "arguments": plain}


_Encoder = Callable[[Any, frozenset[int]], Any]
# the first that fits; a numpy float is a float too, an IntEnum an int: the special ones go first
_ENCODERS: tuple[tuple[Any, _Encoder], ...] = (
    (Unresolved, lambda value, active: references.record(value)),
    (enum.Enum, _encode_object),
    ((np.generic, np.ndarray), _encode_numpy),
    (np.dtype, lambda value, active: {"$dtype": str(value)} if value.kind in DTYPE_KINDS else NOTHING),
    (Mapping, _encode_mapping),
    ((list, tuple), _encode_sequence),
    ((set, frozenset), _encode_set),
    (float, _encode_float),
    (int, lambda value, active: int(value)),
    (str, lambda value, active: str.__str__(value)),
    (complex, lambda value, active: {"$complex": str(value).strip("()")}),
    (bytes, lambda value, active: {"$bytes": base64.b64encode(value).decode()}),
    (PurePath, lambda value, active: {"$path": str(value)}),
    (object, _describe_array),
    (object, _encode_object),
)
