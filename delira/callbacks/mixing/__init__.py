"""Callbacks that train on mixtures of samples, on samples with holes, and on labels that are not certain."""

from delira.callbacks.mixing.batches import MixedTargets
from delira.callbacks.mixing.between_class import BCPlus, bc_loss
from delira.callbacks.mixing.erasing import CutMix, Cutout, RandomErase
from delira.callbacks.mixing.manifold import ManifoldMixup
from delira.callbacks.mixing.mixed import MixupLoss, mixup_loss
from delira.callbacks.mixing.mixup import RANDOM, Mixup, SamplePairing, default_policy
from delira.callbacks.mixing.smoothing import LabelSmoothingRegularisation
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
