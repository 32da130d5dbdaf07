"""How networks of PyTorch are called: in which mode, and with inputs that stay what they are."""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch.nn  # first where a torch without its parts says which is missing

from delira.contract import CallsRole, Network, Scope
from delira.errors import NetworkError
from delira.utils.arrays import iterate_leaves, map_leaves

_Result = TypeVar("_Result")

#: network -> mode -> whether it changes its inputs
_changes: weakref.WeakKeyDictionary[Any, dict[bool, bool]] = weakref.WeakKeyDictionary()


class NoNetwork(torch.nn.Module):
    """What a trial fits that was given no network."""

    def forward(self, *inputs: Any) -> None:
        """Return None, whatever the inputs."""


class TorchCalls(CallsRole):
    """Networks are modules with a forward."""

    def training(self, network: torch.nn.Module) -> Scope:
        return _mode(network, is_training=True)

    def evaluating(self, network: torch.nn.Module) -> Scope:
        return _mode(network, is_training=False)

    def set_evaluating(self, network: torch.nn.Module) -> None:
        network.eval()

    def call_apart(self, network: Network, inputs: Any, call: Callable[[Any], _Result]) -> _Result:
        """Call with inputs that losses, metrics, callbacks and users read afterwards.

        A prepared batch may have the memory of the user's arrays. The first call of a network, in each mode, gets a
        copy and is looked at: a network that works in place gets copies from then on; of any other PyTorch counts the
        changes, so that nothing is copied.

        Parameters
        ----------
        network
            Whose habits they are.
        inputs
            A tree of tensors.
        call
            Gets the tree, or a copy.

        Raises
        ------
        NetworkError
            If the call changed its inputs, and had not done so at first.
        """
        known = _changes.get(network)
        if known is None:
            known = _changes[network] = {}
        mode = getattr(network, "training", True)
        works_in_place = known.get(mode)
        if works_in_place is False:  # as nearly always
            try:
                tensors = list(inputs.values()) if type(inputs) is dict else [inputs]
                versions = [tensor._version for tensor in tensors]
            except (AttributeError, RuntimeError):  # not all are tensors, or some do not count
                tensors = _tensors(inputs)
                versions = [tensor._version for tensor in tensors]
            result = call(inputs)
            if [tensor._version for tensor in tensors] != versions:
                known[mode] = True
                raise NetworkError(
                    f"{type(network).__name__} changed what it was called with, in place, which it had not done with "
                    "the first batch; losses, metrics and callbacks would read what it left. Begin forward with a copy "
                    "(x = x.clone()), or write into new tensors (x = x - 1 instead of x -= 1, ReLU() instead of "
                    "ReLU(inplace=True) on the input)"
                )
            return result
        if torch.jit.is_tracing():  # a graph of the network has no copies, and is traced twice to be compared
            return call(inputs)
        own = map_leaves(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, inputs)
        copies = _tensors(own)
        versions = [tensor._version for tensor in copies]
        result = call(own)
        if works_in_place is None:
            is_counted = [tensor._version for tensor in copies] != versions
            known[mode] = is_counted or not all(map(_equal, copies, _tensors(inputs)))  # x.data[...] is not counted
        return result

    def no_network(self) -> torch.nn.Module:
        return NoNetwork()


@contextlib.contextmanager
def _mode(network: torch.nn.Module, is_training: bool) -> Iterator[None]:
    # what TorchScript froze has no modes
    modes = [(module, module.training) for module in network.modules() if hasattr(module, "training")]
    try:
        with torch.set_grad_enabled(is_training):
            network.train() if is_training else network.eval()
            yield
    finally:
        for module, training in modes:
            module.training = training


def _tensors(tree: object) -> list[torch.Tensor]:
    leaves = [leaf for _, leaf in iterate_leaves(tree)]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and not leaf.is_inference()]


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return True if two dense tensors hold the same; of others PyTorch may not know."""
    return first.layout is not torch.strided or torch.equal(first, second)
