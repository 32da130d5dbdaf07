from delira.callbacks.schedules.for_all import CosineAnnealingLR as CosineAnnealingLR
from delira.callbacks.schedules.for_all import CyclicLR as CyclicLR
from delira.callbacks.schedules.for_all import ExponentialLR as ExponentialLR
from delira.callbacks.schedules.for_all import LambdaLR as LambdaLR
from delira.callbacks.schedules.for_all import MultiStepLR as MultiStepLR
from delira.callbacks.schedules.for_all import OneCycleLR as OneCycleLR
from delira.callbacks.schedules.for_all import ReduceLROnPlateau as ReduceLROnPlateau
from delira.callbacks.schedules.for_all import StepLR as StepLR
from delira.callbacks.schedules.for_all import TorchScheduler as TorchScheduler
from delira.callbacks.schedules.for_all import WarmupCosine as WarmupCosine
from delira.callbacks.schedules.rates import OptimizerSchedule as OptimizerSchedule
from delira.callbacks.schedules.rates import RateSchedule as RateSchedule

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
