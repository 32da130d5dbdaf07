"""Metrics of predictions of which nobody says what they are: computed in every way until their values have told."""

import copy
from collections.abc import Mapping
from typing import Any, Self

from delira.metrics.tree.criteria import Criterion
from delira.metrics.tree.moments import Pending
from delira.state import CRITERION, OUTPUT, State
from delira.utils.arrays import Array, as_array, ops_of, shape_of

#: in what ways predictions of the shape of the target may be read -> what of the criterion is known then
WAYS: dict[str, dict[str, Any]] = {
    "probabilities": {"output": "probabilities"},
    "logits": {"output": "logits"},
    "numbers": {"output": "numbers"},
    "classes": {"kind": "categorical"},
}


class Readings:
    """Copies of one metric, one for each way in which its predictions may be read, and what values have told so far.

    That is not forgotten between passes.
    """

    def __init__(self) -> None:
        #: whether a score was below 0 or above 1, and whether targets were no one-hot labels
        self.is_outside = self.is_not_one_hot = False
        self.reset()

    def reset(self) -> None:
        """Begin a pass."""
        #: way -> metric; empty while there is only one way
        self.trees: dict[str, Any] = {}
        self._flags = Pending()
        self._is_first = True

    def ways(self, known: Criterion, pred: Array, true: Array) -> list[str]:
        """In which ways predictions may still be read; the first is that of now.

        Parameters
        ----------
        known
            What is known by criterion and setting.
        pred, true
            Predictions and targets of a batch.
        """
        shape = shape_of(pred)
        is_same = [size for size in shape if size != 1] == [size for size in shape_of(true) if size != 1]
        if not is_same or not ops_of(pred).is_float(pred) or known.is_exclusive:
            return []
        if known.output is not None:
            of_each = [known.output]
        elif known.told_by == "backend":
            of_each = ["numbers"]
        else:
            of_each = ["logits"] if self.is_outside else ["probabilities", "logits"]
        may_be_classes = len(shape) == 2 and shape[1] > 1 and known.kind is None and not self.is_not_one_hot
        found = [way for way in of_each if way in WAYS]
        return ["classes", *found] if may_be_classes else found

    def open(self, tree: object, ways: list[str]) -> None:
        """Copy a metric that has seen nothing yet for each way."""
        self.trees = {way: copy.deepcopy(tree) for way in ways}
        for copied in self.trees.values():
            copied.is_read = True

    def process(self, state: State, known: Criterion, pred: Array, true: Array) -> dict[str, Any]:
        """Take in a batch; what it gave is that of the way that is likely by now."""
        self._flags.append(_flags(as_array(pred), as_array(true)))
        if self._is_first or self._flags.is_full:  # nearly always the first batch tells
            self._read()
            self._is_first = False
        given = {way: tree.process(as_read(state, known, way)) for way, tree in self.trees.items()}
        return given[self._likely]

    def process_final(self, state: State, known: Criterion) -> dict[str, Any]:
        """End the pass."""
        found: dict[str, Any] = self.tree.process_final(as_read(state, known, self.way))
        return found

    @property
    def _likely(self) -> str:
        """The way that everything read so far leaves."""
        left = [way for way in self.trees if not (way == "classes" and self.is_not_one_hot)]
        return "logits" if "logits" in left and self.is_outside and left[0] != "classes" else left[0]

    @property
    def way(self) -> str:
        """The way that all values leave."""
        self._read()
        return self._likely

    @property
    def tree(self) -> Any:
        """The metric of that way."""
        return self.trees[self.way]

    def learn(self, other: Self) -> None:
        """Take over what the values of others have told."""
        other._read()
        self.is_outside |= other.is_outside
        self.is_not_one_hot |= other.is_not_one_hot

    def merge(self, other: Self) -> None:
        """Take in what others have seen of the pass, way by way."""
        # a way that is none to them is none any more
        self.trees = {way: tree for way, tree in self.trees.items() if way in other.trees}
        for way, tree in self.trees.items():
            tree.merge(other.trees[way])

    def settle(self) -> Any:
        """Leave the likely way alone; returns its metric."""
        self.trees = {self.way: self.tree}
        return self.tree

    def _read(self) -> None:
        """Let batches that wait on the device tell."""
        for _, flags in self._flags.read():
            if flags:
                self.is_outside |= bool(flags[0])
                self.is_not_one_hot |= bool(flags[1])

    def state_dict(self) -> dict[str, Any]:
        """Return what the batches so far have brought, in every way."""
        self._read()
        trees = {way: tree.state_dict() for way, tree in self.trees.items()}
        return {"readings": trees, "told": {"is_outside": self.is_outside, "is_not_one_hot": self.is_not_one_hot}}

    def load_state_dict(self, state: Mapping[str, Any], tree: object) -> None:
        """Continue after the batches that a state has seen, with copies of a metric that has seen nothing yet."""
        self.open(tree, [*state["readings"]])
        self.is_outside, self.is_not_one_hot = (bool(state["told"][name]) for name in ("is_outside", "is_not_one_hot"))
        for way, kept in state["readings"].items():
            self.trees[way].load_state_dict(kept)


def as_read(state: State, known: Criterion, way: str) -> State:
    """Return the state with predictions that are read in one way."""
    return State({**state, CRITERION: known._replace(**WAYS[way]), OUTPUT: None})


def _flags(pred: Array, true: Array) -> list[Any]:
    """Return whether any finite score is below 0 or above 1; whether any row of the target is no one-hot label."""
    if 0 in (*shape_of(pred), *shape_of(true)):
        return []  # of an empty batch nothing can be told
    ops = ops_of(pred)
    is_outside = ops.largest(ops.to_integer(((pred < 0) | (pred > 1)) & ops.is_finite(pred)))
    others = ops_of(true)
    table = others.to_integer(true)
    if len(shape_of(true)) < 2:
        return [is_outside, others.largest(table * 0 + 1)]
    numbers = others.as_float(true) if "bool" not in str(true.dtype) else others.as_float(table)
    is_digit = (numbers == 0) | (numbers == 1)
    is_wrong = others.least(others.to_integer(is_digit)) == 0
    one_each = others.largest(others.to_integer(others.sum(table, -1) != 1)) > 0
    return [is_outside, others.to_integer(is_wrong | one_each)]
