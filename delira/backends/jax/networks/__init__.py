"""Ready networks of the JAX backend: each is a plain module behind the interface of the backend."""

from delira.backends.jax.networks.classification import (
    ClassificationNetworkBaseJax,
    RegressionNetworkBaseJax,
    VGG3DClassificationNetworkJax,
)
from delira.backends.jax.networks.gan import GenerativeAdversarialNetworkBaseJax
from delira.backends.jax.networks.segmentation import UNet2dJax, UNet3dJax
from delira.backends.jax.networks.vae import VariationalAutoencoderJax
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
