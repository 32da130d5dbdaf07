"""Generator and discriminator of DCGAN in PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

from delira.backends.torch.networks.dcgan import Discriminator, Generator  # noqa: E402


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
