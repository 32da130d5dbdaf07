from delira.backends.torch.networks.classification import ClassificationNetworkBasePyTorch as ClassificationNetworkBasePyTorch
from delira.backends.torch.networks.classification import RegressionNetworkBasePyTorch as RegressionNetworkBasePyTorch
from delira.backends.torch.networks.classification import VGG3DClassificationNetworkPyTorch as VGG3DClassificationNetworkPyTorch
from delira.backends.torch.networks.gan import GenerativeAdversarialNetworkBasePyTorch as GenerativeAdversarialNetworkBasePyTorch
from delira.backends.torch.networks.segmentation import UNet2dPyTorch as UNet2dPyTorch
from delira.backends.torch.networks.segmentation import UNet3dPyTorch as UNet3dPyTorch
from delira.backends.torch.networks.vae import VariationalAutoencoderPyTorch as VariationalAutoencoderPyTorch

__all__ = [
    "ClassificationNetworkBasePyTorch",
    "GenerativeAdversarialNetworkBasePyTorch",
    "RegressionNetworkBasePyTorch",
    "UNet2dPyTorch",
    "UNet3dPyTorch",
    "VGG3DClassificationNetworkPyTorch",
    "VariationalAutoencoderPyTorch",
]
