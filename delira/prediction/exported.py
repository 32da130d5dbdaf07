"""An ensemble as a program that runs without delira."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.errors import ConfigError
from delira.io.program import Joint, Part, transformers_of
from delira.training.scores import as_probabilities, axis_of

if TYPE_CHECKING:
    from delira.metrics.tree.criteria import Criterion
    from delira.prediction.model import OneNetwork


def part_of(name: str, one: "OneNetwork", first: "OneNetwork", weight: float) -> Part:
    """A member as a part of a program, whose inputs are called as the arguments of the first member.

    Raises
    ------
    ConfigError
        If it is of another backend, or reads or prepares its inputs in another way.
    """
    own, other = one.predictor, first.predictor
    if own.backend is not other.backend:
        raise ConfigError(
            f"the member {name!r} is of the backend {own.backend.name!r}, and the first of {other.backend.name!r}; one "
            "program is of one backend"
        )
    inputs = {entry: argument for argument, entry in other.key_mapping.items()}
    unknown = [entry for entry in own.key_mapping.values() if entry not in inputs]
    if unknown or type(own.module).prepare_batch is not type(other.module).prepare_batch:
        what = f"reads the entry {unknown[0]!r}" if unknown else "prepares its inputs by another prepare_batch"
        raise ConfigError(f"the member {name!r} {what}, which the first does not; one program takes the same for all")
    return Part(
        network=own.module,
        arguments={argument: inputs[entry] for argument, entry in own.key_mapping.items()},
        transformers=transformers_of(own.module, own.preprocessing, own.key_mapping),
        weight=weight,
        entries=own.key_mapping,
    )


def joint_of(name: str, array: Any, known: "Criterion | None", way: Any, space: Sequence[int]) -> Joint:
    """How one output is combined.

    Parameters
    ----------
    name
        Of the output.
    array
        What one member says of the example.
    known
        What is known of the output.
    way
        As of :class:`Ensemble`.
    space
        Shape in space of the inputs.

    Raises
    ------
    ConfigError
        If nobody says whether it is logits or probabilities, where that matters; or it holds no real numbers.
    """
    array = np.asarray(array)
    if array.dtype.kind == "c":
        raise ConfigError(f"the output {name!r} holds complex numbers, which are not exported as an ensemble")
    axis = axis_of(array, space, known)
    n_classes = 1 if axis is None else array.shape[axis]
    is_exclusive = n_classes > 1 and not (known is not None and known.is_of_each)
    said = None if known is None else known.output
    if way == "probabilities" or (way == "votes" and not is_exclusive):
        as_probabilities(array, axis, known, name)  # refuses what is neither logits nor probabilities
    return Joint(
        way=way,
        axis=axis,
        n_classes=n_classes,
        is_exclusive=is_exclusive,
        are_logits=said == "logits",
        is_of_classes=way in ("probabilities", "votes") or (way == "logits" and said in ("logits", "probabilities")),
    )
