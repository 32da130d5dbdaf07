"""Checkpoints of TensorFlow in the common container: arrays by the place of each variable in the network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import keras
import numpy as np

from delira.backends.tensorflow.arrays import exact
from delira.backends.tensorflow.optimizers import TfOptimizer
from delira.backends.tensorflow.runtime import generators_of, is_built, named_variables, runtime_of
from delira.backends.tensorflow.weights import TfWeights, assign, refuse_lazy
from delira.contract import ByName, CheckpointsRole
from delira.contract.checkpoints import check_fit, optimizer_states
from delira.errors import CheckpointError, ConfigError
from delira.io.checkpoint import check_format
from delira.io.container import check_kept, check_model, check_saved, read_tree, verify_zip, write_tree
from delira.utils.arrays import map_leaves
from delira.utils.files import as_path, as_target, publish


def finish_building(network: keras.Model) -> None:
    """Load what has waited for the weights to have a shape."""
    runtime = runtime_of(network)
    waiting, runtime.waiting = runtime.waiting, None
    learned, runtime.learned = runtime.learned, None
    if waiting is not None:
        TfCheckpoints.load_state_tree(waiting[0], network, waiting[1])
    if learned is not None:
        TfWeights.set_learned_names(network, learned)


def _check_optimizer(name: str, wrapped: Any, state: Any, pending: ByName) -> None:
    """Refuse the state of another optimizer."""
    wrapped.build()
    own = wrapped.optimizer
    start = f"the checkpoint does not fit the optimizer {name!r}: "
    if not isinstance(state, Mapping) or "variables" not in state:
        raise CheckpointError(f"{start}it is no state of a Keras optimizer")
    if state.get("class") != type(own).__name__:
        raise CheckpointError(f"{start}it is of a {state.get('class')}, not of a {type(own).__name__}")
    shapes = [tuple(np.shape(value)) for value in state["variables"]]
    expected = [tuple(variable.shape) for variable in own.variables]
    if shapes != expected:
        raise CheckpointError(
            f"{start}it has {len(shapes)} variables of shapes {shapes}, the optimizer {len(expected)} of {expected}; "
            "build network and optimizer as they were"
        )
    sums = [tuple(np.shape(value)) for value in pending.get("sums", ())]
    if sums and sums != [tuple(variable.shape) for variable in wrapped.variables_of_network]:
        raise CheckpointError(f"{start}its accumulated gradients have the shapes {sums}")


class TfCheckpoints(CheckpointsRole):
    """States in the common container."""

    @staticmethod
    def state_tree(network: keras.Model, optimizers: ByName) -> dict[str, Any]:
        """All variables of the network, states of its generators included, and of the optimizers, as tensors."""
        refuse_lazy(network, CheckpointError, "so there is no state of them")
        weights = {name: variable.value.read_value() for name, variable in named_variables(network).items()}
        tree: dict[str, Any] = {"model": weights, "optimizer": {}}
        pending = {}
        for name, wrapped in optimizers.items():
            wrapped.build()
            variables = [variable.value.read_value() for variable in wrapped.optimizer.variables]
            tree["optimizer"][name] = {"class": type(wrapped.optimizer).__name__, "variables": variables}
            if state := wrapped.pending_state():
                pending[name] = state
        return {**tree, "pending": pending} if pending else tree

    @staticmethod
    def load_state_tree(tree: ByName, network: keras.Model, optimizers: ByName) -> None:
        """Put a tree back; weights that have no shape yet get theirs with the first batch.

        Raises
        ------
        CheckpointError
            If the tree does not fit, naming the entries; nothing is changed then.
        """
        states = optimizer_states(tree, optimizers)
        if not is_built(network):
            runtime_of(network).waiting = (map_leaves(exact, tree), dict(optimizers))
            return
        weights, variables, pending = tree.get("model", {}), named_variables(network), tree.get("pending", {})

        def differs(name: str) -> str | None:
            found, variable = np.asarray(exact(weights[name])), variables[name]
            shape, dtype = tuple(variable.shape), variable.dtype
            if (found.shape, found.dtype.name) == (shape, dtype):
                return None
            has = f"{name} has shape {found.shape} and type {found.dtype.name} in the checkpoint"
            return f"{has}, {shape} and {dtype} in the network"

        check_fit(network, weights, variables, differs)
        for name, wrapped in optimizers.items():
            _check_optimizer(name, wrapped, states[name], pending.get(name, {}))
        assign(list(variables.values()), [weights[name] for name in variables])
        for name, wrapped in optimizers.items():
            assign(wrapped.optimizer.variables, states[name]["variables"])
            wrapped.load_pending_state(pending.get(name, {}))
        ids = {id(generator.state) for generator in generators_of(network)}
        found = {name: exact(weights[name]) for name, variable in variables.items() if id(variable) in ids}
        runtime_of(network).generators = found or None

    def write(self, file: BinaryIO, tree: ByName) -> None:
        write_tree(file, map_leaves(exact, tree))


_OPTIMIZER = "optimizer of a trainer"


def save_checkpoint_tf(
    file: str | Path,
    model: keras.Model = None,
    optimizers: ByName | None = None,
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
    tree = {"model": {}, "optimizer": {}} if model is None else TfCheckpoints.state_tree(model, optimizers or {})
    whole = map_leaves(exact, {**tree, "epoch": epoch or 0, **extra})
    return publish(path, lambda opened: write_tree(opened, whole))


def load_checkpoint_tf(file: str | Path, model: keras.Model = None, optimizers: ByName | None = None) -> dict[str, Any]:
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
    check_saved("load_checkpoint_tf", optimizers, is_optimizer=_is_optimizer, what=_OPTIMIZER)
    if optimizers and model is None:
        raise ConfigError(f"load_checkpoint_tf: optimizers={sorted(optimizers)} get their state with their model=…")
    verify_zip(path)
    tree = read_tree(path)
    if model is not None:
        check_format(path, tree)
        TfCheckpoints.load_state_tree(tree, model, optimizers or {})
    return tree


def _is_optimizer(value: object) -> bool:
    return isinstance(value, TfOptimizer)


#: historic names
tf_save_checkpoint = save_checkpoint_tf

tf_load_checkpoint = load_checkpoint_tf
