from delira.backends.tensorflow.networks.ready import ClassificationNetworkBaseTf as ClassificationNetworkBaseTf
from delira.backends.tensorflow.networks.ready import GenerativeAdversarialNetworkBaseTf as GenerativeAdversarialNetworkBaseTf
from delira.backends.tensorflow.networks.ready import MultilayerPerceptronTf as MultilayerPerceptronTf
from delira.backends.tensorflow.networks.ready import RegressionNetworkBaseTf as RegressionNetworkBaseTf
from delira.backends.tensorflow.networks.ready import ResidualUNet2dTf as ResidualUNet2dTf
from delira.backends.tensorflow.networks.ready import ResidualUNet3dTf as ResidualUNet3dTf
from delira.backends.tensorflow.networks.ready import UNet2dTf as UNet2dTf
from delira.backends.tensorflow.networks.ready import UNet3dTf as UNet3dTf
from delira.backends.tensorflow.networks.ready import VariationalAutoencoderTf as VariationalAutoencoderTf
from delira.backends.tensorflow.networks.ready import VGG3DClassificationNetworkTf as VGG3DClassificationNetworkTf

__all__ = [
    "ClassificationNetworkBaseTf",
    "GenerativeAdversarialNetworkBaseTf",
    "MultilayerPerceptronTf",
    "RegressionNetworkBaseTf",
    "ResidualUNet2dTf",
    "ResidualUNet3dTf",
    "UNet2dTf",
    "UNet3dTf",
    "VGG3DClassificationNetworkTf",
    "VariationalAutoencoderTf",
]
