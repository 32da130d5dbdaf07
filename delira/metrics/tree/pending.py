"""Small arrays of batches that wait on their device until somebody needs them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from delira.utils.arrays import read_arrays, shape_of

#: so many batches, or numbers, wait at most: to read is to wait for the device
MOST_BATCHES, MOST_NUMBERS = 1024, 1 << 20


class Pending:
    """Groups of arrays, each with a note, that are read together."""

    def __init__(self) -> None:
        self._groups: list[tuple[Any, Sequence[Any]]] = []
        self._n_numbers = 0

    def append(self, arrays: Sequence[Any], note: object = None) -> None:
        """Add one group; nothing is read."""
        self._groups.append((note, arrays))
        self._n_numbers += sum(math.prod(shape_of(array)) for array in arrays)

    @property
    def is_full(self) -> bool:
        """Return True if it is time to read."""
        return len(self._groups) >= MOST_BATCHES or self._n_numbers >= MOST_NUMBERS

    def read(self) -> list[tuple[Any, list[np.ndarray]]]:
        """Note and arrays of every group; none waits afterwards."""
        groups, self._groups, self._n_numbers = self._groups, [], 0
        arrays = iter(read_arrays([array for _, group in groups for array in group]))
        return [(note, [next(arrays) for _ in group]) for note, group in groups]
