"""Learning-rate schedules: those of every backend, and the bases of what backends make theirs of."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.callbacks.schedules.for_all": "CosineAnnealingLR CyclicLR ExponentialLR LambdaLR MultiStepLR OneCycleLR"
        " ReduceLROnPlateau StepLR TorchScheduler WarmupCosine",
        "delira.callbacks.schedules.rates": "OptimizerSchedule RateSchedule",
    },
)
