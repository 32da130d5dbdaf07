"""Networks that are ``torch.nn.Module``s."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from delira.backends.torch.backend import BACKEND
from delira.contract import ByName, Tree, backend_default, default_closure
from delira.models.abstract_network import AbstractNetwork
from delira.utils.arrays import map_leaves, refuse_complex


class AbstractPyTorchNetwork(AbstractNetwork, torch.nn.Module):
    """A PyTorch network: write ``__init__`` and ``forward``, which returns a dict of named outputs.

    The default :meth:`closure` feeds ``key_mapping`` to ``forward``, calls every loss as
    ``loss(pred, label)`` (``loss_keys`` says otherwise) and updates with the optimizer ``"default"``.

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.

    Examples
    --------
    >>> class Net(AbstractPyTorchNetwork):
    ...     def __init__(self, n_features: int, n_classes: int):
    ...         super().__init__(n_features=n_features, n_classes=n_classes)
    ...         self.linear = torch.nn.Linear(n_features, n_classes)
    ...
    ...     def forward(self, x):
    ...         return {"pred": self.linear(x)}
    """

    __delira_backend__ = BACKEND

    def __init__(self, **kwargs: Any) -> None:
        torch.nn.Module.__init__(self)
        AbstractNetwork.__init__(self, **kwargs)

    __call__: Callable[..., Any] = torch.nn.Module.__call__

    @staticmethod
    @backend_default
    def prepare_batch(batch: ByName, input_device: torch.device, output_device: torch.device) -> dict[str, Any]:
        """Make tensors of a batch, without changing it.

        Parameters
        ----------
        batch
            Arrays or tensors by name.
        input_device
            Where ``"data"`` goes.
        output_device
            Where every other entry goes.

        Returns
        -------
        dict
            ``"data"`` as float32. Other entries keep integer and boolean types, and float64 becomes
            float32. What is no array (e.g. a file name) passes as it is.
        """
        input_device, output_device = torch.device(input_device), torch.device(output_device)
        prepared = {}
        for key, value in batch.items():
            is_input = key == "data"
            device = input_device if is_input else output_device
            if type(value) is np.ndarray:
                prepared[key] = _to_tensor(value, device, is_input)
            else:  # nested entries, tensors, lists, texts
                prepared[key] = map_leaves(functools.partial(_to_tensor, device=device, is_input=is_input), value)
        return prepared

    closure = staticmethod(default_closure(BACKEND))


def _to_tensor(value: Tree, device: torch.device, is_input: bool) -> Any:
    try:
        tensor = torch.from_numpy(_takeable(value)) if isinstance(value, np.ndarray) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return value
    if is_input:
        refuse_complex(tensor.is_complex())
    dtype = torch.float32 if is_input or tensor.dtype is torch.float64 else tensor.dtype
    if tensor.dtype is dtype and tensor.device == device:
        return tensor
    # the copy runs while the host goes on, if the memory is pinned
    return tensor.to(device, dtype, non_blocking=device.type == "cuda")


def _takeable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where torch does not take it: mirrored, of foreign byte order, read-only (a warning)."""
    flags, dtype = array.flags, array.dtype
    is_taken = flags.writeable and dtype.isnative and (flags.c_contiguous or min(array.strides, default=0) >= 0)
    if is_taken or dtype.kind not in "biufc":
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="))
