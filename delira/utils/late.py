"""Numbers that are read from their device when somebody looks at them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class Lazy(NDArrayOperatorsMixin):
    """A number, or nested lists of numbers, computed when it is first read.

    It compares, calculates and formats like the number that it stands for.

    Parameters
    ----------
    read
        Gives it; called once at most.
    """

    __slots__ = ("_read", "_value")

    def __init__(self, read: Callable[[], Any]):
        self._read: Callable[[], Any] | None = read
        self._value: Any = None

    def item(self) -> Any:
        """Return the number or the lists."""
        if self._read is not None:
            self._value, self._read = self._read(), None
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.item(), dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*(each.item() if isinstance(each, Lazy) else each for each in inputs), **kwargs)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __format__(self, specification: str) -> str:
        return format(self.item(), specification)

    def __repr__(self) -> str:
        return repr(self.item())


class _Read:
    """A number, or lists of numbers, with what callbacks written for tensors ask of them."""

    def item(self: Any) -> Any:
        """Return the number, or the lists."""
        return next(kind for kind in (int, float, list) if isinstance(self, kind))(self)

    def detach(self) -> Self:
        """Return the same."""
        return self

    def numpy(self) -> np.ndarray:
        """Return it as an array."""
        return np.asarray(self.item())

    cpu = clone = detach


class _Float(_Read, float): ...


class _Int(_Read, int): ...


class _List(_Read, list[Any]): ...


_READ = {float: _Float, int: _Int, list: _List}


class ReadValues(dict[str, Any]):
    """Values by name, of which a lazy one is read when somebody looks at it: what is seen are numbers and lists.

    One that is looked up has ``item``, ``cpu``, ``detach`` and ``numpy``, too; ``items`` and ``values`` are plain.
    """

    def __getitem__(self, name: str) -> Any:
        value = _plain(super().__getitem__(name))
        return _READ[type(value)](value) if type(value) in _READ else value

    def __iter__(self) -> Iterator[str]:  # with one of its own, dict() and ** do not look past __getitem__
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default if there is none."""
        return self[name] if name in self.keys() else default

    def pop(self, name: str, *default: Any) -> Any:
        """Remove and return a value."""
        return _plain(super().pop(name, *default))

    def values(self) -> Any:
        """Return the numbers and lists."""
        return [_plain(value) for value in super().values()]

    def items(self) -> Any:
        """Return names with numbers and lists."""
        return [(name, _plain(value)) for name, value in super().items()]

    def copy(self) -> dict[str, Any]:
        """Return a dictionary of numbers and lists."""
        return dict(self.items())

    def __repr__(self) -> str:
        return repr(self.copy())


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Lazy) else value


def read_lazy(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same values, numbers and lists in the place of lazy ones."""
    return {name: _plain(value) for name, value in values.items()}
