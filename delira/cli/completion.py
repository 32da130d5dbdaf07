"""``delira completion``: what a shell needs to complete commands and options."""

import argparse
from collections.abc import Iterator

from delira.cli.output import Answer
from delira.errors import import_optional

#: arguments that are folders
_FOLDERS = ("root", "run_folders", "run_folder", "export")


def run(options: argparse.Namespace) -> Answer:
    """Return the script of a shell.

    Parameters
    ----------
    options
        ``shell``: ``"bash"``, ``"zsh"``, ``"fish"`` or ``"tcsh"``; ``program``: the parser of all commands.

    Raises
    ------
    MissingBackendError
        If shtab is not installed.
    """
    shtab = import_optional("shtab", "the completion of shells", "delira[cli]")
    for action in _arguments_of(options.program):
        if action.dest in _FOLDERS or action.dest == "output":
            action.complete = shtab.FILE if action.dest == "output" else shtab.DIRECTORY  # type: ignore[attr-defined]
    script = shtab.complete(options.program, options.shell)
    return Answer({"shell": options.shell, "script": script}, script)


def _arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _arguments_of(command)
        else:
            yield action
