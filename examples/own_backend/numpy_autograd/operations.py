"""The table of operations: what each computes, and how it passes a gradient on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Operation(NamedTuple):
    """One operation on arrays."""

    forward: Callable[..., Any]
    """``forward(*inputs, **constants) -> output``"""
    backward: Callable[..., tuple[Any, ...]]
    """``backward(gradient, output, *inputs, **constants)``: one gradient for each input, broadcast as the output is"""


def _repeat(gradient: np.ndarray, like: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
    if axis is not None and not keepdims:
        gradient = np.expand_dims(gradient, axis)
    return np.broadcast_to(gradient, like.shape)


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)  # no exponential is above 1
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _split(gradient: np.ndarray, out: np.ndarray, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.split(gradient, np.cumsum([array.shape[-1] for array in inputs])[:-1], axis=-1))


def _put_back(gradient: np.ndarray, out: np.ndarray, a: np.ndarray, start: int, stop: int) -> tuple[np.ndarray]:
    share = np.zeros_like(a, dtype=gradient.dtype)
    share[start:stop] = gradient
    return (share,)


_TABLE: dict[str, tuple[Callable[..., Any], Callable[..., tuple[Any, ...]]]] = {
    "add": (np.add, lambda g, out, a, b: (g, g)),
    "subtract": (np.subtract, lambda g, out, a, b: (g, -g)),
    "multiply": (np.multiply, lambda g, out, a, b: (g * b, g * a)),
    "divide": (np.divide, lambda g, out, a, b: (g / b, -g * out / b)),
    "power": (lambda a, exponent: a**exponent, lambda g, out, a, exponent: (g * exponent * a ** (exponent - 1),)),
    "matmul": (np.matmul, lambda g, out, a, b: (g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g)),
    "sum": (
        lambda a, axis, keepdims: np.sum(a, axis=axis, keepdims=keepdims),
        lambda g, out, a, axis, keepdims: (_repeat(g, a, axis, keepdims),),
    ),
    "mean": (
        lambda a, axis, keepdims: np.mean(a, axis=axis, keepdims=keepdims),
        lambda g, out, a, axis, keepdims: (_repeat(g, a, axis, keepdims) * (out.size / a.size),),
    ),
    "exp": (np.exp, lambda g, out, a: (g * out,)),
    "log": (np.log, lambda g, out, a: (g / a,)),
    "abs": (np.abs, lambda g, out, a: (g * np.sign(a),)),
    "tanh": (np.tanh, lambda g, out, a: (g * (1 - out**2),)),
    "relu": (lambda a: np.where(a > 0, a, 0 * a), lambda g, out, a: (g * (a > 0),)),  # 0 * NaN stays NaN
    "log_softmax": (_log_softmax, lambda g, out, a: (g - np.exp(out) * g.sum(axis=-1, keepdims=True),)),
    "flatten": (lambda a: a.reshape(len(a), -1), lambda g, out, a: (g.reshape(a.shape),)),
    "rows": (lambda a, start, stop: a[start:stop], _put_back),
    "concatenate": (lambda *arrays: np.concatenate(arrays, axis=-1), _split),
}

#: numbers that are not finite are no error here: whoever trains looks at the loss
QUIET = np.errstate(over="ignore", invalid="ignore", divide="ignore")

OPERATIONS = {name: Operation(QUIET(forward), QUIET(backward)) for name, (forward, backward) in _TABLE.items()}
