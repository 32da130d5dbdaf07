from delira.backends.torchscript.io import load_checkpoint_torchscript as load_checkpoint_torchscript
from delira.backends.torchscript.io import save_checkpoint_torchscript as save_checkpoint_torchscript
from delira.backends.torchscript.network import AbstractTorchScriptNetwork as AbstractTorchScriptNetwork
from delira.backends.torchscript.networks import ClassificationNetworkBaseTorchScript as ClassificationNetworkBaseTorchScript
from delira.backends.torchscript.networks import GenerativeAdversarialNetworkBaseTorchScript as GenerativeAdversarialNetworkBaseTorchScript
from delira.backends.torchscript.networks import MultilayerPerceptronTorchScript as MultilayerPerceptronTorchScript
from delira.backends.torchscript.networks import RegressionNetworkBaseTorchScript as RegressionNetworkBaseTorchScript
from delira.backends.torchscript.networks import ResidualUNet2dTorchScript as ResidualUNet2dTorchScript
from delira.backends.torchscript.networks import ResidualUNet3dTorchScript as ResidualUNet3dTorchScript
from delira.backends.torchscript.networks import UNet2dTorchScript as UNet2dTorchScript
from delira.backends.torchscript.networks import UNet3dTorchScript as UNet3dTorchScript
from delira.backends.torchscript.networks import VariationalAutoencoderTorchScript as VariationalAutoencoderTorchScript
from delira.backends.torchscript.networks import VGG3DClassificationNetworkTorchScript as VGG3DClassificationNetworkTorchScript
from delira.backends.torchscript.training import TorchScriptExperiment as TorchScriptExperiment
from delira.backends.torchscript.training import TorchScriptNetworkTrainer as TorchScriptNetworkTrainer

__all__ = [
    "AbstractTorchScriptNetwork",
    "ClassificationNetworkBaseTorchScript",
    "GenerativeAdversarialNetworkBaseTorchScript",
    "MultilayerPerceptronTorchScript",
    "RegressionNetworkBaseTorchScript",
    "ResidualUNet2dTorchScript",
    "ResidualUNet3dTorchScript",
    "TorchScriptExperiment",
    "TorchScriptNetworkTrainer",
    "UNet2dTorchScript",
    "UNet3dTorchScript",
    "VGG3DClassificationNetworkTorchScript",
    "VariationalAutoencoderTorchScript",
    "load_checkpoint_torchscript",
    "save_checkpoint_torchscript",
]
