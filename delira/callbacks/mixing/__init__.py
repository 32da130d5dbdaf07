"""Callbacks that train on mixtures of samples, on samples with holes, and on labels that are not certain."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.callbacks.mixing.images": "BCPlus CutMix Cutout RandomErase bc_loss",
        "delira.callbacks.mixing.mixed": "LabelSmoothingRegularisation MixedTargets MixupLoss mixup_loss",
        "delira.callbacks.mixing.mixup": "RANDOM ManifoldMixup Mixup SamplePairing default_policy",
    },
)
