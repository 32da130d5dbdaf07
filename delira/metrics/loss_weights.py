"""What the mean of a loss counts in a batch, where that is not the samples: class weights, and targets left out."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from delira.utils.arrays import Array
from delira.utils.frameworks import LIBRARIES, is_of_framework

#: what counts, of a batch, by its targets; None: its samples
Weigh = Callable[[Any], Any]

#: losses of PyTorch whose mean is a sum over the weights of the targets that count, by module and name
_OF_TORCH = {
    "nn.modules.loss": ("CrossEntropyLoss", "NLLLoss", "LinearCrossEntropyLoss"),
    "nn.functional": ("cross_entropy", "nll_loss"),
}
_OF_KERAS = "SparseCategoricalCrossentropy"
#: what TorchScript adds to the names of types that it compiles again
_MANGLED = re.compile(r"\.___torch_mangle_\d+")
#: so many numbers are counted faster by a list than by numpy
_FEW = 128


def weigh(loss: Any) -> Weigh | None:
    """Return how to weigh the batch means of a loss, so that their mean is the loss of the whole data set.

    Parameters
    ----------
    loss
        Any loss; those of PyTorch and Keras with class weights, ``ignore_index`` or ``ignore_class`` are known, and
        ``functools.partial`` of functions is looked through, as is what ``torch.compile`` or TorchScript made of them.

    Returns
    -------
    callable or None
        Of the targets of a batch: a number, also one on a device, or ``None`` for its number of samples.
        ``None`` for losses that are means over samples, or not known.
    """
    settings: dict[str, Any] = {}
    while (inside := _compiled_of(loss)) is not None or isinstance(loss, functools.partial):
        if inside is not None:
            loss = inside
            continue
        if loss.args:
            return None
        settings, loss = {**loss.keywords, **settings}, loss.func
    if _is_of_torch(getattr(loss, "__module__", ""), getattr(loss, "__name__", "")):
        return _weigh(settings)
    if (kept := _of_torchscript(loss)) is not None:
        return _weigh({**kept, **settings})
    cls: Any = type(loss)
    for parent in cls.__mro__:
        if _is_of_torch(parent.__module__, parent.__name__) and cls.forward is parent.forward:
            return _weigh({**vars(loss), **loss._buffers})
        if parent.__name__ == _OF_KERAS and is_of_framework(parent) and cls.call is parent.call:
            is_mean = loss.reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight")
            has_any = is_mean and loss.ignore_class is not None
            return functools.partial(_counted, ignored=loss.ignore_class) if has_any else None
    return None


def _is_of_torch(place: str, name: str) -> bool:
    package, _, module = str(place).partition(".")
    return package in LIBRARIES and name in _OF_TORCH.get(module, ())


def _compiled_of(loss: object) -> Any:
    """Return what ``torch.compile`` made a loss of; ``None`` if it is none of it."""
    held = getattr(loss, "__dict__", {})
    if (module := (held.get("_modules") or {}).get("_orig_mod")) is not None:
        return module
    inside = held.get("_torchdynamo_orig_callable")
    fixed = getattr(inside, "__wrapped__", None)  # a partial is put into a function before it is compiled
    return fixed if isinstance(fixed, functools.partial) else inside


def _of_torchscript(loss: Any) -> dict[str, Any] | None:
    """Return the settings that a loss of PyTorch has kept in TorchScript; ``None`` if it is none."""
    name = getattr(loss, "qualified_name", "")  # of a function
    if not name and hasattr(type(loss), "original_name"):
        name = loss._c._type().qualified_name()
    name = _MANGLED.sub("", name).removeprefix("__torch__.")
    place, _, own = name.rpartition(".")
    if not _is_of_torch(place, own):
        return None
    return {one: getattr(loss, one) for one in ("reduction", "ignore_index", "weight") if hasattr(loss, one)}


def _weigh(settings: Mapping[str, Any]) -> Weigh | None:
    if settings.get("reduction", "mean") != "mean" or {"size_average", "reduce"} & settings.keys():
        return None
    ignored, weights = settings.get("ignore_index", -100), settings.get("weight")
    return functools.partial(_of_tensor, ignored=ignored, weights=weights)


def _of_tensor(target: Any, ignored: int | None, weights: Any) -> Any:
    """Return how many targets of PyTorch count, or the sum of their weights; ``None`` for probabilities: all do."""
    if not hasattr(target, "is_floating_point") or target.is_floating_point():
        return None
    if weights is not None:
        counts = target != ignored
        return (weights.detach()[target.long() * counts] * counts).double().sum()
    if not target.is_cpu:  # not waited for
        return (target != ignored).sum()
    if target.dim() == 1 and len(target) <= _FEW:
        return len(target) - target.tolist().count(ignored)
    return int(np.count_nonzero(target.numpy() != ignored))


def _counted(target: Array, ignored: int) -> Any:
    """Return how many targets of Keras count."""
    return np.count_nonzero(np.asarray(target) != ignored)
