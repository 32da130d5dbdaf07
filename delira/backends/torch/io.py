"""Checkpoints of PyTorch: ``.pt`` files that plain ``torch.load`` reads, weights only."""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from delira.errors import CheckpointError
from delira.io.checkpoint import verify_zip
from delira.utils.files import publish
from delira.utils.trees import iterate_leaves, map_leaves

_ARRAY = "$ndarray"
#: what ``torch.load`` reads with ``weights_only=True``, and numpy's values, which are converted
_STORABLE = (
    torch.Tensor, torch.Size, torch.dtype, torch.device, np.ndarray, np.generic, bool, int, float, complex, str, bytes,
    set, type(None),
)  # fmt: skip


def write_checkpoint(file: BinaryIO, tree: Mapping[str, Any]) -> None:
    """Serialise a checkpoint tree; numpy arrays, which ``torch.load`` refuses, are kept as tensors.

    Raises
    ------
    CheckpointError
        If the tree holds what could not be read back safely; names the place.
    """
    for place, leaf in iterate_leaves(tree):
        if not isinstance(leaf, _STORABLE) or (isinstance(leaf, np.ndarray) and leaf.dtype.hasobject):
            raise CheckpointError(
                f"checkpoint entry {'/'.join(map(str, place))} is a {type(leaf).__name__}, which cannot be stored "
                "safely; keep plain numbers, strings, lists, dicts and arrays in a state_dict"
            )
    torch.save(map_leaves(_storable, tree), file)


def read_checkpoint(path: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Read a checkpoint tree; nothing in the file is executed.

    Raises
    ------
    CheckpointError
        If the file holds pickled objects besides tensors and plain values, or is no checkpoint.
    """
    try:
        tree = torch.load(path, map_location=map_location, weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds pickled objects, which could run code when loaded, so it was not loaded. If you trust its "
            f"source, read it yourself with torch.load(path, weights_only=False). ({str(error).splitlines()[0]})"
        ) from error
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(tree, Mapping):
        raise CheckpointError(f"{path} is no checkpoint: it holds a {type(tree).__name__}, not a dictionary")
    return _restored(tree)


def _storable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_ARRAY: torch.from_numpy(np.array(value))}
    return value.item() if isinstance(value, np.generic) else value


def _restored(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        if tree.keys() == {_ARRAY}:
            return tree[_ARRAY].numpy()
        return {key: _restored(value) for key, value in tree.items()}
    return [_restored(value) for value in tree] if isinstance(tree, list) else tree


def save_checkpoint_torch(
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
        A ``torch.nn.Module``.
    optimizers
        Optimizers by name.
    epoch
        Number of finished epochs.
    **extra
        Further plain values or tensors to keep.
    """
    tree = {
        "model": {} if model is None else model.state_dict(),
        "optimizer": {name: optimizer.state_dict() for name, optimizer in (optimizers or {}).items()},
        "epoch": epoch or 0,
        **extra,
    }
    return publish(file, lambda opened: write_checkpoint(opened, tree))


def load_checkpoint_torch(file: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Verify and read a file of :func:`save_checkpoint_torch`.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged, or would run code.
    """
    verify_zip(file)
    return read_checkpoint(file, map_location)


#: historic names
torch_save_checkpoint = save_checkpoint_torch
torch_load_checkpoint = load_checkpoint_torch
