"""Messages for loggers of trixi, and whatever else has methods like ``show_value``."""

import inspect
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.logging.handlers import MessageHandler, Place
from delira.logging.messages import KINDS, Message, read_messages, split
from delira.logging.values import plain, read

PREFIXES = ("show_", "plot_", "save_", "get_", "")
#: kind -> what trixi calls it, and its value
_TRIXI = {
    "scalar": ("value", "value"),
    "image": ("image", "image"),
    "image_grid": ("image_grid", "image_array"),
    "histogram": ("histogram", "array"),
    "text": ("text", "text"),
    "figure": ("matplot_plt", "plt"),
    "line": ("lineplot", "y_vals"),
    "scatter": ("scatterplot", "array"),
    "bar": ("barplot", "array"),
    "pie": ("piechart", "array"),
    "boxplot": ("boxplot", "array"),
    "contour": ("contourplot", "x_vals"),
    "surface": ("surfaceplot", "x_vals"),
}


class TrixiHandler(MessageHandler):
    """Hand messages to a logger of trixi: a message ``{"value": {...}}`` to its method ``show_value``.

    For each key of a message every method is called that the logger has of ``show_<key>``, ``plot_<key>``,
    ``save_<key>``, ``get_<key>`` and ``<key>``, with the arguments of the message. If there is none, the message is
    handed over as trixi calls its kind. What the logger has no method for is left out.

    Parameters
    ----------
    logging_cls
        The class of the logger, or a logger; any object with methods ``show_...``.
    level
        Records below it are left out.
    *args, **kwargs
        Arguments of the class.

    Raises
    ------
    ConfigError
        If the class has no method ``show_...``.

    Examples
    --------
    >>> import logging
    >>> class Printer:
    ...     def show_value(self, value, name, counter=None):
    ...         print(name, value)
    >>> logger = logging.Logger("mine")
    >>> logger.addHandler(TrixiHandler(Printer))
    >>> logger.info({"value": {"args": [0.5], "kwargs": {"name": "loss"}}})
    loss 0.5
    """

    takes_any_kind = True

    def __init__(self, logging_cls: object, level: int | str = logging.NOTSET, *args: Any, **kwargs: Any):
        if not is_trixi(logging_cls):
            raise ConfigError(f"TrixiHandler takes a logger with methods like show_value, or its class; {logging_cls!r}"
                              " has none")  # fmt: skip
        if not isinstance(logging_cls, type) and (args or kwargs):
            raise ConfigError("TrixiHandler was given a logger that is made already, and arguments to make it with")
        # Python closes every handler at its end, also one that could not be made
        self.logger: Any = None
        super().__init__(level)
        self.logger = logging_cls(*args, **kwargs) if isinstance(logging_cls, type) else logging_cls

    def emit(self, record: logging.LogRecord) -> None:
        """Call the methods of the logger for every key of a message."""
        if not isinstance(record.msg, Mapping):
            return
        place = getattr(record, "place", None)
        known = getattr(record, "messages", None)
        for position, (key, content) in enumerate(record.msg.items()):
            try:
                if not (isinstance(key, str) and self._call(key, *split(content))) and key in KINDS:
                    message = known[position] if known else read(*read_messages({key: content}))
                    self.show(self._placed(message, place), place)
            except Exception:
                self.handleError(record)

    def show(self, message: Message, place: Place | None) -> None:
        """Hand a message over as trixi calls it."""
        if message.kind not in _TRIXI:
            return
        key, value_name = _TRIXI[message.kind]
        named = {value_name: message.value, "name": message.name, "counter": message.step, **message.options}
        if message.appendix:
            named["env_appendix"] = message.appendix
        self._call(key, [], named)

    def _call(self, key: str, args: list[Any], named: dict[str, Any]) -> bool:
        """Call every method for a key; whether there is one."""
        methods = [getattr(self.logger, prefix + key, None) for prefix in PREFIXES]
        called = [method for method in methods if callable(method)]
        for method in called:
            method(*map(_readable, args), **_accepted(method, {name: _readable(each) for name, each in named.items()}))
        return bool(called)

    def flush(self) -> None:
        """Let the logger write what it holds, if it can."""
        if callable(flush := getattr(self.logger, "flush", None)):
            flush()

    def close(self) -> None:
        """Close the logger, if it can be, or its writer."""
        for owner in (self.logger, getattr(self.logger, "writer", None)):
            if callable(close := getattr(owner, "close", None)):
                close()
                break
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.logger).__name__})"


def is_trixi(candidate: object) -> bool:
    """Return True if something has methods like ``show_value``."""
    return any(name.startswith("show_") and callable(getattr(candidate, name, None)) for name in dir(candidate))


def _readable(value: object) -> Any:
    """As loggers of old know it: an array of a framework as one of numpy, one of a single number as that number."""
    value = plain(value)
    return value.item() if isinstance(value, np.ndarray) and not value.shape else value


def _accepted(method: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Without the step and the appendix where the method takes none."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return named
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return named
    return {
        name: value for name, value in named.items() if name in parameters or name not in ("counter", "env_appendix")
    }
