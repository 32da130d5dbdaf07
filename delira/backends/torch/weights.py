"""Weights of PyTorch by name: learned, averaged, as arrays, and the layers that hold them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.modules import batchnorm, conv
from torch.nn.parameter import is_lazy
from torch.optim.swa_utils import get_ema_multi_avg_fn

from delira.backends.torch import statistics
from delira.contract import WeightsRole
from delira.errors import NetworkError
from delira.models.layer_settings import Settings, conv_settings
from delira.models.weights import check_named_weights
from delira.utils.optional import import_optional


class TorchWeights(WeightsRole):
    """Parameters and buffers by name."""

    statistics_names = staticmethod(statistics.statistics_names)
    renew_statistics = staticmethod(statistics.renew_statistics)

    def learned_names(self, network: torch.nn.Module) -> frozenset[str]:
        named = network.named_parameters(remove_duplicate=False)  # tied weights have several names in a state
        return frozenset(name for name, weight in named if weight.requires_grad)

    def learned_weights(self, network: torch.nn.Module) -> dict[str, torch.Tensor]:
        # a state of the network is cut off from the gradients
        return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}

    def set_learned_names(self, network: torch.nn.Module, names: frozenset[str]) -> None:
        for name, weight in network.named_parameters(remove_duplicate=False):
            weight.requires_grad_(name in names)

    def averaged(self, network: torch.nn.Module) -> dict[str, torch.Tensor]:
        """Floating parameters under all of their names; buffers and integers are not averaged."""
        named = network.named_parameters(remove_duplicate=False)
        weights: dict[str, torch.Tensor] = {
            name: weight for name, weight in named if weight.is_floating_point() or weight.is_complex()
        }
        if lazy := [name for name, weight in weights.items() if is_lazy(weight)]:
            raise NetworkError(
                f"the weights {', '.join(lazy)} of {type(network).__name__} have no shape yet, so they have no "
                "average; call the network once with a batch before you give it to the trainer"
            )
        return weights

    def moved(
        self, average: Mapping[str, torch.Tensor] | None, weights: Mapping[str, torch.Tensor], decay: float
    ) -> dict[str, torch.Tensor]:
        """Move the average in place, on the devices of the parameters."""
        # by weight, not by name: a tied weight has several names, but moves once
        if average is None:
            averages = {weight: weight.detach().clone() for weight in weights.values()}
        else:
            averages = {weight: average[name].to(weight.device) for name, weight in weights.items()}
            if averages:
                get_ema_multi_avg_fn(decay)([*averages.values()], [weight.detach() for weight in averages], None)
        return {name: averages[weight] for name, weight in weights.items()}

    def named(self, network: torch.nn.Module) -> dict[str, np.ndarray]:
        return {name: _to_array(tensor) for name, tensor in _tensors(network).items()}

    def load_named(self, network: torch.nn.Module, weights: Mapping[str, np.ndarray]) -> None:
        tensors = _tensors(network)
        own = {name: (tuple(value.shape), str(value.dtype).removeprefix("torch.")) for name, value in tensors.items()}
        memory = {
            name: (value.data_ptr(), value.shape, value.stride()) for name, value in tensors.items() if value.numel()
        }
        check_named_weights(network, own, weights, memory)
        # not strict: what a module keeps besides tensors is no weight
        network.load_state_dict({name: _to_tensor(weights[name]) for name in own}, strict=False)

    def portable(self, network: torch.nn.Module) -> dict[str, np.ndarray]:
        named = self.named(network).items()
        return {name: array for name, array in named if name.rpartition(".")[2] != "num_batches_tracked"}

    def load_portable(self, network: torch.nn.Module, weights: Mapping[str, np.ndarray]) -> None:
        self.load_named(network, {**self.named(network), **weights})

    def layers(self, network: torch.nn.Module) -> dict[str, Any]:
        return dict(network.named_modules())

    def layer_settings(self, layer: object) -> Settings:
        if isinstance(layer, (batchnorm._NormBase, torch.nn.GroupNorm, torch.nn.LayerNorm, torch.nn.RMSNorm)):
            epsilon = float(torch.finfo(torch.float32).eps if layer.eps is None else layer.eps)
            groups = {"groups": int(layer.num_groups)} if isinstance(layer, torch.nn.GroupNorm) else {}
            return {"epsilon": epsilon, **groups}
        if not isinstance(layer, conv._ConvNd):
            return {}
        padding: Any = layer.padding
        if not isinstance(padding, str):  # that of a transposed one may differ at the ends
            padding = [(own, own - more) for own, more in zip(padding, layer.output_padding, strict=True)]
        how = layer.kernel_size, layer.stride, layer.dilation, padding
        return {**conv_settings(*how, is_transposed=layer.transposed), "groups": int(layer.groups)}


def _tensors(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value for name, value in network.state_dict().items() if isinstance(value, torch.Tensor)}


def _to_array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        bfloat16 = import_optional("ml_dtypes", "a bfloat16 weight as an array", "delira[export]").bfloat16
        return np.array(tensor.view(torch.int16).numpy(), order="C").view(bfloat16)
    return np.array(tensor.numpy(), order="C")


def _to_tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))
