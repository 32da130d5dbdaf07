"""What the mean of a loss counts in a batch, where that is not the samples: class weights, and targets left out."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: what counts, of a batch, by its targets; None: its samples
Weigh = Callable[[Any], Any]

#: losses whose mean is a sum over the weights of the targets that count, by module and name
_OF_TORCH = {
    "torch.nn.modules.loss": ("CrossEntropyLoss", "NLLLoss", "LinearCrossEntropyLoss"),
    "torch.nn.functional": ("cross_entropy", "nll_loss"),
}
_OF_KERAS = "SparseCategoricalCrossentropy"
#: so many numbers are counted faster by a list than by numpy
_FEW = 128


def weigh(loss: Any) -> Weigh | None:
    """How to weigh the batch means of a loss, so that their mean is the loss of the whole data set.

    Parameters
    ----------
    loss
        Any loss; those of PyTorch and Keras with class weights, ``ignore_index`` or ``ignore_class`` are known, and
        ``functools.partial`` of functions is looked through.

    Returns
    -------
    callable or None
        Of the targets of a batch: a number, also one on a device, or ``None`` for its number of samples.
        ``None`` for losses that are means over samples, or not known.
    """
    settings: dict[str, Any] = {}
    while isinstance(loss, functools.partial):
        if loss.args:
            return None
        settings, loss = {**loss.keywords, **settings}, loss.func
    if getattr(loss, "__name__", "") in _OF_TORCH.get(getattr(loss, "__module__", ""), ()):
        return _weigh(settings)
    cls: Any = type(loss)
    for parent in cls.__mro__:
        place = parent.__module__
        if parent.__name__ in _OF_TORCH.get(place, ()) and cls.forward is parent.forward:
            return _weigh({**vars(loss), **loss._buffers})
        if parent.__name__ == _OF_KERAS and place.startswith("keras.") and cls.call is parent.call:
            is_mean = loss.reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight")
            has_any = is_mean and loss.ignore_class is not None
            return functools.partial(_counted, ignored=loss.ignore_class) if has_any else None
    return None


def _weigh(settings: Mapping[str, Any]) -> Weigh | None:
    if settings.get("reduction", "mean") != "mean" or {"size_average", "reduce"} & settings.keys():
        return None
    ignored, weights = settings.get("ignore_index", -100), settings.get("weight")
    if weights is None:
        return functools.partial(_number_of, ignored=ignored)
    return functools.partial(_sum_of, ignored=ignored, weights=weights)


def _number_of(target: Any, ignored: int | None) -> Any:
    """How many targets of PyTorch count; ``None`` for probabilities, of which all do."""
    if not hasattr(target, "is_floating_point") or target.is_floating_point():
        return None
    if not target.is_cpu:  # not waited for
        return (target != ignored).sum()
    if target.dim() == 1 and len(target) <= _FEW:
        return len(target) - target.tolist().count(ignored)
    return int(np.count_nonzero(target.numpy() != ignored))


def _sum_of(target: Any, ignored: int | None, weights: Any) -> Any:
    """The weights of the targets of PyTorch that count, summed."""
    if not hasattr(target, "is_floating_point") or target.is_floating_point():
        return None
    counts = target != ignored
    return (weights.detach()[target.long() * counts] * counts).double().sum()


def _counted(target: Any, ignored: int) -> Any:
    """How many targets of Keras count."""
    return np.count_nonzero(np.asarray(target) != ignored)
