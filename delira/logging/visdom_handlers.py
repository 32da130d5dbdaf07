"""Messages on a server of visdom, alone and with files and streams."""

import html
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.logging.handlers import (
    CombinedHandler,
    ImgSaveHandler,
    MessageHandler,
    MultiStreamHandler,
    Place,
    as_picture,
    check_level,
)
from delira.logging.messages import PLOTS, Message
from delira.logging.writers import VisdomParams, VisdomWriter, write_values
from delira.utils.checks import check_texts

#: kind -> method of visdom
_METHODS = {"surface": "surf"}
#: arguments of ``VisdomParams`` that have a place of their own here
_PARAMS = ("base_url", "username", "password")


class VisdomLoggingHandler(MessageHandler):
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
        check_texts(self, exp_name=exp_name)
        known = {name: kwargs.pop(name) for name in _PARAMS if name in kwargs}
        self.exp_name = exp_name
        self._params = VisdomParams(server=server, port=port, options=kwargs, **known)
        self._writer(exp_name)

    def show(self, message: Message, place: Place | None) -> None:
        """Show one message."""
        appendix = message.appendix if not self.exp_name.endswith(message.appendix) else ""
        writer, name = self._writer(self.exp_name + appendix), message.name
        if message.kind in ("scalar", "scalars"):
            write_values(writer, name, message.value, message.step or 0)
        elif message.kind == "text":
            writer.add_text(name, _as_html(message.value))
        elif message.kind in PLOTS:
            _plot(writer, message)
        elif (picture := as_picture(message)) is not None:
            writer.add_image(name, picture)

    def _writer(self, env: str) -> VisdomWriter:
        if env not in self._writers:
            self._writers[env] = VisdomWriter(self._params, env)
        return self._writers[env]

    def close(self) -> None:
        """Let the server store the windows."""
        while self._writers:
            self._writers.popitem()[1].close()
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.exp_name!r})"


def _as_html(text: str) -> str:
    """Return a text as it is: windows show HTML, which a name such as ``<lambda>`` is not meant to be."""
    return "<br>".join(html.escape(line) for line in text.splitlines())


def _plot(writer: VisdomWriter, message: Message) -> None:
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
    writer.add_plot(_METHODS.get(message.kind, message.kind), message.name, message.value, **given)


class VisdomImageHandler(VisdomLoggingHandler):
    """Show images and grids of images on a server of visdom; other messages are left out.

    Parameters
    ----------
    exp_name, server, port, level, **kwargs
        As for :class:`VisdomLoggingHandler`.
    """

    def show(self, message: Message, place: Place | None) -> None:
        """Show one message, if it is a picture."""
        if message.kind in ("image", "image_grid"):
            super().show(message, place)


class VisdomImageSaveHandler(CombinedHandler):
    """Show messages on a server of visdom, and write pictures as files, too.

    Parameters
    ----------
    exp_name, level, **kwargs
        As for :class:`VisdomLoggingHandler`.
    folder
        As for :class:`ImgSaveHandler`.
    """

    def __init__(self, exp_name: str, folder: str | Path, level: int | str = logging.NOTSET, **kwargs: Any):
        check_level(self, level)
        files = ImgSaveHandler(folder)  # before the server is asked, which may take long and fail
        super().__init__([VisdomLoggingHandler(exp_name, **kwargs), files], level)


class VisdomStreamHandler(CombinedHandler):
    """Show messages on a server of visdom, and write every record to streams, too.

    Parameters
    ----------
    exp_name, level, **kwargs
        As for :class:`VisdomLoggingHandler`.
    *streams
        As for :class:`MultiStreamHandler`.
    """

    def __init__(self, exp_name: str, *streams: Any, level: int | str = logging.NOTSET, **kwargs: Any):
        check_level(self, level)
        texts = MultiStreamHandler(*streams)  # before the server is asked
        super().__init__([VisdomLoggingHandler(exp_name, **kwargs), texts], level)


class VisdomImageSaveStreamHandler(CombinedHandler):
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
        check_level(self, level)
        others = [ImgSaveHandler(folder), MultiStreamHandler(*streams)]  # before the server is asked
        super().__init__([VisdomLoggingHandler(exp_name, **kwargs), *others], level)
