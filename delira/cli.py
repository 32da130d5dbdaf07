"""The command ``delira``: what can be done without writing a script."""

import argparse
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments
        Words after ``delira``; those of the process if ``None``.
    """
    parser = argparse.ArgumentParser(prog="delira", description="Write a network once and get the whole experiment.")
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    doctor = commands.add_parser("doctor", help="what is installed, what is missing or broken, and how to install it")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.set_defaults(run=_doctor)
    options = parser.parse_args(arguments)
    return int(options.run(options))


def _doctor(options: argparse.Namespace) -> int:
    """Print the findings; 1 if something that is installed does not work."""
    from delira.utils.doctor import examine

    findings = examine()
    print(findings.to_json() if options.json else findings)
    return 1 if findings.is_broken else 0
