"""The TensorFlow backend.

TensorFlow is fast where it computes a graph, so a step is traced once for each kind of batch and Python runs no more
than that. What a step decides by Python is decided before it (its place in an accumulation, what is frozen); what it
decides by numbers (batches left out, the scale of a loss) it decides inside the graph. Keras gives weights their shapes
with the first batch, keeps generators inside the layers and numbers its names through the process: the backend names
variables by their place in the network.
"""

import delira.utils.triton_first

# isort: split
import keras  # whoever asks for a name without the framework hears of it at once

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.backends.tensorflow.arrays": "convert_tf_tensor_to_npy",
        "delira.backends.tensorflow.checkpoints": (
            "load_checkpoint_tf save_checkpoint_tf tf_load_checkpoint tf_save_checkpoint"
        ),
        "delira.backends.tensorflow.losses": "BCEFocalLossLogitTf BCEFocalLossTf DiceCELossTf DiceLossTf TverskyLossTf",
        "delira.backends.tensorflow.network": "AbstractTfNetwork",
        "delira.backends.tensorflow.networks": (
            "ClassificationNetworkBaseTf GenerativeAdversarialNetworkBaseTf RegressionNetworkBaseTf UNet2dTf UNet3dTf "
            "VariationalAutoencoderTf VGG3DClassificationNetworkTf"
        ),
        "delira.backends.tensorflow.optimizers": "create_optims_default_tf create_optims_gan_default_tf",
        "delira.backends.tensorflow.schedules": (
            "CosineAnnealingLRCallbackTf DefaultTfSchedulerCallback ExponentialLRCallbackTf LambdaLRCallbackTf "
            "MultiStepLRCallbackTf OneCycleLRCallbackTf ReduceLROnPlateauCallbackTf StepLRCallbackTf "
            "TfSchedulerCallback"
        ),
        "delira.backends.tensorflow.training": "TfExperiment TfNetworkTrainer",
    },
)
