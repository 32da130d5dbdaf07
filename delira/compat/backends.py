"""Backends of networks that name none: that of their framework, or one of plain Python."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from delira import contract
from delira.contract import Builder, ByName, Network, UpdateConfig
from delira.contract.checkpoints import optimizer_states
from delira.errors import CheckpointError
from delira.models.abstract_network import AbstractNetwork
from delira.models.weights import check_named_weights
from delira.utils.frameworks import backend_named

#: package and name of a class -> the backend of networks that are derived from it; the first that fits
_OF_FRAMEWORKS = {
    ("torch", "ScriptModule"): "torchscript",
    ("torch", "Module"): "torch",
    ("keras", "Layer"): "tensorflow",
    ("flax", "Module"): "jax",
}


def backend_of(cls: type) -> contract.Backend | None:
    """Return the backend of a network class that names none; None if it is no network."""
    if not issubclass(cls, AbstractNetwork) or cls is AbstractNetwork:
        return None
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in cls.__mro__}
    for base, name in _OF_FRAMEWORKS.items():
        if base in bases:
            found: contract.Backend = backend_named(name)
            return found
    return PLAIN


Place = tuple[Any, Any]


def _places(owner: Any, seen: set[int], path: str = "") -> Iterator[tuple[str, Place, Any]]:
    """Arrays and numbers within an object, by their path, each with the holder and the name in it."""
    if id(owner) in seen:
        return
    seen.add(id(owner))
    items = enumerate(owner) if isinstance(owner, list) else getattr(owner, "__dict__", owner).items()
    for name, value in list(items):
        here = f"{path}.{name}" if path else str(name)
        if name == "init_kwargs":
            continue
        if isinstance(value, (np.ndarray, np.number, bool, int, float)):
            yield here, (owner, name), value
        elif isinstance(value, (dict, list)) or (hasattr(value, "__dict__") and not callable(value)):
            yield from _places(value, seen, here)


def _tree_of(owner: Any, *others: Any) -> dict[str, Any]:
    if callable(getattr(owner, "state_dict", None)):
        return dict(owner.state_dict())
    return {path: value for path, _, value in _places(owner, set(map(id, others)))}


def _put(owner: Any, tree: ByName, *others: Any) -> None:
    if callable(getattr(owner, "load_state_dict", None)):
        owner.load_state_dict(tree)
        return
    for path, (holder, name), value in list(_places(owner, set(map(id, others)))):
        given = type(value)(tree[path]) if not isinstance(value, np.ndarray) else np.array(tree[path], value.dtype)
        if isinstance(holder, (dict, list)):
            holder[name] = given
        else:
            setattr(holder, name, given)


class PlainCalls(contract.CallsRole):
    """A network is what it is called as."""

    method = "__call__"

    def training(self, network: Network) -> contract.Scope:
        return _mode(network, True)

    def evaluating(self, network: Network) -> contract.Scope:
        return _mode(network, False)


class _mode:
    """Scope in which a network that has a switch ``training`` has it so."""

    def __init__(self, network: Network, is_training: bool):
        self._network, self._is_training = network, is_training

    def __enter__(self) -> None:
        self._before = getattr(self._network, "training", None)
        if isinstance(self._before, bool):
            self._network.training = self._is_training

    def __exit__(self, *error: object) -> None:
        if isinstance(self._before, bool):
            self._network.training = self._before


class PlainOptimizers(contract.OptimizersRole):
    """What ``optim_fn`` makes; the closure updates with it."""

    def build(
        self, network: Network, builder: Builder, optimizer_cls: Any, optimizer_params: ByName, update: UpdateConfig
    ) -> dict[str, Any]:
        if update != UpdateConfig():
            raise self.lacking("has neither mixed precision nor accumulation, clipping, skipping or micro-batches")
        if builder is not None:
            return builder(network, optimizer_cls, **optimizer_params)
        return {} if optimizer_cls is None else {"default": optimizer_cls(network, **optimizer_params)}

    def learning_rates(self, optimizers: ByName) -> dict[str, float]:
        rates = {name: float(one.lr) for name, one in optimizers.items() if isinstance(getattr(one, "lr", None), float)}
        return {"lr" if len(optimizers) == 1 else f"lr_{name}": rate for name, rate in rates.items()}


class PlainGenerators(contract.GeneratorsRole):
    """Numpy's global generator."""

    def seed(self, seed: int) -> None:
        np.random.seed(seed % 2**32)  # noqa: NPY002 - the global one is meant

    def state(self) -> Any:
        return np.random.get_state(legacy=False)  # noqa: NPY002

    def set_state(self, state: Any) -> None:
        np.random.set_state({**state, "state": dict(state["state"])})  # noqa: NPY002


class PlainWeights(contract.WeightsRole):
    """The arrays of a network, wherever they are in it."""

    def learned_names(self, network: Network) -> frozenset[str]:
        return frozenset(self.averaged(network))

    def averaged(self, network: Network) -> dict[str, Any]:
        return {name: value for name, value in _tree_of(network).items() if isinstance(value, np.ndarray)}

    def named(self, network: Network) -> dict[str, np.ndarray]:
        return {name: value.copy() for name, value in self.averaged(network).items()}

    def load_named(self, network: Network, weights: Any) -> None:
        own = self.averaged(network)
        check_named_weights(network, {name: (one.shape, one.dtype.name) for name, one in own.items()}, weights)
        _put(network, {**_tree_of(network), **weights})


class PlainCheckpoints(contract.CheckpointsRole):
    """Arrays and numbers of network and optimizers, or what their ``state_dict`` gives."""

    def state_tree(self, network: Network, optimizers: ByName) -> dict[str, Any]:
        states = {name: _tree_of(one, network) for name, one in optimizers.items()}
        return {"model": _tree_of(network), "optimizer": states}

    def load_state_tree(self, tree: ByName, network: Network, optimizers: ByName) -> None:
        own, given = _tree_of(network), tree.get("model") or {}
        if own.keys() != given.keys() or any(np.shape(own[name]) != np.shape(given[name]) for name in own):
            shapes = [{name: np.shape(value) for name, value in one.items()} for one in (given, own)]
            raise CheckpointError(f"the checkpoint holds {shapes[0]}, and {type(network).__name__} has {shapes[1]}")
        states = optimizer_states(tree, optimizers)
        for name, optimizer in optimizers.items():
            _put(optimizer, states[name], network)
        _put(network, given)


class PlainBackend(contract.Backend):
    """Networks of plain Python, which learn in their closure."""

    name = "python"
    title = "plain Python"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractNetwork"
    roles = (PlainCalls, PlainOptimizers, PlainGenerators, PlainWeights, PlainCheckpoints)


PLAIN = PlainBackend()
