"""Weights by name, as numpy arrays, in every backend."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from delira.errors import CheckpointError, ConfigError
from delira.utils.frameworks import find_backend


def named_weights(network: object) -> dict[str, np.ndarray]:
    """Copies of all weights: every parameter, biases included, and what else the backend stores with them.

    Parameters
    ----------
    network
        The network of a backend.

    Returns
    -------
    dict of ndarray
        Arrays of the network's own types under the framework's names; bfloat16 as ``ml_dtypes.bfloat16``.
        Weights that two layers share are there under both names.
    """
    return find_backend(network).named_weights(network)


def load_named_weights(network: object, weights: Mapping[str, np.ndarray]) -> None:
    """Put weights into a network, in place.

    Parameters
    ----------
    network
        The network of a backend.
    weights
        Arrays by name, as :func:`named_weights` gives them.

    Raises
    ------
    CheckpointError
        If names, shapes or types differ from those of the network; it says which, and nothing is changed.
    """
    backend = find_backend(network)
    if not isinstance(weights, Mapping):
        raise ConfigError(f"load_named_weights: weights is a dict of arrays by name, got {weights!r}")
    backend.weights.load_named(network, weights)


def check_named_weights(
    network: object,
    own: Mapping[str, tuple[tuple[int, ...], str]],
    weights: Mapping[str, Any],
    memory: Mapping[str, Hashable] | None = None,
) -> None:
    """Refuse weights of another network.

    Parameters
    ----------
    network
        For the message.
    own
        Shape and name of the numpy type of each weight of the network.
    weights
        What it is to get.
    memory
        Name -> what tells the weight from others; shared weights have several names and are the same.

    Raises
    ------
    CheckpointError
        With all the names that differ, or that would give a shared weight several values.
    """
    complaints = []
    if missing := [name for name in own if name not in weights]:
        complaints.append(f"missing: {', '.join(missing)}")
    if unknown := [str(name) for name in weights if name not in own]:
        complaints.append(f"unknown to the network: {', '.join(unknown)}")
    for name, (shape, dtype) in own.items():
        if name not in weights:
            continue
        array = weights[name]
        if not isinstance(array, np.ndarray):
            complaints.append(f"{name} is a {type(array).__name__}, not a numpy array")
        elif (array.shape, array.dtype.name) != (shape, dtype):
            complaints.append(f"{name} is {array.dtype.name} {array.shape}, in the network {dtype} {shape}")
    if not complaints:
        first: dict[Hashable, str] = {}
        for name, place in (memory or {}).items():
            other = first.setdefault(place, name)
            if weights[name].tobytes() != weights[other].tobytes():
                complaints.append(f"{other} and {name} share their memory in the network, but differ in the weights")
    if complaints:
        raise CheckpointError(f"the weights do not fit the network {type(network).__name__}: " + "; ".join(complaints))
