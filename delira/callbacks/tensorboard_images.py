"""The first samples of a validation for TensorBoard or visdom: as a grid of images, and as points of the projector."""

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from delira.callbacks.tensorboard import AbstractTensorBoard
from delira.errors import DataError, check_flags, check_texts, check_whole
from delira.logging.writers import VisdomParams
from delira.state import EPOCH, Y_PRED, Y_TRUE, State, X
from delira.utils.arrays import as_array, ops_of, read_arrays, shape_of
from delira.utils.pictures import GridLayout, as_numbers, as_pictures, check_layout, make_grid


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

    _kept = ("_is_written",)

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
            self.get_writer().add_image(self.name, grid, state[EPOCH] + 1)
            self._images, self._is_written = [], True
            self.flush()


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


#: pixels of one side of all pictures together, as TensorBoard shows them
_SPRITE = 8192


class TensorBoardProjector(AbstractTensorBoard):
    """Write the first samples of a validation as points: once their data, and their features of every epoch.

    Points are called ``data`` and ``features``. They have their label, if there is one for each sample, and the
    sample as a picture, if it is one.

    Parameters
    ----------
    log_dir
        Where the folders go, see :class:`AbstractTensorBoard`.
    comment
        Part of the folder's name.
    num_images
        Samples that are taken.
    avg_pool_size
        Side of the squares of pixels whose mean stands for them in ``data``.
    avg_data_channels
        Whether ``data`` has the mean of the channels.
    write_data
        Whether data are written.
    write_features
        Whether features are written.
    features_key
        Key of the state of the features: an array of shape ``(B, ...)``.

    Raises
    ------
    ConfigError
        If a number is impossible.
    DataError
        In the first validation, if there are no arrays under the keys.

    Examples
    --------
    >>> TensorBoardProjector("logs", num_images=50, write_data=False).num_images
    50
    """

    _kept = ("_has_data",)

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        log_dir: str | Path = "./logs",
        comment: str = "delira",
        num_images: int = 100,
        avg_pool_size: int = 1,
        avg_data_channels: bool = True,
        write_data: bool = True,
        write_features: bool = True,
        features_key: object = Y_PRED,
    ):
        super().__init__(log_dir, comment)
        check_whole(self, at_least=1, num_images=num_images, avg_pool_size=avg_pool_size)
        check_flags(self, avg_data_channels=avg_data_channels, write_data=write_data, write_features=write_features)
        self.num_images, self.avg_pool_size, self.avg_data_channels = num_images, avg_pool_size, avg_data_channels
        self.write_data, self.write_features, self.features_key = write_data, write_features, features_key
        self._has_data = False
        self._batches: list[tuple[Any, ...]] = []  # data, features and labels

    def on_start_validation(self, state: State) -> None:
        """Begin to collect."""
        self._batches = []

    def on_step_validation(self, state: State) -> None:
        """Collect samples."""
        missing = self.num_images - sum(len(data) for data, _, _ in self._batches)
        is_wanted = self.write_features or (self.write_data and not self._has_data)
        if missing <= 0 or not is_wanted:
            return
        features = _array(state, self.features_key, missing) if self.write_features else None
        data = _array(state, X, missing)
        if data.ndim == 4 and ops_of(as_array(state[X])).class_axis == -1:
            data = np.moveaxis(data, -1, 1)
        self._batches.append((data, features, _labels(state, missing)))

    def on_end_validation(self, state: State) -> None:
        """Write what was collected."""
        if not self._batches:
            return
        parts = zip(*self._batches, strict=True)
        joined: list[Any] = [None if any(one is None for one in part) else np.concatenate(part) for part in parts]
        data, features, labels = joined
        self._batches, step = [], state[EPOCH] + 1
        if self.write_data and not self._has_data:
            self._write("data", self._reduced(data), labels, data, step)
            self._has_data = True
        if features is not None:
            self._write("features", features, labels, data, step)
        self.flush()

    def _reduced(self, data: np.ndarray) -> np.ndarray:
        """Samples of shape (n, C, H, W) with fewer pixels and channels; others as they are."""
        if data.ndim != 4:
            return data
        size = min(self.avg_pool_size, *data.shape[2:])
        height, width = (length // size for length in data.shape[2:])
        whole = data[:, :, : height * size, : width * size]
        pooled = whole.reshape(*data.shape[:2], height, size, width, size).mean(axis=(3, 5))
        return pooled.mean(axis=1) if self.avg_data_channels else pooled

    def _write(self, name: str, points: np.ndarray, labels: np.ndarray | None, data: np.ndarray, step: int) -> None:
        writer = self.get_writer()
        _forget(Path(writer.logdir), name, step)
        # it prints where a folder is there, and calculates with memory below the pictures that nobody has filled
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            writer.add_embedding(
                points.reshape(len(points), -1),
                metadata=None if labels is None else labels.tolist(),
                label_img=_pictures(data),
                global_step=step,
                tag=name,
            )


def _array(state: State, key: object, number: int) -> np.ndarray:
    value = state[key]
    if not shape_of(value):
        raise DataError(
            f"TensorBoardProjector: points are arrays of shape (B, ...), but {str(key)!r} is a {type(value).__name__}; "
            "let a callback store one under a key of its own, and pass features_key="
        )
    return read_arrays([as_array(value)[:number]])[0]


def _labels(state: State, number: int) -> np.ndarray | None:
    """One label for each sample, if the target is that; scores and one-hot labels are argmaxed."""
    target = state.get(Y_TRUE)
    shape = shape_of(target)
    if not 1 <= len(shape) <= 2:
        return None
    labels = read_arrays([as_array(target)[:number]])[0]
    if labels.ndim == 1:
        return labels
    return labels[:, 0] if labels.shape[1] == 1 else labels.argmax(axis=1)


def _pictures(data: np.ndarray) -> np.ndarray | None:
    """Square pictures of shape (n, 3, S, S) from 0 to 1; None if the samples are none, or all are too large."""
    data = data[:, None] if data.ndim == 3 else data
    if data.ndim != 4 or data.shape[1] not in (1, 3):
        return None
    height, width = data.shape[2:]
    side = max(height, width)
    if int(np.ceil(len(data) ** 0.5)) * side > _SPRITE:
        return None
    low, high = float(data.min()), float(data.max())
    scaled = (data - low) / ((high - low) or 1.0)
    square = np.zeros((len(data), 3, side, side), np.float32)
    top, left = (side - height) // 2, (side - width) // 2
    square[:, :, top : top + height, left : left + width] = scaled
    return square


def _forget(folder: Path, name: str, step: int) -> None:
    """Remove points that were written at a step before: a fit that is continued writes them again."""
    shutil.rmtree(folder / f"{step:05d}" / name, ignore_errors=True)
    index = folder / "projector_config.pbtxt"
    if index.exists():
        text = index.read_text(encoding="utf-8")
        entry = rf'embeddings \{{\ntensor_name: "{name}:{step:05d}"\n(?:(?!embeddings).*\n)*'
        index.write_text(re.sub(entry, "", text), encoding="utf-8")
