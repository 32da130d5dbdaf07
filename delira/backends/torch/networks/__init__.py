"""Ready networks of the PyTorch room: each is a plain module behind the interface of the room."""

from delira.backends.torch.networks.classification import (
    ClassificationNetworkBasePyTorch,
    RegressionNetworkBasePyTorch,
    VGG3DClassificationNetworkPyTorch,
)
from delira.backends.torch.networks.gan import GenerativeAdversarialNetworkBasePyTorch
from delira.backends.torch.networks.segmentation import UNet2dPyTorch, UNet3dPyTorch
from delira.backends.torch.networks.vae import VariationalAutoencoderPyTorch

__all__ = [
    "ClassificationNetworkBasePyTorch",
    "GenerativeAdversarialNetworkBasePyTorch",
    "RegressionNetworkBasePyTorch",
    "UNet2dPyTorch",
    "UNet3dPyTorch",
    "VGG3DClassificationNetworkPyTorch",
    "VariationalAutoencoderPyTorch",
]
