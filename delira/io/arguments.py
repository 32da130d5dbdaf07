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
    optimizers: Any,
    epoch: object = None,
    *,
    is_optimizer: Callable[[Any], bool] = lambda optimizer: False,
    what: str = "optimizer",
) -> None:
    """Refuse optimizers that are no dictionary of them, and an epoch that is no number; None is none.

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
    is_named = isinstance(optimizers, Mapping) and all(isinstance(name, str) for name in optimizers)
    if optimizers is not None and not (is_named and all(map(is_optimizer, optimizers.values()))):
        raise ConfigError(f"{owner}: optimizers is a dict, name -> {what}, got {optimizers!r}")
    if epoch is not None:
        check_whole(owner, at_least=0, epoch=epoch)


def check_kept(tree: object, place: str = "", depth: int = 0) -> None:
    """Refuse a tree that holds itself, or masked arrays, before anything copies it: masks would be lost.

    Parameters
    ----------
    tree
        The tree, or a part of it.
    place, depth
        Where the part is.

    Raises
    ------
    CheckpointError
        Naming the place.
    """
    if depth > DEEPEST:
        raise CheckpointError(f"checkpoint entry {place[:80]}… is nested deeper than {DEEPEST} levels, or holds itself")
    if isinstance(tree, np.ma.MaskedArray):
        raise CheckpointError(f"checkpoint entry {place} is a MaskedArray, which cannot be stored safely")
    parts = enumerate(tree) if isinstance(tree, (list, tuple)) else ()
    for name, part in tree.items() if isinstance(tree, Mapping) else parts:
        check_kept(part, f"{place}/{name}", depth + 1)
