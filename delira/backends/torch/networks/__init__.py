"""Ready networks of the PyTorch backend: each is a plain module behind the interface of the backend."""

from delira.backends.torch.networks.classification import (
    ClassificationNetworkBasePyTorch,
    RegressionNetworkBasePyTorch,
    VGG3DClassificationNetworkPyTorch,
)
from delira.backends.torch.networks.gan import GenerativeAdversarialNetworkBasePyTorch
from delira.backends.torch.networks.segmentation import UNet2dPyTorch, UNet3dPyTorch
from delira.backends.torch.networks.vae import VariationalAutoencoderPyTorch
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
