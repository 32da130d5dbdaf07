"""What is written as one program: networks, what is done to their inputs, and how they become one prediction.

Nothing here belongs to a framework: a backend calls it with its own arrays while it traces.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from delira.data_loading.affine import Affine, affine_of
from delira.errors import ConfigError, DataError
from delira.utils.arrays import Ops, iterate_leaves, ops_of

_EPSILON = 1e-12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """One of the networks of a program."""

    network: Any
    arguments: Mapping[str, str]
    """Argument of the network -> input of the program."""
    transformers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Argument of the network -> what was fitted to it, and is done to it before."""
    weight: float = 1.0
    """What it counts; those of all parts add up to one."""
    entries: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Argument of the network -> entry of a batch, for messages."""

    @functools.cached_property
    def layers(self) -> dict[str, Affine]:
        """What is done to the arguments as shift and scale."""
        return {
            argument: affine_of(each, f"the preprocessing of the entry {self.entries.get(argument, argument)!r}")
            for argument, each in self.transformers.items()
        }

    def given(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the network, of the inputs of the program."""
        own = {argument: inputs[name] for argument, name in self.arguments.items()}
        return {
            **own,
            **{name: _shifted(own[name], layer, self.entries.get(name, name)) for name, layer in self.layers.items()},
        }


def _shifted(array: Any, layer: Affine, entry: str) -> Any:
    shape = tuple(array.shape[1:])
    size = int(np.prod(shape, dtype=np.int64))
    if wrong := [len(one) for one in (layer.center, layer.scale) if len(one) not in (1, size)]:
        raise DataError(
            f"the preprocessing of the entry {entry!r} was fitted to samples of {wrong[0]} numbers, and those of the "
            f"example have the shape {shape}"
        )
    ops = ops_of(array)

    def constant(values: np.ndarray) -> Any:
        shaped = values.reshape((1, *shape) if len(values) == size else (1,) * (len(shape) + 1))
        return ops.asarray(np.float32(shaped), array)

    # a center far from zero has more digits than float32, and the difference needs all of them
    rough = layer.center.astype(np.float32)
    centered = ops.cast(array, ops.xp.float32) - constant(rough) - constant(layer.center - rough)
    return centered * constant(layer.scale)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Joint:
    """How one output of all networks becomes one."""

    way: Literal["probabilities", "logits", "votes", "mean", "labels"]
    """As of :class:`delira.Ensemble`."""
    axis: int | None
    """Of the classes in it."""
    n_classes: int
    is_exclusive: bool
    """Whether a sample has one of several classes."""
    are_logits: bool
    """Whether it is logits, of which a softmax or a sigmoid makes probabilities."""
    is_of_classes: bool

    def joined(self, arrays: Sequence[Any], weights: Sequence[float], spread: bool) -> dict[str, Any]:
        """The output ``""`` of all, and by name how far they differ."""
        ops = ops_of(arrays[0])
        if self.way == "labels":
            return self._most(ops, arrays, weights, spread)
        scores = [ops.as_float(array) for array in arrays]
        values = scores
        if self.way == "probabilities":
            values = [self._probabilities(ops, one) for one in scores]
        votes = [self._votes(ops, one) for one in scores] if self.way == "votes" or self.is_of_classes else []
        if self.way == "votes":
            values = votes
        mean = _mean(values, weights)
        if not spread:
            return {"": mean}
        found = {"": mean, "sd": ops.sqrt(_mean([(value - mean) * (value - mean) for value in values], weights))}
        if self.is_of_classes:
            found["entropy"] = self._entropy(ops, self._probabilities(ops, mean) if self.way == "logits" else mean)
            found["disagreement"] = self._disagreement(ops, _mean(votes, [1 / len(votes)] * len(votes)))
        return found

    def _probabilities(self, ops: Ops, scores: Any) -> Any:
        if not self.are_logits:
            return scores
        if not self.is_exclusive or self.axis is None:
            return ops.sigmoid(scores)
        powers = ops.exp(scores - ops.expand(ops.largest(scores, self.axis), self.axis))
        return powers / ops.expand(ops.sum(powers, self.axis), self.axis)

    def _votes(self, ops: Ops, scores: Any) -> Any:
        """1 where the network says a class, else 0."""
        if not self.is_exclusive or self.axis is None:
            return ops.cast(self._probabilities(ops, scores) > 0.5, ops.xp.float32)
        shape = [self.n_classes if at == self.axis else 1 for at in range(len(scores.shape))]
        numbers = ops.reshape(ops.arange(self.n_classes, scores), shape)
        labels = ops.expand(ops.argmax(scores, self.axis), self.axis)
        return ops.cast(ops.equal(labels, numbers), ops.xp.float32)

    def _entropy(self, ops: Ops, probabilities: Any) -> Any:
        def part(shares: Any) -> Any:
            return shares * ops.log(ops.where(shares > _EPSILON, shares, _EPSILON))

        if self.is_exclusive and self.axis is not None:
            return -ops.sum(part(probabilities), self.axis)
        return -(part(probabilities) + part(1 - probabilities))

    def _disagreement(self, ops: Ops, shares: Any) -> Any:
        """Share of the networks that do not say what most say."""
        if self.is_exclusive and self.axis is not None:
            return 1 - ops.largest(shares, self.axis)
        return ops.where(shares > 0.5, 1 - shares, shares)

    @staticmethod
    def _most(ops: Ops, labels: Sequence[Any], weights: Sequence[float], spread: bool) -> dict[str, Any]:
        """The label that most say; of several the least."""
        found, _ = _leading(ops, labels, weights)
        if not spread:
            return {"": found}
        _, share = _leading(ops, labels, [1 / len(labels)] * len(labels))
        return {"": found, "disagreement": 1 - share}


def _leading(ops: Ops, labels: Sequence[Any], weights: Sequence[float]) -> tuple[Any, Any]:
    """The label that most say, and their share."""
    found, most = labels[0], None
    for one in labels:
        said = [ops.cast(ops.equal(one, other), ops.xp.float32) for other in labels]
        votes = sum(weight * each for weight, each in zip(weights, said, strict=True))
        if most is None:
            most = votes
            continue
        is_better = (votes > most) | (ops.equal(votes, most) & (one < found))
        found, most = ops.where(is_better, one, found), ops.where(is_better, votes, most)
    return found, most


def _mean(arrays: Sequence[Any], weights: Sequence[float]) -> Any:
    return sum(weight * array for weight, array in zip(weights[1:], arrays[1:], strict=True)) + weights[0] * arrays[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """Networks as one function of named inputs."""

    parts: Sequence[Part]
    outputs: Mapping[str, Joint] | None = None
    """How outputs are made one, by dotted names; None: they are those of the only network."""
    spread: bool = False
    """Whether it also says how far the networks differ, as ``spread.<output>.sd`` and so on."""

    @property
    def networks(self) -> list[Any]:
        """The networks of the parts."""
        return [part.network for part in self.parts]

    def compute(self, calls: Sequence[Callable[..., Any]], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the program says.

        Parameters
        ----------
        calls
            The networks as they can be called, in the order of the parts.
        inputs
            Arrays of the framework by name, or trees of them.
        """
        said = [call(**part.given(inputs)) for call, part in zip(calls, self.parts, strict=True)]
        if self.outputs is None:
            return dict(said[0])
        flat = [dotted(one) for one in said]
        weights = [part.weight for part in self.parts]
        combined: dict[str, Any] = {}
        differing: dict[str, Any] = {}
        for name, joint in self.outputs.items():
            found = joint.joined([one[name] for one in flat], weights, self.spread)
            combined[name] = found.pop("")
            differing.update({f"spread.{name}.{kind}": array for kind, array in found.items()})
        return {**combined, **differing}


def dotted(tree: Mapping[str, Any]) -> dict[str, Any]:
    """What a tree holds by dotted names."""
    return {".".join(map(str, place)): leaf for place, leaf in iterate_leaves(tree)}


def transformers_of(network: Any, fitted: Any, entries: Mapping[str, str]) -> dict[str, Any]:
    """What was fitted to the arguments of a network.

    Parameters
    ----------
    network
        The network.
    fitted
        The :class:`delira.data_loading.transforms.FittedPreprocessing` of its inputs; None: nothing.
    entries
        Argument of the network -> entry of a batch.

    Raises
    ------
    ConfigError
        If the network's own ``prepare_batch`` comes between the two.
    """
    if fitted is None:
        return {}
    if not getattr(network.prepare_batch, "is_backend_default", False):
        raise ConfigError(
            f"{type(network).__name__} has a prepare_batch of its own, which is no part of an exported program, and "
            f"comes after its preprocessing, {fitted!r}; do in the network what prepare_batch does, or write it by "
            "delira.io.export(network, path, example, preprocessing=False), and do both to the inputs of the program"
        )
    return {argument: fitted.transformers[key] for argument, key in entries.items() if key in fitted.transformers}
