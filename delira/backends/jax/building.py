"""How the optimizers of a training are made out of its settings."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import optax
from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.optimizers import RATE, JaxOptimizer
from delira.contract import UpdateConfig
from delira.errors import ConfigError
from delira.utils.optimizing import both_of, building

_CURE = "pass optimizer_cls=optax.adam, optimizer_params={'lr': 1e-3}"


def create_optims_default_jax(model: nnx.Module, optim_cls: Any, **optim_params: Any) -> dict[str, JaxOptimizer]:
    """One optimizer of all weights, called ``"default"``: ``optim_cls`` is a function of optax, e.g. ``optax.adam``.

    The learning rate is ``lr`` or ``learning_rate``.
    """
    with building(optim_cls, optim_params, _CURE):
        return {"default": _make(model, optim_cls, optim_params)}


def create_optims_gan_default_jax(model: Any, optim_cls: Any, **optim_params: Any) -> dict[str, JaxOptimizer]:
    """Two optimizers by ``optim_cls``: ``"gen"`` of ``model.gen`` and ``"discr"`` of ``model.discr``."""
    gen, discr = both_of(model)
    with building(optim_cls, optim_params, _CURE):
        return {"gen": _make(gen, optim_cls, optim_params), "discr": _make(discr, optim_cls, optim_params)}


def _make(module: nnx.Module, optimizer_cls: Any, params: Mapping[str, Any]) -> JaxOptimizer:
    params = dict(params)
    names = inspect.signature(optimizer_cls).parameters
    if "lr" in params and "lr" not in names:
        if RATE in params:
            raise TypeError("lr and learning_rate say the same; give only one of them")
        params[RATE] = params.pop("lr")
    if RATE not in names:
        return JaxOptimizer(module, optimizer_cls(**params))
    inspect.signature(optimizer_cls).bind(**params)  # optax' own message does not name what is wrong
    # a number in the optimizer's state can change without a new trace; all else stays as it is
    others = [name for name in names if name != RATE]
    optimizer = JaxOptimizer(module, optax.inject_hyperparams(optimizer_cls, static_args=others)(**params))
    if isinstance(params[RATE], (int, float)):
        optimizer.rate = params[RATE]
    return optimizer


def build_optimizers(
    network: nnx.Module,
    builder: Callable[..., dict[str, Any]] | None,
    optimizer_cls: Any,
    optimizer_params: Mapping[str, Any],
    update: UpdateConfig,
) -> dict[str, JaxOptimizer]:
    """Create the optimizers.

    Raises
    ------
    ConfigError
        If no optimizer is set, the builder returns no dict of optimizers, or JAX does not compute in the number
        format that was asked for.
    """
    if builder is None:
        made: Any = _default_optimizers(network, optimizer_cls, optimizer_params)
    else:
        made = builder(network, optimizer_cls, **optimizer_params)
    if not isinstance(made, Mapping) or not made:
        found = "an empty dict" if isinstance(made, Mapping) else f"a {type(made).__name__}"
        raise ConfigError(f"optim_fn returned {found}; it returns a dict, e.g. {{'default': optimizer}}")
    _check_precision(network, update)
    optimizers = {name: _wrapped(name, network, optimizer) for name, optimizer in made.items()}
    for optimizer in optimizers.values():
        optimizer.configure(update)
    return optimizers


def _wrapped(name: str, network: nnx.Module, optimizer: Any) -> JaxOptimizer:
    if isinstance(optimizer, JaxOptimizer):
        return optimizer
    if isinstance(optimizer, optax.GradientTransformation):
        return JaxOptimizer(network, optimizer)
    raise ConfigError(
        f"optim_fn returned a {type(optimizer).__name__} as {name!r}; return a JaxOptimizer(model.part, "
        "optax.adam(1e-3)), or a transformation of optax for all weights"
    )


def _check_precision(network: nnx.Module, update: UpdateConfig) -> None:
    if update.precision == "fp16":
        raise ConfigError("mixed_precision='fp16' needs loss scaling, which JAX does not have; use 'bf16'")
    if update.precision != "32" and not graph.open_layers(network):
        raise ConfigError(
            f"mixed_precision={update.precision!r} changes the dtype of flax' layers, but {type(network).__name__} has "
            "none whose dtype is open; leave mixed_precision out"
        )


def _default_optimizers(network: nnx.Module, optimizer_cls: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    if optimizer_cls is None:
        raise ConfigError(f"no optimizer is set; {_CURE}")
    return dict(create_optims_default_jax(network, optimizer_cls, **params))


def no_optimizer() -> optax.GradientTransformation:
    """An optimizer that updates nothing."""
    return optax.set_to_zero()
