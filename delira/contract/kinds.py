"""What frameworks and users bring, for which Python has no type in common: their names say what is meant."""

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
