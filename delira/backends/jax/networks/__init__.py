"""Ready networks of the JAX room: each is a plain module behind the interface of the room."""

from delira.backends.jax.networks.classification import (
    ClassificationNetworkBaseJax,
    RegressionNetworkBaseJax,
    VGG3DClassificationNetworkJax,
)
from delira.backends.jax.networks.gan import GenerativeAdversarialNetworkBaseJax
from delira.backends.jax.networks.segmentation import UNet2dJax, UNet3dJax
from delira.backends.jax.networks.vae import VariationalAutoencoderJax

__all__ = [
    "ClassificationNetworkBaseJax",
    "GenerativeAdversarialNetworkBaseJax",
    "RegressionNetworkBaseJax",
    "UNet2dJax",
    "UNet3dJax",
    "VGG3DClassificationNetworkJax",
    "VariationalAutoencoderJax",
]
