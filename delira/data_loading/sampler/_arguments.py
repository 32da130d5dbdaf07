"""Checks of arguments that several samplers take."""

import numpy as np

from delira.data_loading._checks import check_count
from delira.errors import ConfigError


def check_flag(value: object, name: str) -> bool:
    """Refuse anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def count_draws(num_samples: int | None, replacement: bool, available: int, what: str) -> int:
    """Return the length of an epoch of random draws.

    Parameters
    ----------
    num_samples
        The length that was asked for; None means ``available``.
    replacement
        Whether a sample may be drawn again.
    available
        How many different samples there are.
    what
        What these are, for the message.

    Raises
    ------
    ConfigError
        If more samples are asked for than there are and none may be drawn again.
    """
    count = available if num_samples is None else check_count(num_samples, "num_samples", 1)
    if count > available and not (replacement and available):
        cure = "pass replacement=True to draw some of them repeatedly" if available else "pass some indices"
        raise ConfigError(f"num_samples={num_samples} is more than the {available} {what}; {cure}")
    return count
