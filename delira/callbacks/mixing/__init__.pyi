from delira.callbacks.mixing.images import bc_loss as bc_loss
from delira.callbacks.mixing.images import BCPlus as BCPlus
from delira.callbacks.mixing.images import CutMix as CutMix
from delira.callbacks.mixing.images import Cutout as Cutout
from delira.callbacks.mixing.images import RandomErase as RandomErase
from delira.callbacks.mixing.mixed import LabelSmoothingRegularisation as LabelSmoothingRegularisation
from delira.callbacks.mixing.mixed import MixedTargets as MixedTargets
from delira.callbacks.mixing.mixed import mixup_loss as mixup_loss
from delira.callbacks.mixing.mixed import MixupLoss as MixupLoss
from delira.callbacks.mixing.mixup import default_policy as default_policy
from delira.callbacks.mixing.mixup import ManifoldMixup as ManifoldMixup
from delira.callbacks.mixing.mixup import Mixup as Mixup
from delira.callbacks.mixing.mixup import RANDOM as RANDOM
from delira.callbacks.mixing.mixup import SamplePairing as SamplePairing

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
