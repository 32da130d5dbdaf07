"""The TensorFlow backend.

TensorFlow is fast where it computes a graph, so a step is traced once for each kind of batch and Python runs no more
than that. What a step decides by Python is decided before it (its place in an accumulation, what is frozen); what it
decides by numbers (batches left out, the scale of a loss) it decides inside the graph. Keras gives weights their shapes
with the first batch, keeps generators inside the layers and numbers its names through the process: the backend names
variables by their place in the network.
"""

import delira.utils.triton_first

# isort: split
from delira.backends.tensorflow.arrays import convert_tf_tensor_to_npy
from delira.backends.tensorflow.checkpoints import (
    load_checkpoint_tf,
    save_checkpoint_tf,
    tf_load_checkpoint,
    tf_save_checkpoint,
)
from delira.backends.tensorflow.losses import (
    BCEFocalLossLogitTf,
    BCEFocalLossTf,
    DiceCELossTf,
    DiceLossTf,
    TverskyLossTf,
)
from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks import (
    ClassificationNetworkBaseTf,
    GenerativeAdversarialNetworkBaseTf,
    RegressionNetworkBaseTf,
    UNet2dTf,
    UNet3dTf,
    VariationalAutoencoderTf,
    VGG3DClassificationNetworkTf,
)
from delira.backends.tensorflow.optimizers import create_optims_default_tf, create_optims_gan_default_tf
from delira.backends.tensorflow.schedules import (
    CosineAnnealingLRCallbackTf,
    DefaultTfSchedulerCallback,
    ExponentialLRCallbackTf,
    LambdaLRCallbackTf,
    MultiStepLRCallbackTf,
    OneCycleLRCallbackTf,
    ReduceLROnPlateauCallbackTf,
    StepLRCallbackTf,
    TfSchedulerCallback,
)
from delira.backends.tensorflow.training import TfExperiment, TfNetworkTrainer
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
