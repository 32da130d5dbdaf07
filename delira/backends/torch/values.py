"""From tensors to numpy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from delira.errors import NetworkError
from delira.utils.single_numbers import read_numbers
from delira.utils.trees import map_leaves


def to_numpy(tree: Any) -> Any:
    """Replace every tensor of a nested structure by a numpy array on the host (bfloat16 becomes float32)."""
    return map_leaves(_to_array, tree)


def _to_array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if value.dtype is torch.bfloat16:
        value = value.float()
    return value.cpu().numpy()


def concatenate(trees: Sequence[Any]) -> Any:
    """One tree out of those of the parts of a batch; what has no samples is taken from the last part."""
    last = trees[-1]
    if isinstance(last, Mapping):
        return {key: concatenate([tree[key] for tree in trees]) for key in last}
    if isinstance(last, (list, tuple)):
        parts = [concatenate(entries) for entries in zip(*trees, strict=True)]
        return type(last)(*parts) if hasattr(last, "_fields") else type(last)(parts)
    if isinstance(last, np.ndarray):
        return np.concatenate(trees) if last.ndim else last
    return torch.cat(list(trees)) if isinstance(last, torch.Tensor) and last.ndim else last


def nonfinite(weights: Mapping[str, torch.Tensor]) -> list[str]:
    """Names of the tensors that hold an infinite value or none that is a number; waits once for the device."""
    if not weights:
        return []
    # a sum is fast, and finite only if all of it is
    device = next(iter(weights.values())).device
    sums = torch.stack([weight.detach().sum().abs().float().to(device) for weight in weights.values()])
    suspects = [name for name, ok in zip(weights, torch.isfinite(sums).tolist(), strict=True) if not ok]
    return [name for name in suspects if not bool(torch.isfinite(weights[name]).all())]


def convert_torch_tensor_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword tensors; other values pass. 0-d tensors become shape ``(1,)``."""

    def convert(value: Any) -> Any:
        array = _to_array(value)
        return array.reshape(1) if isinstance(value, torch.Tensor) and array.ndim == 0 else array

    return [map_leaves(convert, value) for value in args], {k: map_leaves(convert, v) for k, v in kwargs.items()}


def read_scalars(values: Sequence[Any]) -> np.ndarray:
    """Bring single values to the host: those of an accelerator in one transfer.

    Raises
    ------
    NetworkError
        If a value is no single number.
    """
    if wrong := [shape for value in values if math.prod(shape := tuple(getattr(value, "shape", ()))) != 1]:
        raise NetworkError(
            f"a loss or training metric has the shape {wrong[0]}; the closure returns single numbers "
            "(e.g. use reduction='mean')"
        )
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if tensors and len(tensors) == len(values) and not any(tensor.is_cpu for tensor in tensors):
        return torch.stack([tensor.detach().reshape(()) for tensor in tensors]).to("cpu", torch.float64).numpy()
    # on the CPU there is nothing to wait for, and to stack tensors takes ten times as long
    return read_numbers(values)
