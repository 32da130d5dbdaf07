"""Name what a user probably meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or the list of all known names if none is near."""
    names = sorted(set(known))
    if near := difflib.get_close_matches(str(name), names, n=1, cutoff=0.6):
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(map(repr, names))}" if names else ""
