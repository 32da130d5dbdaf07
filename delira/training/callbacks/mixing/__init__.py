"""Callbacks that train on mixtures of samples, on samples with holes, and on labels that are not certain."""

from delira.training.callbacks.mixing.batches import MixedTargets
from delira.training.callbacks.mixing.between_class import BCPlus, bc_loss
from delira.training.callbacks.mixing.erasing import CutMix, Cutout, RandomErase
from delira.training.callbacks.mixing.manifold import ManifoldMixup
from delira.training.callbacks.mixing.mixed import MixupLoss, mixup_loss
from delira.training.callbacks.mixing.mixup import RANDOM, Mixup, SamplePairing, default_policy
from delira.training.callbacks.mixing.smoothing import LabelSmoothingRegularisation
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
