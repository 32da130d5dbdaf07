"""Metrics that need all predictions and targets of a pass at once: they are gathered on the host."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.metrics.gather import Gatherer
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.pending import Pending
from delira.utils.arrays import ops_of, to_plain


class OverDataset(Stateless):
    """A number computed once, from all predictions and targets of a pass.

    They are read from the device in bulk; what exceeds the memory that they may take lies in temporary files.

    Parameters
    ----------
    name
        What it is reported under.
    pred_key, target_key
        Keys of the state.
    """

    def __init__(self, name: str, **keys: Any):
        super().__init__(name, **keys)
        self._clear()

    def _clear(self) -> None:
        self._gathered = Gatherer()
        self._pending = Pending()

    def reset(self, state: Any) -> None:
        """Begin a pass."""
        self._clear()

    def process(self, *args: Any) -> Any:
        """Keep the predictions and targets of a batch."""
        self._pending.append([ops_of(array).keep(array) for array in self.prepare(*self.pair(args[0]), args[0])])
        if self._pending.is_full:
            self._read()

    def process_final(self, *args: Any) -> Any:
        """The number; not a number if there was no batch."""
        self._read()
        found = self._gathered.result()
        return to_plain(np.asarray(self.compute(found["true"], found["pred"]))) if found else float("nan")

    def prepare(self, pred: Any, true: Any, state: Any) -> tuple[Any, Any]:
        """What is to be kept of a batch, on its device."""
        return pred, true

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """The number, from what was kept of all batches."""
        raise NotImplementedError

    def _read(self) -> None:
        for _, (pred, true) in self._pending.read():
            self._gathered.append({"pred": pred, "true": true})

    def state_dict(self) -> dict[str, Any]:
        """What was gathered."""
        self._read()
        return dict(self._gathered.result())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with what a state has gathered."""
        self._clear()
        if state:
            self._gathered.append(dict(state))
