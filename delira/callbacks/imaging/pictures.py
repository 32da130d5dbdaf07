"""What a callback shows, as arrays of numpy."""

import numpy as np

from delira.errors import ConfigError
from delira.utils.arrays import as_array, ops_of, read_arrays
from delira.utils.pixels import as_numbers


def as_pictures(value: object, channels_last: bool | None, who: str) -> np.ndarray:
    """Pictures of any framework.

    Parameters
    ----------
    value
        One picture of shape ``(c, h, w)`` or ``(h, w)``, or several of shape ``(n, c, h, w)``; ``(h, w, c)`` and
        ``(n, h, w, c)`` where the channels are last.
    channels_last
        Whether they are; None: as the framework has it, so they are in arrays of TensorFlow and JAX.
    who
        For the message.

    Returns
    -------
    ndarray of shape (n, c, h, w)
        float32; bytes are in [0, 1] then.

    Raises
    ------
    ConfigError
        If the shape is none of these.
    """
    array = as_array(value)
    is_last = ops_of(array).class_axis == -1 if channels_last is None else channels_last
    pictures: np.ndarray = read_arrays([array])[0]
    if pictures.ndim not in (2, 3, 4):
        raise ConfigError(
            f"{who}: a picture has the shape (channels, height, width), got {pictures.shape}; choose it in on_batch, "
            "or by transform="
        )
    if pictures.ndim == 2:
        pictures = pictures[None]
    elif is_last:
        pictures = np.moveaxis(pictures, -1, -3)
    return as_numbers(pictures if pictures.ndim == 4 else pictures[None])
