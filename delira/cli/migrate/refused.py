"""Lines at which the library stops: names that are gone, and calls that are refused."""

from collections.abc import Callable, Iterable

from delira.cli.migrate.source import Finding, Script

#: what looks for such lines
REFUSED: tuple[Callable[[Script], Iterable[Finding]], ...] = ()
