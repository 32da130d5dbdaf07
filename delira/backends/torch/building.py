"""How the optimizers of a training are made out of its settings."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from delira.backends.torch.optimizers import TorchOptimizer
from delira.contract import UpdateConfig
from delira.errors import ConfigError
from delira.utils.optimizing import both_of, building

_CURE = "pass optimizer_cls=torch.optim.Adam, optimizer_params={'lr': 1e-3}"


def create_optims_default_pytorch(model: torch.nn.Module, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """One optimizer of all parameters, called ``"default"``."""
    with building(optim_cls, optim_params, _CURE):
        return {"default": optim_cls(_weights_of(model), **optim_params)}


def create_optims_gan_default_pytorch(model: Any, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """Two optimizers: ``"gen"`` of ``model.gen`` and ``"discr"`` of ``model.discr``."""
    gen, discr = both_of(model)
    with building(optim_cls, optim_params, _CURE):
        return {
            "gen": optim_cls(_weights_of(gen), **optim_params),
            "discr": optim_cls(_weights_of(discr), **optim_params),
        }


def _weights_of(network: Any) -> Any:
    if not callable(getattr(network, "parameters", None)):
        raise ConfigError(f"optimizers are made for a network of PyTorch, got {network!r}")
    return network.parameters()


def build_optimizers(
    network: torch.nn.Module,
    builder: Callable[..., dict[str, Any]] | None,
    optimizer_cls: Any,
    optimizer_params: Mapping[str, Any],
    update: UpdateConfig,
) -> dict[str, TorchOptimizer]:
    """Create the optimizers and wrap each.

    Raises
    ------
    ConfigError
        If no optimizer is set, or the builder returns no dict of optimizers.
    """
    if builder is None:
        made = _default_optimizers(network, optimizer_cls, optimizer_params)
    else:
        made = builder(network, optimizer_cls, **optimizer_params)
    if not isinstance(made, Mapping) or not made:
        found = "an empty dict" if isinstance(made, Mapping) else f"a {type(made).__name__}"
        raise ConfigError(f"optim_fn returned {found}; it returns a dict, e.g. {{'default': optimizer}}")
    check_optimizers(network, made)
    first = next(network.parameters(), None)
    device_type = "cpu" if first is None else first.device.type
    if update.precision == "auto":
        half = device_type == "cuda" and not torch.cuda.is_bf16_supported()
        update = UpdateConfig(**{**vars(update), "precision": "fp16" if half else "bf16"})
    return {name: TorchOptimizer(optimizer, update, device_type) for name, optimizer in made.items()}


def no_optimizer() -> torch.optim.Optimizer:
    """One that stands where nothing is learned."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=0.0)
    optimizer.updates_nothing = True  # type: ignore[attr-defined]
    return optimizer


def check_optimizers(network: torch.nn.Module, optimizers: Mapping[str, Any]) -> None:
    """Refuse optimizers that have other weights than the network: nothing would be learned."""
    own = {id(weight) for weight in network.parameters()}
    for name, optimizer in optimizers.items():
        groups = getattr(optimizer, "param_groups", None)
        if groups is None and not hasattr(optimizer, "step"):
            raise ConfigError(f"the optimizer {name!r} is one of PyTorch, e.g. torch.optim.Adam(…), got {optimizer!r}")
        if groups is None or not own or hasattr(optimizer, "updates_nothing"):
            continue
        weights = [weight for group in groups for weight in group["params"]]
        if not own.intersection(map(id, weights)):
            raise ConfigError(
                f"the optimizer {name!r} has {len(weights)} weights, and none of them is one of the "
                f"{type(network).__name__}; make it of the weights of the network that is trained"
            )


def _default_optimizers(network: torch.nn.Module, optimizer_cls: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    if optimizer_cls is None:
        raise ConfigError(f"no optimizer is set; {_CURE}")
    try:
        return create_optims_default_pytorch(network, optimizer_cls, **params)
    except ConfigError as error:
        lazy = [weight_name for weight_name, weight in network.named_parameters() if is_lazy(weight)]
        if not lazy:
            raise
        name = getattr(optimizer_cls, "__name__", repr(optimizer_cls))
        raise ConfigError(
            f"{name} cannot be built before the weights {', '.join(lazy)} have a shape; call the network once with a "
            "batch before you give it to the trainer"
        ) from error
