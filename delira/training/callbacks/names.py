"""Names of files and pictures that are formats over the state and its metrics."""

import string
from collections.abc import Mapping
from typing import Any

from delira import state as keys
from delira.errors import ConfigError
from delira.state import State
from delira.utils.arrays import read_arrays, to_plain


def fields_of(template: str) -> set[str]:
    """Names of the fields of a format."""
    named = (field for _, field, _, _ in string.Formatter().parse(template) if field)
    return {field.partition(".")[0].partition("[")[0] for field in named}


def fill_in(template: str, state: State, who: str, further: Mapping[str, Any] | None = None) -> str:
    """A name whose fields are metrics, and entries of the state.

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
        If there is no such field.
    """
    metrics = {name: value for name, value in state.get(keys.METRICS, {}).items() if name != "epoch"}
    values = {str(key): value for key, value in state.items()} | metrics | dict(further or {})
    used = sorted(fields_of(template) & values.keys())
    arrays = [name for name in used if hasattr(values[name], "dtype")]
    fields = {name: values[name] for name in used}
    fields |= dict(zip(arrays, map(to_plain, read_arrays([fields[name] for name in arrays])), strict=True))
    try:
        return template.format_map(fields)
    except KeyError as error:
        raise ConfigError(
            f"{who}: the name {template!r} has the field {error}, but there is neither a metric of that name "
            f"({', '.join(metrics) or 'there are none'}) nor such an entry of the state"
        ) from None
