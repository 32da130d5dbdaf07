from delira.backends.jax.arrays import convert_jax_array_to_npy as convert_jax_array_to_npy
from delira.backends.jax.checkpoints import load_checkpoint_jax as load_checkpoint_jax
from delira.backends.jax.checkpoints import save_checkpoint_jax as save_checkpoint_jax
from delira.backends.jax.losses import BCEFocalLossJax as BCEFocalLossJax
from delira.backends.jax.losses import BCEFocalLossLogitJax as BCEFocalLossLogitJax
from delira.backends.jax.losses import DiceCELossJax as DiceCELossJax
from delira.backends.jax.losses import DiceLossJax as DiceLossJax
from delira.backends.jax.losses import TverskyLossJax as TverskyLossJax
from delira.backends.jax.network import AbstractJaxNetwork as AbstractJaxNetwork
from delira.backends.jax.networks import ClassificationNetworkBaseJax as ClassificationNetworkBaseJax
from delira.backends.jax.networks import GenerativeAdversarialNetworkBaseJax as GenerativeAdversarialNetworkBaseJax
from delira.backends.jax.networks import MultilayerPerceptronJax as MultilayerPerceptronJax
from delira.backends.jax.networks import RegressionNetworkBaseJax as RegressionNetworkBaseJax
from delira.backends.jax.networks import ResidualUNet2dJax as ResidualUNet2dJax
from delira.backends.jax.networks import ResidualUNet3dJax as ResidualUNet3dJax
from delira.backends.jax.networks import UNet2dJax as UNet2dJax
from delira.backends.jax.networks import UNet3dJax as UNet3dJax
from delira.backends.jax.networks import VariationalAutoencoderJax as VariationalAutoencoderJax
from delira.backends.jax.networks import VGG3DClassificationNetworkJax as VGG3DClassificationNetworkJax
from delira.backends.jax.optimizers import create_optims_default_jax as create_optims_default_jax
from delira.backends.jax.optimizers import create_optims_gan_default_jax as create_optims_gan_default_jax
from delira.backends.jax.optimizers import JaxOptimizer as JaxOptimizer
from delira.backends.jax.schedules import CosineAnnealingLRCallbackJax as CosineAnnealingLRCallbackJax
from delira.backends.jax.schedules import DefaultJaxSchedulerCallback as DefaultJaxSchedulerCallback
from delira.backends.jax.schedules import ExponentialLRCallbackJax as ExponentialLRCallbackJax
from delira.backends.jax.schedules import LambdaLRCallbackJax as LambdaLRCallbackJax
from delira.backends.jax.schedules import MultiStepLRCallbackJax as MultiStepLRCallbackJax
from delira.backends.jax.schedules import OneCycleLRCallbackJax as OneCycleLRCallbackJax
from delira.backends.jax.schedules import OptaxScheduleCallbackJax as OptaxScheduleCallbackJax
from delira.backends.jax.schedules import ReduceLROnPlateauCallbackJax as ReduceLROnPlateauCallbackJax
from delira.backends.jax.schedules import StepLRCallbackJax as StepLRCallbackJax
from delira.backends.jax.training import JaxExperiment as JaxExperiment
from delira.backends.jax.training import JaxNetworkTrainer as JaxNetworkTrainer

__all__ = [
    "AbstractJaxNetwork",
    "BCEFocalLossJax",
    "BCEFocalLossLogitJax",
    "ClassificationNetworkBaseJax",
    "CosineAnnealingLRCallbackJax",
    "DefaultJaxSchedulerCallback",
    "DiceCELossJax",
    "DiceLossJax",
    "ExponentialLRCallbackJax",
    "GenerativeAdversarialNetworkBaseJax",
    "JaxExperiment",
    "JaxNetworkTrainer",
    "JaxOptimizer",
    "LambdaLRCallbackJax",
    "MultiStepLRCallbackJax",
    "MultilayerPerceptronJax",
    "OneCycleLRCallbackJax",
    "OptaxScheduleCallbackJax",
    "ReduceLROnPlateauCallbackJax",
    "RegressionNetworkBaseJax",
    "ResidualUNet2dJax",
    "ResidualUNet3dJax",
    "StepLRCallbackJax",
    "TverskyLossJax",
    "UNet2dJax",
    "UNet3dJax",
    "VGG3DClassificationNetworkJax",
    "VariationalAutoencoderJax",
    "convert_jax_array_to_npy",
    "create_optims_default_jax",
    "create_optims_gan_default_jax",
    "load_checkpoint_jax",
    "save_checkpoint_jax",
]
