"""Docstrings that are written once, for classes that differ by their framework only."""

import inspect
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def described_by_base(cls: _Class) -> _Class:
    """Show the docstring of the first base below the class' own; a decorator.

    Parameters
    ----------
    cls
        The class of a backend.
    """
    docstrings = (cls.__doc__, cls.__bases__[0].__doc__)
    cls.__doc__ = "\n\n".join(inspect.cleandoc(text) for text in docstrings if text)  # none of them with python -OO
    return cls
