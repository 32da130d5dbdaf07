"""The state of networks and optimizers as trees of numpy arrays, and weights by name."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from delira.backends.jax import graph
from delira.backends.jax.optimizers import JaxOptimizer
from delira.backends.jax.values import to_device, to_host
from delira.errors import CheckpointError
from delira.models.weights import check_named_weights


def state_tree(network: Any, optimizers: Mapping[str, JaxOptimizer]) -> dict[str, Any]:
    """``{"model": {name: array}, "optimizer": {name: {place: array}}, "pending": {name: …}}``, all on the host."""
    model = {name: to_host(variable.get_raw_value()) for name, variable in graph.state_variables(network).items()}
    tree: dict[str, Any] = {"model": model, "optimizer": {}}
    for name, optimizer in optimizers.items():
        tree["optimizer"][name] = {place: to_host(leaf) for place, leaf in _placed(optimizer.state["optax"])}
        tree.setdefault("pending", {})[name] = jax.tree.map(_plain, optimizer.pending_state())
    return tree


def _plain(leaf: Any) -> Any:
    return to_host(leaf) if isinstance(leaf, jax.Array) else leaf


def _placed(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a state of optax with names for their places."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [("/".join(map(_step_name, path)), leaf) for path, leaf in leaves]


def _step_name(step: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(step, attribute):
            return str(getattr(step, attribute))
    return str(step)


def load_state_tree(tree: Mapping[str, Any], network: Any, optimizers: Mapping[str, JaxOptimizer]) -> None:
    """Put a tree back; optimizers that are not passed are left alone.

    Raises
    ------
    CheckpointError
        If it does not fit the network or an optimizer, naming the entries; nothing is changed then.
    """
    weights, variables = tree.get("model", {}), graph.state_variables(network)
    _check_entries(weights, {name: variable.get_raw_value() for name, variable in variables.items()}, network)
    states = tree.get("optimizer", {})
    if missing := sorted(optimizers.keys() - states.keys()):
        raise CheckpointError(f"the checkpoint has no optimizer {missing}; it has {sorted(states)}")
    pending = tree.get("pending", {})
    loaded = {name: _loaded(name, optimizer, states[name]) for name, optimizer in optimizers.items()}
    for name, optimizer in optimizers.items():
        _check_pending(name, optimizer, pending.get(name, {}))
    for name, optimizer in optimizers.items():
        optimizer.state = {**optimizer.state, "optax": loaded[name]}
        optimizer.load_pending_state(pending.get(name, {}))
    for name, variable in variables.items():
        variable.set_raw_value(to_device(weights[name], variable.get_raw_value()))


def _check_entries(given: Mapping[str, Any], own: Mapping[str, Any], network: Any) -> None:
    """Refuse weights of another network, naming the entries."""
    complaints = []
    if missing := [name for name in own if name not in given]:
        complaints.append(f"missing in the checkpoint: {', '.join(missing)}")
    if unknown := [str(name) for name in given if name not in own]:
        complaints.append(f"unknown to the network: {', '.join(unknown)}")
    for name, value in own.items():
        shape = _stored_shape(value)
        if name in given and np.shape(given[name]) != shape:
            complaints.append(f"{name} has shape {np.shape(given[name])} in the checkpoint and {shape} in the network")
    if complaints:
        raise CheckpointError(
            f"the checkpoint does not fit the network {type(network).__name__}: " + "; ".join(complaints)
        )


def _stored_shape(value: Any) -> tuple[int, ...]:
    return to_host(value).shape if _is_key(value) else np.shape(value)


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)


def _loaded(name: str, optimizer: JaxOptimizer, state: Mapping[str, Any]) -> Any:
    """A stored state of optax as arrays of JAX."""
    own = dict(_placed(optimizer.state["optax"]))
    wrong = sorted(own.keys() ^ state.keys())
    wrong += [place for place in own if place in state and np.shape(state[place]) != _stored_shape(own[place])]
    if wrong:
        raise CheckpointError(
            f"the checkpoint does not fit the optimizer {name!r}: {', '.join(wrong[:5])} is missing, unknown or of "
            "another shape; build the optimizer as it was"
        )
    structure = jax.tree.structure(optimizer.state["optax"])
    return jax.tree.unflatten(structure, [to_device(state[place], leaf) for place, leaf in own.items()])


def _check_pending(name: str, optimizer: JaxOptimizer, pending: Mapping[str, Any]) -> None:
    sums = {weight: np.shape(array) for weight, array in pending.get("sums", {}).items()}
    if sums and sums != optimizer.shapes:
        raise CheckpointError(
            f"the checkpoint does not fit the optimizer {name!r}: its accumulated gradients are not of the weights "
            f"{', '.join(optimizer.shapes)}; build the network as it was"
        )


# ------------------------------------------------------------------ weights by name


def named_weights(network: Any) -> dict[str, np.ndarray]:
    """Copies of all weights by name, as arrays; shared ones under all of their names."""
    weights = {name: to_host(variable.get_raw_value()) for name, variable in graph.state_variables(network).items()}
    return weights | {name: weights[first].copy() for name, first in graph.aliases(network).items()}


def load_named_weights(network: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Put weights by name into the network; refuses others than its own, and changes nothing then."""
    own = {name: (array.shape, array.dtype.name) for name, array in named_weights(network).items()}
    check_named_weights(network, own, weights, {name: name for name in own} | graph.aliases(network))
    for name, variable in graph.state_variables(network).items():
        variable.set_raw_value(to_device(weights[name], variable.get_raw_value()))
