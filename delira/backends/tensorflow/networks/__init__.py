"""Ready networks of the TensorFlow backend: each is a plain layer behind the interface of the backend."""

from delira.backends.tensorflow.networks.classification import (
    ClassificationNetworkBaseTf,
    RegressionNetworkBaseTf,
    VGG3DClassificationNetworkTf,
)
from delira.backends.tensorflow.networks.gan import GenerativeAdversarialNetworkBaseTf
from delira.backends.tensorflow.networks.segmentation import UNet2dTf, UNet3dTf
from delira.backends.tensorflow.networks.vae import VariationalAutoencoderTf
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
