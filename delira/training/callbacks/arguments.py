"""Numbers among the arguments of callbacks: settings come from files, too, where they may be texts."""

from numbers import Integral, Real
from typing import Any

from delira.errors import ConfigError


def check_numbers(owner: Any, **given: Any) -> None:
    """Refuse what is no number.

    Parameters
    ----------
    owner
        The callback, or its name, for the message.
    **given
        Arguments by name.

    Raises
    ------
    ConfigError
        Naming the first that is none, or NaN.
    """
    _check(owner, given, Real, "a number")


def check_whole(owner: Any, **given: Any) -> None:
    """Refuse what is no whole number; see :func:`check_numbers`."""
    _check(owner, given, Integral, "a whole number")


def _check(owner: Any, given: dict[str, Any], kind: type, what: str) -> None:
    who = owner if isinstance(owner, str) else type(owner).__name__
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, kind) or value != value:
            raise ConfigError(f"{who}: {name} is {what}, got {value!r}")
