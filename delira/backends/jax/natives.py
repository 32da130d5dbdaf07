"""What users of flax have in its own words: ``nnx.Optimizer`` and ``nnx.Metric``."""

import inspect
from collections.abc import Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax import graph
from delira.contract import NativesRole, Network, Optimizer
from delira.errors import ConfigError
from delira.metrics.tree.adapters import Streamed
from delira.state import LOSS, State
from delira.utils.arrays import shape_of
from delira.utils.binding import role_of


class JaxNatives(NativesRole):
    """Objects of flax."""

    def optimizer(self, given: Optimizer, network: Network) -> Any:
        if not isinstance(given, nnx.Optimizer):
            return given
        if given.wrt is not nnx.Param:
            raise ConfigError(
                f"the nnx.Optimizer learns {given.wrt!r}, and a fit learns nnx.Param; give the transformation of "
                "optax, and freeze what is not to learn (variable.set_metadata(frozen=True))"
            )
        if int(given.step[...]):
            raise ConfigError(
                f"the nnx.Optimizer has updated {int(given.step[...])} times, and what it has gathered would be lost; "
                "give a new one, or the transformation of optax"
            )
        new = nnx.Optimizer(network, given.tx, wrt=nnx.Param)
        if not _are_equal(nnx.state(given), nnx.state(new)):
            raise ConfigError(
                f"the nnx.Optimizer is not what a new one of the whole {type(network).__name__} is: it was made for a "
                "part of it, or its state was changed, which would be lost; give the transformation of optax"
            )
        return given.tx

    def metric(self, given: Any) -> Any:
        return NnxMetric(given) if isinstance(given, nnx.Metric) else given


def _are_equal(one: Any, other: Any) -> bool:
    pair = [[np.asarray(graph.raw(leaf)) for leaf in jax.tree.leaves(state)] for state in (one, other)]
    return len(pair[0]) == len(pair[1]) and all(map(np.array_equal, *pair))


class NnxMetric(Streamed):
    """A metric of flax, updated with each batch by the names of its arguments.

    ``logits`` and others that name a prediction get the prediction, ``labels`` and others that name a target the
    target, ``loss`` the loss of the batch; one that takes any keywords gets ``logits``, ``labels`` and ``loss``.

    Parameters
    ----------
    metric
        The object, e.g. ``nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))``.
    """

    def __init__(self, metric: nnx.Metric):
        self.metric, self.label = metric, type(metric).__name__
        super().__init__()
        self._parameters = inspect.signature(metric.update).parameters
        self._is_open = any(one.kind is one.VAR_KEYWORD for one in self._parameters.values())

    def reset(self, state: State) -> None:
        self.metric.reset()

    def process(self, *args: Any) -> Any:
        """Update the metric with a batch."""
        state = args[0]
        pred, true = self.pair(state)
        if 0 in shape_of(pred):
            return
        values = {"logits": pred, "labels": true, "loss": state[LOSS]}
        roles = {"prediction": pred, "target": true}
        named = {name: roles[role] for name in self._parameters if (role := role_of(name)) is not None}
        taken = values if self._is_open else {name: values[name] for name in values if name in self._parameters}
        self.metric.update(**{**named, **taken})

    def compute(self) -> Any:
        return self.metric.compute()

    def _variables(self) -> dict[str, Any]:
        return {graph.dotted(path): leaf for path, leaf in nnx.to_flat_state(nnx.state(self.metric))}

    def state_dict(self) -> dict[str, Any]:
        """Its variables.

        Raises
        ------
        ConfigError
            If it has none, and so keeps what it has seen where nobody finds it.
        """
        variables = self._variables()
        if not variables:
            raise ConfigError(
                f"the metric {self.name!r} keeps what it has seen in no nnx.Variable, so that a checkpoint cannot keep "
                "it; make it nnx.metrics.MetricState"
            )
        return {name: np.array(graph.raw(variable)) for name, variable in variables.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        values = nnx.state(self.metric)
        for path, variable in nnx.to_flat_state(values):
            variable.set_raw_value(jnp.asarray(state[graph.dotted(path)]))
        nnx.update(self.metric, values)

    def merge(self, other: Self) -> None:
        """Add totals and counts.

        Raises
        ------
        ConfigError
            If it keeps something else.
        """
        own, theirs = self.state_dict(), other.state_dict()
        if others := [name for name in own if name.rpartition(".")[2] not in ("total", "count")]:
            raise ConfigError(
                f"the metric {self.name!r} keeps {others[0]!r}, and nobody knows how two of it are joined"
            )
        self.load_state_dict({name: value + theirs[name] for name, value in own.items()})
