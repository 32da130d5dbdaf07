"""Networks of the backend: what they make of a batch, and how they learn from it."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy_autograd import Module, Tensor

from delira.contract import default_closure
from delira.models import AbstractNetwork
from delira.utils.arrays import map_leaves
from numpy_backend.backend import BACKEND


class AbstractNumpyNetwork(AbstractNetwork, Module):
    """A network: write ``__init__`` and ``forward``, which returns a dict of named outputs.

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.
    """

    __delira_backend__ = BACKEND

    __call__ = Module.__call__

    @staticmethod
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make tensors of a batch, which are copies; what is no number (e.g. a file name) passes as it is.

        Parameters
        ----------
        batch
            Arrays by name; they may be nested.
        input_device, output_device
            There is only one.

        Returns
        -------
        dict
            ``"data"`` and all floating numbers as float64; other entries keep integer and boolean types.
        """
        return {
            key: map_leaves(functools.partial(_to_tensor, is_input=key == "data"), value)
            for key, value in batch.items()
        }

    closure = staticmethod(default_closure(BACKEND))


def _to_tensor(value: Any, is_input: bool) -> Any:
    try:
        array = np.asarray(value)
    except ValueError:  # e.g. a list of lists of several lengths
        return value
    if array.dtype.kind not in "biuf":
        return value
    return Tensor(np.array(array, dtype=np.float64 if is_input or array.dtype.kind == "f" else array.dtype))
