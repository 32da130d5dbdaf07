"""Small functions and classes of the older library that nothing here needs any more."""

import contextlib
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError
from delira.utils.debug import get_current_debug_mode, set_debug_mode


def named_module(name: str) -> Any:
    """Import a module of a framework; nothing of it is needed before."""
    return importlib.import_module(name)


class DefaultOptimWrapperTorch:
    """An optimizer with ``scale_loss``, for closures that are called without a trainer.

    Parameters
    ----------
    optimizer
        An optimizer of PyTorch; its other attributes are reached through this object.
    *args, **kwargs
        Of the package for mixed precision that is gone; without effect.
    """

    def __init__(self, optimizer: Any, *args: Any, **kwargs: Any):
        self._optimizer = optimizer

    @contextlib.contextmanager
    def scale_loss(self, loss: Any) -> Iterator[Any]:
        """Scope that gives the loss as it is."""
        yield loss

    def __getattr__(self, name: str) -> Any:
        if name == "_optimizer":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._optimizer, name)


class DebugMode(contextlib.ContextDecorator):
    """Scope in which the debug mode is on or off."""

    def __init__(self, mode: bool):
        self._mode, self._before = bool(mode), False

    def __enter__(self) -> "DebugMode":
        self._before = get_current_debug_mode()
        set_debug_mode(self._mode)
        return self

    def __exit__(self, *error: object) -> None:
        set_debug_mode(self._before)


class DebugEnabled(DebugMode):
    """Scope in which the debug mode is on."""

    def __init__(self) -> None:
        super().__init__(True)


class DebugDisabled(DebugMode):
    """Scope in which the debug mode is off."""

    def __init__(self) -> None:
        super().__init__(False)


# ------------------------------------------------------------------ decorators


def dtype_func(class_object: type | tuple[type, ...]) -> Callable[..., Any]:
    """Make a decorator of functions whose first argument must be an instance of a class."""
    return _checking(lambda value: isinstance(value, class_object), f"an instance of {class_object}")


def classtype_func(class_object: type) -> Callable[..., Any]:
    """Make a decorator of functions whose first argument must be a subclass of a class."""
    return _checking(
        lambda value: isinstance(value, type) and issubclass(value, class_object), f"a subclass of {class_object}"
    )


def _checking(is_right: Callable[[Any], bool], what: str) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        position = int(next(iter(inspect.signature(function).parameters), "") in ("self", "cls"))

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if len(args) > position and not is_right(args[position]):
                raise ConfigError(f"{function.__name__} takes {what}, got {args[position]!r}")
            return function(*args, **kwargs)

        return checked

    return decorate


numpy_array_func = dtype_func(np.ndarray)


def torch_tensor_func(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take tensors of PyTorch only."""
    return dtype_func(named_module("torch").Tensor)(function)


def torch_module_func(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take modules of PyTorch only."""
    return dtype_func(named_module("torch").nn.Module)(function)


def make_deprecated(new_func: Any) -> Callable[..., Any]:
    """Make a decorator that warns, at each call, that something else is to be used."""
    better = new_func if isinstance(new_func, str) else getattr(new_func, "__name__", repr(new_func))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(f"{name} is deprecated; use {better}", DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return decorate


# ------------------------------------------------------------------ arrays


def convert_batch_to_numpy_identity(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return arrays as they are, those without dimensions with the shape ``(1,)``."""
    return [_with_axis(value) for value in args], {name: _with_axis(value) for name, value in kwargs.items()}


def _with_axis(value: Any) -> Any:
    return value.reshape(1) if isinstance(value, (np.ndarray, np.generic)) and np.ndim(value) == 0 else value


def float_to_pytorch_tensor(f: float) -> Any:
    """Return a number as a tensor of PyTorch, of shape ``(1,)`` and float32."""
    return named_module("torch").tensor([float(f)])


def bounding_box(mask: np.ndarray, margin: Sequence[int] | None = None) -> tuple[int, ...]:
    """Find the smallest box around everything that is not 0.

    Parameters
    ----------
    mask : ndarray of shape (d0, d1, ...)
        The mask.
    margin
        Voxels by which the box grows on both sides, for each axis, as far as the mask has them.

    Returns
    -------
    tuple of int
        First and last index for each axis, in the order of the axes of the array, both inside the box.

    Raises
    ------
    DataError
        If everything is 0.
    """
    found = np.nonzero(np.asarray(mask))
    if not found or not found[0].size:
        raise DataError("the mask has no voxel that is not 0, so there is no box around it")
    margin = [0] * len(found) if margin is None else [int(one) for one in np.broadcast_to(margin, len(found))]
    edges = []
    for indices, length, extra in zip(found, np.shape(mask), margin, strict=True):
        edges += [max(int(indices.min()) - extra, 0), min(int(indices.max()) + extra, length - 1)]
    return tuple(edges)


def max_energy_slice(img: Any) -> int:
    """Return the index along the first axis at which the sum of the values is largest.

    Parameters
    ----------
    img : ndarray of shape (n, h, w), or image of SimpleITK
        The volume.
    """
    if type(img).__module__.startswith("SimpleITK"):
        img = sys.modules["SimpleITK"].GetArrayFromImage(img)
    array = np.asarray(img)
    return int(array.reshape(len(array), -1).sum(axis=1).argmax())


def calculate_origin_offset(new_spacing: Sequence[float], old_spacing: Sequence[float]) -> np.ndarray:
    """Return how far the origin moves when the spacing changes, so that the outer edge of the image stays.

    Parameters
    ----------
    new_spacing, old_spacing : sequence of float, in mm
        Distance of the voxels along each axis, whose centres the origin is one of.

    Returns
    -------
    ndarray of shape (n,), in mm
    """
    return (np.asarray(new_spacing, float) - np.asarray(old_spacing, float)) / 2
