"""What a network and its optimizers hold, by name: taken, given back, averaged."""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.names import is_built, layers_of, learnable, named_variables
from delira.backends.tensorflow.runtime import runtime_of
from delira.backends.tensorflow.values import exact
from delira.errors import CheckpointError, NetworkError
from delira.io.container import write_tree
from delira.models.weights import check_named_weights
from delira.utils.trees import map_leaves


def state_tree(network: Any, optimizers: Mapping[str, Any]) -> dict[str, Any]:
    """All variables of the network, states of its generators included, and of the optimizers, as tensors."""
    refuse_lazy(network, CheckpointError, "so there is no state of them")
    weights = {name: variable.value.read_value() for name, variable in named_variables(network).items()}
    return {"model": weights, **_optimizer_tree(optimizers)}


def _optimizer_tree(optimizers: Mapping[str, Any]) -> dict[str, Any]:
    pending = {}
    states = {}
    for name, wrapped in optimizers.items():
        wrapped.build()
        variables = [variable.value.read_value() for variable in wrapped.optimizer.variables]
        states[name] = {"class": type(wrapped.optimizer).__name__, "variables": variables}
        if state := wrapped.pending_state():
            pending[name] = state
    return {"optimizer": states, **({"pending": pending} if pending else {})}


def refuse_lazy(network: Any, error: type[Exception], consequence: str) -> None:
    """Refuse a network whose layers have not seen a batch."""
    if not is_built(network):
        lazy = [layer.name for layer in layers_of(network)[1:] if not layer.built]
        raise error(
            f"the layers {', '.join(lazy)} of {type(network).__name__} have no weights yet, {consequence}; call the "
            "network once with a batch first"
        )


def load_state_tree(tree: Mapping[str, Any], network: Any, optimizers: Mapping[str, Any]) -> None:
    """Put a tree back; weights that have no shape yet get theirs with the first batch.

    Raises
    ------
    CheckpointError
        If the tree does not fit, naming the entries; nothing is changed then.
    """
    states = tree.get("optimizer", {})
    if missing := sorted(optimizers.keys() - states.keys()):
        raise CheckpointError(f"the checkpoint has no optimizer {missing}; it has {sorted(states)}")
    if not is_built(network):
        runtime_of(network).waiting = (map_leaves(exact, tree), dict(optimizers))
        return
    variables = named_variables(network)
    weights = tree.get("model", {})
    _check_weights(weights, variables, network)
    for name, wrapped in optimizers.items():
        _check_optimizer(name, wrapped, states[name], tree.get("pending", {}).get(name, {}))
    _assign(list(variables.values()), [weights[name] for name in variables])
    for name, wrapped in optimizers.items():
        _assign(wrapped.optimizer.variables, states[name]["variables"])
        wrapped.load_pending_state(tree.get("pending", {}).get(name, {}))
    ids = {id(generator.state) for layer in layers_of(network) for generator in layer._seed_generators}
    found = {name: exact(weights[name]) for name, variable in variables.items() if id(variable) in ids}
    runtime_of(network).generators = found or None


def finish_building(network: Any) -> None:
    """Load what has waited for the weights to have a shape."""
    runtime = runtime_of(network)
    waiting, runtime.waiting = runtime.waiting, None
    learned, runtime.learned = runtime.learned, None
    if waiting is not None:
        load_state_tree(waiting[0], network, waiting[1])
    if learned is not None:
        set_learned_names(network, learned)


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.value.assign(exact(value))


def _check_weights(weights: Mapping[str, Any], variables: Mapping[str, Any], network: Any) -> None:
    complaints = []
    if missing := [name for name in variables if name not in weights]:
        complaints.append(f"missing in the checkpoint: {', '.join(missing)}")
    if unexpected := [name for name in weights if name not in variables]:
        complaints.append(f"unknown to the network: {', '.join(unexpected)}")
    for name, variable in variables.items():
        if name not in weights:
            continue
        found, own = np.asarray(exact(weights[name])), (tuple(variable.shape), variable.dtype)
        if (found.shape, found.dtype.name) != own:
            complaints.append(
                f"{name} has shape {found.shape} and type {found.dtype.name} in the checkpoint, {own[0]} and {own[1]} "
                "in the network"
            )
    if complaints:
        raise CheckpointError(
            f"the checkpoint does not fit the network {type(network).__name__}: " + "; ".join(complaints)
        )


def _check_optimizer(name: str, wrapped: Any, state: Any, pending: Mapping[str, Any]) -> None:
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


def snapshot(tree: Any, previous: Any = None) -> Any:
    """A copy of a tree on the host that later training cannot change."""
    return map_leaves(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else exact(leaf), tree)


def write_checkpoint(file: BinaryIO, tree: Mapping[str, Any]) -> None:
    """Write a tree to an open file in the common container."""
    write_tree(file, map_leaves(exact, tree))


# ------------------------------------------------------------------ weights


def _weights(network: Any) -> dict[str, Any]:
    """All variables but the states of generators."""
    ids = {id(generator.state) for layer in layers_of(network) for generator in layer._seed_generators}
    return {name: variable for name, variable in named_variables(network).items() if id(variable) not in ids}


def named_weights(network: Any) -> dict[str, np.ndarray]:
    """Copies of all weights by name, as arrays."""
    refuse_lazy(network, NetworkError, "so there is nothing to show")
    return {name: np.array(exact(variable)) for name, variable in _weights(network).items()}


def load_named_weights(network: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Put weights by name into the network; refuses others than its own, and changes nothing then."""
    refuse_lazy(network, NetworkError, "so they cannot get values")
    own = _weights(network)
    shapes = {name: (tuple(variable.shape), variable.dtype) for name, variable in own.items()}
    check_named_weights(network, shapes, weights, {name: id(variable) for name, variable in own.items()})
    _assign(list(own.values()), [weights[name] for name in own])


def learned_names(network: Any) -> frozenset[str]:
    """Names of the variables that training changes by gradients; none as long as some of them have no shape."""
    if not is_built(network):
        return frozenset()
    ids = {id(variable) for variable in learnable(network).values()}
    return frozenset(name for name, v in named_variables(network).items() if id(v) in ids and v.trainable)


def set_learned_names(network: Any, names: frozenset[str]) -> None:
    """Freeze and unfreeze variables; a layer that has none left that learns is frozen as a whole.

    Weights that have no shape yet follow when they get theirs.
    """
    if not is_built(network):
        runtime_of(network).learned = names
        return
    learned = {id(variable) for name, variable in named_variables(network).items() if name in names}
    for layer in layers_of(network):
        inside = [v for part in layer._flatten_layers() for v in part._trainable_variables]
        if inside:
            layer._trainable = any(id(variable) in learned for variable in inside)
        for variable in layer._trainable_variables:
            variable.trainable = id(variable) in learned


def average(average: Mapping[str, Any] | None, network: Any, decay: float) -> dict[str, Any]:
    """Take the weights of a network into their exponential moving average.

    Parameters
    ----------
    average
        The average so far, tensors by name; ``None``: begin with the weights.
    network
        Its floating trainable variables, frozen ones included, are averaged in their own type.
    decay
        Part of the old average that is kept, in [0, 1].

    Raises
    ------
    NetworkError
        If the variables of the network are not those of the average, or have no shape yet.
    """
    refuse_lazy(network, NetworkError, "so they have no average")
    ids = {id(variable) for variable in learnable(network).values()}
    weights = {
        name: variable.value.read_value()
        for name, variable in named_variables(network).items()
        if id(variable) in ids and variable.value.dtype.is_floating
    }
    if average is None:
        return weights
    if average.keys() != weights.keys():
        raise NetworkError(
            f"the average of the weights does not fit the network {type(network).__name__}: "
            f"{', '.join(sorted(average.keys() ^ weights.keys()))} is in one of them only; begin a new average"
        )
    moved = _move(list(average.values()), list(weights.values()), tf.constant(1.0 - decay, tf.float32))
    return dict(zip(weights, moved, strict=True))


@tf.function(autograph=False, reduce_retracing=True)
def _move(averages: list[Any], weights: list[Any], share: Any) -> list[Any]:
    return [old + (new - old) * tf.cast(share, old.dtype) for old, new in zip(averages, weights, strict=True)]
