"""Names in messages: what a user probably meant, and the first of many."""

import difflib
from collections.abc import Collection, Iterable, Sequence

from delira.errors import ConfigError


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or the list of all known names if none is near."""
    names = sorted(set(known))
    if near := difflib.get_close_matches(str(name), names, n=1, cutoff=0.6):
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(map(repr, names))}" if names else ""


def listed(names: Sequence[object], most: int, separator: str = " and ") -> str:
    """Return the first names with commas between them, and how many more there are.

    Parameters
    ----------
    names
        All of them.
    most
        How many are named.
    separator
        What stands before the number of the others.
    """
    more = f"{separator}{len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def check_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse names that are not known: the message is ``what``, the first of them, and a guess."""
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"{what} {unknown[0]!r}{did_you_mean(unknown[0], known)}")
