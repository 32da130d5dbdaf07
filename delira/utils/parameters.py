"""Which parameters of a function a call fills by position."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def positional(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    """Return those that can go by position; ``*args`` is none."""
    return [one for one in parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def needed(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    """Return those of them that have no default."""
    return [one for one in positional(parameters) if one.default is one.empty]


def has_more(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Return True if any number of further ones goes by position: ``*args``."""
    return any(one.kind is one.VAR_POSITIONAL for one in parameters.values())


def parameters_of_method(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Parameters by name, also of what TorchScript traced, froze or loaded, which has a schema and no signature.

    Parameters
    ----------
    method
        A function, or a bound method.

    Raises
    ------
    TypeError, ValueError
        If nothing says what it takes.
    """
    try:
        return inspect.signature(method).parameters
    except ValueError:
        arguments = getattr(getattr(method, "schema", None), "arguments", None)
        if arguments is None:
            raise
    return {
        one.name: inspect.Parameter(
            one.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=one.default_value if one.has_default_value() else inspect.Parameter.empty,
        )
        for one in arguments
        if one.name != "self"
    }
