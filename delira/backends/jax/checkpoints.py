"""Checkpoints of JAX: the common container, a zip of ``.npy`` arrays and JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np
from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.arrays import is_key, to_device, to_host
from delira.backends.jax.optimizers import JaxOptimizer
from delira.contract import Array, ByName, CheckpointsRole, Tree
from delira.contract.checkpoints import check_fit, optimizer_states
from delira.errors import CheckpointError
from delira.io.container import check_kept, check_model, check_saved, read_tree, verify_zip, write_tree
from delira.utils.arrays import map_leaves
from delira.utils.files import as_path, as_target, publish


def _plain(leaf: Array) -> Any:
    return to_host(leaf) if isinstance(leaf, jax.Array) else leaf


def _by_place(tree: Tree) -> dict[str, Any]:
    """The leaves of a state of optax with names for their places."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def _stored_shape(value: Array) -> tuple[int, ...]:
    return np.shape(jax.random.key_data(value) if is_key(value) else value)


def _loaded(name: str, optimizer: JaxOptimizer, state: ByName, pending: ByName) -> Any:
    """A stored state of optax as arrays of JAX; refuses that of another optimizer."""
    own = _by_place(optimizer.state["optax"])
    wrong = sorted(own.keys() ^ state.keys())
    wrong += [place for place in own if place in state and np.shape(state[place]) != _stored_shape(own[place])]
    if wrong:
        raise CheckpointError(
            f"the checkpoint does not fit the optimizer {name!r}: {', '.join(wrong[:5])} is missing, unknown or of "
            "another shape; build the optimizer as it was"
        )
    sums = {weight: np.shape(array) for weight, array in pending.get("sums", {}).items()}
    if sums and sums != optimizer.shapes:
        raise CheckpointError(
            f"the checkpoint does not fit the optimizer {name!r}: its accumulated gradients are not of the weights "
            f"{', '.join(optimizer.shapes)}; build the network as it was"
        )
    structure = jax.tree.structure(optimizer.state["optax"])
    return jax.tree.unflatten(structure, [to_device(state[place], leaf) for place, leaf in own.items()])


class JaxCheckpoints(CheckpointsRole):
    """States in the common container."""

    @staticmethod
    def state_tree(network: nnx.Module, optimizers: Mapping[str, JaxOptimizer]) -> dict[str, Any]:
        """``{"model": {name: array}, "optimizer": {name: {place: array}}, "pending": {name: …}}``, all on the host."""
        model = {name: to_host(variable.get_raw_value()) for name, variable in graph.state_variables(network).items()}
        tree: dict[str, Any] = {"model": model, "optimizer": {}}
        for name, optimizer in optimizers.items():
            places = _by_place(optimizer.state["optax"])
            tree["optimizer"][name] = {place: to_host(leaf) for place, leaf in places.items()}
            tree.setdefault("pending", {})[name] = map_leaves(_plain, optimizer.pending_state())
        return tree

    @staticmethod
    def load_state_tree(tree: ByName, network: nnx.Module, optimizers: Mapping[str, JaxOptimizer]) -> None:
        """Put a tree back; optimizers that are not passed are left alone.

        Raises
        ------
        CheckpointError
            If it does not fit the network or an optimizer, naming the entries; nothing is changed then.
        """
        weights, variables = tree.get("model", {}), graph.state_variables(network)

        def differs(name: str) -> str | None:
            found, own = np.shape(weights[name]), _stored_shape(variables[name].get_raw_value())
            return None if found == own else f"{name} has shape {found} in the checkpoint and {own} in the network"

        check_fit(network, weights, variables, differs)
        states = optimizer_states(tree, optimizers)
        pending = tree.get("pending", {})
        loaded = {name: _loaded(name, one, states[name], pending.get(name, {})) for name, one in optimizers.items()}
        for name, optimizer in optimizers.items():
            optimizer.state = {**optimizer.state, "optax": loaded[name]}
            optimizer.load_pending_state(pending.get(name, {}))
        for name, variable in variables.items():
            variable.set_raw_value(to_device(weights[name], variable.get_raw_value()))

    def write(self, file: BinaryIO, tree: ByName) -> None:
        write_tree(file, map_leaves(_plain, tree))


def save_checkpoint_jax(
    file: str | Path, model: nnx.Module = None, optimizers: ByName | None = None, epoch: int | None = None, **extra: Any
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
    tree = {"model": {}, "optimizer": {}} if model is None else JaxCheckpoints.state_tree(model, optimizers or {})
    whole = map_leaves(_plain, {**tree, "epoch": epoch or 0, **extra})
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


def _is_optimizer(value: object) -> bool:
    return isinstance(value, JaxOptimizer)
