"""A nested dictionary that is read by attribute, by dotted key or by name alone."""

import copy
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Self, TypeVar

from delira.errors import ConfigError, MissingKeyError, did_you_mean
from delira.utils.lazy import old_names

_MISSING: Any = object()

Path = tuple[Any, ...]
_Config = TypeVar("_Config", bound="LookupConfig")


class MissingAttributeError(MissingKeyError, AttributeError):
    """A name was read as an attribute and is not there."""


class AmbiguousKeyError(ConfigError, KeyError):
    """A name was looked up at any depth and is there more than once."""

    __str__ = Exception.__str__  # KeyError shows the repr of its message


class LookupConfig(dict[Any, Any]):
    """A nested dictionary with three more ways to read it.

    ``config.training.lr`` and ``config["training.lr"]`` walk down, for reading, writing, deleting and
    ``in``; ``config.nested_get("lr")`` finds the name at any depth. Plain dictionaries that are put in
    become ``LookupConfig`` at every depth; lists and everything else stay the objects they are.

    A key that is there literally goes before the same key read as a path, and keys of a dictionary
    that is put in are never split: ``{"mAP@0.5": f}`` stays as it is. Positions of lists are written as
    numbers (``"blocks.0.width"``). Names of methods (``items``, ``update``) are methods as attributes
    and entries as items: ``config["items"]``. Keys that are no strings are ordinary keys.

    Examples
    --------
    >>> config = LookupConfig(training={"lr": 0.1})
    >>> config["training.num_epochs"] = 3
    >>> config.training.num_epochs, config.nested_get("lr")
    (3, 0.1)
    """

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        try:
            given = dict(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{type(self).__name__} is made of one dictionary and keywords, got {args!r}") from error
        dict.update(self, {key: _converted(value) for key, value in given.items()})

    # ---- items

    def __missing__(self, key: object) -> Any:
        return _child(*_located(self, key))

    def __setitem__(self, key: object, value: object) -> None:
        _assign(self, key, value)

    def __delitem__(self, key: object) -> None:
        holder, name = _located(self, key)
        if isinstance(holder, (list, tuple)):
            raise ConfigError(f"cannot delete {key!r}: it is a position of a list; change the list itself")
        if isinstance(holder, LookupConfig):
            dict.__delitem__(holder, name)
        else:
            del holder[name]

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or _has(*_descend(self, key)[:2])

    def get(self, key: object, default: object = None) -> Any:
        """Return the entry, or ``default`` if there is none; ``key`` may be dotted."""
        if key not in self:
            return default
        return self[key]

    def pop(self, key: object, *default: Any) -> Any:
        """Remove and return the entry; ``key`` may be dotted."""
        if len(default) > 1:
            raise TypeError(f"pop takes one default, got {len(default)}")
        if default and key not in self:
            return default[0]
        value = self[key]
        del self[key]
        return value

    def setdefault(self, key: object, default: object = None) -> Any:
        """Return the entry; write ``default`` first if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]  # dict's overloads say nothing more
        dict.update(self, {key: _converted(value) for key, value in dict(other).items()})
        return self

    # ---- attributes

    def __getattr__(self, name: str) -> Any:
        if not dict.__contains__(self, name):
            if name.startswith("__") and name.endswith("__"):  # asked for by copy, numpy, notebooks
                raise AttributeError(name)
            raise MissingAttributeError(_absence(self, name))
        return dict.__getitem__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(type(self), name):
            raise ConfigError(
                f"{name!r} is a member of {type(self).__name__} and cannot be an attribute; "
                f"write config[{name!r}] = ... and read config[{name!r}]"
            )
        dict.__setitem__(self, name, _converted(value))

    def __delattr__(self, name: str) -> None:
        if not dict.__contains__(self, name):
            raise MissingAttributeError(_absence(self, name))
        dict.__delitem__(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(key for key in self if isinstance(key, str) and key.isidentifier())]

    # ---- lookup at any depth

    def nested_get(self, key: Any, *args: Any, default: Any = _MISSING) -> Any:
        """Return the entry of that name, wherever it is.

        A dotted key is tried as a path first. Otherwise every dictionary, list and tuple is searched;
        what lies inside a match is not: in ``{"losses": {"losses": f}}`` the outer entry is the answer.

        Parameters
        ----------
        key
            Name or dotted path.
        *args
            The default, given without its name.
        default
            Returned if there is no such entry.

        Raises
        ------
        MissingKeyError
            If there is no such entry and no default (a ``KeyError``).
        AmbiguousKeyError
            If there are several, default or not (a ``KeyError``); the message names their paths.
        """
        defaults = [*args, default] if default is not _MISSING else [*args]
        if len(defaults) > 1:
            raise TypeError(f"nested_get takes one default, got {len(defaults)}")
        if _is_path(key) and key in self:
            return self[key]
        found = self._find(key)
        if len(found) > 1:
            paths = ", ".join(repr(".".join(map(str, path))) for path, _ in found)
            raise AmbiguousKeyError(f"{key!r} is there {len(found)} times; ask for one of {paths}")
        if found:
            return found[0][1]
        if defaults:
            return defaults[0]
        known = (str(path[-1]) for path, _ in _entries(self))
        raise MissingKeyError(f"there is no {key!r} at any depth{did_you_mean(key, known)}")

    def _find(self, key: object) -> list[tuple[Path, Any]]:
        return [(path, value) for path, value in _entries(self, stop_at=key) if path[-1] == key]

    # ---- merging and copying

    def update(  # type: ignore[override]  # the historic signature, not dict's
        self,
        dict_like: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (),
        deep: bool = False,
        ignore: Iterable[str] | None = None,
        allow_dict_overwrite: bool = True,
    ) -> None:
        """Merge entries in: dictionaries into dictionaries, anything else replaces.

        The argument is left as it is, and later changes of one do not reach the other.

        Parameters
        ----------
        dict_like
            Dictionary or pairs; keys are taken literally.
        deep
            Also copy the values that are no dictionaries.
        ignore
            Names that are left out at any depth; a dotted name means that path only.
        allow_dict_overwrite
            ``False`` refuses to replace a dictionary by a value or a value by a dictionary, before
            anything is changed.
        """
        source = dict(dict_like)
        left_out = frozenset((ignore,) if isinstance(ignore, str) else ignore or ())
        if not allow_dict_overwrite:
            conflicts: list[str] = []
            _merge(copy.copy(self), source, left_out, conflicts=conflicts)
            if conflicts:
                raise ConfigError(
                    f"update would replace {'; '.join(conflicts)}; allow it with allow_dict_overwrite=True "
                    f"or leave it out with ignore=[...]"
                )
        _merge(self, source, left_out, deep=deep)

    def to_dict(self) -> dict[Any, Any]:
        """Return plain dictionaries at every depth; the other values are the same objects."""
        return {k: v.to_dict() if isinstance(v, LookupConfig) else v for k, v in self.items()}

    def copy(self) -> Self:
        """Return new dictionaries at every depth that hold the same values."""
        return copy.copy(self)

    def deepcopy(self) -> Self:
        """Return an independent copy of the same class."""
        return copy.deepcopy(self)

    def __copy__(self) -> Self:
        return _rebuild(type(self), {k: copy.copy(v) if isinstance(v, LookupConfig) else v for k, v in self.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = memo[id(self)] = type(self).__new__(type(self))
        dict.update(twin, {copy.deepcopy(key, memo): copy.deepcopy(value, memo) for key, value in self.items()})
        return twin

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), dict(self))  # not item by item: keys with a dot would be split


def _rebuild(cls: type[_Config], items: dict[Any, Any]) -> _Config:
    config = cls.__new__(cls)
    dict.update(config, items)
    return config


def _converted(value: object) -> Any:
    return LookupConfig(value) if type(value) is dict else value  # subclasses may behave differently: kept


# ---- paths


def _is_path(key: object) -> bool:
    return isinstance(key, str) and "." in key and all(key.split("."))


def _has(tree: object, name: object) -> bool:
    if isinstance(tree, dict):
        return dict.__contains__(tree, name)
    if isinstance(tree, (list, tuple)):
        return isinstance(name, str) and name.isdecimal() and int(name) < len(tree)
    return isinstance(tree, Mapping) and name in tree


def _child(tree: Any, name: Any) -> Any:
    return tree[int(name)] if isinstance(tree, (list, tuple)) else tree[name]


def _descend(tree: Any, key: Any) -> tuple[Any, Any, list[str]]:
    """Follow a key as far as it leads: the container in which it ends, what is left of it, and the names before."""
    walked: list[str] = []
    while not _has(tree, key) and _is_path(key):
        head, _, rest = key.partition(".")
        if not _has(tree, head):
            break
        tree, key = _child(tree, head), rest
        walked.append(head)
    return tree, key, walked


def _located(tree: Any, key: Any) -> tuple[Any, Any]:
    """Return the container that ``key`` leads to, and the name in it."""
    holder, name, _ = _descend(tree, key)
    if not _has(holder, name):
        raise MissingKeyError(_absence(tree, key))
    return holder, name


def _absence(tree: Any, key: Any) -> str:
    """Say at which step of the path the name is missing, and what is there instead."""
    tree, key, walked = _descend(tree, key)
    name = key.partition(".")[0] if _is_path(key) else key
    inside = f" in {'.'.join(walked)!r}" if walked else ""
    if isinstance(tree, (list, tuple)):
        return f"there is no {name!r}{inside}, a list of {len(tree)}"
    if not isinstance(tree, Mapping):
        return f"there is no {name!r}{inside}, which holds {tree!r}"
    return f"there is no {name!r}{inside}{did_you_mean(str(name), map(str, tree))}"


def _assign(tree: Any, key: Any, value: Any) -> None:
    """Write ``value`` where ``key`` leads; missing dictionaries on the way are made."""
    full = key
    while not _has(tree, key) and _is_path(key):
        head, _, rest = key.partition(".")
        if not _has(tree, head):
            if isinstance(tree, (list, tuple)):
                break
            _put(tree, head, LookupConfig())
        tree, key = _child(tree, head), rest
        if not isinstance(tree, (MutableMapping, list)):
            raise ConfigError(
                f"cannot set {full!r}: {full.removesuffix('.' + rest)!r} holds {tree!r}, which takes no "
                f"entries; set that to a dictionary first"
            )
    if isinstance(tree, list) and not _has(tree, key):
        raise ConfigError(f"cannot set {full!r}: {key!r} is no position of a list of {len(tree)}")
    _put(tree, key, value)


def _put(tree: Any, name: Any, value: Any) -> None:
    if isinstance(tree, LookupConfig):
        dict.__setitem__(tree, name, _converted(value))
    elif isinstance(tree, list):
        tree[int(name)] = _converted(value)
    else:
        tree[name] = value


def _entries(tree: object, stop_at: object = _MISSING, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield ``(path, value)`` of all dictionary entries, depth first; nothing from inside a ``stop_at``."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield (*path, name), value
            if name != stop_at:
                yield from _entries(value, stop_at, (*path, name))
    elif isinstance(tree, (list, tuple)):
        for position, value in enumerate(tree):
            yield from _entries(value, stop_at, (*path, position))


# ---- merging


def _merge(
    target: LookupConfig,
    source: Mapping[Any, Any],
    left_out: frozenset[str],
    deep: bool = False,
    conflicts: list[str] | None = None,
    path: Path = (),
) -> None:
    for name, value in source.items():
        here = (*path, str(name))
        if name in left_out or ".".join(here) in left_out:
            continue
        mine = dict.get(target, name, _MISSING)
        if conflicts is not None and mine is not _MISSING and isinstance(mine, Mapping) != isinstance(value, Mapping):
            conflicts.append(f"{'.'.join(here)!r} ({_kind(mine)}) by {_kind(value)}")
        if isinstance(mine, LookupConfig) and isinstance(value, Mapping):
            _merge(mine, value, left_out, deep, conflicts, here)
        elif type(value) is dict or isinstance(value, LookupConfig):
            fresh = LookupConfig()
            _merge(fresh, value, left_out, deep, None, here)
            dict.__setitem__(target, name, fresh)
        else:
            dict.__setitem__(target, name, copy.deepcopy(value) if deep else value)


def _kind(value: object) -> str:
    return "a dictionary" if isinstance(value, Mapping) else repr(value)


__getattr__ = old_names(__name__)
