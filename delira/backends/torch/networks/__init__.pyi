from delira.backends.torch.networks.ready import ClassificationNetworkBasePyTorch as ClassificationNetworkBasePyTorch
from delira.backends.torch.networks.ready import GenerativeAdversarialNetworkBasePyTorch as GenerativeAdversarialNetworkBasePyTorch
from delira.backends.torch.networks.ready import MultilayerPerceptronPyTorch as MultilayerPerceptronPyTorch
from delira.backends.torch.networks.ready import RegressionNetworkBasePyTorch as RegressionNetworkBasePyTorch
from delira.backends.torch.networks.ready import ResidualUNet2dPyTorch as ResidualUNet2dPyTorch
from delira.backends.torch.networks.ready import ResidualUNet3dPyTorch as ResidualUNet3dPyTorch
from delira.backends.torch.networks.ready import UNet2dPyTorch as UNet2dPyTorch
from delira.backends.torch.networks.ready import UNet3dPyTorch as UNet3dPyTorch
from delira.backends.torch.networks.ready import VariationalAutoencoderPyTorch as VariationalAutoencoderPyTorch
from delira.backends.torch.networks.ready import VGG3DClassificationNetworkPyTorch as VGG3DClassificationNetworkPyTorch

__all__ = [
    "ClassificationNetworkBasePyTorch",
    "GenerativeAdversarialNetworkBasePyTorch",
    "MultilayerPerceptronPyTorch",
    "RegressionNetworkBasePyTorch",
    "ResidualUNet2dPyTorch",
    "ResidualUNet3dPyTorch",
    "UNet2dPyTorch",
    "UNet3dPyTorch",
    "VGG3DClassificationNetworkPyTorch",
    "VariationalAutoencoderPyTorch",
]
