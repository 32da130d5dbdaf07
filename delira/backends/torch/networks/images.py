"""What images the ready networks take."""

import torch

from delira.errors import DataError


def check_images(images: torch.Tensor, n_channels: int, n_axes: int) -> None:
    """Refuse images of other axes or channels than a network takes, e.g. images that have the channels last.

    PyTorch takes images without an axis of samples too, which some layers would then mistake for others.

    Parameters
    ----------
    images
        What was given.
    n_channels, n_axes
        What the network takes: channels, and axes of an image without them.

    Raises
    ------
    DataError
        Naming both.
    """
    if images.dim() != n_axes + 2:
        raise DataError(
            f"the images have the shape {list(images.shape)}, and the network takes {n_axes + 2} axes: samples, "
            f"{n_channels} channels, and {n_axes} of an image"
        )
    if images.size(1) != n_channels:
        raise DataError(
            f"the images have {images.size(1)} channels (shape {list(images.shape)}), and the network is built for "
            f"{n_channels}; the channels come first"
        )
