"""The command ``delira``: what can be done without writing a script."""

from delira.cli.main import main as main

__all__ = ["main"]
