from delira.backends.jax.networks.classification import ClassificationNetworkBaseJax as ClassificationNetworkBaseJax
from delira.backends.jax.networks.classification import RegressionNetworkBaseJax as RegressionNetworkBaseJax
from delira.backends.jax.networks.classification import VGG3DClassificationNetworkJax as VGG3DClassificationNetworkJax
from delira.backends.jax.networks.gan import GenerativeAdversarialNetworkBaseJax as GenerativeAdversarialNetworkBaseJax
from delira.backends.jax.networks.segmentation import UNet2dJax as UNet2dJax
from delira.backends.jax.networks.segmentation import UNet3dJax as UNet3dJax
from delira.backends.jax.networks.vae import VariationalAutoencoderJax as VariationalAutoencoderJax

__all__ = [
    "ClassificationNetworkBaseJax",
    "GenerativeAdversarialNetworkBaseJax",
    "RegressionNetworkBaseJax",
    "UNet2dJax",
    "UNet3dJax",
    "VGG3DClassificationNetworkJax",
    "VariationalAutoencoderJax",
]
