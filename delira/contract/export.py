"""The role of a backend that writes networks as programs of their own."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from delira.contract.kinds import ByName, Network, Role
from delira.errors import ConfigError, DataError
from delira.io.program import Program
from delira.utils.arrays import iterate_leaves


class ExportRole(Role):
    """Networks for other programs. In the plain case there is no format for them."""

    role = "export"

    def write(self, network: Network, path: Path, example: ByName) -> None:
        """Write the network as a program that runs without delira; ``path`` says the format by its ending.

        ``example`` holds arguments of the network by name.
        """
        raise ConfigError(f"networks of the backend {self.backend.name!r} cannot be exported")

    def write_program(self, program: Program, path: Path, example: ByName) -> None:
        """Write several networks, or one with what is done to its inputs, as one program, as :meth:`write` does.

        ``example`` holds inputs of the program by name. The program is a function of arrays of the framework,
        ``program.compute(networks, inputs)``.
        """
        raise ConfigError(
            f"networks of the backend {self.backend.name!r} cannot be exported as one program, or with preprocessing"
        )


def check_samples(inputs: ByName, kinds: tuple[type[Any], ...]) -> None:
    """Refuse inputs that are no arrays with the same number of samples first.

    Parameters
    ----------
    inputs
        A tree of arguments.
    kinds
        Classes of arrays.

    Raises
    ------
    DataError
        Naming the inputs.
    """
    lengths = {}
    for place, leaf in iterate_leaves(inputs):
        name = ".".join(map(str, place))
        if not isinstance(leaf, kinds):
            raise DataError(f"input {name!r} of the example is a {type(leaf).__name__}; an array is needed")
        lengths[name] = leaf.shape[0] if len(leaf.shape) else None
    if len(set(lengths.values())) != 1 or not all(lengths.values()):
        raise DataError(
            "the inputs of the example need the samples first, at least one and in each the same number; "
            f"their first axes are {lengths}"
        )


@contextlib.contextmanager
def noting(note: str, spared: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Scope whose errors say what was done; those of ``spared`` classes say it already."""
    try:
        yield
    except spared:
        raise
    except Exception as error:
        error.add_note(note)
        raise


@contextlib.contextmanager
def quiet(loggers: Sequence[str]) -> Iterator[None]:
    """Scope in which the loggers of a framework tell errors only."""
    found = [logging.getLogger(name) for name in loggers]
    levels = [logger.level for logger in found]
    try:
        for logger in found:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(found, levels, strict=True):
            logger.setLevel(level)
