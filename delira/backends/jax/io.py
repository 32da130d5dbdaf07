"""Checkpoints of JAX: the common container, a zip of ``.npy`` arrays and JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flax import nnx

from delira.backends.jax.optimizers import JaxOptimizer
from delira.backends.jax.state import state_tree
from delira.backends.jax.values import snapshot
from delira.io.arguments import check_kept, check_model, check_saved
from delira.io.container import read_tree, write_tree
from delira.io.verify import verify_zip
from delira.utils.files import as_path, as_target, publish


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

    Raises
    ------
    ConfigError
        If an argument is of no use, e.g. ``file`` is a folder.
    CheckpointError
        If there is what a checkpoint cannot hold; it names the place.
    """
    check_model("save_checkpoint_jax", model, nnx.Module | None, "a module of flax.nnx")
    check_saved("save_checkpoint_jax", optimizers, epoch, is_optimizer=_is_optimizer, what="JaxOptimizer")
    check_kept(extra)
    path = as_target(file, "file")
    tree = {"model": {}, "optimizer": {}} if model is None else state_tree(model, optimizers or {})
    whole = snapshot({**tree, "epoch": epoch or 0, **extra})
    return publish(path, lambda opened: write_tree(opened, whole))


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
    ConfigError
        If ``file`` is no path.
    CheckpointError
        If the file is missing or damaged.
    """
    path = as_path(file, "file")
    verify_zip(path)
    return read_tree(path)


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, JaxOptimizer)
