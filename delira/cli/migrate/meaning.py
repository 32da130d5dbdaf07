"""Lines that run, and mean something else than in the older library."""

from collections.abc import Callable, Iterable

from delira.cli.migrate.source import Finding, Script

#: what looks for such lines
MEANINGS: tuple[Callable[[Script], Iterable[Finding]], ...] = ()
