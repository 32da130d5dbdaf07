"""Which parameters of a function a call fills by position."""

import inspect
from collections.abc import Mapping


def positional(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    """Those that can go by position; ``*args`` is none."""
    return [one for one in parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def needed(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    """Those of them that have no default."""
    return [one for one in positional(parameters) if one.default is one.empty]


def has_more(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether any number of further ones goes by position: ``*args``."""
    return any(one.kind is one.VAR_POSITIONAL for one in parameters.values())
