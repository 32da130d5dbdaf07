"""What ``help()`` and editors show of the settings: a complete signature, and a text for each."""

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterable
from typing import Any

from delira.settings.config import PART_CLASSES, PARTS, PLAIN, TrainerConfig


def show_settings(method: Any, *more: inspect.Parameter, without: Iterable[str] = ()) -> None:
    """Let ``help()`` and notebooks see every keyword that the ``**settings`` of a method take.

    Parameters
    ----------
    method
        Gets a ``__signature__``.
    *more
        Keywords of its own among the ``**settings``.
    without
        Settings that it does not take.
    """
    own = [p for p in inspect.signature(method).parameters.values() if p.kind is not p.VAR_KEYWORD]
    method.__signature__ = settings_signature(*own, *more, without=without)


def settings_signature(*leading: inspect.Parameter, without: Iterable[str] = ()) -> inspect.Signature:
    """Signature with ``leading`` parameters and every flat keyword but for some."""
    taken = {*without, *(parameter.name for parameter in leading)}
    parameters = [*leading]
    for name, cls, field in _stated():
        if name not in taken:
            described = next(each for each in dataclasses.fields(cls) if each.name == field)
            default = None if described.default is dataclasses.MISSING else described.default
            default, kind = (False, bool | str) if name == "mixed_precision" else (default, described.type)
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    return inspect.Signature(parameters)


def settings_help() -> str:
    """Every flat keyword of trainers and experiments with its meaning, to be printed.

    The meanings are the texts below the fields; there are none where the source is not at hand.
    """
    lines: list[str] = []
    for name, cls, field in _stated():
        lines += [name, f"    {_field_texts(cls).get(field, '')}"]
    return "\n".join(lines)


def _stated() -> list[tuple[str, type, str]]:
    """Every flat keyword, with the class and the name of the field that state it."""
    plain: list[tuple[str, type, str]] = [(name, TrainerConfig, name) for name in PLAIN]
    return plain + [(name, PART_CLASSES[part], field) for name, (part, field) in PARTS.items()]


@functools.cache
def _field_texts(cls: type) -> dict[str, str]:
    """Return the strings below the fields of a dataclass."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError):
        return {}
    texts = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            texts[ast.unparse(field.target)] = str(below.value.value)
    return texts
