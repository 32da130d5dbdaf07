"""Learning-rate schedules: those of every backend, and the bases of what backends make theirs of."""

from delira.callbacks.schedules.for_all import (
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
from delira.callbacks.schedules.rates import OptimizerSchedule, RateSchedule

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
