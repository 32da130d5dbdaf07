"""Learning-rate schedules: those of every backend, and the bases of what backends make theirs of."""

from delira.callbacks.schedules.cycles import CyclicLR, OneCycleLR, WarmupCosine
from delira.callbacks.schedules.for_all import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    MultiStepLR,
    ReduceLROnPlateau,
    StepLR,
    TorchScheduler,
)
from delira.callbacks.schedules.rates import RateSchedule
from delira.callbacks.schedules.schedule import OptimizerSchedule

__all__ = [
    "CosineAnnealingLR",
    "CyclicLR",
    "ExponentialLR",
    "LambdaLR",
    "MultiStepLR",
    "OneCycleLR",
    "OptimizerSchedule",
    "RateSchedule",
    "ReduceLROnPlateau",
    "StepLR",
    "TorchScheduler",
    "WarmupCosine",
]
