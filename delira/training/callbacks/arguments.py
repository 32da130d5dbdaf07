"""Numbers among the arguments of callbacks: settings come from files, too, where they may be texts."""

import math
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


def check_whole(owner: Any, *, at_least: float = -math.inf, **given: Any) -> None:
    """Refuse what is no whole number, or below ``at_least``; see :func:`check_numbers`."""
    limit = f" of at least {at_least}" if math.isfinite(at_least) else ""
    _check(owner, given, Integral, f"a whole number{limit}", at_least)


def _check(owner: Any, given: dict[str, Any], kind: Any, what: str, at_least: float = -math.inf) -> None:
    who = owner if isinstance(owner, str) else type(owner).__name__
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, kind) or not value >= at_least:  # NaN is not, either
            raise ConfigError(f"{who}: {name} is {what}, got {value!r}")
