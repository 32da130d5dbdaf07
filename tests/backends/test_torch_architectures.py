"""The architectures of ready networks in PyTorch, and what they refuse of images."""

import pytest

torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

from delira.backends.torch.networks.architectures import (  # noqa: E402
    VGG3D,
    Discriminator,
    DownConv,
    Generator,
    ResidualBlock,
    ResNet18,
    UNet,
    UpConv,
    check_images,
)
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


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 9, 3)])
def test_no_volume_is_too_small(size):
    network = VGG3D(2, 3, start_filts=1).eval()
    assert network(torch.ones(2, 2, *size)).shape == (2, 3)


def test_images_are_no_volumes():
    with pytest.raises(DataError, match="and the network takes 5 axes: samples, 2 channels, and 3 of an image"):
        VGG3D(2, 3, start_filts=1)(torch.ones(2, 2, 4, 4))


def test_noise_becomes_images_and_images_a_logit_each():
    images = Generator(2, 5, start_filts=2)(torch.randn(3, 5))
    assert images.shape == (3, 2, 64, 64)
    assert images.abs().max() <= 1
    assert Discriminator(2, start_filts=2)(images).shape == (3, 1)


def test_weights_begin_as_the_paper_says():
    torch.manual_seed(0)
    discriminator = Discriminator(3, start_filts=16)
    assert float(discriminator.conv3.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(discriminator.bn3.weight.detach().mean()) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("up_mode", ["transpose", "upsample"])
@pytest.mark.parametrize("merge_mode", ["concat", "add"])
def test_a_level_on_the_way_up_has_the_size_of_the_one_beside_it(up_mode, merge_mode):
    skip = torch.ones(2, 3, 5, 8)
    merged = UpConv(2, 6, 3, up_mode, merge_mode)(torch.ones(2, 6, 2, 4), skip)
    assert merged.shape == skip.shape


def test_a_level_on_the_way_down_keeps_the_size():
    assert DownConv(3, 2, 5)(torch.ones(1, 2, 3, 4, 5)).shape == (1, 5, 3, 4, 5)


def test_channels_double_with_each_level():
    network = UNet(2, 2, 1, 3, 4, "transpose", "concat")
    assert [level.conv1.out_channels for level in network.down_convs] == [4, 8, 16]
    assert [level.conv1.out_channels for level in network.up_convs] == [8, 4]
    assert not any(layer.bias.any() for layer in network.modules() if isinstance(layer, torch.nn.Conv2d))
