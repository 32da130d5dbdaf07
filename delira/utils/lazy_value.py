"""Numbers that are computed when somebody reads them."""

from collections.abc import Callable, Mapping
from typing import Any

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


def read_lazy(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same values, numbers and lists in the place of lazy ones."""
    return {name: value.item() if isinstance(value, Lazy) else value for name, value in values.items()}
