"""Search spaces: what a search may choose a parameter from, as plain values that files can hold."""

import abc
import dataclasses
import enum
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from delira.errors import ConfigError, expect
from delira.utils.references import Unresolved, name_of, safe_repr


class _Default(enum.Enum):
    """What stands for no default: itself in every copy and in every process, as None may be a default."""

    MISSING = enum.auto()


_MISSING: Any = _Default.MISSING
#: values that stand for themselves in a study
_PLAIN = (str, bool, int, float, type(None))
#: characters of a label that are shown
_LONG = 60


class Space(abc.ABC):
    """What a parameter is chosen from. ``default`` is what is used where nothing is searched.

    ``when`` makes it conditional: ``{"optimizer_cls": SGD}`` has it only where that other parameter, named by as much
    of its path as says which one is meant, has this value, or one of a list of values; elsewhere the entry is not
    there at all.
    """

    default: Any
    when: Mapping[str, Any] | None

    @abc.abstractmethod
    def has(self, value: object) -> bool:
        """Return True if a value is in it."""

    @abc.abstractmethod
    def corners(self) -> Sequence[Any]:
        """Return values that show whether a setting takes what is in it: its ends, or all of its options."""

    @abc.abstractmethod
    def grid(self) -> Sequence[Any]:
        """Return all values that it has.

        Raises
        ------
        ConfigError
            If they are infinitely many.
        """

    @abc.abstractmethod
    def shown(self, value: Any) -> Any:
        """Return how a value is written into a study and into tables: a number or a text."""

    @abc.abstractmethod
    def valued(self, shown: Any) -> Any:
        """Return the value that was written so."""

    @property
    def has_default(self) -> bool:
        """Return True if there is a default."""
        return self.default is not _MISSING

    def stated(self) -> dict[str, Any]:
        """Return what it was made of, without what was left out."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # each is a dataclass
        found = {field.name: getattr(self, field.name) for field in fields}
        return {field.name: found[field.name] for field in fields if found[field.name] is not field.default}

    def __repr__(self) -> str:
        stated = self.stated()
        ends = [safe_repr(stated.pop(name)) for name in ("low", "high", "options") if name in stated]
        return f"{type(self).__name__}({', '.join([*ends, *(f'{k}={safe_repr(v)}' for k, v in stated.items())])})"

    def _check_common(self) -> None:
        is_mapping = self.when is None or (isinstance(self.when, Mapping) and bool(self.when))
        expect(("when", self.when, is_mapping, "a dictionary {parameter: value, or list of values}"))
        if self.has_default and not self.has(self.default):
            raise ConfigError(f"default={self.default!r} is not in {self!r}")


class _Interval(Space):
    """Numbers from ``low`` to ``high``, both of which are in it."""

    low: Any
    high: Any
    log: bool
    step: Any

    def _check_ends(self, kind: Any, what: str) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            is_one = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
            expect((f"{name} of {type(self).__name__}", value, is_one, what))
        expect((f"log of {type(self).__name__}", self.log, isinstance(self.log, bool), "True or False"))
        if self.low > self.high:
            raise ConfigError(f"{self!r} is empty: low is above high; exchange them")
        if self.log and self.low <= 0:
            raise ConfigError(f"{self!r} has a logarithmic scale, so low must be above 0")
        if self.log and self.step is not None and (kind is numbers.Real or self.step != 1):
            raise ConfigError(f"{self!r} has a logarithmic scale and a step; leave one of them out")
        if self.step is not None:
            is_step = isinstance(self.step, kind) and not isinstance(self.step, bool) and 0 < self.step < math.inf
            expect((f"step of {type(self).__name__}", self.step, is_step, f"{what} above 0"))
            if not self._is_on_grid(self.high):
                raise ConfigError(
                    f"{self!r} never reaches its end: from {self.low} by steps of {self.step} {self.high} is not met; "
                    f"write high={self.low + self.step * math.floor((self.high - self.low) / self.step)}"
                )

    def _is_on_grid(self, value: Any) -> bool:
        if self.step is None:
            return True
        n_steps = (value - self.low) / self.step
        return bool(abs(n_steps - round(n_steps)) < 1e-8)

    def corners(self) -> Sequence[Any]:
        """Return both ends."""
        return (self.low,) if self.low == self.high else (self.low, self.high)

    def shown(self, value: Any) -> Any:
        """Return the number itself."""
        return value

    def valued(self, shown: Any) -> Any:
        """Return the number itself."""
        return type(self.low)(shown)


@dataclasses.dataclass(frozen=True, repr=False)
class Float(_Interval):
    """A floating-point number from an interval.

    Parameters
    ----------
    low, high
        The ends, both of which are in it.
    log
        Proposed evenly on a logarithmic scale: for learning rates and the like.
    step
        Only ``low``, ``low + step``, … up to ``high``; ``None``: any.
    default
        What ``run`` and ``kfold`` use; without one they refuse.
    when
        See :class:`Space`.

    Raises
    ------
    ConfigError
        If it is empty or contradicts itself.

    Examples
    --------
    >>> Float(1e-5, 1e-1, log=True, default=1e-3)
    Float(1e-05, 0.1, log=True, default=0.001)
    """

    low: float
    high: float
    log: bool = dataclasses.field(default=False, kw_only=True)
    step: float | None = dataclasses.field(default=None, kw_only=True)
    default: Any = dataclasses.field(default=_MISSING, kw_only=True)
    when: Mapping[str, Any] | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_ends(numbers.Real, "a finite number")
        for name in ("low", "high"):  # whole numbers in a file stand for such ones, too
            object.__setattr__(self, name, float(getattr(self, name)))
        self._check_common()

    def has(self, value: object) -> bool:
        """Return True for a number between the ends, and on a step if there are some."""
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high and self._is_on_grid(value)  # type: ignore[operator]

    def grid(self) -> Sequence[float]:
        """Return the values of all steps."""
        if self.step is None:
            raise ConfigError(f"{self!r} has infinitely many values, a grid has not; give it a step=, or Choice([…])")
        return [self.low + self.step * number for number in range(round((self.high - self.low) / self.step) + 1)]


@dataclasses.dataclass(frozen=True, repr=False)
class Int(_Interval):
    """A whole number from an interval.

    Parameters
    ----------
    low, high
        The ends, both of which are in it.
    log
        Proposed evenly on a logarithmic scale: for sizes of layers and the like.
    step
        Only ``low``, ``low + step``, … up to ``high``.
    default
        What ``run`` and ``kfold`` use; without one they refuse.
    when
        See :class:`Space`.

    Raises
    ------
    ConfigError
        If it is empty or contradicts itself.
    """

    low: int
    high: int
    log: bool = dataclasses.field(default=False, kw_only=True)
    step: int = dataclasses.field(default=1, kw_only=True)
    default: Any = dataclasses.field(default=_MISSING, kw_only=True)
    when: Mapping[str, Any] | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_ends(numbers.Integral, "a whole number")
        for name in ("low", "high", "step"):
            object.__setattr__(self, name, int(getattr(self, name)))
        self._check_common()

    def has(self, value: object) -> bool:
        """Return True for a whole number between the ends, and on a step."""
        is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high and self._is_on_grid(value)  # type: ignore[operator]

    def grid(self) -> Sequence[int]:
        """Return all of them."""
        return range(self.low, self.high + 1, self.step)


@dataclasses.dataclass(frozen=True, repr=False)
class Choice(Space):
    """One of several options: numbers, texts, classes, functions, lists, anything.

    Parameters
    ----------
    options
        At least one; each once. Spaces inside of an option are refused: let them be entries of their own, with
        ``when``.
    default
        What ``run`` and ``kfold`` use; without one they refuse.
    when
        See :class:`Space`.

    Raises
    ------
    ConfigError
        If there is no option, or two that nobody can tell apart.

    Examples
    --------
    >>> Choice(["relu", "gelu"], default="relu").corners()
    ['relu', 'gelu']
    """

    options: Sequence[Any]
    default: Any = dataclasses.field(default=_MISSING, kw_only=True)
    when: Mapping[str, Any] | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        is_list = isinstance(self.options, (list, tuple))
        expect(("options of Choice", self.options, is_list, "a list of what may be chosen"))
        object.__setattr__(self, "options", list(self.options))
        if not self.options:
            raise ConfigError("Choice([]) is empty; name at least one option")
        names = [*map(identity, self.options)]
        if twice := sorted({str(name) for name in names if names.count(name) > 1}):
            raise ConfigError(f"options of Choice that cannot be told apart: {', '.join(twice)}; name each once")
        if any(map(_holds_spaces, self.options)):
            raise ConfigError(
                "an option of Choice holds a space; make that an entry of its own, with when={parameter: option}"
            )
        self._check_common()

    def has(self, value: object) -> bool:
        """Return True for one of the options."""
        return identity(value) in map(identity, self.options)

    def corners(self) -> Sequence[Any]:
        """Return all options."""
        return self.options

    def grid(self) -> Sequence[Any]:
        """Return all options."""
        return self.options

    @property
    def labels(self) -> list[Any]:
        """What stands for each option in a study: itself if it is a number or a text, else its name, or its text."""
        names = [*map(identity, self.options)]
        short = [
            _short(option, name) if type(option) not in _PLAIN else name
            for option, name in zip(self.options, names, strict=True)
        ]
        return short if len({*map(str, short)}) == len(short) else names

    def shown(self, value: Any) -> Any:
        """Return the label of an option."""
        return self.labels[[*map(identity, self.options)].index(identity(value))]

    def valued(self, shown: Any) -> Any:
        """Return the option of a label."""
        labels = self.labels
        if shown not in labels:
            raise ConfigError(f"{shown!r} is none of the options {labels}")
        return self.options[labels.index(shown)]


def identity(option: object) -> Any:
    """Return what tells an option from others, also of another process."""
    if isinstance(option, Unresolved):
        return str(option)
    return option if type(option) in _PLAIN else name_of(option) or safe_repr(option)


def written(option: object) -> str:
    """Return an option as a message writes it: a class or a function by its name alone."""
    name = identity(option)
    return safe_repr(option) if type(option) in _PLAIN else _short(option, str(name))


def _short(option: object, name: str) -> str:
    if isinstance(option, Unresolved) or name_of(option) == name:
        name = name.rpartition(":")[2]
    return name if len(name) <= _LONG else f"{name[: _LONG - 1]}…"


def _holds_spaces(option: object) -> bool:
    if isinstance(option, Space):
        return True
    if isinstance(option, Mapping):
        return any(map(_holds_spaces, option.values()))
    return isinstance(option, (list, tuple)) and any(map(_holds_spaces, option))


#: by the name that files use
KINDS: dict[str, type[Space]] = {"Float": Float, "Int": Int, "Choice": Choice}
#: what any of them is made of
FIELDS = ("low", "high", "options", "log", "step", "default", "when")


def as_plain(space: Space) -> tuple[str, dict[str, Any]]:
    """Return the kind of a space and what it was made of, for a file."""
    return type(space).__name__, space.stated()


def from_plain(kind: object, stated: Mapping[str, Any]) -> Space:
    """Return the space that a file states.

    Raises
    ------
    ConfigError
        If there is no such kind, or it cannot be made of this.
    """
    if kind not in KINDS:
        raise ConfigError(f"there is no space {kind!r}; known are {', '.join(KINDS)}")
    try:
        return KINDS[str(kind)](**stated)
    except TypeError as error:
        raise ConfigError(f"{kind} cannot be made of {dict(stated)!r}: {error}") from error


def parse(text: str) -> Space:
    """Return the space that is written as in Python: ``"Float(1e-5, 0.1, log=True)"``; nothing is executed.

    Raises
    ------
    ConfigError
        If it is none.
    """
    import ast

    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in KINDS):
            raise ValueError("it is no call of one of them")
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return KINDS[call.func.id](*positional, **named)
    except ConfigError:
        raise
    except (SyntaxError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{text!r} is no space: write Float(low, high), Int(low, high) or Choice([…]), e.g. "
            f"'Float(1e-5, 0.1, log=True)' ({error})"
        ) from error


def is_like(text: str) -> bool:
    """Return True if a text means to be a space."""
    return text.strip().partition("(")[0] in KINDS and "(" in text
