from delira.backends.jax.networks.ready import ClassificationNetworkBaseJax as ClassificationNetworkBaseJax
from delira.backends.jax.networks.ready import GenerativeAdversarialNetworkBaseJax as GenerativeAdversarialNetworkBaseJax
from delira.backends.jax.networks.ready import MultilayerPerceptronJax as MultilayerPerceptronJax
from delira.backends.jax.networks.ready import RegressionNetworkBaseJax as RegressionNetworkBaseJax
from delira.backends.jax.networks.ready import ResidualUNet2dJax as ResidualUNet2dJax
from delira.backends.jax.networks.ready import ResidualUNet3dJax as ResidualUNet3dJax
from delira.backends.jax.networks.ready import UNet2dJax as UNet2dJax
from delira.backends.jax.networks.ready import UNet3dJax as UNet3dJax
from delira.backends.jax.networks.ready import VariationalAutoencoderJax as VariationalAutoencoderJax
from delira.backends.jax.networks.ready import VGG3DClassificationNetworkJax as VGG3DClassificationNetworkJax

__all__ = [
    "ClassificationNetworkBaseJax",
    "GenerativeAdversarialNetworkBaseJax",
    "MultilayerPerceptronJax",
    "RegressionNetworkBaseJax",
    "ResidualUNet2dJax",
    "ResidualUNet3dJax",
    "UNet2dJax",
    "UNet3dJax",
    "VGG3DClassificationNetworkJax",
    "VariationalAutoencoderJax",
]
