from delira.backends.torch.arrays import convert_torch_tensor_to_npy as convert_torch_tensor_to_npy
from delira.backends.torch.checkpoints import load_checkpoint_torch as load_checkpoint_torch
from delira.backends.torch.checkpoints import save_checkpoint_torch as save_checkpoint_torch
from delira.backends.torch.checkpoints import torch_load_checkpoint as torch_load_checkpoint
from delira.backends.torch.checkpoints import torch_save_checkpoint as torch_save_checkpoint
from delira.backends.torch.losses import BCEFocalLossLogitPyTorch as BCEFocalLossLogitPyTorch
from delira.backends.torch.losses import BCEFocalLossPyTorch as BCEFocalLossPyTorch
from delira.backends.torch.losses import DiceCELossPyTorch as DiceCELossPyTorch
from delira.backends.torch.losses import DiceLossPyTorch as DiceLossPyTorch
from delira.backends.torch.losses import TverskyLossPyTorch as TverskyLossPyTorch
from delira.backends.torch.network import AbstractPyTorchNetwork as AbstractPyTorchNetwork
from delira.backends.torch.networks import ClassificationNetworkBasePyTorch as ClassificationNetworkBasePyTorch
from delira.backends.torch.networks import GenerativeAdversarialNetworkBasePyTorch as GenerativeAdversarialNetworkBasePyTorch
from delira.backends.torch.networks import MultilayerPerceptronPyTorch as MultilayerPerceptronPyTorch
from delira.backends.torch.networks import RegressionNetworkBasePyTorch as RegressionNetworkBasePyTorch
from delira.backends.torch.networks import ResidualUNet2dPyTorch as ResidualUNet2dPyTorch
from delira.backends.torch.networks import ResidualUNet3dPyTorch as ResidualUNet3dPyTorch
from delira.backends.torch.networks import UNet2dPyTorch as UNet2dPyTorch
from delira.backends.torch.networks import UNet3dPyTorch as UNet3dPyTorch
from delira.backends.torch.networks import VariationalAutoencoderPyTorch as VariationalAutoencoderPyTorch
from delira.backends.torch.networks import VGG3DClassificationNetworkPyTorch as VGG3DClassificationNetworkPyTorch
from delira.backends.torch.optimizers import create_optims_default_pytorch as create_optims_default_pytorch
from delira.backends.torch.optimizers import create_optims_gan_default_pytorch as create_optims_gan_default_pytorch
from delira.backends.torch.schedules import CosineAnnealingLRCallbackPyTorch as CosineAnnealingLRCallbackPyTorch
from delira.backends.torch.schedules import DefaultPyTorchSchedulerCallback as DefaultPyTorchSchedulerCallback
from delira.backends.torch.schedules import ExponentialLRCallbackPyTorch as ExponentialLRCallbackPyTorch
from delira.backends.torch.schedules import LambdaLRCallbackPyTorch as LambdaLRCallbackPyTorch
from delira.backends.torch.schedules import MultiStepLRCallbackPyTorch as MultiStepLRCallbackPyTorch
from delira.backends.torch.schedules import OneCycleLRCallbackPyTorch as OneCycleLRCallbackPyTorch
from delira.backends.torch.schedules import ReduceLROnPlateauCallbackPyTorch as ReduceLROnPlateauCallbackPyTorch
from delira.backends.torch.schedules import StepLRCallbackPyTorch as StepLRCallbackPyTorch
from delira.backends.torch.schedules import TorchSchedulerCallback as TorchSchedulerCallback
from delira.backends.torch.training import PyTorchExperiment as PyTorchExperiment
from delira.backends.torch.training import PyTorchNetworkTrainer as PyTorchNetworkTrainer

__all__ = [
    "AbstractPyTorchNetwork",
    "BCEFocalLossLogitPyTorch",
    "BCEFocalLossPyTorch",
    "ClassificationNetworkBasePyTorch",
    "CosineAnnealingLRCallbackPyTorch",
    "DefaultPyTorchSchedulerCallback",
    "DiceCELossPyTorch",
    "DiceLossPyTorch",
    "ExponentialLRCallbackPyTorch",
    "GenerativeAdversarialNetworkBasePyTorch",
    "LambdaLRCallbackPyTorch",
    "MultiStepLRCallbackPyTorch",
    "MultilayerPerceptronPyTorch",
    "OneCycleLRCallbackPyTorch",
    "PyTorchExperiment",
    "PyTorchNetworkTrainer",
    "ReduceLROnPlateauCallbackPyTorch",
    "RegressionNetworkBasePyTorch",
    "ResidualUNet2dPyTorch",
    "ResidualUNet3dPyTorch",
    "StepLRCallbackPyTorch",
    "TorchSchedulerCallback",
    "TverskyLossPyTorch",
    "UNet2dPyTorch",
    "UNet3dPyTorch",
    "VGG3DClassificationNetworkPyTorch",
    "VariationalAutoencoderPyTorch",
    "convert_torch_tensor_to_npy",
    "create_optims_default_pytorch",
    "create_optims_gan_default_pytorch",
    "load_checkpoint_torch",
    "save_checkpoint_torch",
    "torch_load_checkpoint",
    "torch_save_checkpoint",
]
