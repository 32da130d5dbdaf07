"""The JAX backend: networks of ``flax.nnx``, optimizers of optax.

JAX compiles pure functions and keeps no generator. A step takes the network apart into arrays, runs as one
program that reuses their memory, and puts the results back: nobody may keep a weight from one step to the next.
Keys of random numbers are made of the seed of the epoch and the number of the step.
"""

from delira.backends.jax.arrays import convert_jax_array_to_npy
from delira.backends.jax.checkpoints import load_checkpoint_jax, save_checkpoint_jax
from delira.backends.jax.losses import BCEFocalLossJax, BCEFocalLossLogitJax, DiceCELossJax, DiceLossJax, TverskyLossJax
from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks import (
    ClassificationNetworkBaseJax,
    GenerativeAdversarialNetworkBaseJax,
    RegressionNetworkBaseJax,
    UNet2dJax,
    UNet3dJax,
    VariationalAutoencoderJax,
    VGG3DClassificationNetworkJax,
)
from delira.backends.jax.optimizers import JaxOptimizer, create_optims_default_jax, create_optims_gan_default_jax
from delira.backends.jax.schedules import (
    CosineAnnealingLRCallbackJax,
    DefaultJaxSchedulerCallback,
    ExponentialLRCallbackJax,
    LambdaLRCallbackJax,
    MultiStepLRCallbackJax,
    OneCycleLRCallbackJax,
    OptaxScheduleCallbackJax,
    ReduceLROnPlateauCallbackJax,
    StepLRCallbackJax,
)
from delira.backends.jax.training import JaxExperiment, JaxNetworkTrainer
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
