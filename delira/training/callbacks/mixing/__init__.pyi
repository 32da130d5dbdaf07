from delira.training.callbacks.mixing.batches import MixedTargets as MixedTargets
from delira.training.callbacks.mixing.between_class import bc_loss as bc_loss
from delira.training.callbacks.mixing.between_class import BCPlus as BCPlus
from delira.training.callbacks.mixing.erasing import CutMix as CutMix
from delira.training.callbacks.mixing.erasing import Cutout as Cutout
from delira.training.callbacks.mixing.erasing import RandomErase as RandomErase
from delira.training.callbacks.mixing.manifold import ManifoldMixup as ManifoldMixup
from delira.training.callbacks.mixing.mixed import mixup_loss as mixup_loss
from delira.training.callbacks.mixing.mixed import MixupLoss as MixupLoss
from delira.training.callbacks.mixing.mixup import default_policy as default_policy
from delira.training.callbacks.mixing.mixup import Mixup as Mixup
from delira.training.callbacks.mixing.mixup import RANDOM as RANDOM
from delira.training.callbacks.mixing.mixup import SamplePairing as SamplePairing
from delira.training.callbacks.mixing.smoothing import LabelSmoothingRegularisation as LabelSmoothingRegularisation

__all__ = [
    "RANDOM",
    "BCPlus",
    "CutMix",
    "Cutout",
    "LabelSmoothingRegularisation",
    "ManifoldMixup",
    "MixedTargets",
    "Mixup",
    "MixupLoss",
    "RandomErase",
    "SamplePairing",
    "bc_loss",
    "default_policy",
    "mixup_loss",
]
