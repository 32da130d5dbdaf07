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
``{$space: Float,         a search space: what it is made of, by name
low: 0.1, high: 1}``
``{$repr: "text"}``       anything else: text only
========================  ======================================================================

Reading imports and executes nothing. ``$object`` is looked up in ``objects`` and among the modules that are
imported already (of a command: what does no harm there, see :class:`delira.utils.references.Vouched`); ``$call`` and
``$partial`` are made only of what ``objects`` vouches for. The rest becomes :class:`Unresolved`. A name is only a name:
what a file from a stranger calls a metric is run as one.

Subclasses of dictionaries, lists and tuples (named ones too) are written as the plain kind.
"""

import base64
import enum
import functools
import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import yaml

from delira.errors import ConfigError, did_you_mean, expect
from delira.frameworks import MODULE
from delira.utils import references, spaces
from delira.utils.arrays import iterate_leaves
from delira.utils.references import NOTHING
from delira.utils.references import Unresolved as Unresolved

#: kinds of values that are plain already: most of a tree
_AS_IT_IS = (bool, int, str, type(None))
_DTYPE_KINDS = "biufcSUMm"
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
    write = functools.partial(json.dumps, sort_keys=True, separators=(",", ":"), default=str)
    text = write(plain)
    return write(_unordered(plain)) if '"$dict"' in text else text


def _unordered(plain: object) -> Any:
    if isinstance(plain, list):
        return [_unordered(value) for value in plain]
    if not isinstance(plain, dict):
        return plain
    items = {key: _unordered(value) for key, value in plain.items()}
    return items | {"$dict": sorted(items["$dict"], key=_canonical)} if "$dict" in items else items


# ------------------------------------------------------------------ writing


def encode(value: object, active: frozenset[int] = frozenset()) -> Any:
    """Turn any tree into dictionaries with string keys, lists, strings, finite numbers, booleans and None.

    Parameters
    ----------
    value
        The tree, or a part of it.
    active
        Addresses of what a part is in.
    """
    if type(value) in _AS_IT_IS:
        return value
    if id(value) in active or len(active) > _MAX_DEPTH:
        return {"$repr": f"<{type(value).__module__}.{type(value).__qualname__} inside itself>"}
    active |= {id(value)}
    if isinstance(value, Mapping):
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: item if type(item) in _AS_IT_IS else encode(item, active) for key, item in value.items()}
        return {"$dict": [[encode(key, active), encode(item, active)] for key, item in value.items()]}
    for kind, encoder in _ENCODERS:
        if isinstance(value, kind) and (plain := encoder(value, active)) is not NOTHING:
            return plain
    return {"$repr": references.safe_repr(value)}


def _encode_sequence(value: Any, active: frozenset[int]) -> Any:
    items = [item if type(item) in _AS_IT_IS else encode(item, active) for item in value]
    return {"$tuple": items} if isinstance(value, tuple) else items


def _encode_set(value: Any, active: frozenset[int]) -> Any:
    items = sorted((encode(item, active) for item in value), key=_canonical)
    return {"$set" if isinstance(value, set) else "$frozenset": items}


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
    plain = {tag: encode(numbers.tolist(), active), "dtype": str(dtype)}
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


def _encode_space(value: spaces.Space, active: frozenset[int]) -> Any:
    kind, stated = spaces.as_plain(value)
    return {"$space": kind, **{name: encode(item, active) for name, item in stated.items()}}


def _encode_object(value: Any, active: frozenset[int]) -> Any:
    if name := references.name_of(value):
        return {"$object": name}
    if isinstance(value, type) or type(value).__module__ == "builtins":  # functions, methods, ranges
        return NOTHING
    is_partial = isinstance(value, functools.partial)
    name = references.name_of(value.func if is_partial else type(value))
    arguments = value.keywords if is_partial else references.constructor_arguments(value) if name else None
    if name is None:
        return NOTHING
    if arguments is None or any(map(_is_learned, arguments.values())):  # of a layer, whose bias=True is its weights now
        return _encode_forgetful(value, active)
    positional = {"args": [encode(item, active) for item in value.args]} if is_partial and value.args else {}
    plain = {key: encode(item, active) for key, item in arguments.items()}
    if not is_partial and len(text := _canonical(plain)) > _MAX_ARGUMENTS:  # a dataset with its samples is no setting
        return {"$repr": f"{references.safe_repr(value)} sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"}
    return {"$partial" if is_partial else "$call": name, **positional, "arguments": plain}


def _encode_forgetful(value: Any, active: frozenset[int]) -> Any:
    """Tell objects that do not keep all of their arguments apart by what they hold instead."""
    if not (_is_module(value) or references.forgets(value)):
        return NOTHING
    text = _canonical(encode(_held_by(value), active))
    return {"$repr": f"{references.safe_repr(value)} sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"}


def _is_module(value: object) -> bool:
    return any((each.__module__.partition(".")[0], each.__name__) == MODULE for each in type(value).__mro__)


def _held_by(value: Any) -> dict[str, Any]:
    """What an object holds that is the same in each process that makes it: neither weights, nor what it counts."""
    held = getattr(value, "__dict__", {})
    own = references.parameter_names(value)
    found = {name: each for name, each in held.items() if not name.startswith("_") or name.lstrip("_") in own}
    found.pop("training", None)  # whether a network learns now
    found |= dict(held.get("_buffers") or {})
    parts = {name: part for name, part in (held.get("_modules") or {}).items() if part is not None}
    weights = {name: each for name, each in {**found, **(held.get("_parameters") or {})}.items() if _is_learned(each)}
    return {
        **found,
        **{name: str(each.shape) for name, each in weights.items()},  # drawn anew by each process
        **{name: [type(part).__qualname__, _held_by(part)] for name, part in parts.items()},
    }


def _is_learned(value: object) -> bool:
    is_learned = getattr(value, "requires_grad", False) is True or getattr(value, "trainable", False) is True
    return is_learned and hasattr(value, "shape")


_Encoder = Callable[[Any, frozenset[int]], Any]
# the first that fits; a numpy float is a float too, an IntEnum an int: the special ones go first
_ENCODERS: tuple[tuple[Any, _Encoder], ...] = (
    (Unresolved, lambda value, active: references.record(value)),
    (enum.Enum, _encode_object),
    ((np.generic, np.ndarray), _encode_numpy),
    (np.dtype, lambda value, active: {"$dtype": str(value)} if value.kind in _DTYPE_KINDS else NOTHING),
    ((list, tuple), _encode_sequence),
    ((set, frozenset), _encode_set),
    (float, lambda value, active: float(value) if math.isfinite(value) else {"$float": str(float(value))}),
    (int, lambda value, active: int(value)),
    (str, lambda value, active: str.__str__(value)),
    (complex, lambda value, active: {"$complex": str(value).strip("()")}),
    (bytes, lambda value, active: {"$bytes": base64.b64encode(value).decode()}),
    (PurePath, lambda value, active: {"$path": str(value)}),
    (spaces.Space, _encode_space),
    (object, _describe_array),
    (object, _encode_object),
)


# ------------------------------------------------------------------ reading


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
    expect(("objects", objects, isinstance(objects, Mapping | None), "a dictionary {name: class or function}"))
    try:
        return _decode(plain, {} if objects is None else objects)  # also without any, a command's say what may be found
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
    if dtype.kind not in _DTYPE_KINDS or dtype.itemsize > 1 << 16:
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


def _decode_space(plain: dict[str, Any], kind: Any, objects: Mapping[str, Any]) -> Any:
    stated = {name: _decode(value, objects) for name, value in plain.items() if name != "$space"}
    return spaces.from_plain(kind, stated)


def _decode_repr(plain: dict[str, Any], text: Any, objects: Mapping[str, Any]) -> Any:
    if _text(text) in objects:
        return objects[text]
    return Unresolved(
        plain, f"it has no name to be found by: set the entry anew, or pass objects={{{text!r}: ...}} when loading"
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
    "$space": (_decode_space, spaces.FIELDS),
    "$repr": (_decode_repr, ()),
}


def _items(items: object, objects: Mapping[str, Any]) -> list[Any]:
    if not isinstance(items, list):
        raise TypeError(f"a list is needed, got {items!r}")
    return [_decode(item, objects) for item in items]


#: libyaml's, where PyYAML was built with it: four times as fast
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Writer(_Dumper):  # type: ignore[misc]
    """Writes short lists, and what has a tag, on one line."""


class _Reader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # nested aliases grow without bound when they are walked
            raise yaml.composer.ComposerError(
                None, None, "aliases (*name) are not read; write the value out", self.peek_event().start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if (name := (key.tag, str(key.value))) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} is there twice; delete one", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def _write_list(writer: Any, items: list[Any]) -> Any:
    flat = not any(isinstance(item, (list, dict)) for item in items)
    return writer.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flat)


def _write_dict(writer: Any, items: dict[Any, Any]) -> Any:
    short = any(str(key).startswith("$") for key in items) and len(json.dumps(items, default=str)) <= 90
    return writer.represent_mapping("tag:yaml.org,2002:map", items, flow_style=short or not items)


_Writer.add_representer(list, _write_list)
_Writer.add_representer(dict, _write_dict)
for _kind in (_Writer, _Reader):  # PyYAML takes 1e-3 for a string; writing must then quote such strings
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )


def write_yaml(plain: object) -> str:
    """Write dictionaries, lists and scalars; short lists and tagged entries on one line."""
    return yaml.dump(plain, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110)


def read_yaml(text: str | bytes) -> Any:
    """Read plain YAML.

    Raises
    ------
    ConfigError
        If the text is no YAML, names Python objects (``!!python/...``), has aliases or has a key twice.
    """
    try:
        return yaml.load(text, Loader=_Reader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # PyYAML lets the errors of its converters through: "!!bool maybe" is a KeyError
        raise ConfigError(f"this is not readable as plain YAML: {error}") from error
