"""A batch somewhere else, or in another number format."""

import numbers
from typing import Any

from delira.contract.kinds import Array, Tree
from delira.errors import ConfigError
from delira.utils.arrays import cast, ops_of
from delira.utils.trees import map_leaves


def deep_to(batch: Tree, device: Any = None, dtype: Any = None) -> Any:
    """A batch somewhere else, or in another number format; the batch itself stays as it is.

    Parameters
    ----------
    batch
        Arrays, and tuples, lists, named tuples and dicts of them; what is no array is passed as it is.
    device
        Of PyTorch, for its tensors; None: stay.
    dtype
        For floating-point numbers; None: stay.

    Raises
    ------
    ConfigError
        If there is no such device, or the dtype is none of floating-point numbers.
    """

    def move(leaf: Array) -> Any:
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            return leaf
        if device is not None:
            if not hasattr(leaf, "to"):
                raise ConfigError(f"deep_to moves tensors of PyTorch to devices, got a {type(leaf).__name__}")
            leaf = _moved(leaf, device)
        return _of_type(leaf, dtype) if dtype is not None and ops_of(leaf).is_float(leaf) else leaf

    return map_leaves(move, batch)


def _moved(tensor: Array, device: Any) -> Any:
    if not isinstance(device, bool):
        try:
            return tensor.to(device=device)
        except Exception as error:  # each kind of device has its own
            raise ConfigError(f"deep_to: there is no device {device!r}: {error}") from error
    raise ConfigError(f"deep_to: device is one of PyTorch, got {device!r}")


def _of_type(array: Array, dtype: Any) -> Any:
    why = None
    if not isinstance(dtype, (numbers.Number, list, dict)):  # which PyTorch and numpy make something of
        try:
            if ops_of(made := cast(array, dtype)).is_float(made):
                return made
        except Exception as error:  # each framework has its own
            why = error
    raise ConfigError(f"deep_to: dtype is a floating-point dtype of the framework of the batch, got {dtype!r}") from why
