"""Ways of prediction: what is done between a batch and what a network says of it; numpy in, numpy out."""

import abc
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from delira.errors import DataError

#: arrays of shape ``(B, ...)`` by name
Arrays = Mapping[str, Any]
#: predicts a batch
Call = Callable[[Arrays], dict[str, Any]]


class Inference(abc.ABC):
    """A way of prediction: calls a network as often as it needs, and joins what it says."""

    @abc.abstractmethod
    def __call__(self, call: Call, batch: Arrays, inputs: Collection[str]) -> dict[str, Any]:
        """Predict a batch.

        Parameters
        ----------
        call
            Predicts a batch that is made of this one: by the network, or by another way.
        batch
            Arrays of shape ``(B, ...)`` by name.
        inputs
            Entries that the network reads.

        Returns
        -------
        dict
            The outputs by name, arrays of shape ``(B, ...)``.
        """


def joined(outer: Inference | None, inner: Inference | None) -> Inference | None:
    """One way of two: the outer one calls the inner one, which calls the network; None: there is none."""
    if outer is None or inner is None:
        return outer or inner
    return _Within(outer, inner)


class _Within(Inference):
    def __init__(self, outer: Inference, inner: Inference):
        self._outer, self._inner = outer, inner

    def __call__(self, call: Call, batch: Arrays, inputs: Collection[str]) -> dict[str, Any]:
        return self._outer(lambda part: self._inner(call, part, inputs), batch, inputs)

    def __repr__(self) -> str:
        return f"{self._outer!r} of {self._inner!r}"


def space_of(batch: Arrays, inputs: Collection[str], n_axes: int | None = None) -> tuple[int, ...]:
    """The shape in space that the inputs of a batch have in common.

    Parameters
    ----------
    batch
        Arrays by name.
    inputs
        Names of the network's.
    n_axes
        Number of axes in space; None: all but samples and channels of the input that has the most.

    Raises
    ------
    DataError
        If no input has such axes, or they differ.
    """
    shapes = {name: np.shape(batch[name])[2:] for name in inputs if np.ndim(batch[name]) > 2}
    most = max(map(len, shapes.values()), default=0)
    wanted = {name: shape for name, shape in shapes.items() if len(shape) == (most if n_axes is None else n_axes)}
    if not wanted:
        found = ", ".join(f"{name!r} of shape {np.shape(batch[name])}" for name in inputs)
        axes = "axes in space" if n_axes is None else f"{n_axes} axes in space, as the window has"
        raise DataError(f"no input has samples, channels and {axes}; the network reads {found}")
    if len({*wanted.values()}) > 1:
        raise DataError(f"the inputs differ in their shape in space: {wanted}")
    return next(iter(wanted.values()))


def axis_in_space(array: Any, space: tuple[int, ...]) -> int | None:
    """The first of the axes in space of an array that has one value, or one of each channel, for each place; else None.

    Channels come before the space, ``(B, C, *space)``, or after it, ``(B, *space, C)``, as in TensorFlow; where shapes
    allow both, before it. Of one axis it has channels: scores of classes, of shape ``(B, n_classes)``, are not in
    space.
    """
    shape, n_axes = np.shape(array), len(space)
    if not n_axes:
        return None
    if len(shape) == n_axes + 2:
        return next((first for first in (2, 1) if shape[first : first + n_axes] == tuple(space)), None)
    return 1 if n_axes > 1 and shape[1:] == tuple(space) else None
