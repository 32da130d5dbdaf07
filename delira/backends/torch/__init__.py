"""The PyTorch backend.

PyTorch runs step by step and keeps gradients on the parameters, so the default closure is plain
Python, and what must happen between gradients and update (loss scaling, accumulation, clipping) sits in
a thin wrapper around each optimizer.
"""

import delira.utils.triton_first

# isort: split
from delira.backends.torch.arrays import convert_torch_tensor_to_npy
from delira.backends.torch.checkpoints import (
    load_checkpoint_torch,
    save_checkpoint_torch,
    torch_load_checkpoint,
    torch_save_checkpoint,
)
from delira.backends.torch.losses import (
    BCEFocalLossLogitPyTorch,
    BCEFocalLossPyTorch,
    DiceCELossPyTorch,
    DiceLossPyTorch,
    TverskyLossPyTorch,
)
from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks import (
    ClassificationNetworkBasePyTorch,
    GenerativeAdversarialNetworkBasePyTorch,
    RegressionNetworkBasePyTorch,
    UNet2dPyTorch,
    UNet3dPyTorch,
    VariationalAutoencoderPyTorch,
    VGG3DClassificationNetworkPyTorch,
)
from delira.backends.torch.optimizers import create_optims_default_pytorch, create_optims_gan_default_pytorch
from delira.backends.torch.schedules import (
    CosineAnnealingLRCallbackPyTorch,
    DefaultPyTorchSchedulerCallback,
    ExponentialLRCallbackPyTorch,
    LambdaLRCallbackPyTorch,
    MultiStepLRCallbackPyTorch,
    OneCycleLRCallbackPyTorch,
    ReduceLROnPlateauCallbackPyTorch,
    StepLRCallbackPyTorch,
    TorchSchedulerCallback,
)
from delira.backends.torch.training import PyTorchExperiment, PyTorchNetworkTrainer
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
