"""Checkpoints of JAX: the common container, a zip of ``.npy`` arrays and JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.backends.jax.state import state_tree
from delira.backends.jax.values import snapshot
from delira.io.container import read_tree, write_tree
from delira.io.verify import verify_zip
from delira.utils.files import publish


def save_checkpoint_jax(
    file: str | Path,
    model: Any = None,
    optimizers: Mapping[str, Any] | None = None,
    epoch: int | None = None,
    **extra: Any,
) -> Path:
    """Write ``{"model", "optimizer", "epoch"}``; the file appears only when it is complete.

    Parameters
    ----------
    file
        Name of the file.
    model
        An :class:`AbstractJaxNetwork` or another ``nnx.Module``.
    optimizers
        :class:`JaxOptimizer` by name.
    epoch
        Number of finished epochs.
    **extra
        Further plain values or arrays to keep.
    """
    tree = {"model": {}, "optimizer": {}} if model is None else state_tree(model, optimizers or {})
    whole = snapshot({**tree, "epoch": epoch or 0, **extra})
    return publish(file, lambda opened: write_tree(opened, whole))


def load_checkpoint_jax(file: str | Path) -> dict[str, Any]:
    """Verify and read a file of :func:`save_checkpoint_jax`; nothing in it is executed.

    Parameters
    ----------
    file
        Name of the file.

    Returns
    -------
    dict
        ``{"model": {name: array}, "optimizer", "epoch", …}``.

    Raises
    ------
    CheckpointError
        If the file is missing or damaged.
    """
    verify_zip(file)
    return read_tree(file)
