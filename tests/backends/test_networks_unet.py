"""The levels of U-Nets in PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

from delira.backends.torch.networks.unet import DownConv, UNet, UpConv  # noqa: E402


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
