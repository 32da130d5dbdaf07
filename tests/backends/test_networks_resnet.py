"""ResNet-18 in PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

from delira.backends.torch.networks.resnet import ResidualBlock, ResNet18  # noqa: E402
from delira.errors import DataError  # noqa: E402


@pytest.mark.parametrize(("n_out", "stride", "size"), [(4, 1, 6), (4, 2, 3), (8, 1, 6), (8, 2, 3)])
def test_a_block_has_a_shortcut_of_the_shape_of_its_output(n_out, stride, size):
    block = ResidualBlock(4, n_out, stride)
    assert block(torch.ones(2, 4, 6, 6)).shape == (2, n_out, size, size)
    assert isinstance(block.downsample, torch.nn.Identity) == (n_out == 4 and stride == 1)


def test_a_block_that_computes_nothing_passes_its_input_on():
    block = ResidualBlock(2, 2, 1).eval()
    torch.nn.init.zeros_(block.conv2.weight)
    images = torch.rand(1, 2, 3, 3)
    assert torch.equal(block(images), images)


def test_images_of_any_size_become_numbers():
    network = ResNet18(3, 7, start_filts=2).eval()
    assert network(torch.ones(2, 3, 33, 40)).shape == (2, 7)
    with pytest.raises(DataError, match="the channels come first"):
        network(torch.ones(2, 33, 40, 3))
