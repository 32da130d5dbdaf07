"""Callbacks: what happens beside the loop, and the decorators that make them of functions of the state.

The accumulation of gradients over several batches is none of them, but a setting of trainers and trials:
``gradient_accumulation_steps``.
"""

from delira.callbacks.abstract_callback import AbstractCallback, CallbackList
from delira.callbacks.checkpoints import Best, Interval, ModelCheckpoint, MostRecent
from delira.callbacks.confusion import PyCM
from delira.callbacks.csv_logger import CSVLogger
from delira.callbacks.decorators import (
    add_to_loss,
    bind_to,
    on_backward,
    on_checkpoint,
    on_criterion,
    on_criterion_validation,
    on_end,
    on_end_epoch,
    on_end_training,
    on_end_validation,
    on_forward,
    on_forward_validation,
    on_init,
    on_sample,
    on_sample_validation,
    on_start,
    on_start_epoch,
    on_start_training,
    on_start_validation,
    on_step_training,
    on_step_validation,
    once,
    once_per_epoch,
    only_if,
    traceable,
)
from delira.callbacks.early_stopping import EarlyStopping
from delira.callbacks.freezing import FreezeUnfreeze
from delira.callbacks.gradient_clipping import GradientClipping, GradientNormClipping
from delira.callbacks.history import HistoryWriter
from delira.callbacks.hooks import Callback
from delira.callbacks.imaging import (
    CachingImagingCallback,
    FromState,
    ImagingCallback,
    MakeGrid,
    make_grid,
)
from delira.callbacks.initialisers import (
    KaimingNormal,
    KaimingUniform,
    WeightInit,
    XavierNormal,
    XavierUniform,
    ZeroBias,
)
from delira.callbacks.live_plot import LiveLossPlot
from delira.callbacks.lsuv import LsuvInit
from delira.callbacks.lsuv import LsuvInit as LSUV  # its older name
from delira.callbacks.mixing import (
    BCPlus,
    CutMix,
    Cutout,
    LabelSmoothingRegularisation,
    ManifoldMixup,
    MixedTargets,
    Mixup,
    RandomErase,
    SamplePairing,
    bc_loss,
    mixup_loss,
)
from delira.callbacks.printers import ConsolePrinter, Tqdm
from delira.callbacks.profiler import Profiler, TimerMetric
from delira.callbacks.progress import ProgressBar
from delira.callbacks.schedules import (
    CosineAnnealingLR,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    StepLR,
    TorchScheduler,
    WarmupCosine,
)
from delira.callbacks.swa import SWA
from delira.callbacks.tensorboard import TensorBoardWriter
from delira.callbacks.tensorboard_base import AbstractTensorBoard
from delira.callbacks.tensorboard_images import TensorBoardImages
from delira.callbacks.tensorboard_projector import TensorBoardProjector
from delira.callbacks.tensorboard_scalars import TensorBoard
from delira.callbacks.tensorboard_text import TensorBoardText
from delira.callbacks.terminate_on_nan import TerminateOnNaN
from delira.callbacks.unpack_state import UnpackState
from delira.callbacks.weight_average import ExponentialMovingAverage
from delira.callbacks.weight_decay import L1WeightDecay, L2WeightDecay, WeightDecay
from delira.callbacks.weights import learned_weights
from delira.logging.writers import VisdomParams, close_writer, get_writer
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, {"delira.trial.class_appearance": "ClassAppearanceModel"})
