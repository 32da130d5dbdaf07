"""``python -m delira.testing.spec my_package.my_backend`` runs the specification on backends and shows the table."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from delira.errors import ConfigError
from delira.testing.spec.check import check_backend, compare
from delira.testing.spec.under_test import BackendUnderTest
from delira.utils.files import publish_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Parameters
    ----------
    arguments
        Those of the command line if ``None``.

    Returns
    -------
    int
        Number of broken promises, at most 1.
    """
    parser = argparse.ArgumentParser(prog="python -m delira.testing.spec", description=__doc__)
    parser.add_argument("backends", nargs="+", help="module that holds a BackendUnderTest as BACKEND, or module:name")
    parser.add_argument("--only", action="append", help="a check or an area; may be given several times")
    parser.add_argument("--output", type=Path, help="file for the table of all backends, as Markdown")
    given = parser.parse_args(arguments)
    reports = []
    for place in given.backends:
        reports.append(check_backend(_load(place), given.only, raises=False))
        sys.stdout.write(f"{reports[-1]}\n")
    if given.output is not None:
        publish_text(given.output, compare(reports))
    return int(any(report.failures for report in reports))


def _load(place: str) -> BackendUnderTest:
    module, _, name = place.partition(":")
    tested = getattr(importlib.import_module(module), name or "BACKEND", None)
    if not isinstance(tested, BackendUnderTest):
        raise ConfigError(f"{module} has no BackendUnderTest called {name or 'BACKEND'!r}; name it as module:name")
    return tested


if __name__ == "__main__":
    sys.exit(main())
