"""Handlers of Python's logging that show messages, in streams and files; a record of no dictionary is no message."""

import dataclasses
import itertools
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, Self

import numpy as np

from delira.errors import ConfigError, check_paths, check_texts, import_optional
from delira.logging.messages import PLOTS, Message, read, read_messages
from delira.utils import files, pictures
from delira.utils.owned import check_ours

_log = logging.getLogger("delira")

#: seconds between two looks at whether a folder is still this process's
_LOOK = 1.0


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
    #: whether there is a message that it could not write
    has_missed = False

    def __init__(self, level: int | str = logging.NOTSET):
        check_level(self, level)
        super().__init__(level)
        self._steps: defaultdict[tuple[str, str], Iterator[int]] = defaultdict(itertools.count)

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
        if not self.has_missed:
            self.has_missed = True
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


def name_of(message: Message, place: Place | None) -> str:
    """Return the name with ``env_appendix``, if that is not of the run's own fold, whose files are apart anyway."""
    is_of_fold = place is not None and message.appendix == f"_{place.fold:02d}"
    return message.name if is_of_fold else message.name + message.appendix


def draw(message: Message) -> Any:
    """Return a figure of matplotlib with the plot of a message whose values are those of numpy."""
    figure = import_optional("matplotlib.figure", "a plot", "matplotlib").Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots(subplot_kw={"projection": "3d"} if message.kind == "surface" else None)
    values, given = np.asarray(message.value), message.given
    match message.kind:
        case "histogram":
            axes.hist(values[np.isfinite(values)], bins=given("bins", "numbins", default=30))
        case "line":
            x = given("x_vals", "x", "X")
            axes.plot(np.arange(len(values)) if x is None else np.asarray(x), values)
        case "scatter":
            axes.scatter(values[:, 0], values[:, 1], c=given("labels", "Y"))
        case "bar":
            names = given("legend", "rownames")
            axes.bar(np.arange(values.size), values.ravel(), tick_label=None if names is None else [*map(str, names)])
        case "pie":
            axes.pie(values.ravel(), labels=given("legend", "labels"))
        case "boxplot":
            axes.boxplot(values)
        case "heatmap":
            figure.colorbar(axes.imshow(values, aspect="auto"))
        case "contour":
            axes.contour(values)
        case "surface":
            rows, columns = np.indices(values.shape)
            axes.plot_surface(columns, rows, values, cmap="viridis")
    axes.set_title(message.name)
    return figure


def pixels_of(figure: Any) -> np.ndarray:
    """Return a figure as a picture: float32 in [0, 1] of shape ``(3, h, w)``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = np.asarray(canvas.buffer_rgba())[..., :3]
    return np.moveaxis(shown, -1, 0).astype(np.float32) / 255


class ImgSaveHandler(MessageHandler):
    """Write images, grids, figures and plots as files ``<name>_<step>.png``; all other messages are left out.

    Parameters
    ----------
    folder
        Where the files go; made when the first is written.
    level
        Records below it are left out.
    file_format
        Ending of the files: what Pillow can write, e.g. ``".png"``.

    Raises
    ------
    MissingBackendError
        If Pillow is not installed.

    Examples
    --------
    >>> import logging, pathlib, tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     logger = logging.Logger("mine")
    ...     logger.addHandler(ImgSaveHandler(folder))
    ...     logger.info({"image": {"image": np.zeros((3, 8, 8)), "name": "black"}})
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['black_000000.png']
    """

    def __init__(self, folder: str | Path, level: int | str = logging.NOTSET, file_format: str = ".png"):
        image: Any = import_optional("PIL.Image", type(self).__name__, "delira[images]")
        super().__init__(level)
        check_paths(self, folder=folder)
        self.folder, self.file_format = Path(folder).absolute(), file_format
        image.init()
        check_texts(self, file_format=file_format)
        if file_format.lower() not in image.registered_extensions():
            raise ConfigError(
                f"{type(self).__name__}: file_format must be one of Pillow's, e.g. '.png', got {file_format!r}"
            )

    def show(self, message: Message, place: Place | None) -> None:
        """Write the picture of a message, if it has one."""
        picture = as_picture(message)
        if picture is not None:
            path = self.folder / f"{file_name(name_of(message, place))}_{message.step:06d}{self.file_format}"
            pictures.write_picture(path, picture, type(self).__name__)


def file_name(name: str) -> str:
    """Return a name that is one of a file on every system."""
    return re.sub(r"[^\w.-]+", "_", name).strip(".") or "_"


_FLAT = (bool, int, float, str, type(None))


class MessageFileHandler(MessageHandler):
    r"""Append messages to a file, one line of JSON for each: numbers and texts as they are, of arrays the shape.

    Parameters
    ----------
    path
        The file; made when the first message comes.
    level
        Records below it are left out.

    Examples
    --------
    >>> import logging, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     logger, handler = logging.Logger("mine"), MessageFileHandler(f"{folder}/messages.jsonl")
    ...     logger.addHandler(handler)
    ...     logger.info({"value": {"value": 0.5, "name": "loss"}})
    ...     handler.close()
    ...     pathlib.Path(folder, "messages.jsonl").read_text()
    '{"kind": "scalar", "name": "loss", "step": 0, "value": 0.5}\n'
    """

    def __init__(self, path: str | Path, level: int | str = logging.NOTSET):
        super().__init__(level)
        check_paths(self, path=path)
        self.path = Path(path).absolute()
        self._file: FileIO | None = None
        self._looks_at = 0.0
        self.n_lines = 0
        """Lines that were written, those before the handler was made included if :meth:`cut` was called."""

    def cut(self, n_lines: int) -> None:
        """Keep only the first lines.

        Parameters
        ----------
        n_lines
            How many; all if there are less.
        """
        self._close_file()
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []
        whole = [line for line in lines[:n_lines] if line.endswith("\n")]
        if len(lines) > len(whole):
            files.publish_text(self.path, "".join(whole))
        self.n_lines = len(whole)

    def show(self, message: Message, place: Place | None) -> None:
        """Append a message, unless somebody else has taken the folder over, which is looked at once a second."""
        if (now := time.monotonic()) >= self._looks_at:
            check_ours(self.path.parent)
            self._looks_at = now + _LOOK
        if self._file is None:
            files.make_folder(self.path.parent)
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - open until the end
        where = {} if place is None else {"axis": place.axis, "epoch": place.epoch, "fold": place.fold}
        value, options = _plain(message.value), {"options": _plain(message.options)} if message.options else {}
        shown = value if isinstance(message.value, np.ndarray) else {"value": value}
        line = {"kind": message.kind, "name": message.name, "step": message.step, **where, **shown, **options}
        text, end = json.dumps(line).encode() + b"\n", self._file.tell()
        if self._file.write(text) != len(text):  # a full disk takes a part
            self._file.truncate(end)
            raise OSError(f"{self.path} took a part of a line; is the disk full?")
        self.n_lines += 1

    def close(self) -> None:
        """Close the file."""
        self._close_file()
        super().close()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"


def _plain(value: object) -> Any:
    """Return what JSON can say of a value."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape)}
    return value if isinstance(value, _FLAT) else type(value).__name__
