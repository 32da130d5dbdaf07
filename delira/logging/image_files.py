"""Pictures of messages as files."""

import logging
import re
from pathlib import Path
from typing import Any

from delira.errors import ConfigError
from delira.logging.handlers import MessageHandler, Place, as_picture, own_appendix
from delira.logging.messages import Message
from delira.utils.checks import check_paths, check_texts
from delira.utils.optional import import_optional
from delira.utils.pixels import write_picture


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
            name = file_name(message.name + own_appendix(message, place))
            path = self.folder / f"{name}_{message.step:06d}{self.file_format}"
            write_picture(path, picture, type(self).__name__)


def file_name(name: str) -> str:
    """Return a name that is one of a file on every system."""
    return re.sub(r"[^\w.-]+", "_", name).strip(".") or "_"
