"""What ``help()`` and editors show of the settings: a complete signature, and a text for each."""

import ast
import dataclasses
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
    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = {*without, *(parameter.name for parameter in leading)}
    parameters = [*leading]
    for name in (*PLAIN, *PARTS):
        if name in taken:
            continue
        owner, field = PARTS.get(name, (None, name))
        cls = TrainerConfig if owner is None else PART_CLASSES[owner]
        described = next(f for f in dataclasses.fields(cls) if f.name == field)
        default = None if described.default is dataclasses.MISSING else described.default
        kind = described.type
        if name == "mixed_precision":
            default, kind = False, bool | str
        parameters.append(inspect.Parameter(name, keyword, default=default, annotation=kind))
    return inspect.Signature(parameters)


def settings_help() -> str:
    """Every flat keyword of trainers and experiments with its meaning, to be printed.

    The meanings are the texts below the fields; there are none where the source is not at hand.
    """
    texts: dict[tuple[str, str], str] = {}
    for owner in (TrainerConfig, *PART_CLASSES.values()):
        for field, text in _field_texts(owner).items():
            texts[owner.__name__, field] = text
    lines: list[str] = []
    for name in (*PLAIN, *PARTS):
        part, field = PARTS.get(name, ("", name))
        owner = PART_CLASSES.get(part, TrainerConfig)
        lines += [name, f"    {texts.get((owner.__name__, field), '')}"]
    return "\n".join(lines)


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
