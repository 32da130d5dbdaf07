"""Handlers of Python's logging that show messages; a record whose message is no dictionary is none of them."""

import dataclasses
import itertools
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from delira.errors import ConfigError
from delira.logging.drawing import draw, pixels_of
from delira.logging.messages import PLOTS, Message, read_messages
from delira.logging.values import read

_log = logging.getLogger("delira")


def check_level(owner: object, level: int | str) -> None:
    """Refuse what is no level of Python's logging.

    Raises
    ------
    ConfigError
        If it is none.
    """
    known = logging.getLevelNamesMapping()
    is_known = level in known if isinstance(level, str) else isinstance(level, int)
    if isinstance(level, bool) or not is_known:
        raise ConfigError(f"{type(owner).__name__}: level is a number, or one of {', '.join(known)}, got {level!r}")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a run is when it logs a message."""

    axis: str
    """``"epoch"`` for what belongs to a whole epoch, ``"step"`` for all else."""

    step: int
    """The place on that axis, from 1: number of the epoch, or of the update."""

    epoch: int
    """Number of the epoch, from 1."""

    fold: int
    """Fold of the cross-validation."""


class MessageHandler(logging.Handler):
    """Base of handlers that show messages: a subclass writes one by :meth:`show`.

    A handler may be added to any logger of Python, whose ``info`` is called with messages, or be given to a training.
    What cannot be written is told once, and the training goes on.

    Parameters
    ----------
    level
        Records below it are left out.

    Examples
    --------
    >>> import logging
    >>> class Names(MessageHandler):
    ...     def show(self, message, place):
    ...         print(message.kind, message.name, message.value, message.step)
    >>> logger = logging.Logger("mine")
    >>> logger.addHandler(Names())
    >>> logger.info({"value": {"value": 0.5, "name": "loss"}})
    scalar loss 0.5 0
    >>> logger.info({"value": {"value": 0.4, "name": "loss"}})
    scalar loss 0.4 1
    """

    #: whether it may show messages of kinds that delira does not know
    takes_any_kind = False
    #: whether the training that it is closed after was broken off; trackers say so of their runs
    has_failed = False

    def __init__(self, level: int | str = logging.NOTSET):
        check_level(self, level)
        super().__init__(level)
        self._steps: defaultdict[tuple[str, str], Iterator[int]] = defaultdict(itertools.count)
        self._is_told = False

    def emit(self, record: logging.LogRecord) -> None:
        """Show the messages of a record."""
        if not isinstance(record.msg, Mapping):
            return
        try:
            place, known = getattr(record, "place", None), getattr(record, "messages", None)
            for message in map(read, read_messages(record.msg)) if known is None else known:
                self.show(self._placed(message, place), place)
        except Exception:  # as every handler of Python: what logs must not fail because of it
            self.handleError(record)

    def show(self, message: Message, place: Place | None) -> None:
        """Write one message; its values are those of numpy, and its step is known.

        Parameters
        ----------
        message
            What is shown.
        place
            Where the run is; None outside of one.
        """
        raise NotImplementedError

    def continue_from(self, epoch: int, step: int) -> None:
        """Hide what was written after a checkpoint; called before a run, at 0 if it is new.

        Parameters
        ----------
        epoch
            Epochs that are done.
        step
            Updates that are done.
        """

    def handleError(self, record: logging.LogRecord) -> None:
        """Tell the first failure."""
        if not self._is_told:
            self._is_told = True
            _log.warning("%s cannot write a message; further failures are not told", self, exc_info=True)

    def __repr__(self) -> str:
        return type(self).__name__

    def __deepcopy__(self, memo: object) -> Self:
        return self  # open files and connections are not doubled

    def _placed(self, message: Message, place: Place | None) -> Message:
        """With a step: that of the message, of the run, or how often this name came before."""
        if message.step is not None:
            return message
        step = next(self._steps[message.kind, message.name]) if place is None else place.step
        return dataclasses.replace(message, step=step)


class CombinedHandler(logging.Handler):
    """Hand every record to several handlers.

    Parameters
    ----------
    handlers
        The handlers, closed with this one.
    level
        Records below it are left out.
    """

    def __init__(self, handlers: Sequence[logging.Handler], level: int | str = logging.NOTSET):
        check_level(self, level)
        super().__init__(level)
        self.handlers = list(handlers)

    @property
    def takes_any_kind(self) -> bool:
        """Return True if one of them may show messages of kinds that delira does not know."""
        return any(getattr(handler, "takes_any_kind", True) for handler in self.handlers)

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record on, to those whose level it has."""
        for handler in self.handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def continue_from(self, epoch: int, step: int) -> None:
        """See :meth:`MessageHandler.continue_from`."""
        for handler in self.handlers:
            if isinstance(handler, (MessageHandler, CombinedHandler)):
                handler.continue_from(epoch, step)

    def flush(self) -> None:
        """Flush all."""
        for handler in self.handlers:
            handler.flush()

    def close(self) -> None:
        """Close all; streams that were given stay open."""
        for handler in self.handlers:
            handler.close()
        super().close()

    def __deepcopy__(self, memo: object) -> Self:
        return self


class MultiStreamHandler(CombinedHandler):
    r"""Write every record to several streams, as lines of text.

    Parameters
    ----------
    *streams
        Files that are open for writing text, e.g. ``sys.stdout``; they stay open.
    level
        Records below it are left out.

    Examples
    --------
    >>> import io, logging
    >>> one, other = io.StringIO(), io.StringIO()
    >>> logger = logging.Logger("mine")
    >>> logger.addHandler(MultiStreamHandler(one, other))
    >>> logger.info({"text": "half of it is done"})
    >>> one.getvalue() == other.getvalue() == "{'text': 'half of it is done'}\n"
    True
    """

    def __init__(self, *streams: Any, level: int | str = logging.NOTSET):
        for stream in streams:
            if not hasattr(stream, "write"):
                raise ConfigError(f"{type(self).__name__}: a stream is a file or sys.stdout, got {stream!r}")
        super().__init__([logging.StreamHandler(stream) for stream in streams], level)

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        """Use a formatter for all streams."""
        super().setFormatter(fmt)
        for handler in self.handlers:
            handler.setFormatter(fmt)


#: the spelling of the introduction of the old library
MultistreamHandler = MultiStreamHandler


def as_picture(message: Message) -> Any:
    """The pixels of a message that is a picture, or can be drawn as one, of shape ``(c, h, w)``; None of another."""
    if message.kind in ("image", "image_grid"):
        return message.value
    if message.kind == "figure":
        return pixels_of(message.value)
    return pixels_of(draw(message)) if message.kind in PLOTS else None


def own_appendix(message: Message, place: Place | None) -> str:
    """``env_appendix`` of a message, if it is not that of the run's own fold, whose files are apart anyway."""
    is_of_fold = place is not None and message.appendix == f"_{place.fold:02d}"
    return "" if is_of_fold else message.appendix
