"""Callbacks that train on mixtures of samples, on samples with holes, and on labels that are not certain."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.callbacks.mixing.batches": "LabelSmoothingRegularisation MixedTargets",
        "delira.callbacks.mixing.between_class": "BCPlus bc_loss",
        "delira.callbacks.mixing.erasing": "CutMix Cutout RandomErase",
        "delira.callbacks.mixing.mixed": "MixupLoss mixup_loss",
        "delira.callbacks.mixing.mixup": "RANDOM ManifoldMixup Mixup SamplePairing default_policy",
    },
)
