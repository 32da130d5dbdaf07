"""Reverse-mode automatic differentiation: every result remembers its inputs."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from numpy_autograd.operations import OPERATIONS, QUIET

_is_recording = True


@contextlib.contextmanager
def recording(on: bool) -> Iterator[None]:
    """Scope in which results remember their inputs, or do not: then there are no gradients."""
    global _is_recording
    before, _is_recording = _is_recording, on
    try:
        yield
    finally:
        _is_recording = before


class Tensor:
    """An array, and how it was computed.

    Parameters
    ----------
    data
        Array or number; taken as it is, not copied.
    requires_grad
        Whether :meth:`backward` leaves a gradient in ``grad``.
    """

    __array_ufunc__ = None  # array + tensor is a tensor

    def __init__(self, data: Any, requires_grad: bool = False):
        self.data = np.asarray(data)
        self.requires_grad = requires_grad
        self.grad: np.ndarray | None = None
        self.operation: str | None = None  # what it is the result of
        self.inputs: tuple[Tensor, ...] = ()
        self.constants: dict[str, Any] = {}

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)
    ndim = property(lambda self: self.data.ndim)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: slice) -> "Tensor":
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"a tensor gives rows one after the other, not every {step}th")
        return apply("rows", self, start=start, stop=stop)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.data, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Tensor({self.data!r}{', requires_grad=True' if self.requires_grad else ''})"

    def item(self) -> float:
        """The one number."""
        return self.data.item()

    def detach(self) -> "Tensor":
        """The same numbers without their history."""
        return Tensor(self.data)

    def __add__(self, other: Any) -> "Tensor":
        return apply("add", self, other)

    def __sub__(self, other: Any) -> "Tensor":
        return apply("subtract", self, other)

    def __rsub__(self, other: Any) -> "Tensor":
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> "Tensor":
        return apply("multiply", self, other)

    def __truediv__(self, other: Any) -> "Tensor":
        return apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> "Tensor":
        return apply("divide", other, self)

    def __pow__(self, exponent: float) -> "Tensor":
        return apply("power", self, exponent=exponent)

    def __matmul__(self, other: Any) -> "Tensor":
        return apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> "Tensor":
        return apply("matmul", other, self)

    def __neg__(self) -> "Tensor":
        return apply("multiply", self, -1.0)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self, axis: int | None = None, keepdims: bool = False) -> "Tensor":
        """Sum over one axis or all."""
        return apply("sum", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | None = None, keepdims: bool = False) -> "Tensor":
        """Mean over one axis or all."""
        return apply("mean", self, axis=axis, keepdims=keepdims)

    def exp(self) -> "Tensor":
        """Exponential of each entry."""
        return apply("exp", self)

    def log(self) -> "Tensor":
        """Natural logarithm of each entry."""
        return apply("log", self)

    def abs(self) -> "Tensor":
        """Absolute value of each entry."""
        return apply("abs", self)

    def tanh(self) -> "Tensor":
        """Hyperbolic tangent of each entry."""
        return apply("tanh", self)

    def relu(self) -> "Tensor":
        """Each entry, or 0 if it is negative."""
        return apply("relu", self)

    def log_softmax(self) -> "Tensor":
        """Logarithms of probabilities along the last axis."""
        return apply("log_softmax", self)

    def flatten(self) -> "Tensor":
        """All axes but the first in one."""
        return apply("flatten", self)

    @QUIET
    def backward(self) -> None:
        """Add the gradient of this single number to ``grad`` of every tensor that requires one."""
        gradients = {id(self): np.ones_like(self.data, dtype=np.float64)}
        for tensor in reversed(history(self)):
            gradient = gradients.pop(id(tensor), None)
            if gradient is None:
                continue
            if tensor.operation is None:
                tensor.grad = np.array(gradient) if tensor.grad is None else tensor.grad + gradient
                continue
            arrays = [source.data for source in tensor.inputs]
            shares = OPERATIONS[tensor.operation].backward(gradient, tensor.data, *arrays, **tensor.constants)
            for source, share in zip(tensor.inputs, shares, strict=True):
                if source.requires_grad:
                    share = _summed_to(share, source.shape)
                    known = gradients.get(id(source))
                    gradients[id(source)] = share if known is None else known + share


def apply(operation: str, *inputs: Any, **constants: Any) -> Tensor:
    """Compute one operation of the table and remember it.

    Parameters
    ----------
    operation
        Name in ``OPERATIONS``.
    *inputs
        Tensors, arrays or numbers.
    **constants
        What the operation takes besides.
    """
    sources = tuple(value if isinstance(value, Tensor) else Tensor(value) for value in inputs)
    result = Tensor(OPERATIONS[operation].forward(*(source.data for source in sources), **constants))
    if _is_recording:
        result.operation, result.inputs, result.constants = operation, sources, constants
        result.requires_grad = any(source.requires_grad for source in sources)
    return result


def concatenate(tensors: list[Tensor]) -> Tensor:
    """Tensors side by side, along the last axis."""
    return apply("concatenate", *tensors)


def history(*results: Tensor) -> list[Tensor]:
    """All tensors that results were computed of, each after its inputs."""
    found: dict[int, Tensor] = {}
    waiting = [(result, False) for result in reversed(results)]
    while waiting:  # not recursive: a history may be longer than Python's stack
        tensor, has_inputs = waiting.pop()
        if has_inputs:
            found.setdefault(id(tensor), tensor)
        elif id(tensor) not in found:
            waiting.append((tensor, True))
            waiting += [(source, False) for source in tensor.inputs]
    return list(found.values())


def _summed_to(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Undo broadcasting: a number that was used several times gets the sum of its gradients."""
    if gradient.ndim > len(shape):
        gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(axis for axis, length in enumerate(shape) if length == 1 != gradient.shape[axis])
    return gradient.sum(axis=stretched, keepdims=True) if stretched else gradient
