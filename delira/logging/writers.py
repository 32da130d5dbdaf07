"""What writes for TensorBoard, into event files, and to a server of visdom, and the handlers of visdom."""

import dataclasses
import html
import importlib.util
import json
import logging
import math
import numbers
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira import errors
from delira.logging import handlers, messages
from delira.utils.files import as_path

_log = logging.getLogger("delira")

_VISDOM = (
    "VisdomParams: nobody answers at {server}:{port} ({error}); start a server there with "
    "'python -m visdom.server', or leave visdom out"
)
NO_VISDOM = (
    "{what} needs the package 'visdom', which is not installed, and which newer versions of setuptools cannot "
    "build. Install it with: pip install 'setuptools<81' && pip install --no-build-isolation visdom==0.2.4"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VisdomParams:
    """Where the server of visdom is.

    Parameters
    ----------
    server
        Its address.
    port
        Its port.
    base_url
        What its addresses begin with.
    env
        Environment whose windows are written; None: named as the folder of the event files would be.
    username, password
        If it asks for them.
    options
        Further arguments of ``visdom.Visdom``.
    """

    server: str = "http://localhost"
    port: int = 8097
    base_url: str = "/"
    env: str | None = None
    username: str | None = None
    password: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        errors.check_texts(self, server=self.server, base_url=self.base_url)
        errors.check_whole(self, at_least=0, port=self.port)
        errors.check_numbers(self, at_most=65535, port=self.port)
        errors.check_texts(self, **errors.if_given(env=self.env, username=self.username, password=self.password))
        if not isinstance(self.options, Mapping):
            raise errors.ConfigError(f"VisdomParams: options is a dictionary, got {self.options!r}")


class VisdomWriter:
    """Writes to a server of visdom what ``tensorboardX.SummaryWriter`` would write into a file.

    Parameters
    ----------
    params
        Where the server is.
    env
        Environment, if ``params`` name none.

    Raises
    ------
    MissingBackendError
        If visdom is not installed.
    ConfigError
        If no server answers. One that is gone later is told once, and the training goes on.
    """

    def __init__(self, params: VisdomParams, env: str):
        if importlib.util.find_spec("visdom") is None:
            raise errors.MissingBackendError(NO_VISDOM.format(what="visdom=True"))
        visdom = importlib.import_module("visdom")
        self.env = params.env or env
        arguments = {
            "server": params.server, "port": params.port, "base_url": params.base_url, "env": self.env,
            "username": params.username, "password": params.password, "use_incoming_socket": False,
            "raise_exceptions": True, **params.options,
        }  # fmt: skip
        log, level = logging.getLogger("visdom"), logging.getLogger("visdom").level
        log.setLevel(logging.CRITICAL)  # it tells much where nobody answers, and by a deprecated method
        try:
            with warnings.catch_warnings(action="ignore"):
                self._server = visdom.Visdom(**arguments)
        except OSError as error:
            raise errors.ConfigError(_VISDOM.format(server=params.server, port=params.port, error=error)) from error
        finally:
            log.setLevel(level)
        self._is_lost = False
        self._lines: set[str] = set()

    def _send(self, method: str, *args: Any, **options: Any) -> Any:
        """Return what the server answers; None if it is gone."""
        try:
            return None if self._is_lost else getattr(self._server, method)(*args, **options)
        except OSError as error:
            self._is_lost = True
            _log.warning("the server of visdom is gone (%s); nothing is sent to it any more", error)
            return None

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point to the line of a window; what the window had at this step, and after it, is gone."""
        is_new = tag not in self._lines
        points = [*(self._points(tag, step) if is_new else ()), (step, value)]
        x, y = map(list, zip(*points, strict=True))
        update = None if is_new else "append"
        self._send("line", y, x, win=tag, env=self.env, update=update, opts={"title": tag, "xlabel": "step"})
        self._lines.add(tag)

    def _points(self, tag: str, end: int) -> list[tuple[float, float]]:
        """Points of a window before a step: of the fit that is continued."""
        window = json.loads(self._send("get_window_data", tag, env=self.env) or "{}")
        lines = (window.get("content") or {}).get("data") or [{}]
        points = zip(lines[0].get("x", ()), lines[0].get("y", ()), strict=True)
        return [point for point in points if point[0] < end]

    def add_text(self, tag: str, text: str, step: int | None = None) -> None:
        """Show a text in a window; the one before is overwritten."""
        self.add_plot("text", tag, text)

    def add_image(self, tag: str, image: np.ndarray, step: int | None = None) -> None:
        """Show an image of shape ``(C, H, W)``, values from 0 to 1; the one before is overwritten."""
        self.add_plot("image", tag, image)

    def add_plot(self, kind: str, tag: str, values: np.ndarray | str, **options: Any) -> None:
        """Show a plot in a window; the one before is overwritten.

        Parameters
        ----------
        kind
            Method of ``visdom.Visdom``, e.g. ``"bar"``.
        tag
            The window.
        values
            The first argument of the method.
        **options
            Further arguments; ``opts`` are those of the plot.
        """
        options["opts"] = {"title": tag, **options.get("opts", {})}
        self._send(kind, values, win=tag, env=self.env, **options)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def close(self) -> None:
        """Let the server store the environment."""
        self._send("save", [self.env])


#: the writers that are open, each with its users
_OPEN: dict[tuple[Path, bool], tuple[Any, set[Hashable]]] = {}


def get_writer(
    log_dir: str | Path, user: object, visdom: bool = False, visdom_params: VisdomParams | None = None, **kwargs: Any
) -> Any:
    """Return the writer of a folder: one for all its users.

    Parameters
    ----------
    log_dir
        Where the event files go; a server of visdom has an environment of its name.
    user
        Who asks, usually a callback; each calls :func:`close_writer` when it is done.
    visdom
        Whether to write to a server of visdom instead.
    visdom_params
        Where the server is.
    **kwargs
        Further arguments of ``tensorboardX.SummaryWriter``, for the first of the users.

    Returns
    -------
    tensorboardX.SummaryWriter or VisdomWriter
        The same object for every user, until the last of them is done.

    Raises
    ------
    MissingBackendError
        If tensorboardX, or visdom, is not installed.
    ConfigError
        If an argument is impossible, or no server of visdom answers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, other = get_writer(folder, "one"), get_writer(folder, "other")
    ...     close_writer(folder, "one")
    ...     other.add_scalar("loss", 0.5, 1)
    ...     close_writer(folder, "other")
    ...     one is other
    True
    """
    key = _key(log_dir, user, visdom)
    if visdom_params is not None and not isinstance(visdom_params, VisdomParams):
        raise errors.ConfigError(f"get_writer: visdom_params are VisdomParams(...), got {visdom_params!r}")
    if key not in _OPEN:
        params = visdom_params or VisdomParams()
        _OPEN[key] = VisdomWriter(params, Path(log_dir).name) if visdom else open_events(log_dir, **kwargs), set()
    writer, users = _OPEN[key]
    users.add(user)
    return writer


def close_writer(log_dir: str | Path, user: Any, visdom: bool = False) -> None:
    """Be done with the writer of a folder; the last user closes it.

    Parameters
    ----------
    log_dir, user, visdom
        As they were given to :func:`get_writer`.
    """
    key = _key(log_dir, user, visdom)
    writer, users = _OPEN.get(key, (None, set()))
    if users == {user}:
        del _OPEN[key]
        writer.close()
    users.discard(user)


def _key(log_dir: str | Path, user: object, visdom: bool) -> tuple[Path, bool]:
    """Return the key under which the writer of a folder is found; refuse a user that cannot be hashed."""
    errors.check_flags("a writer", visdom=visdom)
    if not isinstance(user, Hashable):
        raise errors.ConfigError(
            f"the user of a writer is told from others, and a {type(user).__name__} cannot be: {user!r}"
        )
    return as_path(log_dir, "log_dir").absolute(), bool(visdom)


def open_events(folder: str | Path, **kwargs: Any) -> Any:
    """Return a ``tensorboardX.SummaryWriter``, whose arguments follow.

    Raises
    ------
    ConfigError
        If it takes no such argument.
    MissingBackendError
        If tensorboardX is not installed.
    """
    tensorboard = errors.import_optional("tensorboardX", "TensorBoard", "delira[logging]")
    try:
        return tensorboard.SummaryWriter(str(folder), **kwargs)
    except TypeError as error:
        raise errors.ConfigError(f"no SummaryWriter of tensorboardX can be made of {kwargs}: {error}") from error


def close_all(writers: dict[str, Any]) -> None:
    """Close the writers of a handler, and forget them."""
    while writers:
        writers.popitem()[1].close()


def since(done: int, steps: int = 0, name: str = "") -> dict[str, Any]:
    """Arguments of a ``SummaryWriter`` that goes on after a number of steps, and hides what was written after them.

    Parameters
    ----------
    done
        The last step that stays.
    steps
        Updates that are done.
    name
        Part of the file's name.
    """
    purge = {"purge_step": done + 1} if done or steps else {}
    # files are named by the second: a restart within it would write over the file before
    return {**purge, "filename_suffix": f".{done:06d}.{steps:08d}{name}"}


def write_values(writer: Any, name: str, value: Any, step: int) -> None:
    """Write what :func:`numbers_of` finds; a number that is not finite is left out: tensorboardX complains of it.

    Parameters
    ----------
    writer
        Has ``add_scalar``.
    name
        What it is called.
    value
        The value.
    step
        Its place on the axis.
    """
    for key, number in numbers_of(name, value):
        if math.isfinite(number):
            writer.add_scalar(key, number, step)


def numbers_of(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Return a number, or all of nested lists and dictionaries under names like ``name/0``; all else is left out."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = dict(enumerate(value))
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from numbers_of(f"{name}/{key}", part)
    elif isinstance(value, numbers.Real):
        yield name, float(value)


#: arguments of ``VisdomParams`` that have a place of their own here
_PARAMS = ("base_url", "username", "password")


class VisdomLoggingHandler(handlers.MessageHandler):
    """Show messages on a server of visdom, each name in a window of its own.

    Parameters
    ----------
    exp_name
        Environment of the windows; the ``env_appendix`` of a message is added to it.
    server, port
        Where the server is.
    level
        Records below it are left out.
    **kwargs
        Handed to ``visdom.Visdom``, e.g. ``username``.

    Raises
    ------
    MissingBackendError
        If visdom is not installed.
    ConfigError
        If no server answers. One that is gone later is told once, and the training goes on.
    """

    def __init__(
        self,
        exp_name: str,
        server: str = "http://localhost",
        port: int = 8080,
        level: int | str = logging.NOTSET,
        **kwargs: Any,
    ):
        # Python closes every handler at its end, also one that could not be made
        self._writers: dict[str, VisdomWriter] = {}
        super().__init__(level)
        errors.check_texts(self, exp_name=exp_name)
        known = {name: kwargs.pop(name) for name in _PARAMS if name in kwargs}
        self.exp_name = exp_name
        self._params = VisdomParams(server=server, port=port, options=kwargs, **known)
        self._writer(exp_name)

    def show(self, message: messages.Message, place: handlers.Place | None) -> None:
        """Show one message."""
        appendix = message.appendix if not self.exp_name.endswith(message.appendix) else ""
        writer, name = self._writer(self.exp_name + appendix), message.name
        if message.kind in ("scalar", "scalars"):
            write_values(writer, name, message.value, message.step or 0)
        elif message.kind == "text":
            # windows show HTML, which a name such as ``<lambda>`` is not meant to be
            writer.add_text(name, "<br>".join(html.escape(line) for line in message.value.splitlines()))
        elif message.kind in messages.PLOTS:
            _plot(writer, message)
        elif (picture := handlers.as_picture(message)) is not None:
            writer.add_image(name, picture)

    def _writer(self, env: str) -> VisdomWriter:
        if env not in self._writers:
            self._writers[env] = VisdomWriter(self._params, env)
        return self._writers[env]

    def close(self) -> None:
        """Let the server store the windows."""
        close_all(self._writers)
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.exp_name!r})"


def _plot(writer: VisdomWriter, message: messages.Message) -> None:
    given: dict[str, Any] = {}
    x = message.given("x_vals", "x", "X")
    if message.kind == "line" and x is not None:
        given["X"] = x
    if message.kind == "scatter" and (labels := message.given("labels", "Y")) is not None:
        given["Y"] = labels
    options = {name: message.options[name] for name in ("legend", "rownames", "xlabel", "ylabel")
               if name in message.options}  # fmt: skip
    if message.kind == "histogram":
        options["numbins"] = message.given("bins", "numbins", default=30)
    own = message.given("opts", default={})
    given["opts"] = {**options, **(own if isinstance(own, Mapping) else {})}
    writer.add_plot("surf" if message.kind == "surface" else message.kind, message.name, message.value, **given)


class VisdomImageHandler(VisdomLoggingHandler):
    """Show images and grids of images on a server of visdom; other messages are left out.

    Parameters
    ----------
    exp_name, server, port, level, **kwargs
        As for :class:`VisdomLoggingHandler`.
    """

    def show(self, message: messages.Message, place: handlers.Place | None) -> None:
        """Show one message, if it is a picture."""
        if message.kind in ("image", "image_grid"):
            super().show(message, place)


class VisdomImageSaveHandler(handlers.CombinedHandler):
    """Show messages on a server of visdom, and write pictures as files, too.

    Parameters
    ----------
    exp_name, level, **kwargs
        As for :class:`VisdomLoggingHandler`.
    folder
        As for :class:`ImgSaveHandler`.
    """

    def __init__(self, exp_name: str, folder: str | Path, level: int | str = logging.NOTSET, **kwargs: Any):
        handlers.check_level(self, level)
        files = handlers.ImgSaveHandler(folder)  # before the server is asked, which may take long and fail
        super().__init__([VisdomLoggingHandler(exp_name, **kwargs), files], level)


class VisdomStreamHandler(handlers.CombinedHandler):
    """Show messages on a server of visdom, and write every record to streams, too.

    Parameters
    ----------
    exp_name, level, **kwargs
        As for :class:`VisdomLoggingHandler`.
    *streams
        As for :class:`MultiStreamHandler`.
    """

    def __init__(self, exp_name: str, *streams: Any, level: int | str = logging.NOTSET, **kwargs: Any):
        handlers.check_level(self, level)
        texts = handlers.MultiStreamHandler(*streams)  # before the server is asked
        super().__init__([VisdomLoggingHandler(exp_name, **kwargs), texts], level)


class VisdomImageSaveStreamHandler(handlers.CombinedHandler):
    """Show messages on a server of visdom, write pictures as files, and every record to streams.

    Parameters
    ----------
    exp_name, level, **kwargs
        As for :class:`VisdomLoggingHandler`.
    folder
        As for :class:`ImgSaveHandler`.
    *streams
        As for :class:`MultiStreamHandler`.
    """

    def __init__(
        self, exp_name: str, folder: str | Path, *streams: Any, level: int | str = logging.NOTSET, **kwargs: Any
    ):
        handlers.check_level(self, level)
        others = [handlers.ImgSaveHandler(folder), handlers.MultiStreamHandler(*streams)]  # before the server is asked
        super().__init__([VisdomLoggingHandler(exp_name, **kwargs), *others], level)
