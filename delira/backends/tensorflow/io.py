"""Checkpoints of TensorFlow in the common container: arrays by the place of each variable in the network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.backends.tensorflow.state import load_state_tree, state_tree, write_checkpoint
from delira.io.container import read_tree
from delira.io.verify import verify_zip
from delira.utils.files import publish


def save_checkpoint_tf(
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
        A Keras model whose weights have a shape.
    optimizers
        Optimizers of a trainer by name.
    epoch
        Number of finished epochs.
    **extra
        Further plain values or arrays to keep.
    """
    state: dict[str, Any] = {"model": {}, "optimizer": {}}
    if model is not None:
        state |= state_tree(model, optimizers or {})
    tree = {**state, "epoch": epoch or 0, **extra}
    return publish(file, lambda opened: write_checkpoint(opened, tree))


def load_checkpoint_tf(
    file: str | Path, model: Any = None, optimizers: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Verify and read a file of :func:`save_checkpoint_tf`, or of a trainer.

    Parameters
    ----------
    file
        Name of the file.
    model
        The network that gets the weights, if any.
    optimizers
        Optimizers of a trainer that get their state.

    Returns
    -------
    dict
        Everything in the file, with arrays.

    Raises
    ------
    CheckpointError
        If the file is missing or damaged, or does not fit; nothing is changed then.
    """
    verify_zip(file)
    tree = read_tree(file)
    if model is not None:
        load_state_tree(tree, model, optimizers or {})
    return tree


#: historic names
tf_save_checkpoint = save_checkpoint_tf
tf_load_checkpoint = load_checkpoint_tf
