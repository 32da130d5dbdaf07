"""A line on the terminal when numbers take longer than somebody waits without a word."""

import sys
import time

SECONDS = 3.0
"""Nothing is said before."""


class Progress:
    """Says on standard error what is computed, if it takes longer than three seconds; on a terminal in one line.

    Examples
    --------
    >>> progress = Progress()
    >>> progress.tell("f1", 10, 2000)
    >>> progress.close()
    """

    def __init__(self) -> None:
        self._since = self._told = time.monotonic()
        self._is_open = False

    def tell(self, name: str, done: int, total: int) -> None:
        """So many of all evaluations of a metric are done."""
        now = time.monotonic()
        if now - self._told < SECONDS:
            return
        self._told = now
        is_terminal = sys.stderr.isatty()
        text = f"interval of {name}: {done:,} of {total:,} evaluations, {now - self._since:.0f} s so far"
        sys.stderr.write(f"\r\x1b[K{text}" if is_terminal else f"{text}\n")
        sys.stderr.flush()
        self._is_open = is_terminal

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._is_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_open = False
