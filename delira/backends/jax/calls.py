"""How networks of JAX are called: in which mode, and compiled if they can be traced."""

import contextlib
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.generators import GENERATOR, key_of
from delira.contract import Array, ByName, CallsRole, Network
from delira.contract.arrays import only_arrays
from delira.errors import DataError, NetworkError
from delira.models.abstract_network import AbstractNetwork

#: errors of Python that depends on traced values
UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)

#: usual names of arguments that say whether a network learns
_MODES = frozenset({"train", "training", "is_training", "deterministic"})

#: network -> functions compiled for it
_FORWARDS: weakref.WeakKeyDictionary[Any, graph.Compiled] = weakref.WeakKeyDictionary()

#: networks that are called as they are, operation by operation, in prediction too
EAGER: weakref.WeakSet[Any] = weakref.WeakSet()


class JaxCalls(CallsRole):
    """Networks are modules of flax with a ``__call__``."""

    method = "__call__"

    def training(self, network: nnx.Module) -> contextlib.AbstractContextManager[None]:
        return graph.mode(network, learns=True)

    def evaluating(self, network: nnx.Module) -> contextlib.AbstractContextManager[None]:
        return graph.mode(network, learns=False)

    def set_evaluating(self, network: nnx.Module) -> None:
        network.eval()
        graph.forget_parts(network)

    def parameters(self, network: nnx.Module) -> Mapping[str, inspect.Parameter]:
        """Arguments of the call; those of the class above where a class passes on whatever it gets."""
        if type(network).__call__ is AbstractNetwork.__call__:
            raise NetworkError(f"{type(network).__name__} has no __call__; write __call__, which is what flax calls")
        found: Mapping[str, inspect.Parameter] = {}
        for cls in type(network).__mro__:
            if "__call__" in vars(cls):
                own = inspect.signature(vars(cls)["__call__"]).parameters
                found = dict(list(own.items())[1:])
                if any(one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in found.values()):
                    break
        return found

    def cure(self, required: Sequence[str]) -> str:
        if modes := [name for name in required if name in _MODES]:
            return f"give {modes[0]} a default (layers learn and predict as the trainer says, whatever it is)"
        return super().cure(required)

    def forward(self, network: nnx.Module, inputs: ByName) -> Any:
        """Call the network, compiled if it can be traced; its variables stay as they are.

        Random streams begin with the same key in every call, which is no key of a training step.
        """
        for name, value in inputs.items():
            if isinstance(value, np.ndarray) and value.size and isinstance(value.flat[0], (str, bytes)):
                raise DataError(
                    f"the argument {name!r} of the network holds text, and JAX computes with numbers only; make "
                    "numbers of it in the dataset, or name another batch entry in key_mapping"
                )
        if network in EAGER:
            return network(**inputs)
        parts = graph.parts_of(network)
        try:
            return _forward_of(network, parts)(parts.values(), arrays_of(dict(inputs)), GENERATOR.words(0xFFFFFFFF))
        except UNTRACEABLE:
            EAGER.add(network)
            return network(**inputs)

    def constants_of(self, value: object) -> list[Any]:
        if not isinstance(value, nnx.Module):
            return []
        return [graph.raw(leaf) for leaf in graph.take_apart(value).leaves]


def _forward_of(network: Network, parts: graph.Parts) -> Callable[..., Any]:
    functions = graph.functions_of(_FORWARDS.setdefault(network, []), parts)
    if "forward" not in functions:
        mould = graph.Mould.of(parts)

        def predict(arrays: Any, inputs: Any, words: Any) -> Any:
            return mould.build(arrays, key_of(words))(**inputs)

        functions["forward"] = jax.jit(predict)
    return functions["forward"]


def arrays_of(batch: dict[str, Any]) -> dict[str, Any]:
    """The entries of a batch that a compiled step takes: no texts, names or other objects."""
    if all(isinstance(value, jax.Array) for value in batch.values()):
        return batch
    return only_arrays(batch, _array, keeps_empty=False) or {}


def _array(value: Array) -> Any:
    """The value if it is numbers."""
    is_numeric = value.dtype.kind in "biufc" if isinstance(value, (np.ndarray, np.generic)) else True
    return value if is_numeric and isinstance(value, (np.ndarray, np.generic, jax.Array, bool, int, float)) else None
