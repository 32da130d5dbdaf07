"""What ready networks of PyTorch refuse of images."""

import pytest

torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

from delira.backends.torch.networks.images import check_images  # noqa: E402
from delira.errors import DataError  # noqa: E402


def test_images_with_the_channels_first_are_taken():
    check_images(torch.zeros(2, 3, 4, 5), 3, 2)
    check_images(torch.zeros(2, 1, 4, 5, 6), 1, 3)


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5, 6)])
def test_other_axes_are_refused(shape):
    with pytest.raises(DataError, match="and the network takes 4 axes: samples, 3 channels, and 2 of an image"):
        check_images(torch.zeros(shape), 3, 2)


def test_channels_that_come_last_are_told():
    with pytest.raises(DataError, match=r"have 4 channels .* and the network is built for 3; the channels come first"):
        check_images(torch.zeros(2, 4, 5, 3), 3, 2)
