"""What frameworks and users bring, for which Python has no type in common: their names say what is meant."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

#: a network: of delira, or a module of a framework
Network: TypeAlias = Any
#: an optimizer of a framework, or what a backend has wrapped it in
Optimizer: TypeAlias = Any
#: an array or a tensor of any framework
Array: TypeAlias = Any
#: arrays, or mappings and sequences of them at any depth
Tree: TypeAlias = Any
#: a data manager, or another iterable of batches
Data: TypeAlias = Any
#: a function of predictions and targets, or of the state
Criterion: TypeAlias = Any
#: things of one kind by their names: optimizers, losses, metrics, weights, the entries of a batch
ByName: TypeAlias = Mapping[str, Any]
#: what a user wrote to make the optimizers of a network, ``builder(network, optimizer_cls, **optimizer_params)``, if so
Builder: TypeAlias = Callable[..., dict[str, Any]] | None
#: what ``with`` takes, and gives nothing
Scope: TypeAlias = AbstractContextManager[None]
#: the closure of a network, or what a backend has made of it
Closure: TypeAlias = Callable[..., Any]
