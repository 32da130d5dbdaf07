"""From tensors to numpy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from delira.errors import NetworkError
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


def convert_torch_tensor_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword tensors; other values pass. 0-d tensors become shape ``(1,)``."""

    def convert(value: Any) -> Any:
        array = _to_array(value)
        return array.reshape(1) if isinstance(value, torch.Tensor) and array.ndim == 0 else array

    return [map_leaves(convert, value) for value in args], {k: map_leaves(convert, v) for k, v in kwargs.items()}


def read_scalars(values: Sequence[Any]) -> np.ndarray:
    """Bring single values to the host in one transfer.

    Raises
    ------
    NetworkError
        If a value is no single number.
    """
    if all(isinstance(value, torch.Tensor) for value in values):
        if wrong := next((value for value in values if value.numel() != 1), None):
            raise NetworkError(
                f"a loss or training metric has the shape {tuple(wrong.shape)}; the closure returns single numbers "
                "(e.g. use reduction='mean')"
            )
        return torch.stack([value.detach().reshape(()) for value in values]).to("cpu", torch.float64).numpy()
    return np.array([float(value) for value in values], dtype=np.float64)
