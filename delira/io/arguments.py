"""Arguments of the functions that write and read checkpoints outside of a training, refused by name."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from delira.errors import CheckpointError, ConfigError
from delira.io.container import DEEPEST
from delira.utils.checks import check_whole


def check_model(owner: str, model: Any, kind: Any, what: str) -> None:
    """Refuse a model of another kind.

    Parameters
    ----------
    owner
        Name of the function.
    model
        What was given.
    kind
        Class of models; ``… | None`` where it may be left out.
    what
        The same in words.

    Raises
    ------
    ConfigError
        Naming what was given.
    """
    if not isinstance(model, kind):
        raise ConfigError(f"{owner}: model is {what}, got {model!r}")


def check_saved(
    owner: str,
    optimizers: object,
    epoch: object,
    *,
    is_optimizer: Callable[[Any], bool] = lambda optimizer: False,
    what: str = "optimizer",
) -> None:
    """Refuse optimizers that are no dictionary of them, and an epoch that is no number.

    Parameters
    ----------
    owner
        Name of the function.
    optimizers, epoch
        What was given.
    is_optimizer
        Whether a value is one of the backend.
    what
        The same in words.

    Raises
    ------
    ConfigError
        Naming what was given.
    """
    check_optimizers(owner, optimizers, is_optimizer, what)
    if epoch is not None:
        check_whole(owner, at_least=0, epoch=epoch)


def check_kept(tree: Mapping[str, Any]) -> None:
    """Refuse a tree that holds itself, or masked arrays, before anything copies it: masks would be lost.

    Raises
    ------
    CheckpointError
        Naming the place.
    """
    waiting: list[tuple[str, Any, int]] = [("", tree, 0)]
    while waiting:
        place, value, depth = waiting.pop()
        if depth > DEEPEST:
            raise CheckpointError(
                f"checkpoint entry {place[:80]}… is nested deeper than {DEEPEST} levels, or holds itself"
            )
        if isinstance(value, np.ma.MaskedArray):
            raise CheckpointError(f"checkpoint entry {place} is a MaskedArray, which cannot be stored safely")
        if isinstance(value, Mapping):
            waiting += [(f"{place}/{name}", item, depth + 1) for name, item in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [(f"{place}/{number}", item, depth + 1) for number, item in enumerate(value)]


def check_optimizers(owner: str, optimizers: Any, is_optimizer: Callable[[Any], bool], what: str) -> None:
    """Refuse optimizers that are no dictionary of them; see :func:`check_saved`."""
    if optimizers is None:
        return
    is_named = isinstance(optimizers, Mapping) and all(isinstance(name, str) for name in optimizers)
    if not is_named or not all(map(is_optimizer, optimizers.values())):
        raise ConfigError(f"{owner}: optimizers is a dict, name -> {what}, got {optimizers!r}")
