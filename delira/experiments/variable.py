"""What a search may change: the spaces among parameters, which of them are there, and what they become."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import ConfigError, did_you_mean, listed
from delira.utils.arrays import iterate_leaves
from delira.utils.spaces import Choice, Space, identity, written

VARIABILITIES = ("fixed", "variable")

Steps = tuple[Any, ...]
#: stands for an entry whose condition does not hold
_ABSENT: Any = object()


def dotted(path: Steps) -> str:
    """Return a path as one name: ``"training.optimizer_params.lr"``."""
    return ".".join(map(str, path))


def leads_to(asked: Steps, path: Steps) -> bool:
    """Return True if the names are those of a path, in order, with others left out; the last one is the parameter's."""
    steps = iter(map(str, path))
    return str(asked[-1]) == str(path[-1]) and all(str(name) in steps for name in asked)


def without_variability(path: Steps) -> Steps:
    """Return a path without ``fixed`` or ``variable``, which stand first or second."""
    return tuple(name for place, name in enumerate(path) if place > 1 or name not in VARIABILITIES)


def find_spaces(tree: object) -> dict[Steps, Space]:
    """Return the spaces of a tree of parameters by their paths, in its order."""
    return {path: leaf for path, leaf in iterate_leaves(tree) if isinstance(leaf, Space)}


class Variable:
    """The parameters of a model and of its training, with their spaces.

    Parameters
    ----------
    parts
        ``{"model": {...}, "training": {...}}``, as they hold: variable before fixed.

    Raises
    ------
    ConfigError
        If a condition names no parameter, several ones, or hangs on itself.
    """

    def __init__(self, parts: Mapping[str, Any]):
        self._parts = parts
        self.spaces: dict[str, Space] = {}
        self._paths: dict[str, Steps] = {}
        for path, space in self._ordered(find_spaces(parts)):
            self._paths[dotted(path)], self.spaces[dotted(path)] = path, space

    def chosen(self, pick: Callable[[str, Space], Any]) -> dict[str, Any]:
        """Return the parameters with a value for each space; those whose condition does not hold are left out.

        Parameters
        ----------
        pick
            Gives the value of a space, by its name; called only for those that are there, what a condition hangs on
            before what is conditional.
        """
        values: dict[Steps, Any] = {}
        for name, space in self.spaces.items():
            path = self._paths[name]
            values[path] = pick(name, space) if self._is_there(space, values) else _ABSENT
        return {part: _rebuilt(content, values, (part,)) for part, content in self._parts.items()}

    def assignments(self) -> Iterator[dict[str, Any]]:
        """Yield each combination of all values, in order: the last space changes fastest."""
        names = [*self.spaces]

        def complete(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
            if len(values) == len(names):
                yield {name: value for name, value in values.items() if value is not _ABSENT}
                return
            name = names[len(values)]
            known = {self._paths[each]: value for each, value in values.items()}
            there = self._is_there(self.spaces[name], known)
            for value in self.spaces[name].grid() if there else (_ABSENT,):
                yield from complete({**values, name: value})

        yield from complete({})

    def conditions_of(self, name: str) -> dict[str, Any]:
        """Return values of other spaces under which a space is there."""
        found: dict[str, Any] = {}
        for other, wanted in (self.spaces[name].when or {}).items() if name else ():
            path = dotted(self._find(other))
            if path in self.spaces:
                value = wanted[0] if isinstance(wanted, (list, tuple)) else wanted
                found |= {**self.conditions_of(path), path: value}
        return found

    def check_conditions(self, is_settled: Callable[[Steps], bool]) -> None:
        """Refuse conditions that can never hold: what hangs on them would never be searched, without a word.

        Parameters
        ----------
        is_settled
            Whether a parameter, by its path, is a variable one that was given a value, e.g. on a command line: what
            hangs on another value of it is left out on purpose.

        Raises
        ------
        ConfigError
            Naming the space, its condition, and what can be.
        """
        for name, space in self.spaces.items():
            for other, wanted in (space.when or {}).items():
                path = self._find(other)
                there = self.spaces.get(dotted(path)) or Choice([self._value(path)])
                values = wanted if isinstance(wanted, (list, tuple)) else (wanted,)
                never = [value for value in values if not _can_be(value, there)]
                is_fixed = dotted(path) not in self.spaces
                if not never or (is_fixed and (len(never) < len(values) or is_settled(path))):
                    continue
                raise ConfigError(
                    f"{name} has {written(never[0])} in when={{{other!r}: …}}, which can never hold: {dotted(path)} is "
                    f"{'fixed as ' if is_fixed else ''}{_told(there)}{_meant(never[0], there)}"
                )

    def _is_there(self, space: Space, values: Mapping[Steps, Any]) -> bool:
        for name, wanted in (space.when or {}).items():
            path = self._find(name)
            found = values[path] if path in values else self._value(path)
            options = wanted if isinstance(wanted, (list, tuple)) else (wanted,)
            if found is _ABSENT or identity(found) not in [*map(identity, options)]:
                return False
        return True

    def _value(self, path: Steps) -> Any:
        found: Any = self._parts
        for step in path:
            found = found[step]
        return found

    def _find(self, name: str) -> Steps:
        """Return the path of the parameter that a condition names."""
        asked = tuple(str(name).split("."))
        paths = [path for path, _ in iterate_leaves(self._parts)]
        found = [path for path in paths if tuple(map(str, path)) == asked]
        found = found or [path for path in paths if leads_to(asked, path)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(
                f"when={{{name!r}: …}} may be any of {', '.join(map(dotted, found))}; name the whole path"
            )
        raise ConfigError(f"when names {name!r}, which is no parameter{did_you_mean(name, map(dotted, paths))}")

    def _ordered(self, spaces: Mapping[Steps, Space]) -> list[tuple[Steps, Space]]:
        """Return them so that what a condition hangs on goes before; else in the order they are written in."""
        waiting, done = dict(spaces), list[tuple[Steps, Space]]()
        while waiting:
            ready = [path for path, space in waiting.items() if not self._hangs_on(path, space) & waiting.keys()]
            if not ready:
                raise ConfigError(f"the conditions of {', '.join(map(dotted, waiting))} hang on each other")
            for path in ready:
                done.append((path, waiting.pop(path)))
        return done

    def _hangs_on(self, path: Steps, space: Space) -> set[Steps]:
        found = {self._find(name) for name in space.when or {}}
        if path in found:
            raise ConfigError(f"the condition of {dotted(path)} is that parameter itself")
        return found


def _can_be(value: object, space: Space) -> bool:
    """Return True if a parameter may take a value, as conditions compare it."""
    return space.has(value) and (isinstance(space, Choice) or type(value) in (int, float))


def _meant(value: object, space: Space) -> str:
    """Return which option a text, or a number of NumPy, seems to mean; or what to do."""
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) is not type(value) and space.has(plain):
        return f"; did you mean the plain number {plain!r}?"
    options = space.options if isinstance(space, Choice) else ()
    named = [option for option in options if str(value).lower() in (written(option).lower(), str(option).lower())]
    if named:
        is_text = isinstance(value, str) and not isinstance(named[0], str)
        return f"; did you mean {written(named[0])}{' itself, without quotes' if is_text else ''}?"
    return "; name what it can be, or leave the condition out"


def _told(space: Space) -> str:
    """What can be, in words."""
    if not isinstance(space, Choice):
        return repr(space)
    return f"{'one of ' if len(space.options) > 1 else ''}{listed([*map(written, space.options)], 10)}"


def _rebuilt(tree: Any, values: Mapping[Steps, Any], path: Steps) -> Any:
    """Return a tree with values for its spaces, and without those that are absent; what has none stays itself."""
    if isinstance(tree, Mapping):
        items = {key: _rebuilt(value, values, (*path, key)) for key, value in tree.items()}
        return {key: value for key, value in items.items() if value is not _ABSENT}
    if isinstance(tree, (list, tuple)) and find_spaces(tree):
        found = [_rebuilt(value, values, (*path, position)) for position, value in enumerate(tree)]
        return type(tree)([value for value in found if value is not _ABSENT])
    return values.get(path, tree)


def with_defaults(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in which each space has become its default.

    Raises
    ------
    ConfigError
        Naming those that have none.
    """
    missing = []

    def default(name: str, space: Space) -> Any:
        if not space.has_default:
            missing.append(name)
            return _ABSENT
        return space.default

    found = Variable(parts).chosen(default)
    if missing:
        raise ConfigError(
            f"{', '.join(missing)} {'is a search space' if len(missing) == 1 else 'are search spaces'} without a "
            "default: search the best value with experiment.tune(…), set one, or give the space a default="
        )
    return found


def examples(parts: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield parameters that show whether settings take what is in the spaces, each with what was chosen, in words.

    One space after the other takes each of its corners, where its condition holds; the others have their default, or
    their first corner.
    """
    variable = Variable(parts)
    for varied in variable.spaces or [""]:
        for corner in variable.spaces[varied].corners() if varied else [None]:
            chosen = variable.conditions_of(varied) | {varied: corner}
            told: dict[str, Any] = {}

            def pick(name: str, space: Space, chosen: Any = chosen, told: Any = told) -> Any:
                plain = space.default if space.has_default else space.corners()[0]
                told[name] = chosen.get(name, plain)
                return told[name]

            found = variable.chosen(pick)
            yield ", ".join(f"{name}={value!r}" for name, value in told.items()), found


def refuse_fixed(places: Sequence[tuple[str, object]]) -> None:
    """Refuse spaces where nothing searches: in what is fixed, and among settings of an experiment or a call."""
    for place, tree in places:
        if found := find_spaces(tree):
            raise ConfigError(
                f"{dotted(min(found, key=str))} is a search space among {place}, where nothing may change; put it into "
                "the variable parameters: Parameters(fixed, {'training': {'lr': Float(…)}})"
            )
