"""VGG-11 for volumes in PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

from delira.backends.torch.networks.vgg import VGG3D  # noqa: E402
from delira.errors import DataError  # noqa: E402


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 9, 3)])
def test_no_volume_is_too_small(size):
    network = VGG3D(2, 3, start_filts=1).eval()
    assert network(torch.ones(2, 2, *size)).shape == (2, 3)


def test_images_are_no_volumes():
    with pytest.raises(DataError, match="and the network takes 5 axes: samples, 2 channels, and 3 of an image"):
        VGG3D(2, 3, start_filts=1)(torch.ones(2, 2, 4, 4))
