"""Arrays of any framework, and trees of them: the few operations that several parts need.

No framework is imported here. It is found by the type of the array, and is loaded then: nobody holds one of its arrays
without it.
"""

import functools
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from delira.errors import DataError

#: an array of numpy or of a framework, which have no type in common
Array: TypeAlias = Any
#: packages whose variables hold an array
_VARIABLES = ("keras", "flax")
#: what is exact enough to calculate with, as a type is written
_FLOATS = {form.format(bits) for form in ("float{}", "torch.float{}", "<dtype: 'float{}'>") for bits in (32, 64)}


class Ops:
    """Operations on arrays of numpy, and of whatever has numpy's functions: arguments and results as there."""

    #: axis of the classes in scores of shape ``(B, C, ...)``; ``-1``: ``(B, ..., C)``
    class_axis = 1

    def __init__(self, xp: Any = np):
        self.xp = xp
        #: whether they belong to a framework, which says by them where the classes are
        self.is_of_framework = xp is not np

    def asarray(self, value: object, like: object = None) -> Any:
        """Return an array of this framework, where ``like`` is."""
        return self.xp.asarray(value)

    def argmax(self, array: Array, axis: int) -> Any:
        """Position of the largest value; of equal ones, the first."""
        return self.xp.argmax(array, axis=axis)

    def best(self, array: Array, axis: int) -> tuple[Any, Any]:
        """Return the largest value along an axis (not a number if one is none), and the position of the first such."""
        return self.largest(array, axis), self.argmax(array, axis)

    def is_finite(self, array: Array) -> Any:
        """Return where values are numbers, and not infinite."""
        return self.xp.isfinite(array)

    def doubt(self, array: Array) -> Any:
        """Return zeros, with NaN where a value is not finite: added to a result, they make it not a number there."""
        with np.errstate(invalid="ignore"):
            return self.as_float(array - array)

    def reshape(self, array: Array, shape: Sequence[int]) -> Any:
        """Return the same values in another shape."""
        return self.xp.reshape(array, tuple(shape))

    def sum(self, array: Array, axis: int | tuple[int, ...] | None = None) -> Any:
        """Return the sum; of truth values, how many are true."""
        return self.xp.sum(array, axis=axis)

    def mean(self, array: Array) -> Any:
        """Return the mean of all values."""
        return self.xp.mean(array)

    def least(self, array: Array) -> Any:
        """Return the smallest value."""
        return self.xp.min(array)

    def largest(self, array: Array, axis: int | None = None) -> Any:
        """Return the largest value."""
        return self.xp.max(array, axis=axis)

    def where(self, condition: object, array: Array, number: object) -> Any:
        """Return the array where the condition holds, elsewhere one number, or another array of its type."""
        return self.xp.where(condition, array, number)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        """Join along the first axis."""
        return self.xp.concatenate([self.xp.atleast_1d(array) for array in arrays])

    def arange(self, stop: int, like: object) -> Any:
        """Whole numbers from 0, where ``like`` is."""
        return self.xp.arange(stop)

    def is_float(self, array: Array) -> bool:
        """Return True if it holds floating-point numbers (of JAX and TensorFlow also bfloat16)."""
        return _is_float(array.dtype)

    def as_float(self, array: Array) -> Any:
        """Return the array in a floating-point type of at least 32 bits."""
        return array if str(array.dtype) in _FLOATS else self.cast(array, self.xp.float32)

    def to_integer(self, array: Array) -> Any:
        """Return the array in an integer type."""
        return array.astype(self.xp.int32)

    def take(self, array: Array, rows: object) -> Any:
        """Return the entries of the first axis that an array of whole numbers names."""
        return self.xp.take(array, rows, axis=0)

    def cast(self, array: Array, dtype: object) -> Any:
        """Return the array in another type of its framework."""
        return array.astype(dtype)

    def log(self, array: Array) -> Any:
        """Return the natural logarithm."""
        return self.xp.log(array)

    def exp(self, array: Array) -> Any:
        """Return the exponential."""
        return self.xp.exp(array)

    def sqrt(self, array: Array) -> Any:
        """Return the square root."""
        return self.xp.sqrt(array)

    def sigmoid(self, array: Array) -> Any:
        """Return ``1 / (1 + exp(-x))``."""
        return 1 / (1 + self.exp(-array))

    def equal(self, first: object, second: object) -> Any:
        """Return where two arrays, whose numbers may be of two types, are the same."""
        return first == second

    def less(self, first: Any, second: Any) -> Any:
        """Return where the first is below the second."""
        return first < second

    def expand(self, array: Array, axis: int) -> Any:
        """Return the array with one more axis, of length 1."""
        return self.xp.expand_dims(array, axis)

    def moveaxis(self, array: Array, axis: int) -> Any:
        """Return the array with one axis moved to the end."""
        return self.xp.moveaxis(array, axis, -1)

    def wide(self, array: Array) -> Any:
        """Return the array in the widest floating-point type of the framework."""
        return self.cast(array, self.xp.float64)

    def bincount(self, array: Array, length: int) -> Any:
        """How often each of the numbers below ``length`` occurs in an array of whole numbers, shape ``(length,)``."""
        return self.xp.bincount(self.xp.ravel(array), minlength=length)

    def snapshot(self, array: Array) -> Any:
        """Return the same values, which nothing that follows can change, or differentiate."""
        return self.xp.array(array)

    def keep(self, array: Array) -> Any:
        """Return the same for what no optimizer updates: of arrays that nobody can write into, the array itself."""
        return self.snapshot(array)

    def read(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Bring arrays to the host, all at once."""
        return [np.asarray(array) for array in arrays]

    def read_flat(self, arrays: Sequence[Any]) -> np.ndarray:
        """Bring arrays of one type to the host, as one array of shape ``(n,)``."""
        return np.concatenate([array.reshape(-1) for array in self.read(arrays)])


class _Jax(Ops):
    class_axis = -1

    def keep(self, array: Array) -> Any:
        return array

    def wide(self, array: Array) -> Any:
        # float64 where it is switched on; asked for where it is not, it would warn
        return array.astype(self.xp.result_type(float))

    def bincount(self, array: Array, length: int) -> Any:
        return self.xp.bincount(self.xp.ravel(array), length=length)

    def read(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        return [_readable(array) for array in sys.modules["jax"].device_get(list(arrays))]


class _Torch(Ops):
    def asarray(self, value: Any, like: Any = None) -> Any:
        return self.xp.as_tensor(value, device=None if like is None else like.device)

    def largest(self, array: Array, axis: int | None = None) -> Any:
        return self.xp.max(array) if axis is None else self.xp.amax(array, dim=axis)

    def best(self, array: Array, axis: int) -> tuple[Any, Any]:
        found = self.xp.max(array, dim=axis)  # one call for both
        return found.values, found.indices

    def arange(self, stop: int, like: Any) -> Any:
        return self.xp.arange(stop, device=like.device)

    def to_integer(self, array: Array) -> Any:
        return array.long()

    def take(self, array: Array, rows: object) -> Any:
        return self.xp.index_select(array, 0, rows)

    def cast(self, array: Array, dtype: object) -> Any:
        return array.to(dtype)

    def expand(self, array: Array, axis: int) -> Any:
        return array.unsqueeze(axis)

    def wide(self, array: Array) -> Any:
        return array.to(self.xp.float32 if array.device.type == "mps" else self.xp.float64)

    def bincount(self, array: Array, length: int) -> Any:
        flat = array.reshape(-1).long()
        # torch.bincount waits for a GPU, to learn the largest number
        counts = self.xp.zeros(length, dtype=self.xp.int64, device=flat.device)
        return counts.scatter_add_(0, flat, self.xp.ones_like(flat))

    def snapshot(self, array: Array) -> Any:
        return array.detach().clone() if array.requires_grad else array.clone()

    def read(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        # one copy for all that have the same type and place: each copy waits for the GPU
        return _read_by(_place_of, arrays, lambda some: _divided(self.read_flat(some), some))

    def read_flat(self, arrays: Sequence[Any]) -> np.ndarray:
        if len(set(map(operator.attrgetter("device"), arrays))) > 1:
            return super().read_flat(arrays)
        flat = self.xp.cat([array if array.ndim == 1 else array.reshape(-1) for array in arrays]).detach()
        return (flat.float() if flat.dtype == self.xp.bfloat16 else flat).cpu().numpy()


class _TensorFlow(Ops):
    class_axis = -1

    def asarray(self, value: object, like: object = None) -> Any:
        return self.xp.convert_to_tensor(value)

    def sum(self, array: Array, axis: int | tuple[int, ...] | None = None) -> Any:
        return self.xp.reduce_sum(self.xp.cast(array, self.xp.int64) if array.dtype.is_bool else array, axis=axis)

    def mean(self, array: Array) -> Any:
        return self.xp.reduce_mean(array)

    def least(self, array: Array) -> Any:
        return self.xp.reduce_min(array)

    def largest(self, array: Array, axis: int | None = None) -> Any:
        return self.xp.reduce_max(array, axis=axis)

    def is_finite(self, array: Array) -> Any:
        return self.xp.math.is_finite(array)

    def where(self, condition: object, array: Array, number: object) -> Any:
        return self.xp.where(condition, array, self.xp.cast(number, array.dtype))

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        return self.xp.concat([array if array.shape.rank else array[None] for array in arrays], axis=0)

    def arange(self, stop: int, like: object) -> Any:
        return self.xp.range(stop, dtype=self.xp.int64)

    def to_integer(self, array: Array) -> Any:
        return self.xp.cast(array, self.xp.int64)

    def take(self, array: Array, rows: object) -> Any:
        return self.xp.gather(array, rows)

    def cast(self, array: Array, dtype: object) -> Any:
        return self.xp.cast(array, dtype)

    def log(self, array: Array) -> Any:
        return self.xp.math.log(array)

    def equal(self, first: Any, second: Any) -> Any:
        return first == self.xp.cast(second, first.dtype)

    def less(self, first: Any, second: Any) -> Any:
        return first < self.xp.cast(second, first.dtype)

    def moveaxis(self, array: Array, axis: int) -> Any:
        order = [at for at in range(len(array.shape)) if at != axis % len(array.shape)]
        return self.xp.transpose(array, [*order, axis % len(array.shape)])

    def bincount(self, array: Array, length: int) -> Any:
        flat = self.xp.cast(self.xp.reshape(array, [-1]), self.xp.int32)
        return self.xp.math.bincount(flat, minlength=length, maxlength=length, dtype=self.xp.int64)

    def snapshot(self, array: Array) -> Any:
        return self.xp.identity(array)

    def keep(self, array: Array) -> Any:
        return self.xp.convert_to_tensor(array)

    def read(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        return _read_by(_place_of, arrays, self._read_together)

    def _read_together(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        flat = self.xp.concat([self.xp.reshape(array, [-1]) for array in arrays], axis=0)
        return _divided(_readable(flat.numpy()), arrays)


def _place_of(array: Array) -> tuple[Any, Any]:
    return array.dtype, array.device


def _divided(flat: np.ndarray, arrays: Sequence[Any]) -> list[np.ndarray]:
    """Return the parts of an array of shape ``(n,)`` in the shapes of the arrays that were joined in it."""
    shapes = [tuple(array.shape) for array in arrays]
    parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _read_by(
    kind_of: Callable[[Any], Any], arrays: Sequence[Any], read: Callable[[Sequence[Any]], list[np.ndarray]]
) -> list[np.ndarray]:
    """Read those of one kind together, and return all in their order."""
    groups: dict[Any, list[int]] = {}
    for position, array in enumerate(arrays):
        groups.setdefault(kind_of(array), []).append(position)
    found: dict[int, np.ndarray] = {}
    for positions in groups.values():
        found.update(zip(positions, read([arrays[position] for position in positions]), strict=True))
    return [found[position] for position in range(len(arrays))]


def _readable(array: Array) -> np.ndarray:
    """Of a type that numpy itself has: bfloat16 becomes float32."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


_NUMPY = Ops()
#: package in which the type of an array is defined -> its operations, and the module with the functions
_OPS: dict[str, tuple[type[Ops], str]] = {
    "torch": (_Torch, "torch"),
    "tensorflow": (_TensorFlow, "tensorflow"),
    "jax": (_Jax, "jax.numpy"),
    "jaxlib": (_Jax, "jax.numpy"),
}


def tensor_class() -> Any:
    """Return the tensors' class of PyTorch where it has been imported, else a class without objects."""
    return getattr(sys.modules.get("torch"), "Tensor", types.NoneType)


def as_tensor(array: np.ndarray | np.generic, device: object) -> Any:
    """Return a tensor of PyTorch, which has been imported, on the memory of an array as far as devices share it."""
    usable = np.require(array, requirements=("C", "W"))  # torch warns about read-only memory
    return sys.modules["torch"].from_numpy(usable).to(device)


@functools.cache
def _is_float(dtype: object) -> bool:
    return "float" in str(dtype)


@functools.cache
def ops_of_type(kind: type) -> Ops:
    """Return the operations on arrays of a type, see :func:`ops_of`."""
    for parent in kind.__mro__:
        package = parent.__module__.partition(".")[0]
        if package in _OPS:
            operations, namespace = _OPS[package]
            return operations(sys.modules[namespace])
    return _NUMPY


@functools.cache
def _is_variable(kind: type) -> bool:
    return any(parent.__module__.partition(".")[0] in _VARIABLES for parent in kind.__mro__)


@functools.cache
def _stays(kind: type) -> bool:
    """Return True if objects of a type are arrays of a framework as they are, neither numpy's nor variables."""
    return ops_of_type(kind) is not _NUMPY and not _is_variable(kind)


def ops_of(array: Array) -> Ops:
    """Return the operations on arrays like this one; numpy's for numbers, lists and whatever else it can read."""
    return ops_of_type(type(array))  # type: ignore[arg-type]


def as_array(value: Any, like: Any = None) -> Any:
    """Return an array of the framework of ``like``, or of its own; a variable of Keras or Flax gives what it holds.

    Numbers and lists become arrays of numpy.
    """
    kind: Any = type(value)
    if (like is None or type(like) is kind) and _stays(kind):
        return value
    if _is_variable(kind):
        value = value[...]
    ops = ops_of(value)
    target = ops if like is None else ops_of(like)
    if ops is target:
        return np.asarray(value) if ops is _NUMPY else value
    return target.asarray(value, like)


def read_arrays(arrays: Sequence[Any]) -> list[np.ndarray]:
    """Bring arrays of any framework to the host: those of one framework together.

    Returns
    -------
    list of ndarray
        In the order of ``arrays``; bfloat16 becomes float32.
    """
    if len(set(map(type, arrays))) == 1:
        return ops_of(arrays[0]).read(arrays)
    return _read_by(ops_of, arrays, lambda some: ops_of(some[0]).read(some))


def read_alike(arrays: Sequence[Any]) -> np.ndarray:
    """Bring arrays of one framework, shape and type to the host, as one array with a further first axis."""
    return ops_of(arrays[0]).read_flat(arrays).reshape(len(arrays), *np.shape(arrays[0]))


def read_flat(arrays: Sequence[Any]) -> np.ndarray:
    """All numbers of arrays of one type, of any framework, in one array of shape ``(n,)`` on the host."""
    if len(set(map(type, arrays))) == 1:
        return ops_of(arrays[0]).read_flat(arrays)
    return np.concatenate([array.reshape(-1) for array in read_arrays(arrays)])


def shape_of(array: Array) -> tuple[int, ...]:
    """Return the shape of an array of any framework; ``()`` of what has none."""
    return tuple(getattr(array, "shape", ()))


def to_plain(array: Array) -> Any:
    """Return a Python number for an array of one value, nested lists for any other."""
    array = np.asarray(array)
    return array.item() if array.size == 1 else array.tolist()


def cast(array: Array, like: object) -> Any:
    """Return the array in a type of its framework, or in that of another array of it."""
    # a class of numpy has an attribute dtype, too, which is none
    return ops_of(array).cast(array, like if isinstance(like, type) else getattr(like, "dtype", like))


def log_softmax(scores: Array, axis: int) -> Any:
    """Return the logarithms of the softmax along an axis, of floating-point numbers."""
    ops = ops_of(scores)
    shifted = scores - ops.expand(ops.largest(scores, axis), axis)
    return shifted - ops.expand(ops.log(ops.sum(ops.xp.exp(shifted), axis)), axis)


# ---- nested dictionaries, lists and tuples


def map_leaves(function: Callable[[Any], Any], tree: object) -> Any:
    """Apply ``function`` to every leaf and keep the shape of the tree."""
    if isinstance(tree, Mapping):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # a namedtuple takes its fields one by one
        return type(tree)(*(map_leaves(function, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(function, value) for value in tree)
    return function(tree)


def iterate_leaves(tree: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield ``(path, leaf)`` for every leaf, depth first."""
    waiting = [(path, tree)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, Mapping):
            inner = [((*path, key), value) for key, value in part.items()]
        elif isinstance(part, (list, tuple)):
            inner = [((*path, position), value) for position, value in enumerate(part)]
        else:
            yield path, part
            continue
        waiting.extend(reversed(inner))


def n_rows(*trees: Any) -> int:
    """Samples of a batch: the length of the first array of the first tree that has one; 1 if none has."""
    for tree in trees:
        # most trees are arrays, and there is one at every step
        own = getattr(tree, "shape", None)
        shapes = (getattr(leaf, "shape", None) for _, leaf in iterate_leaves(tree)) if own is None else (own,)
        for shape in shapes:
            if shape is not None and len(shape):  # a TensorShape is truthy even if it is empty
                return int(shape[0])
    return 1


def spread(value: object) -> tuple[Any, ...]:
    """Positional arguments of an input, a prediction or a target: those of a tuple or list, nothing for None."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


# ---- what is no number that a network takes


def refuse_complex(is_complex: bool) -> None:
    """Refuse complex numbers where a backend is about to make float32 of the entry ``"data"``.

    Raises
    ------
    DataError
        If they are; says how to keep both parts.
    """
    if is_complex:
        raise DataError(
            "the batch entry 'data' holds complex numbers, and as float32 they would lose their imaginary part; pass "
            "real and imaginary part as two channels, np.stack([x.real, x.imag], axis=1), or write prepare_batch"
        )
