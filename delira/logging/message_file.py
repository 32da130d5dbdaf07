"""The messages of a run as lines of JSON."""

import json
import logging
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from delira.logging.handlers import MessageHandler, Place
from delira.logging.messages import Message
from delira.utils.checks import check_paths
from delira.utils.files import make_folder, publish_text

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
            publish_text(self.path, "".join(whole))
        self.n_lines = len(whole)

    def show(self, message: Message, place: Place | None) -> None:
        """Append a message."""
        if self._file is None:
            make_folder(self.path.parent)
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
