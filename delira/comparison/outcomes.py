"""What a test gives back, in one form for all of them, and the check of the numbers that tests are given."""

from typing import NamedTuple

import numpy as np

from delira.errors import DataError


class Outcome(NamedTuple):
    """What a test found."""

    name: str
    """Of the test."""
    statistic: float
    """NaN where the test could not be made."""
    p_value: float
    """Two-sided; NaN where the test could not be made."""
    note: str = ""
    """Why it could not be made, or what it cannot show."""
    adjusted: float = float("nan")
    """The p-value after Holm's correction over several comparisons; NaN where there is only one."""

    @property
    def final(self) -> float:
        """The p-value that counts: the adjusted one where there is one."""
        return self.p_value if np.isnan(self.adjusted) else self.adjusted


def refused(name: str, note: str) -> Outcome:
    """Return the outcome of a test that could not be made, with the reason."""
    return Outcome(name, float("nan"), float("nan"), note)


def numbers_of(name: str, given: object, at_least: int = 2) -> np.ndarray:
    """Return finite numbers, float64 of shape ``(n,)``.

    Parameters
    ----------
    name
        Of the argument, for the message.
    given
        Shape ``(n,)``.
    at_least
        The smallest ``n``.

    Raises
    ------
    DataError
        If they are too few, or no finite numbers.
    """
    try:
        found = np.asarray(given)
    except ValueError as error:  # lists of several lengths
        raise DataError(f"{name} must be finite numbers of shape (n,), got {given!r:.200}") from error
    if found.ndim != 1 or found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        raise DataError(f"{name} must be finite numbers of shape (n,), got {given!r:.200}")
    if len(found) < at_least:
        raise DataError(f"{name} must be at least {at_least} numbers, got {len(found)}")
    return found.astype(np.float64)
