"""The table of rooms: which backend needs which package and provides which public names.

Adding a backend is one folder in ``delira/backends`` and one entry in each table.
"""

import importlib.util

#: room -> package that must be installed for it
FRAMEWORKS = {"torch": "torch"}

#: room -> public package (below ``delira``) -> names shown there
NAMES = {
    "torch": {
        "models": ["AbstractPyTorchNetwork"],
        "training": [
            "PyTorchExperiment",
            "PyTorchNetworkTrainer",
            "convert_torch_tensor_to_npy",
            "create_optims_default_pytorch",
            "create_optims_gan_default_pytorch",
        ],
        "training.callbacks": [
            "CosineAnnealingLRCallbackPyTorch",
            "DefaultPyTorchSchedulerCallback",
            "ExponentialLRCallbackPyTorch",
            "LambdaLRCallbackPyTorch",
            "MultiStepLRCallbackPyTorch",
            "OneCycleLRCallbackPyTorch",
            "ReduceLROnPlateauCallbackPyTorch",
            "StepLRCallbackPyTorch",
            "TorchSchedulerCallback",
        ],
        "training.train_utils": [
            "convert_torch_tensor_to_npy",
            "create_optims_default_pytorch",
            "create_optims_gan_default_pytorch",
        ],
        "io": [
            "load_checkpoint_torch",
            "save_checkpoint_torch",
            "torch_load_checkpoint",
            "torch_save_checkpoint",
        ],
    },
}


def installed_rooms() -> tuple[str, ...]:
    """Rooms whose package is installed; nothing is imported to find out."""
    return tuple(room for room, package in FRAMEWORKS.items() if importlib.util.find_spec(package))
