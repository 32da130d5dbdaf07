"""Networks that are ``torch.jit.ScriptModule``s."""

from collections.abc import Callable
from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torchscript.backend import BACKEND
from delira.contract import ByName, backend_default, default_closure
from delira.models.abstract_network import AbstractNetwork
from delira.utils.arrays import map_leaves


class AbstractTorchScriptNetwork(AbstractNetwork, torch.jit.ScriptModule):
    """A TorchScript network: write ``__init__`` and a ``forward`` that is a ``torch.jit.script_method``.

    ``forward`` returns a dict of named tensors. The default :meth:`closure` is that of
    :class:`delira.models.AbstractPyTorchNetwork`. The class must stand in a file, since TorchScript reads its source.

    Parameters
    ----------
    optimize
        Historic; PyTorch has no such switch any more.
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.

    Examples
    --------
    >>> class Net(AbstractTorchScriptNetwork):
    ...     def __init__(self, n_features: int, n_classes: int):
    ...         super().__init__(n_features=n_features, n_classes=n_classes)
    ...         self.linear = torch.nn.Linear(n_features, n_classes)
    ...
    ...     @torch.jit.script_method
    ...     def forward(self, x):
    ...         return {"pred": self.linear(x)}
    """

    __delira_backend__ = BACKEND

    def __init__(self, optimize: bool = True, **kwargs: Any) -> None:
        torch.jit.ScriptModule.__init__(self)
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
            Every entry as float32, labels too. What is no array (e.g. a file name) passes as it is.
        """
        prepared = AbstractPyTorchNetwork.prepare_batch(batch, input_device, output_device)
        return {key: map_leaves(_as_float, value) for key, value in prepared.items()}

    closure = staticmethod(default_closure(BACKEND))


def _as_float(value: object) -> Any:
    return value.float() if isinstance(value, torch.Tensor) else value
