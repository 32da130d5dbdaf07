"""Metrics that need all predictions and targets of a pass at once: they are gathered on the host."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from delira.metrics.gather import Gatherer
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.criteria import Criterion
from delira.metrics.tree.pending import Pending
from delira.metrics.tree.seen import LOST, by_sample, refuse_label, wrong_labels
from delira.state import State
from delira.utils.arrays import Array, ops_of, shape_of, to_plain


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

    #: what is said of the predictions: when a pass begins, since one that goes on may have no batch left
    known = Criterion("", None)

    def _clear(self) -> None:
        super()._clear()
        self._gathered = Gatherer()
        self._pending = Pending()
        #: of the pass so far
        self.n_samples = 0

    def reset(self, state: State) -> None:
        super().reset(state)
        self.known = self.known_in(state)

    def process(self, *args: Any) -> Any:
        """Keep the predictions and targets of a batch."""
        pair = self.pair(args[0])
        shape = shape_of(pair[0])
        self.n_samples += shape[0] if shape else 1
        self._pending.append([ops_of(array).keep(array) for array in self.prepare(*pair, args[0])])
        if self._pending.is_full:
            self._read()

    def process_final(self, *args: Any) -> Any:
        """Return the number; not a number if there was no sample."""
        super().process_final(*args)
        self._read()
        found = self._gathered.result()
        if not found or not len(found["pred"]):
            return float("nan")
        return to_plain(np.asarray(self.compute(found["true"], found["pred"])))

    def prepare(self, pred: Array, true: Array, state: State) -> tuple[Any, Any]:
        """Return what is to be kept of a batch, on its device."""
        return pred, true

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """Return the number, from what was kept of all batches."""
        raise NotImplementedError

    def is_finite(self, pred: np.ndarray, *, is_each: bool, counts: np.ndarray | None = None) -> bool:
        """Return True if predictions decide something; the samples in which they do not are remembered.

        Parameters
        ----------
        pred
            Scores of shape ``(N, C)``, of which the highest has to be finite; or numbers of any shape, or labels.
        is_each
            Whether all of the numbers have to be finite.
        counts
            Which rows count, bool of shape ``(N,)``; None: all.
        """
        if pred.dtype.kind == "f":
            rows = pred.reshape(len(pred), -1) if is_each else pred.max(axis=1, keepdims=True)
            is_lost = ~np.isfinite(rows).all(axis=1)
        else:
            is_lost = by_sample(pred == LOST)
        if counts is not None:
            is_lost &= counts
        rows_of_each = max(1, len(pred) // max(1, self.n_samples))  # pixels are rows
        self._lost = np.unique(np.flatnonzero(is_lost) // rows_of_each).tolist()
        return not self._lost

    def check_labels(self, true: np.ndarray, allowed: int, counts: np.ndarray | None = None) -> None:
        """Refuse targets that are none of the classes, by name and sample.

        Parameters
        ----------
        true
            Targets, one row or one number each.
        allowed
            As for :func:`~delira.metrics.tree.seen.wrong_labels`.
        counts
            Which rows count, bool of shape ``(N,)``; None: all.
        """
        is_wrong = wrong_labels(true, allowed)
        if counts is not None:
            is_wrong &= counts if true.ndim == 1 else counts[:, None]
        if is_wrong.any():
            rows_of_each = max(1, len(true) // max(1, self.n_samples))
            shape = (len(true) // rows_of_each, -1) if len(true) % rows_of_each == 0 else true.shape
            refuse_label(self.name, true.reshape(shape), is_wrong.reshape(shape), allowed)

    def _read(self) -> None:
        for _, (pred, true) in self._pending.read():
            self._gathered.append({"pred": pred, "true": true})

    def state_dict(self) -> dict[str, Any]:
        self._read()
        return dict(self._gathered.result())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._clear()
        if state:
            self._gathered.append(dict(state))
            self.n_samples = len(state["pred"])  # of pixels more; then the row is named

    def merge(self, other: Self) -> None:
        super().merge(other)
        self._read()
        other._read()
        if found := other._gathered.result():
            self._gathered.append(found)
            self.n_samples += other.n_samples
