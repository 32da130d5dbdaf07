"""Logs by name, the log that is open here, and :func:`log`, which writes to it."""

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from delira.errors import ConfigError
from delira.logging.logger import (
    CURRENT,
    Frequencies,
    MessageLogger,
    Reductions,
    check_frequencies,
    check_reductions,
    tell_once,
)
from delira.utils.checks import check_texts
from delira.utils.suggest import did_you_mean

_NAMED: dict[str, MessageLogger] = {}


class LoggingContext:
    """Scope in which :func:`log` writes to a log: one with the given handlers, or one that has this name already.

    Parameters
    ----------
    name
        Name of the log, or a :class:`MessageLogger`.
    *handlers
        Handlers of a new log, which are closed at the end. Without any, the log must be there.
    frequencies, reductions
        Of a new log, as for :class:`MessageLogger`.

    Raises
    ------
    ConfigError
        If there is no log of this name and no handler was given, or a log of this name and handlers.

    Examples
    --------
    >>> import sys
    >>> from delira.logging import MultiStreamHandler
    >>> with LoggingContext("mine", MultiStreamHandler(sys.stdout)):
    ...     log({"text": "logged in the context"})
    {'text': 'logged in the context'}
    """

    def __init__(
        self,
        name: "str | MessageLogger",
        *handlers: logging.Handler,
        frequencies: Frequencies = 1,
        reductions: Reductions = "last",
    ):
        if not isinstance(name, MessageLogger):
            check_texts(self, name=name)
        check_frequencies(frequencies)
        check_reductions(reductions)
        self._given, self._handlers = name, handlers
        self._settings: dict[str, Any] = {"frequencies": frequencies, "reductions": reductions}
        self._stack: list[contextlib.ExitStack] = []

    def __enter__(self) -> MessageLogger:
        stack = contextlib.ExitStack()
        if isinstance(self._given, MessageLogger):
            logger = self._given
        elif not self._handlers:
            logger = get_logger(self._given)
        else:
            logger = make_logger(self._given, *self._handlers, **self._settings)
            stack.callback(close_logger, self._given)
        stack.enter_context(logger.opened())
        self._stack.append(stack)
        return logger

    def __exit__(self, *error: Any) -> None:
        self._stack.pop().close()


def make_logger(
    name: str, *handlers: logging.Handler, frequencies: Frequencies = 1, reductions: Reductions = "last"
) -> MessageLogger:
    """Make a log that :func:`log` and :func:`get_logger` know by its name, until :func:`close_logger`.

    Parameters
    ----------
    name
        Its name.
    *handlers
        Handlers of Python's logging; the log closes them.
    frequencies, reductions
        As for :class:`MessageLogger`.

    Raises
    ------
    ConfigError
        If there is a log of this name.
    """
    logger = MessageLogger(name, handlers, frequencies, reductions)
    if _NAMED.setdefault(name, logger) is not logger:  # at once, also where threads make logs
        raise ConfigError(f"there is a log {name!r} already; call close_logger({name!r}), or use another name")
    return logger


def close_logger(name: str) -> None:
    """Close a log and its handlers, and forget it.

    Parameters
    ----------
    name
        Its name; of none nothing happens.
    """
    check_texts("close_logger", name=name)
    if (logger := _NAMED.pop(name, None)) is not None:
        logger.close()


def get_logger(name: str | None = None) -> MessageLogger:
    """Return the log of a name, or the one that is open here.

    Parameters
    ----------
    name
        None: the log of the innermost :class:`LoggingContext`, or of the training that runs here.

    Raises
    ------
    ConfigError
        If there is none.
    """
    if name is not None:
        check_texts("get_logger", name=name)
        if name not in _NAMED:
            raise ConfigError(f"there is no log {name!r}{did_you_mean(name, _NAMED)}; make one by make_logger")
        return _NAMED[name]
    if (logger := CURRENT.get()) is None:
        raise ConfigError("no log is open here: no training runs, and there is no LoggingContext")
    return logger


def log(message: Mapping[str, Any], name: str | None = None) -> None:
    """Log a message: in a closure or a callback to the log of the training.

    Parameters
    ----------
    message
        What is to be shown, by kind, e.g. ``{"value": {"value": 0.5, "name": "loss"}}``; it is not changed.
    name
        A log of :func:`make_logger`; None: the one that is open here. If none is, that is told once.

    Raises
    ------
    ConfigError
        If it is no message, if there is no log of this name, or in a step that is compiled.

    Examples
    --------
    >>> import sys
    >>> from delira.logging import MultiStreamHandler
    >>> with LoggingContext("mine", MultiStreamHandler(sys.stdout)):
    ...     log({"value": {"value": 0.5, "name": "loss"}})
    {'value': {'value': 0.5, 'name': 'loss'}}
    """
    if name is None and CURRENT.get() is None:
        tell_once("log was called where no training runs and no LoggingContext is open, so the message goes nowhere")
        return
    get_logger(name).log(message)
