"""``delira fetch``: a run that was mirrored, brought to this disk."""

import argparse

from delira.cli.output import Answer
from delira.execution import fetch


def run(options: argparse.Namespace) -> Answer:
    """Bring a run, with all of its files.

    Parameters
    ----------
    options
        ``url``, of a run, an experiment or a mirror; ``out``, the folder that it goes below.

    Raises
    ------
    ConfigError
        If there is none, or another one has its folder.
    MirrorError
        If the store does not give it.
    """
    path = fetch(options.url, options.out)
    return Answer({"path": str(path)}, f"folder  {path}")
