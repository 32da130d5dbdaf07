"""Plain trees back to values: the reading half of :mod:`delira.utils.yaml_codec`."""

import base64
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.utils import references
from delira.utils.references import NOTHING, Unresolved
from delira.utils.suggest import did_you_mean
from delira.utils.trees import iterate_leaves

DTYPE_KINDS = "biufcSUMm"


def find_unresolved(tree: object) -> dict[str, Unresolved]:
    """Return all unresolved entries by their dotted path, so that one message can name them all."""
    return {".".join(map(str, path)): leaf for path, leaf in iterate_leaves(tree) if isinstance(leaf, Unresolved)}


def decode(plain: object, objects: Mapping[str, Any] | None = None) -> Any:
    """Turn what :func:`encode` gave into the tree again, as far as that needs neither import nor execution.

    Parameters
    ----------
    plain
        Dictionaries, lists and scalars.
    objects
        Classes and functions that may be used, and called if the entry is a call, under
        ``"module:qualname"``, ``"qualname"`` or the last name.
    """
    if not isinstance(objects, Mapping | None):
        raise ConfigError(f"objects must be a dictionary {{name: class or function}}, got {objects!r}")
    try:
        return _decode(plain, objects or {})
    except RecursionError as error:
        raise ConfigError("the entries are nested too deeply to be settings") from error


def _decode(plain: object, objects: Mapping[str, Any]) -> Any:
    if isinstance(plain, list):
        return [_decode(item, objects) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tags = [key for key in plain if isinstance(key, str) and key.startswith("$")]
    if not tags:
        return {key: _decode(item, objects) for key, item in plain.items()}
    tag = tags[0]
    if tag not in _DECODERS:
        raise ConfigError(f"unknown tag {tag!r} in {plain!r}{did_you_mean(tag, _DECODERS)}")
    decoder, companions = _DECODERS[tag]
    if surplus := [key for key in plain if key != tag and key not in companions]:
        raise ConfigError(f"{surplus!r} beside {tag!r} in {plain!r}; allowed are {list(companions)}")
    try:
        return decoder(plain, plain[tag], objects)
    except ConfigError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise ConfigError(f"cannot read the entry {plain!r}: {error}") from error


def _decode_numpy(plain: dict[str, Any], numbers: object, objects: Mapping[str, Any]) -> Any:
    array = np.array(_decode(numbers, objects), dtype=_dtype(plain["dtype"]))
    return array.reshape(plain.get("shape", array.shape)) if "$array" in plain else array[()]


def _dtype(name: object) -> Any:
    dtype = np.dtype(_text(name))
    if dtype.kind not in DTYPE_KINDS or dtype.itemsize > 1 << 16:
        raise ConfigError(f"dtype {name!r} is not read; allowed are numbers, booleans, times and short strings")
    return dtype


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is needed, got {value!r}")
    return value


def _decode_object(plain: dict[str, Any], name: Any, objects: Mapping[str, Any]) -> Any:
    found = references.find(_text(name), objects)
    if found is not NOTHING:
        return found
    module, _, qualname = name.rpartition(":")
    imported = f", or import {module} before" if module and module not in sys.modules else ""
    return Unresolved(plain, f"pass objects={{{name!r}: {qualname}}} when loading{imported}")


def _decode_call(plain: dict[str, Any], name: Any, objects: Mapping[str, Any]) -> Any:
    if not isinstance(plain.get("arguments") or {}, dict) or not isinstance(plain.get("args") or [], list):
        raise TypeError("'arguments' must be a mapping and 'args' a list")
    make = references.vouched(_text(name), objects)
    if make is NOTHING:
        qualname = name.rpartition(":")[2]
        return Unresolved(
            plain, f"pass objects={{{name!r}: {qualname}}} when loading: only what is named there is called"
        )
    if not callable(make):
        raise ConfigError(f"objects has {make!r} for {name!r}; it must be the class or function itself")
    args = _decode(plain.get("args") or [], objects)
    arguments = _decode(plain.get("arguments") or {}, objects)
    if inner := find_unresolved([args, arguments]):
        return Unresolved(plain, "; ".join(f"for {entry}: {references.cure(entry)}" for entry in inner.values()))
    if "$partial" in plain:
        return functools.partial(make, *args, **arguments)
    try:
        return make(**arguments)
    except Exception as error:  # the constructor is the user's
        raise ConfigError(f"{name!r} refuses the arguments {arguments!r} that were saved: {error}") from error


def _decode_repr(plain: dict[str, Any], text: Any, objects: Mapping[str, Any]) -> Any:
    if _text(text) in objects:
        return objects[text]
    return Unresolved(
        plain,
        f"it has no name to be found by: set the entry anew, or pass objects={{{text!r}: ...}} when loading",
    )


_Decoder = Callable[[dict[str, Any], Any, Mapping[str, Any]], Any]
_DECODERS: dict[str, tuple[_Decoder, tuple[str, ...]]] = {
    "$tuple": (lambda plain, items, objects: tuple(_items(items, objects)), ()),
    "$set": (lambda plain, items, objects: set(_items(items, objects)), ()),
    "$frozenset": (lambda plain, items, objects: frozenset(_items(items, objects)), ()),
    "$dict": (lambda plain, items, objects: dict(_items(items, objects)), ()),
    "$float": (lambda plain, text, objects: float(text), ()),
    "$complex": (lambda plain, text, objects: complex(text), ()),
    "$bytes": (lambda plain, text, objects: base64.b64decode(_text(text), validate=True), ()),
    "$path": (lambda plain, text, objects: Path(_text(text)), ()),
    "$dtype": (lambda plain, name, objects: _dtype(name), ()),
    "$array": (_decode_numpy, ("dtype", "shape")),
    "$numpy": (_decode_numpy, ("dtype",)),
    "$object": (_decode_object, ()),
    "$call": (_decode_call, ("arguments",)),
    "$partial": (_decode_call, ("args", "arguments")),
    "$repr": (_decode_repr, ()),
}


def _items(items: object, objects: Mapping[str, Any]) -> list[Any]:
    if not isinstance(items, list):
        raise TypeError(f"a list is needed, got {items!r}")
    return [_decode(item, objects) for item in items]
