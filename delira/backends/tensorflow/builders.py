"""The optimizers of a training: made, and changed from outside."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any

import keras

from delira.backends.tensorflow.names import learnable
from delira.backends.tensorflow.optimizers import TfOptimizer
from delira.backends.tensorflow.runtime import runtime_of
from delira.contract import UpdateConfig
from delira.errors import ConfigError
from delira.utils.optimizing import both_of, building

_CURE = "pass optimizer_cls=keras.optimizers.Adam, optimizer_params={'learning_rate': 1e-3}"


def create_optims_default_tf(model: Any, optim_cls: Any = None, **optim_params: Any) -> dict[str, Any]:
    """One optimizer of all weights, called ``"default"``.

    Parameters
    ----------
    model
        The network; it may be left out, as it was once.
    optim_cls
        A class of ``keras.optimizers``.
    **optim_params
        Its arguments; ``lr`` means ``learning_rate``.
    """
    cls, params = model if optim_cls is None else optim_cls, _keras_names(optim_params)
    with building(cls, params, _CURE):
        return {"default": cls(**params)}


def create_optims_gan_default_tf(model: Any, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """Two optimizers: ``"gen"`` of ``model.gen`` and ``"discr"`` of ``model.discr``.

    An entry of the dict is an optimizer of all weights, or ``(optimizer, layer)`` for those of a layer, or
    ``(optimizer, [layer, …])``.

    Parameters
    ----------
    model
        The network.
    optim_cls
        A class of ``keras.optimizers``.
    **optim_params
        Its arguments, for both; ``lr`` means ``learning_rate``.
    """
    params, (gen, discr) = _keras_names(optim_params), both_of(model)
    with building(optim_cls, params, _CURE):
        return {"gen": (optim_cls(**params), gen), "discr": (optim_cls(**params), discr)}


def _keras_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """The learning rate under the name, and of the type, that Keras has for it."""
    named = {"learning_rate" if name == "lr" else name: value for name, value in params.items()}
    rate = named.get("learning_rate")
    if isinstance(rate, Real) and not isinstance(rate, bool):
        named["learning_rate"] = float(rate)
    return named


def build_optimizers(
    network: Any,
    builder: Callable[..., dict[str, Any]] | None,
    optimizer_cls: Any,
    optimizer_params: Mapping[str, Any],
    update: UpdateConfig,
) -> dict[str, TfOptimizer]:
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
    if update.precision == "auto":
        update = UpdateConfig(**{**vars(update), "precision": "bf16"})
    return {name: _wrapped(name, entry, network, update) for name, entry in made.items()}


def check_optimizers(network: Any, optimizers: Mapping[str, Any]) -> None:
    """Refuse optimizers that were built for other weights: nothing would be learned."""
    own = {id(weight) for weight in learnable(network).values()}
    for name, wrapped in optimizers.items():
        optimizer = wrapped.optimizer
        if not optimizer.built or not own or own.intersection(map(id, optimizer._trainable_variables)):
            continue
        raise ConfigError(
            f"the optimizer {name!r} was built for {len(optimizer._trainable_variables)} weights, and none of them is "
            f"one of the {type(network).__name__}; set a new optimizer with the network"
        )


def _wrapped(name: str, entry: Any, network: Any, update: UpdateConfig) -> TfOptimizer:
    optimizer, of = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, network)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ConfigError(
            f"the optimizer {name!r} is a {type(optimizer).__name__}; it must be a Keras optimizer, or the tuple "
            "(Keras optimizer, layer)"
        )
    if optimizer.use_ema:
        raise ConfigError(
            f"the optimizer {name!r} has use_ema=True, whose averages Keras takes over only at the end of its own fit; "
            "use the callback delira.training.callbacks.ExponentialMovingAverage"
        )
    layers = list(of) if isinstance(of, (list, tuple)) else [of]
    if wrong := [type(layer).__name__ for layer in layers if not isinstance(layer, keras.Layer)]:
        raise ConfigError(f"the optimizer {name!r} is to train a {wrong[0]}; give it a layer or a list of layers")

    def find() -> list[Any]:
        if optimizer.built:
            return list(optimizer._trainable_variables)
        found = {id(v): v for layer in layers for v in learnable(layer).values()}
        return list(found.values())

    return TfOptimizer(optimizer, update, find, runtime_of(network).strategy)


def _default_optimizers(network: Any, optimizer_cls: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    if optimizer_cls is None:
        raise ConfigError(f"no optimizer is set; {_CURE}")
    return create_optims_default_tf(network, optimizer_cls, **params)


def learning_rates(optimizers: Mapping[str, Any]) -> dict[str, float]:
    """The rates of the next update, by name."""
    return {"lr" if len(optimizers) == 1 else f"lr_{name}": wrapped.rate for name, wrapped in optimizers.items()}


def scale_rates(optimizers: Mapping[str, Any], factor: float) -> None:
    """Multiply the learning rates of all optimizers.

    Raises
    ------
    ConfigError
        If a rate is a schedule of Keras, which nobody can change.
    """
    for wrapped in optimizers.values():
        wrapped.rate = wrapped.rate * factor


@contextlib.contextmanager
def step_scope(optimizers: Mapping[str, Any], n_samples: int, is_last: bool, part: bool = False) -> Iterator[None]:
    """Scope of one closure call, told as in :meth:`TfOptimizer.begin_batch`."""
    for optimizer in optimizers.values():
        optimizer.begin_batch(n_samples, is_last, part)
    yield
    for optimizer in optimizers.values():
        optimizer.end_batch()


def no_optimizer() -> keras.optimizers.Optimizer:
    """An optimizer that updates nothing."""
    optimizer = keras.optimizers.SGD(learning_rate=0.0)
    optimizer.updates_nothing = True
    return optimizer
