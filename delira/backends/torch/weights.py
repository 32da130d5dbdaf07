"""Weights of PyTorch by name: learned, averaged, as arrays, running statistics, and the layers that hold them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.modules import batchnorm, conv
from torch.nn.parameter import is_lazy
from torch.optim.swa_utils import get_ema_multi_avg_fn

from delira.contract import WeightsRole
from delira.errors import ConfigError, NetworkError, import_optional
from delira.models.weights import Settings, check_named_weights, conv_settings


class TorchWeights(WeightsRole):
    """Parameters and buffers by name."""

    def learned_names(self, network: torch.nn.Module) -> frozenset[str]:
        # tied weights have several names in a state
        return frozenset(name for name, one in network.named_parameters(remove_duplicate=False) if one.requires_grad)

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

    def statistics_names(self, network: torch.nn.Module) -> frozenset[str]:
        """Names of the means and variances that layers keep of the data, under all names that a state has for them."""
        return frozenset(
            f"{name}.{kind}" if name else kind
            for name, layer in network.named_modules(remove_duplicate=False)
            if _keeps_statistics(layer)
            for kind in ("running_mean", "running_var")
        )

    def renew_statistics(self, network: torch.nn.Module, calls: Iterable[Callable[[], Any]]) -> None:
        """Let running statistics be the mean over some calls of the network, as ``swa_utils.update_bn`` of torch does.

        Raises
        ------
        ConfigError
            If a layer was traced, so that its momentum is a constant that nobody can read.
        """
        found = {name: layer for name, layer in network.named_modules() if _keeps_statistics(layer)}
        if fixed := [name for name, layer in found.items() if not hasattr(layer, "momentum")]:
            raise ConfigError(
                f"the running statistics of {', '.join(fixed[:3])} cannot be computed anew, since torch.jit.trace has "
                "fixed how these layers compute; script the network (torch.jit.script), or set update_statistics=False"
            )
        counting = [one for one in found.values() if isinstance(one, batchnorm._BatchNorm) and not _is_script(one)]
        others = [_Mean(layer) for layer in found.values() if not any(layer is one for one in counting)]
        with torch.no_grad(), _cumulative(counting):
            for call in calls:
                for mean in others:  # two of them may be of the same statistics: a tied layer that is scripted
                    mean.begin()
                call()
                for mean in others:
                    mean.add()
            for mean in others:
                mean.write()

    def named(self, network: torch.nn.Module) -> dict[str, np.ndarray]:
        return {name: _to_array(tensor) for name, tensor in _tensors(network).items()}

    def load_named(self, network: torch.nn.Module, weights: Mapping[str, np.ndarray]) -> None:
        tensors = _tensors(network)
        own = {name: (tuple(value.shape), str(value.dtype).removeprefix("torch.")) for name, value in tensors.items()}
        memory = {name: (one.data_ptr(), one.shape, one.stride()) for name, one in tensors.items() if one.numel()}
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


# ------------------------------------------------------------------ running statistics


def _is_script(layer: torch.nn.Module) -> bool:
    return isinstance(layer, torch.jit.ScriptModule)


def _keeps_statistics(layer: torch.nn.Module) -> bool:
    """Return True if a layer follows the data; one with a momentum of 0 does not."""
    if not isinstance(layer, batchnorm._NormBase) and not _is_script(layer):
        return False
    buffers = {name for name, one in layer.named_buffers(recurse=False) if not is_lazy(one)}  # without those of None
    has_both = "running_mean" in buffers and "running_var" in buffers
    return has_both and getattr(layer, "momentum", None) != 0


@contextlib.contextmanager
def _cumulative(layers: list[Any]) -> Iterator[None]:
    """Scope in which layers begin anew and let each of their calls count alike; those that none reaches keep all."""
    before = [  # without buffers of layers that are part of one
        (layer.momentum, {name: one.clone() for name, one in layer.named_buffers(recurse=False)}) for layer in layers
    ]
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        yield
    finally:
        for layer, (momentum, buffers) in zip(layers, before, strict=True):
            layer.momentum, is_reached = momentum, bool(layer.num_batches_tracked)
            for name, value in buffers.items():
                if name == "num_batches_tracked" or not is_reached:
                    getattr(layer, name).copy_(value)


class _Mean:
    """The mean of a layer's statistics over calls of the network, where its momentum is a constant of its program.

    Beginning at 0, a call leaves ``momentum`` times what it saw; of several calls the later count slightly more.
    """

    def __init__(self, layer: Any):
        self._layer, self._number = layer, 0
        counter = getattr(layer, "num_batches_tracked", None)
        self._kept = [layer.running_mean, layer.running_var, torch.zeros(()) if counter is None else counter]
        self._before = [one.clone() for one in self._kept]
        self._sums = [torch.zeros_like(one, dtype=torch.float64) for one in self._kept[:2]]

    def begin(self) -> None:
        for one in self._kept:
            one.zero_()

    def add(self) -> None:
        """Add what the layer saw in one call of the network; nothing if it was not called."""
        mean, variance, counter = self._kept
        if bool(mean.any()) or bool(variance.any()):
            number, momentum = int(counter or 1), self._layer.momentum
            share = 1.0 if momentum is None else 1 - (1 - momentum) ** number
            for total, one in zip(self._sums, (mean, variance), strict=True):
                total += one.double() * (number / share)
            self._number += number

    def write(self) -> None:
        """Let the layer have the mean, or what it had before if it was never called."""
        means = [total / self._number for total in self._sums] if self._number else self._before[:2]
        for one, value in zip(self._kept, [*means, self._before[2]], strict=True):
            one.copy_(value)
