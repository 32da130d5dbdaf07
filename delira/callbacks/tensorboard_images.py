"""Images of a validation for TensorBoard or visdom, as a grid."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from delira import state as keys
from delira.callbacks.imaging.grid import GridLayout, as_pictures, check_layout, make_grid
from delira.callbacks.tensorboard_base import AbstractTensorBoard
from delira.errors import DataError
from delira.logging.writers import VisdomParams
from delira.state import Y_PRED, State
from delira.utils.arrays import read_arrays, shape_of
from delira.utils.checks import check_flags, check_texts, check_whole
from delira.utils.pixels import as_numbers


class TensorBoardImages(AbstractTensorBoard):
    """Write a grid of the first images of every validation.

    Parameters
    ----------
    log_dir
        Where the folders go, see :class:`AbstractTensorBoard`.
    comment
        Part of the folder's name.
    name
        What the grid is called.
    key
        Key of the state of the images: an array of shape ``(B, C, H, W)``, of JAX and TensorFlow ``(B, H, W, C)``, or
        ``(B, H, W)``, of 1, 3 or 4 channels.
    write_each_epoch
        Whether every epoch's grid is written; else that of the first validation only.
    num_images
        Images of the grid.
    visdom, visdom_params
        As for :class:`AbstractTensorBoard`.
    **layout
        ``nrow``, ``padding``, ``normalize``, ``norm_range``, ``scale_each`` and ``pad_value`` of
        :func:`delira.callbacks.imaging.make_grid`.

    Raises
    ------
    ConfigError
        If a keyword of the layout is unknown or impossible.
    DataError
        In the first validation, if there are no images under the key.

    Examples
    --------
    >>> from delira.state import INPUT
    >>> TensorBoardImages("logs", name="input", key=INPUT, num_images=4, nrow=2).name
    'input'
    """

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        log_dir: str | Path = "./logs",
        comment: str = "delira",
        name: str = "Image",
        key: object = Y_PRED,
        write_each_epoch: bool = True,
        num_images: int = 16,
        visdom: bool = False,
        visdom_params: VisdomParams | None = None,
        **layout: Unpack[GridLayout],
    ):
        super().__init__(log_dir, comment, visdom, visdom_params)
        check_texts(self, name=name)
        check_flags(self, write_each_epoch=write_each_epoch)
        check_whole(self, at_least=1, num_images=num_images)
        self.name, self.key, self.write_each_epoch, self.num_images = name, key, write_each_epoch, num_images
        self.layout = check_layout(type(self).__name__, **layout)
        self._is_written = False
        self._images: list[np.ndarray] = []

    def on_start_validation(self, state: State) -> None:
        """Begin a grid."""
        self._images = []

    def on_step_validation(self, state: State) -> None:
        """Collect images."""
        missing = self.num_images - sum(map(len, self._images))
        if missing > 0 and (self.write_each_epoch or not self._is_written):
            self._images.append(read_images(type(self).__name__, state, self.key, missing))

    def on_end_validation(self, state: State) -> None:
        """Write the grid."""
        if self._images:
            grid = make_grid(np.concatenate(self._images), **self.layout)
            self.get_writer().add_image(self.name, grid, state[keys.EPOCH] + 1)
            self._images, self._is_written = [], True
            self.flush()

    def state_dict(self) -> dict[str, Any]:
        """Return whether a grid was written."""
        return {"is_written": self._is_written}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with what a checkpoint has kept."""
        self._is_written = bool(state["is_written"])


def read_images(who: str, state: State, key: object, number: int) -> np.ndarray:
    """Return the first images of a batch.

    Parameters
    ----------
    who
        For the message.
    state
        Has them.
    key
        Under which key.
    number
        How many at most.

    Returns
    -------
    ndarray of shape (n, C, H, W)
        float32; bytes are in [0, 1] then.

    Raises
    ------
    DataError
        If there are none under the key.
    """
    value = state[key]
    shape = shape_of(value)
    if len(shape) == 4:
        images = as_pictures(value[:number], None, who)
    elif len(shape) == 3:
        images = as_numbers(read_arrays([value[:number]])[0])[:, None]
    if len(shape) not in (3, 4) or images.shape[1] not in (1, 3, 4):
        raise DataError(
            f"{who}: images are arrays of shape (B, H, W), or (B, C, H, W), of TensorFlow and JAX (B, H, W, C), of 1, "
            f"3 or 4 channels, but {str(key)!r} is {f'one of shape {shape}' if shape else f'a {type(value).__name__}'};"
            " let a callback make images of it under a key of its own, and pass key="
        )
    return images
