"""Optimizers made out of a class and its arguments, and losses added for them, with errors that name what is wrong."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np

from delira.errors import ConfigError, DeliraError, NetworkError

#: what the learning rate is called
_RATES = ("lr", "learning_rate")
#: kinds of values that no framework takes for a rate; it may be a schedule, or a tensor
_NO_RATES = (str, bytes, bool, list, tuple, dict, set, type(None))


def rates_of_groups(optimizers: Iterable[object]) -> list[float]:
    """Return the learning rate of every group of parameters, of optimizers that have groups as those of PyTorch."""
    return [float(group["lr"]) for optimizer in optimizers for group in getattr(optimizer, "param_groups", ())]


@contextlib.contextmanager
def building(optimizer_cls: object, params: Mapping[str, Any], cure: str) -> Iterator[None]:
    """Scope in which optimizers are made.

    Parameters
    ----------
    optimizer_cls
        The class, or function.
    params
        Its arguments.
    cure
        What to write, for the message.

    Raises
    ------
    ConfigError
        If it cannot be called, a learning rate is none, or it takes no such arguments.
    """
    if not callable(optimizer_cls):
        raise ConfigError(f"optimizer_cls must be an optimizer class, got {optimizer_cls!r}; {cure}")
    check_rate_in(params)
    try:
        yield
    except DeliraError:
        raise
    except (TypeError, ValueError) as error:
        name = getattr(optimizer_cls, "__name__", repr(optimizer_cls))
        raise ConfigError(f"{name} cannot be built from optimizer_params={dict(params)}: {error}") from error


def check_rate_in(params: Mapping[str, Any]) -> None:
    """Refuse a learning rate that is none, whatever the framework makes of it.

    Raises
    ------
    ConfigError
        With the value.
    """
    for name in _RATES:
        if name in params and not _may_be_rate(params[name]):
            raise ConfigError(
                f"optimizer_params: {name} is a finite number of at least 0, or a schedule of the framework, got "
                f"{params[name]!r}"
            )


def _may_be_rate(value: object) -> bool:
    if isinstance(value, _NO_RATES):
        return False
    return not isinstance(value, Real) or (math.isfinite(value) and float(value) >= 0)


def both_of(model: Any) -> tuple[Any, Any]:
    """Return the two networks of a generative adversarial one.

    Raises
    ------
    ConfigError
        If it has no ``gen`` or no ``discr``.
    """
    for name in ("gen", "discr"):
        if not hasattr(model, name):
            raise ConfigError(f"the network has two parts, model.gen and model.discr, and {model!r:.80} has no {name}")
    return model.gen, model.discr


def refuse_losses(losses: Mapping[str, Any], arrays: tuple[type, ...], how: str) -> None:
    """Refuse losses of which one is neither a number nor an array, naming it.

    Parameters
    ----------
    losses
        As they were computed.
    arrays
        Classes of arrays of the framework.
    how
        How a loss is computed there.

    Raises
    ------
    NetworkError
        Naming the first one that is none.
    """
    for name, value in losses.items():
        if not isinstance(value, (int, float, np.number, np.ndarray, *arrays)):
            raise NetworkError(
                f"the loss ({name}) is a {type(value).__name__}, so there is no gradient; a loss is {how}"
            )


def added(losses: Mapping[str, Any], arrays: tuple[type, ...], how: str) -> Any:
    """The sum of losses; the only one as it is. Looked at, as :func:`refuse_losses` does, where they cannot be added.

    Parameters
    ----------
    losses, arrays, how
        As for :func:`refuse_losses`.
    """
    values = iter(losses.values())
    total = next(values)
    try:
        for value in values:
            total = total + value
    except (TypeError, ValueError):
        refuse_losses(losses, arrays, how)
        raise
    return total
