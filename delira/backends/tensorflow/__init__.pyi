from delira.backends.tensorflow.arrays import convert_tf_tensor_to_npy as convert_tf_tensor_to_npy
from delira.backends.tensorflow.checkpoints import load_checkpoint_tf as load_checkpoint_tf
from delira.backends.tensorflow.checkpoints import save_checkpoint_tf as save_checkpoint_tf
from delira.backends.tensorflow.checkpoints import tf_load_checkpoint as tf_load_checkpoint
from delira.backends.tensorflow.checkpoints import tf_save_checkpoint as tf_save_checkpoint
from delira.backends.tensorflow.losses import BCEFocalLossLogitTf as BCEFocalLossLogitTf
from delira.backends.tensorflow.losses import BCEFocalLossTf as BCEFocalLossTf
from delira.backends.tensorflow.losses import DiceCELossTf as DiceCELossTf
from delira.backends.tensorflow.losses import DiceLossTf as DiceLossTf
from delira.backends.tensorflow.losses import TverskyLossTf as TverskyLossTf
from delira.backends.tensorflow.network import AbstractTfNetwork as AbstractTfNetwork
from delira.backends.tensorflow.networks import ClassificationNetworkBaseTf as ClassificationNetworkBaseTf
from delira.backends.tensorflow.networks import GenerativeAdversarialNetworkBaseTf as GenerativeAdversarialNetworkBaseTf
from delira.backends.tensorflow.networks import MultilayerPerceptronTf as MultilayerPerceptronTf
from delira.backends.tensorflow.networks import RegressionNetworkBaseTf as RegressionNetworkBaseTf
from delira.backends.tensorflow.networks import ResidualUNet2dTf as ResidualUNet2dTf
from delira.backends.tensorflow.networks import ResidualUNet3dTf as ResidualUNet3dTf
from delira.backends.tensorflow.networks import UNet2dTf as UNet2dTf
from delira.backends.tensorflow.networks import UNet3dTf as UNet3dTf
from delira.backends.tensorflow.networks import VariationalAutoencoderTf as VariationalAutoencoderTf
from delira.backends.tensorflow.networks import VGG3DClassificationNetworkTf as VGG3DClassificationNetworkTf
from delira.backends.tensorflow.optimizers import create_optims_default_tf as create_optims_default_tf
from delira.backends.tensorflow.optimizers import create_optims_gan_default_tf as create_optims_gan_default_tf
from delira.backends.tensorflow.schedules import CosineAnnealingLRCallbackTf as CosineAnnealingLRCallbackTf
from delira.backends.tensorflow.schedules import DefaultTfSchedulerCallback as DefaultTfSchedulerCallback
from delira.backends.tensorflow.schedules import ExponentialLRCallbackTf as ExponentialLRCallbackTf
from delira.backends.tensorflow.schedules import LambdaLRCallbackTf as LambdaLRCallbackTf
from delira.backends.tensorflow.schedules import MultiStepLRCallbackTf as MultiStepLRCallbackTf
from delira.backends.tensorflow.schedules import OneCycleLRCallbackTf as OneCycleLRCallbackTf
from delira.backends.tensorflow.schedules import ReduceLROnPlateauCallbackTf as ReduceLROnPlateauCallbackTf
from delira.backends.tensorflow.schedules import StepLRCallbackTf as StepLRCallbackTf
from delira.backends.tensorflow.schedules import TfSchedulerCallback as TfSchedulerCallback
from delira.backends.tensorflow.training import TfExperiment as TfExperiment
from delira.backends.tensorflow.training import TfNetworkTrainer as TfNetworkTrainer

__all__ = [
    "AbstractTfNetwork",
    "BCEFocalLossLogitTf",
    "BCEFocalLossTf",
    "ClassificationNetworkBaseTf",
    "CosineAnnealingLRCallbackTf",
    "DefaultTfSchedulerCallback",
    "DiceCELossTf",
    "DiceLossTf",
    "ExponentialLRCallbackTf",
    "GenerativeAdversarialNetworkBaseTf",
    "LambdaLRCallbackTf",
    "MultiStepLRCallbackTf",
    "MultilayerPerceptronTf",
    "OneCycleLRCallbackTf",
    "ReduceLROnPlateauCallbackTf",
    "RegressionNetworkBaseTf",
    "ResidualUNet2dTf",
    "ResidualUNet3dTf",
    "StepLRCallbackTf",
    "TfExperiment",
    "TfNetworkTrainer",
    "TfSchedulerCallback",
    "TverskyLossTf",
    "UNet2dTf",
    "UNet3dTf",
    "VGG3DClassificationNetworkTf",
    "VariationalAutoencoderTf",
    "convert_tf_tensor_to_npy",
    "create_optims_default_tf",
    "create_optims_gan_default_tf",
    "load_checkpoint_tf",
    "save_checkpoint_tf",
    "tf_load_checkpoint",
    "tf_save_checkpoint",
]
