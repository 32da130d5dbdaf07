"""Callbacks that train on mixtures of samples, on samples with holes, and on labels that are not certain."""

from delira.training.callbacks.mixing.batches import MixedTargets
from delira.training.callbacks.mixing.between_class import BCPlus, bc_loss
from delira.training.callbacks.mixing.erasing import CutMix, Cutout, RandomErase
from delira.training.callbacks.mixing.manifold import ManifoldMixup
from delira.training.callbacks.mixing.mixed import MixupLoss, mixup_loss
from delira.training.callbacks.mixing.mixup import RANDOM, Mixup, SamplePairing, default_policy
from delira.training.callbacks.mixing.smoothing import LabelSmoothingRegularisation

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
