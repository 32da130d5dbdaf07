"""Checkpoints of PyTorch: ``.pt`` files that plain ``torch.load`` reads, weights only."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from delira.contract import ByName, CheckpointsRole, Network, Tree
from delira.contract.checkpoints import check_fit, optimizer_states
from delira.errors import CheckpointError, ConfigError
from delira.io import shards
from delira.io.container import DEEPEST, check_model, check_saved, stored_records, verify_zip
from delira.utils.files import as_path, as_target, open_regular, publish, read_patiently

_ARRAY = "$ndarray"

_PLAIN: tuple[type, ...] = (bool, int, float, complex, str, bytes)

#: what is stored as it is, if it is exactly that
_EXACT = frozenset({*_PLAIN, type(None)})

#: what ``torch.load`` reads with ``weights_only=True``
_STORABLE = (torch.Tensor, torch.dtype, torch.device, *_PLAIN, type(None))


def write_checkpoint(file: BinaryIO, tree: ByName) -> None:
    """Serialise a checkpoint tree; numpy arrays, which ``torch.load`` refuses, are kept as tensors.

    Parameters
    ----------
    file
        An open file.
    tree
        Dictionaries, lists, tuples and sets of tensors, arrays and plain values.

    Raises
    ------
    CheckpointError
        If the tree holds what could not be read back safely; names the place.
    """
    torch.save(_storable(tree, ""), file)


def read_checkpoint(path: str | Path, map_location: object = "cpu") -> dict[str, Any]:
    """Read a checkpoint tree; nothing in the file is executed.

    Parameters
    ----------
    path
        A zip file, as ``torch.save`` writes; the formats before PyTorch 1.6 are refused.
    map_location
        Where the tensors go, as ``torch.load`` takes it.

    Raises
    ------
    CheckpointError
        If the file holds pickled objects besides tensors and plain values, or is no checkpoint.
    UnreadableError
        If the system cannot read it now.
    """

    def read(file: str | Path) -> dict[str, Any]:
        return read_patiently(file, lambda: _read_file(file, map_location))

    index = read(path)
    return shards.read(Path(path), index, read, torch.cat) if shards.SHARDS in index else index


def _read_file(path: str | Path, map_location: Any) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            size = sum(record.size for record in stored_records(file).values())
        tree = torch.load(path, map_location=map_location, weights_only=True)
        if not isinstance(tree, Mapping):
            raise CheckpointError(f"{path} is no checkpoint: it holds a {type(tree).__name__}, not a dictionary")
        _check_entries(tree, size)
        return _restored(tree)  # type: ignore[no-any-return]
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds pickled objects, which could run code when loaded, so it was not loaded. If you trust its "
            f"source, read it yourself with torch.load(path, weights_only=False). ({str(error).splitlines()[0]})"
        ) from error
    except MemoryError:  # a few bytes may ask for any amount
        raise CheckpointError(f"{path} is not a readable checkpoint: it asks for more memory than there is") from None
    except Exception as error:  # a stream of made-up instructions can make PyTorch raise anything
        raise CheckpointError(f"{path} is not a readable checkpoint: {error}") from error


def _storable(value: Tree, place: str, depth: int = 0) -> Any:
    """Copy of a tree in types that ``torch.load`` reads; of arrays and containers, not of tensors."""
    if depth > DEEPEST:
        raise CheckpointError(
            f"checkpoint entry {place[1:80]}… is nested deeper than {DEEPEST} levels, or holds itself"
        )
    if type(value) in _EXACT:
        return value
    if isinstance(value, Mapping):
        # most of a long run are the records of its epochs
        if type(value) is dict and all(type(key) is str and type(item) in _EXACT for key, item in value.items()):
            return dict(value)
        return {_key(key, place): _storable(item, f"{place}/{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, (list, tuple, set)):
        items = [_storable(item, f"{place}/{number}", depth + 1) for number, item in enumerate(value)]
        return items if isinstance(value, list) else (set if isinstance(value, set) else tuple)(items)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):  # its mask would be lost
        try:
            return {_ARRAY: torch.from_numpy(np.array(value))}
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"checkpoint entry {place[1:]} cannot be stored: {error}") from error
    if not isinstance(value, _STORABLE):
        raise CheckpointError(
            f"checkpoint entry {place[1:]} is a {type(value).__name__}, which cannot be stored "
            "safely; keep plain numbers, strings, lists, dicts and arrays in a state_dict"
        )
    return _plain(value)


def _key(key: Any, place: str) -> Any:
    key = key.item() if isinstance(key, np.generic) else key
    if isinstance(key, tuple):
        return tuple(_key(part, place) for part in key)
    if not isinstance(key, (*_PLAIN, type(None))):
        raise CheckpointError(f"checkpoint entry {place[1:]} has a {type(key).__name__} as key; use plain strings")
    return _plain(key)


def _plain(value: Tree) -> Any:
    """The value without a class of its own, e.g. a member of an enumeration as its number: that is code."""
    kind = next((kind for kind in _PLAIN if isinstance(value, kind)), None)
    if kind is str:
        return str.__str__(value)  # str() would ask a member for its name
    return value if kind is None else kind(value)


def _check_entries(tree: object, limit: int) -> None:
    """Refuse a tree that unfolds into more entries than the file has bytes.

    A few bytes can name one list ten times in a list that is named ten times, and so on, or in itself.
    """
    waiting, count = [tree], 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, (Mapping, list, tuple, set)):
            count += len(value)
            if count > limit:
                raise ValueError("it unfolds into more entries than it has bytes")
            waiting.extend(value.values() if isinstance(value, Mapping) else value)


def _restored(tree: Tree) -> Any:
    if isinstance(tree, Mapping):
        if tree.keys() == {_ARRAY}:
            return tree[_ARRAY].cpu().numpy()
        return {key: _restored(value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_restored(value) for value in tree)
    return tree


def save_checkpoint_torch(
    file: str | Path, model: Network = None, optimizers: ByName | None = None, epoch: int | None = None, **extra: Any
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

    Raises
    ------
    ConfigError
        If an argument is of no use, e.g. ``file`` is a folder.
    CheckpointError
        If there is what a checkpoint cannot hold; it names the place.
    """
    check_model("save_checkpoint_torch", model, torch.nn.Module | None, "a torch.nn.Module")
    states = states_of("save_checkpoint_torch", optimizers, epoch)
    path = as_target(file, "file")
    tree = {"model": {} if model is None else model.state_dict(), "optimizer": states, "epoch": epoch or 0, **extra}
    return publish(path, lambda opened: write_checkpoint(opened, tree))


def load_checkpoint_torch(file: str | Path, map_location: object = "cpu") -> dict[str, Any]:
    """Verify and read a file of :func:`save_checkpoint_torch`.

    Parameters
    ----------
    file
        Name of the file.
    map_location
        Where the tensors go, as ``torch.load`` takes it.

    Raises
    ------
    ConfigError
        If ``file`` is no path, or ``map_location`` no device.
    CheckpointError
        If the file is missing, damaged, or would run code.
    """
    path = as_path(file, "file")
    check_location(map_location)
    verify_zip(path)
    return read_checkpoint(path, map_location)


def states_of(owner: str, optimizers: ByName | None, epoch: int | None) -> dict[str, Any]:
    """The states of optimizers for a file that the function ``owner`` writes; refuses what is none, and no epoch."""

    def has_state(optimizer: object) -> bool:
        return callable(getattr(optimizer, "state_dict", None))

    check_saved(owner, optimizers, epoch, is_optimizer=has_state, what="optimizer of PyTorch")
    return {name: optimizer.state_dict() for name, optimizer in (optimizers or {}).items()}


def check_location(map_location: object) -> None:
    """Refuse a place that ``torch.load`` knows not: it would say so of the file.

    Raises
    ------
    ConfigError
        Naming what was given.
    """
    if map_location is None or callable(map_location) or isinstance(map_location, (torch.device, Mapping)):
        return
    reason = ""
    if isinstance(map_location, str):
        try:
            torch.device(map_location)
            return
        except RuntimeError as error:
            reason = f": {error}"
    raise ConfigError(f"map_location is a device, such as 'cpu', got {map_location!r}{reason}")


class TorchCheckpoints(CheckpointsRole):
    """States in files that plain ``torch.load`` reads."""

    write = staticmethod(write_checkpoint)
    read = staticmethod(read_checkpoint)

    writes_plain_weights = True

    def state_tree(self, network: torch.nn.Module, optimizers: ByName) -> dict[str, Any]:
        weights = network.state_dict()
        if lazy := [name for name, weight in weights.items() if is_lazy(weight)]:
            raise CheckpointError(
                f"the weights {', '.join(lazy)} of {type(network).__name__} have no shape yet, so there is no state of "
                "them; call the network once with a batch first"
            )
        return {"model": weights, **_optimizer_tree(optimizers)}

    def load_state_tree(self, tree: ByName, network: torch.nn.Module, optimizers: ByName) -> None:
        weights, own = tree.get("model", {}), network.state_dict()

        def differs(key: str) -> str | None:
            value = own[key]
            # loading gives its shape to what has none yet
            if not isinstance(value, torch.Tensor) or is_lazy(value) or weights[key].shape == value.shape:
                return None
            shapes = f"{tuple(weights[key].shape)} in the checkpoint and {tuple(value.shape)} in the network"
            return f"{key} has shape {shapes}"

        check_fit(network, weights, own, differs)
        optimizer_states(tree, optimizers)
        before = self.backend.arrays.snapshot(_optimizer_tree(optimizers))
        try:
            _load_optimizers(optimizers, tree)
        except Exception:
            _load_optimizers(optimizers, before)
            raise
        network.load_state_dict(weights)


def _optimizer_tree(optimizers: ByName) -> dict[str, Any]:
    """The part of a tree that the optimizers fill."""
    states = {name: optimizer.state_dict() for name, optimizer in optimizers.items()}
    scalers = {name: o.scaler.state_dict() for name, o in optimizers.items() if o.scaler.is_enabled()}
    pending = {name: o.pending_state() for name, o in optimizers.items()}
    more = {"scaler": scalers, "pending": pending}
    return {"optimizer": states, **{name: part for name, part in more.items() if part}}


def _load_optimizers(optimizers: ByName, tree: ByName) -> None:
    """Refuse the state of another optimizer: torch takes it over and fails at the first step."""
    for name, optimizer in optimizers.items():
        try:
            optimizer.load_state_dict(tree["optimizer"][name])
            optimizer.load_pending_state(tree.get("pending", {}).get(name, {}))
            if name in tree.get("scaler", {}):
                optimizer.scaler.load_state_dict(tree["scaler"][name])
            missing = {entry for group in optimizer.param_groups for entry in optimizer.entries if entry not in group}
        except (ValueError, KeyError) as error:
            raise CheckpointError(f"the checkpoint does not fit the optimizer {name!r}: {error}") from error
        if missing:
            raise CheckpointError(
                f"the checkpoint does not fit the optimizer {name!r}: it is no state of a "
                f"{type(optimizer.optimizer).__name__}, since {', '.join(sorted(missing))} is missing"
            )


#: historic names
torch_save_checkpoint = save_checkpoint_torch
torch_load_checkpoint = load_checkpoint_torch
