"""What networks say, as probabilities or labels, and how far several of them differ."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from delira.errors import ConfigError
from delira.metrics.tree.criteria import Criterion
from delira.utils.arrays import iterate_leaves, map_leaves

#: what is kept of a prediction
Kept = Literal["logits", "probabilities", "labels"]
KINDS = ("logits", "probabilities", "labels")
_EPSILON = 1e-12


def axis_of(array: np.ndarray, space: Sequence[int], known: Criterion | None) -> int | None:
    """The axis of the classes in scores of shape ``(B, C, *space)``, ``(B, *space, C)`` or ``(B, C)``; None: none.

    Parameters
    ----------
    array
        The scores.
    space
        Shape in space of the input; empty if nobody knows.
    known
        What losses and settings say.
    """
    if array.ndim < 2:
        return None
    if array.ndim == 2 or not space:
        return 1
    n_axes = len(space)
    if array.shape[2:] == tuple(space):
        return 1
    if array.shape[1:-1] == tuple(space):
        return array.ndim - 1
    if array.shape[1:] == tuple(space):
        return None
    if array.ndim == n_axes + 2 and known is not None and known.class_axis == -1:
        return array.ndim - 1
    return 1


def as_probabilities(array: np.ndarray, axis: int | None, known: Criterion | None, name: str) -> np.ndarray:
    """Scores as probabilities, float32 at least, of the same shape.

    Parameters
    ----------
    array
        Logits, or probabilities already.
    axis
        Of the classes.
    known
        What is known of the output; a loss over exclusive classes asks for a softmax, one of yes and no for a sigmoid.
    name
        Of the output, for messages.

    Raises
    ------
    ConfigError
        If nobody says what the output is.
    """
    values = np.asarray(array, dtype=np.result_type(array.dtype, np.float32))
    output = None if known is None else known.output
    if output == "probabilities":
        return values
    if known is None or output != "logits":
        said = "nothing says" if output is None else f"it is {output}, and not"
        raise ConfigError(
            f"of the output {name!r} {said} whether it is logits or probabilities; train with the setting "
            "output='logits' or output='probabilities', or take predictions as they are (combine='mean', keep=None)"
        )
    n_classes = 1 if axis is None else values.shape[axis]
    if n_classes > 1 and not known.is_of_each:
        shifted = values - values.max(axis=axis, keepdims=True)
        np.exp(shifted, out=shifted)
        shifted /= shifted.sum(axis=axis, keepdims=True)
        return shifted
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)), dtype=values.dtype)


def as_labels(array: np.ndarray, axis: int | None, known: Criterion | None, name: str) -> np.ndarray:
    """Scores as labels: the class with the largest score, or whether something is there, as the smallest integers.

    Parameters
    ----------
    array, axis, known, name
        As for :func:`as_probabilities`.
    """
    n_classes = 1 if axis is None else array.shape[axis]
    is_each = known is not None and known.is_of_each
    if known is not None and known.output == "labels":
        return array
    if n_classes > 1 and not is_each:
        return np.asarray(array.argmax(axis), dtype=np.uint8 if n_classes <= 256 else np.int32)
    return np.asarray(as_probabilities(array, axis, known, name) > 0.5, dtype=np.uint8)


def entropy_of(probabilities: np.ndarray, axis: int | None) -> np.ndarray:
    """Entropy in nats: over an axis of classes that exclude each other, else of yes and no, for each probability.

    Parameters
    ----------
    probabilities
        Of any shape.
    axis
        Of the classes, which the result does not have; None: they do not exclude each other.
    """
    if axis is not None:
        return np.asarray(-(probabilities * np.log(np.maximum(probabilities, _EPSILON))).sum(axis))
    parts = (probabilities, 1 - probabilities)
    return np.asarray(-sum(one * np.log(np.maximum(one, _EPSILON)) for one in parts))


def kept_as(
    outputs: Mapping[str, Any], keep: str | None, space: Sequence[int], known: Mapping[str, Criterion]
) -> dict[str, Any]:
    """Outputs as they are asked for.

    Parameters
    ----------
    outputs
        Arrays of shape ``(B, ...)`` by name, or trees of them. Of several those of which nothing is known stay.
    keep
        One of :data:`KINDS`; None: as the network says them.
    space
        Shape in space of the inputs.
    known
        What is known of the outputs, by dotted name.

    Raises
    ------
    ConfigError
        If nobody says what an output is, or logits are asked for where it gives probabilities.
    """
    if keep is None:
        return dict(outputs)
    leaves = [*iterate_leaves(outputs)]
    found = []
    for path, leaf in leaves:
        name = ".".join(map(str, path))
        stays = path[0] == "spread" or (len(leaves) > 1 and name not in known)
        found.append(leaf if stays else _kept(leaf, keep, space, name, known.get(name)))
    made = iter(found)
    return dict(map_leaves(lambda leaf: next(made), dict(outputs)))


def _kept(leaf: Any, keep: str, space: Sequence[int], name: str, known: Criterion | None) -> Any:
    """One output as it is asked for; what is no array stays."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    axis = axis_of(leaf, space, known)
    if keep == "labels":
        return as_labels(leaf, axis, known, name)
    if keep == "probabilities":
        return as_probabilities(leaf, axis, known, name)
    if known is not None and known.output not in ("logits", None):
        raise ConfigError(f"keep='logits': the output {name!r} is {known.output}")
    return leaf
