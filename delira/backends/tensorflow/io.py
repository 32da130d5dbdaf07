"""Checkpoints of TensorFlow in the common container: arrays by the place of each variable in the network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from delira.backends.tensorflow.optimizers import TfOptimizer
from delira.backends.tensorflow.state import load_state_tree, state_tree, write_checkpoint
from delira.errors import ConfigError
from delira.io.arguments import check_kept, check_model, check_optimizers, check_saved
from delira.io.checkpoint import check_format
from delira.io.container import read_tree
from delira.io.verify import verify_zip
from delira.utils.files import as_path, as_target, publish

_OPTIMIZER = "optimizer of a trainer"


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

    Raises
    ------
    ConfigError
        If an argument is of no use, e.g. ``file`` is a folder.
    CheckpointError
        If there is what a checkpoint cannot hold; it names the place.
    """
    check_model("save_checkpoint_tf", model, keras.Model | None, "a Keras model")
    check_saved("save_checkpoint_tf", optimizers, epoch, is_optimizer=_is_optimizer, what=_OPTIMIZER)
    check_kept(extra)
    path = as_target(file, "file")
    state: dict[str, Any] = {"model": {}, "optimizer": {}}
    if model is not None:
        state |= state_tree(model, optimizers or {})
    tree = {**state, "epoch": epoch or 0, **extra}
    return publish(path, lambda opened: write_checkpoint(opened, tree))


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
    ConfigError
        If an argument is of no use.
    CheckpointError
        If the file is missing or damaged, of a later format, or does not fit; nothing is changed then.
    """
    path = as_path(file, "file")
    check_model("load_checkpoint_tf", model, keras.Model | None, "a Keras model")
    check_optimizers("load_checkpoint_tf", optimizers, _is_optimizer, _OPTIMIZER)
    if optimizers and model is None:
        raise ConfigError(f"load_checkpoint_tf: optimizers={sorted(optimizers)} get their state with their model=…")
    verify_zip(path)
    tree = read_tree(path)
    if model is not None:
        check_format(path, tree)
        load_state_tree(tree, model, optimizers or {})
    return tree


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, TfOptimizer)


#: historic names
tf_save_checkpoint = save_checkpoint_tf
tf_load_checkpoint = load_checkpoint_tf
