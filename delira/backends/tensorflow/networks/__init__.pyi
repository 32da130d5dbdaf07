from delira.backends.tensorflow.networks.classification import ClassificationNetworkBaseTf as ClassificationNetworkBaseTf
from delira.backends.tensorflow.networks.classification import RegressionNetworkBaseTf as RegressionNetworkBaseTf
from delira.backends.tensorflow.networks.classification import VGG3DClassificationNetworkTf as VGG3DClassificationNetworkTf
from delira.backends.tensorflow.networks.gan import GenerativeAdversarialNetworkBaseTf as GenerativeAdversarialNetworkBaseTf
from delira.backends.tensorflow.networks.segmentation import UNet2dTf as UNet2dTf
from delira.backends.tensorflow.networks.segmentation import UNet3dTf as UNet3dTf
from delira.backends.tensorflow.networks.vae import VariationalAutoencoderTf as VariationalAutoencoderTf

__all__ = [
    "ClassificationNetworkBaseTf",
    "GenerativeAdversarialNetworkBaseTf",
    "RegressionNetworkBaseTf",
    "UNet2dTf",
    "UNet3dTf",
    "VGG3DClassificationNetworkTf",
    "VariationalAutoencoderTf",
]
