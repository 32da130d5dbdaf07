"""Names of files and pictures that are formats over the state and its metrics."""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira import state as keys
from delira.callbacks.monitor import plain_values, trainer_of
from delira.errors import ConfigError
from delira.state import State


def fields_of(template: str) -> set[str]:
    """Return names of the fields of a format."""
    named = (field for _, field, _, _ in string.Formatter().parse(template) if field)
    return {field.partition(".")[0].partition("[")[0] for field in named}


def fill_in(template: str, state: State, who: str, further: Mapping[str, Any] | None = None) -> str:
    """Return a name whose fields are metrics, entries of the state, and ``fold``.

    Parameters
    ----------
    template
        The format, e.g. ``"{epoch:02d}-{val_loss:.2f}"``.
    state
        Of the fit.
    who
        For the message.
    further
        Fields that go before both.

    Raises
    ------
    ConfigError
        If there is no such field, or it cannot be written so.
    """
    metrics = {name: value for name, value in state.get(keys.METRICS, {}).items() if name != "epoch"}
    values = {str(key): value for key, value in state.items()} | {"fold": _fold(state)} | metrics | dict(further or {})
    try:
        fields = {name: values[name] for name in fields_of(template) & values.keys()}
        fields |= plain_values({name: value for name, value in fields.items() if hasattr(value, "dtype")})
        return template.format_map(fields)
    except KeyError as error:
        raise ConfigError(
            f"{who}: the name {template!r} has the field {error}, but there is neither a metric of that name "
            f"({', '.join(metrics) or 'there are none'}) nor such an entry of the state"
        ) from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{who}: the name {template!r} cannot be filled in: {error}") from None


def path_of(template: str, state: State, who: str, further: Mapping[str, Any] | None = None) -> Path:
    """Return the file of a name that :func:`fill_in` fills in; see :func:`of_fold`."""
    path = Path(fill_in(template, state, who, further))
    return path if "fold" in fields_of(template) else of_fold(path, state)


def of_fold(path: Path, state: State) -> Path:
    """Return the file of the fold at hand: ``<name>_fold_1.<ending>`` and so on for the further ones.

    Parameters
    ----------
    path
        The file of the first fold, or of what has no folds. A number with a point in it is no ending.
    state
        Of the fit.
    """
    fold, ending = _fold(state), path.suffix if path.suffix[1:].isalpha() else ""
    return path.with_name(f"{path.name.removesuffix(ending)}_fold_{fold}{ending}") if fold else path


def _fold(state: State) -> int:
    return getattr(trainer_of(state), "fold", 0)
