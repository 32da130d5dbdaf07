"""The PyTorch backend.

PyTorch runs step by step and keeps gradients on the parameters, so the default closure is plain
Python, and what must happen between gradients and update (loss scaling, accumulation, clipping) sits in
a thin wrapper around each optimizer.
"""

import delira.utils.triton_first

# isort: split
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.backends.torch.arrays": "convert_torch_tensor_to_npy",
        "delira.backends.torch.checkpoints": (
            "load_checkpoint_torch save_checkpoint_torch torch_load_checkpoint torch_save_checkpoint"
        ),
        "delira.backends.torch.losses": (
            "BCEFocalLossLogitPyTorch BCEFocalLossPyTorch DiceCELossPyTorch DiceLossPyTorch TverskyLossPyTorch"
        ),
        "delira.backends.torch.network": "AbstractPyTorchNetwork",
        "delira.backends.torch.networks": (
            "ClassificationNetworkBasePyTorch GenerativeAdversarialNetworkBasePyTorch RegressionNetworkBasePyTorch "
            "UNet2dPyTorch UNet3dPyTorch VariationalAutoencoderPyTorch VGG3DClassificationNetworkPyTorch"
        ),
        "delira.backends.torch.optimizers": "create_optims_default_pytorch create_optims_gan_default_pytorch",
        "delira.backends.torch.schedules": (
            "CosineAnnealingLRCallbackPyTorch DefaultPyTorchSchedulerCallback ExponentialLRCallbackPyTorch "
            "LambdaLRCallbackPyTorch MultiStepLRCallbackPyTorch OneCycleLRCallbackPyTorch "
            "ReduceLROnPlateauCallbackPyTorch StepLRCallbackPyTorch TorchSchedulerCallback"
        ),
        "delira.backends.torch.training": "PyTorchExperiment PyTorchNetworkTrainer",
    },
)
