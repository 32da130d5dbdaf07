"""A log: what hands messages to handlers, each name as often as it is wanted; logs by name, and the one open here."""

import contextlib
import contextvars
import dataclasses
import functools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from delira.errors import ConfigError, check_functions, check_texts, did_you_mean, if_given
from delira.logging.handlers import Place
from delira.logging.messages import REDUCTIONS, Message, Reduction, kept, read, read_messages, reduce, refuse_traced

_log = logging.getLogger("delira")
#: the log that :func:`delira.logging.log` writes to
CURRENT: contextvars.ContextVar["MessageLogger | None"] = contextvars.ContextVar("delira_log", default=None)

Frequencies = int | Mapping[str, int]
Reductions = Reduction | Mapping[str, Reduction]


class MessageLogger:
    """Hands messages to handlers, each name as often as it is wanted.

    It is no logger of Python's registry: nothing reaches the root logger, and no other log has its handlers.

    Parameters
    ----------
    name
        For records, and for whoever asks for it.
    handlers
        Handlers of Python's logging.
    frequencies
        Of how many messages of a name one is shown; by name, or one number for all. Names without one: every message.
    reductions
        What the numbers since the last that was shown become: ``"last"``, ``"first"``, ``"mean"``, ``"median"``,
        ``"max"``, ``"min"``, or a function of an array of shape ``(n,)``; by name, or one for all.
    place
        Called without arguments, says where the run is.

    Raises
    ------
    ConfigError
        If a frequency or a reduction is impossible.

    Examples
    --------
    >>> import sys
    >>> from delira.logging import MultiStreamHandler
    >>> logger = MessageLogger("mine", [MultiStreamHandler(sys.stdout)], frequencies=2, reductions="mean")
    >>> for value in (1.0, 2.0, 3.0, 6.0):
    ...     logger.log({"value": {"value": value, "name": "loss"}})
    {'value': {'value': 1.5, 'name': 'loss'}}
    {'value': {'value': 4.5, 'name': 'loss'}}
    """

    def __init__(
        self,
        name: str,
        handlers: Iterable[logging.Handler] = (),
        frequencies: Frequencies = 1,
        reductions: Reductions = "last",
        place: Callable[[], Place | None] | None = None,
    ):
        check_texts(self, name=name)
        check_frequencies(frequencies)
        check_reductions(reductions)
        check_functions(self, **if_given(place=place))
        listed = list(handlers) if isinstance(handlers, Iterable) else []
        if not isinstance(handlers, Iterable) or not all(isinstance(handler, logging.Handler) for handler in listed):
            raise ConfigError(f"MessageLogger: handlers are handlers of Python's logging, got {handlers!r}")
        self.name, self.frequencies, self.reductions = name, frequencies, reductions
        self._place, self._process = place or (lambda: None), os.getpid()
        self._counts: Counter[str] = Counter()
        self._held: dict[str, list[Any]] = {}
        #: names that were logged
        self.seen: set[str] = set()
        #: what messages are handed to
        self.handlers: list[logging.Handler] = list(dict.fromkeys(listed))

    def add_handler(self, handler: logging.Handler) -> None:
        """Hand messages to one more handler.

        Parameters
        ----------
        handler
            A handler of Python's logging.
        """
        if handler not in self.handlers:
            self.handlers.append(handler)

    def log(self, message: Mapping[str, Any], *, place: Place | None = None) -> None:
        """Log a message; it is not changed.

        Parameters
        ----------
        message
            What is to be shown, by kind, e.g. ``{"value": {"value": 0.5, "name": "loss"}}``.
        place
            Where the run is; None: asked for. With one, frequencies do not count: who knows it has counted.

        Raises
        ------
        ConfigError
            If it is no message, or logged in a compiled step.
        """
        if not isinstance(message, Mapping):
            what = type(message).__name__
            raise ConfigError(f"a message is a dict like {{'value': {{'value': 0.5, 'name': 'loss'}}}}, got a {what}")
        if self._process != os.getpid():  # files and connections are those of the process that opened them
            tell_once("log was called in a worker process, which has no log, so the message goes nowhere")
            return
        if not self.handlers:
            tell_once(f"the log {self.name!r} has no handler, so messages go nowhere: give save_path or logging_type")
            return
        for (key, content), one in zip(message.items(), self._read(message), strict=True):
            if one is None:
                self._emit({key: content}, [], place)
                continue
            refuse_traced(one)
            due = self._due(one) if place is None else one
            if due is not None:
                self._emit({key: content} if due is one else _rewritten(key, due), [read(due)], place)

    def _read(self, message: Mapping[str, Any]) -> list[Message | None]:
        """Return what is known of a message; kinds that are not are for handlers of others, if there are some."""
        has_foreign = any(getattr(handler, "takes_any_kind", True) for handler in self.handlers)
        found: list[Message | None] = []
        for key, content in message.items():
            try:
                found += read_messages({key: content})
            except ConfigError:
                if not has_foreign:
                    raise
                found.append(None)
        return found

    def _emit(self, shown: Mapping[str, Any], messages: list[Message], place: Place | None) -> None:
        record = logging.LogRecord(f"delira.{self.name}", logging.INFO, "", 0, shown, None, None)
        record.place, record.messages = place or self._place(), messages
        for handler in self.handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def _due(self, message: Message) -> Message | None:
        """Return the message that is to be shown now, if one is: it, or what is left of several."""
        name = message.name
        self.seen.add(name)
        every, how = of_name(self.frequencies, name, 1), of_name(self.reductions, name, "last")
        if every == 1:
            return message
        self._counts[name] += 1
        is_reduced = message.kind == "scalar" and how != "last"
        if is_reduced:
            self._held.setdefault(name, []).append(kept(message.value))
        if self._counts[name] % every:
            return None
        return dataclasses.replace(message, value=reduce(self._held.pop(name), how)) if is_reduced else message

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive a restart: counters, and numbers that wait for others; they are read."""
        held = {name: [float(reduce([value], "last")) for value in values] for name, values in self._held.items()}
        parts = {"counts": dict(self._counts), "held": held}
        return {name: part for name, part in parts.items() if part}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._counts = Counter(state.get("counts", {}))
        self._held = {name: list(values) for name, values in state.get("held", {}).items()}

    def flush(self) -> None:
        """Let readers see what was written."""
        for handler in self.handlers:
            handler.flush()

    def close(self, keep: Iterable[logging.Handler] = ()) -> None:
        """Close the handlers, and let go of them.

        Parameters
        ----------
        keep
            Handlers that are only flushed.
        """
        kept = {id(handler) for handler in keep}
        while self.handlers:
            handler = self.handlers.pop(0)
            try:
                handler.flush()
                if id(handler) not in kept:
                    handler.close()
            except Exception:  # what logs must not fail what is logged
                _log.warning("%s could not be closed", handler, exc_info=True)

    @contextlib.contextmanager
    def opened(self) -> Any:
        """Scope in which :func:`log` writes to this log."""
        token = CURRENT.set(self)
        try:
            yield self
        finally:
            CURRENT.reset(token)

    def __repr__(self) -> str:
        return f"MessageLogger({self.name!r}, {self.handlers})"


@functools.cache
def tell_once(text: str) -> None:
    """Warn of something, and not again in this process."""
    _log.warning("%s", text)


def of_name(given: Any, name: str, default: int | str) -> Any:
    """Return the frequency, or the reduction, of a name: one is given for all, or several by name."""
    return given.get(name, default) if isinstance(given, Mapping) else given


def check_frequencies(frequencies: object, setting: str = "frequencies") -> None:
    """Refuse anything but a positive integer, or several by name."""
    for where, value in _by_place(frequencies, setting):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{where} must be an integer of at least 1 (of how many one is shown), got {value!r}")


def check_reductions(reductions: object, setting: str = "reductions") -> None:
    """Refuse anything but the name of a reduction, or a function, or several by name."""
    for where, how in _by_place(reductions, setting):
        if not callable(how) and not (isinstance(how, str) and how in REDUCTIONS):
            raise ConfigError(f"{where} must be one of {', '.join(map(repr, REDUCTIONS))}, or a function, got {how!r}")


def _by_place(given: object, setting: str) -> list[tuple[str, object]]:
    """Return the values of a setting, each with the place where it stands."""
    named = given if isinstance(given, Mapping) else {"": given}
    return [(f"{setting}[{name!r}]" if name else setting, value) for name, value in named.items()]


def _rewritten(key: str, message: Message) -> dict[str, Any]:
    """Return the message of a number that stands for several."""
    step = {} if message.step is None else {"counter": message.step}
    appendix = {"env_appendix": message.appendix} if message.appendix else {}
    return {key: {"value": message.value, "name": message.name, **step, **appendix, **message.options}}


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
