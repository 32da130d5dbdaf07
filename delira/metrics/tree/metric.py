"""What a metric of a tree is: a root computed once per batch, however predictions are read, and what hangs on it."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from delira.errors import ConfigError, check_texts
from delira.metrics.gather import Batch, Pending, Weighted, with_mask
from delira.metrics.scoring import is_plain
from delira.metrics.tree.criteria import Criterion, known_of
from delira.metrics.tree.labels import without_ones
from delira.state import CRITERION, OUTPUT, TEST_DATA, TRAIN_DATA, VALIDATION_DATA, State
from delira.utils.arrays import Array, as_array, map_leaves, ops_of, read_arrays, shape_of, to_plain
from delira.utils.late import Lazy

#: data that is evaluated -> prefix of the names
PREFIXES = {VALIDATION_DATA: "val_", TEST_DATA: "test_", TRAIN_DATA: "train_"}


class Metric:
    """A number about a batch, or about a pass over the data.

    A metric in the list of a trial is a *root*: it is given the state, whose arrays are detached. One that hangs on
    another is given what that one returned.

    Parameters
    ----------
    name
        What it is reported under.

    Raises
    ------
    ConfigError
        If the name is no text, or empty.

    Examples
    --------
    >>> from delira.metrics import mean, std
    >>> from delira.state import Y_PRED, Y_TRUE
    >>> @std
    ... @mean
    ... class Distance(Metric):
    ...     def __init__(self):
    ...         super().__init__("distance")
    ...
    ...     def process(self, state):
    ...         return abs(state[Y_TRUE] - state[Y_PRED])
    """

    #: what hangs on every instance; set by the decorators: functions of the name that give a metric
    aggregates: ClassVar[tuple[Callable[[str], "Metric"], ...]] = ()
    #: whether nothing that follows can change what :meth:`process` returned, so that it need not be copied
    is_fresh: ClassVar[bool] = False

    #: the tree that reports in the place of a root on which nothing hangs
    delegate: "MetricTree | None" = None
    #: whether it is given what the root returned by :meth:`take`
    shares_batches = False
    #: whether it is another number if predictions are logits, and not probabilities
    reads_outputs = False

    name = "metric"
    is_training = True
    #: of the names it reports: ``""`` in training, ``val_``, ``test_``, or ``train_`` where that data is evaluated
    prefix = ""

    def __init__(self, name: str):
        check_texts(self, name=name)
        self.name = name

    def process(self, *args: Any) -> Any:
        """Take in one batch.

        Parameters
        ----------
        *args
            The state for a root, what the root returned for any other.

        Returns
        -------
        Any
            A number or an array, values by name, or ``None`` if there is nothing to report.
        """
        return None

    def take(self, batch: Batch) -> Any:
        """Take in one batch whose numbers are read once for all that hang on a metric, if it ``shares_batches``."""
        raise NotImplementedError

    def process_final(self, *args: Any) -> Any:
        """End a pass over the data; arguments and result as those of :meth:`process`."""
        return None

    def train(self) -> None:
        """What follows is a pass of training."""
        self.is_training, self.prefix = True, ""

    def eval(self, data_key: Any = None) -> None:
        """Begin an evaluation.

        Parameters
        ----------
        data_key
            Of which data, e.g. ``delira.state.TEST_DATA``; by default those to validate on.
        """
        self.is_training, self.prefix = False, PREFIXES.get(data_key, "val_")

    def reset(self, state: State) -> None:
        """Begin a pass: forget what was seen in the one before.

        Parameters
        ----------
        state
            As it is before the first batch.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what the batches so far have brought, as a checkpoint tree.

        Here: the attributes that are numbers, texts, and arrays of numpy. A metric that keeps other things overrides
        this and :meth:`load_state_dict`.
        """
        return {name: map_leaves(_copied, value) for name, value in vars(self).items() if is_plain(value)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batches that a state has seen; called after :meth:`reset`.

        Parameters
        ----------
        state
            From :meth:`state_dict`.
        """
        vars(self).update({name: map_leaves(_copied, value) for name, value in state.items()})

    def merge(self, other: Self) -> None:
        """Take in what another one has seen of the same pass, as if its batches had come after the own.

        Here: nothing, of a metric that keeps nothing. One that keeps something overrides this.

        Parameters
        ----------
        other
            The same metric, made in the same way; it stays as it is.

        Raises
        ------
        ConfigError
            If it keeps something, and does not override this.
        """
        if self.state_dict() or other.state_dict():
            raise ConfigError(
                f"the metric {self.name!r} cannot take in what another one has seen: it keeps what batches brought, so "
                f"{type(self).__name__} needs a method merge(other)"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def _copied(leaf: object) -> Any:
    return leaf.copy() if hasattr(leaf, "copy") else leaf


class Fleeting(Metric):
    """A metric that keeps nothing between batches."""

    def state_dict(self) -> dict[str, Any]:
        return {}


class Keeping(Metric):
    """A metric that keeps what the batches of a pass bring, and forgets it when the next begins."""

    def __init__(self, name: str):
        super().__init__(name)
        self._clear()

    def _clear(self) -> None:
        raise NotImplementedError

    def reset(self, state: State) -> None:
        self._clear()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._clear()
        self.take_in(state)

    def merge(self, other: Self) -> None:
        self.take_in(other.state_dict())

    def take_in(self, state: Mapping[str, Any]) -> None:
        """Take in what the batches of a state have brought, as if they had come after the own."""
        raise NotImplementedError


class AdvancedMetric(Metric):
    """A metric that is computed otherwise in training than in evaluation.

    Override ``process_train`` and ``process_validate``, and ``process_final_train`` and ``process_final_validate``;
    they are given what ``process`` and ``process_final`` are given, and return the same.

    Parameters
    ----------
    name
        What it is reported under.
    """

    def process(self, *args: Any) -> Any:
        """One of the two, by what :meth:`train` or :meth:`eval` said."""
        return self.process_train(*args) if self.is_training else self.process_validate(*args)

    def process_final(self, *args: Any) -> Any:
        """One of the two, by what :meth:`train` or :meth:`eval` said."""
        return self.process_final_train(*args) if self.is_training else self.process_final_validate(*args)

    def process_train(self, *args: Any) -> Any:
        """Take in a batch of training."""

    def process_validate(self, *args: Any) -> Any:
        """Take in a batch of an evaluation."""

    def process_final_train(self, *args: Any) -> Any:
        """End an epoch of training."""

    def process_final_validate(self, *args: Any) -> Any:
        """End an evaluation."""


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
        self.trees: dict[str, MetricTree] = {}
        self._flags = Pending(self._take)
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
        if without_ones(pred) != without_ones(true) or not ops_of(pred).is_float(pred) or known.is_exclusive:
            return []
        shape = pred.shape
        if known.output is not None:
            of_each = [known.output]
        elif known.told_by == "backend":
            of_each = ["numbers"]
        else:
            of_each = ["logits"] if self.is_outside else ["probabilities", "logits"]
        may_be_classes = len(shape) == 2 and shape[1] > 1 and known.kind is None and not self.is_not_one_hot
        found = [way for way in of_each if way in WAYS]
        return ["classes", *found] if may_be_classes else found

    def open(self, tree: "MetricTree", ways: list[str]) -> None:
        """Copy a metric that has seen nothing yet for each way."""
        self.trees = {way: copy.deepcopy(tree) for way in ways}
        for copied in self.trees.values():
            copied.is_read = True

    def process(self, state: State, known: Criterion, pred: Array, true: Array) -> dict[str, Any]:
        """Take in a batch; return the values of the reading that is the most likely so far."""
        self._flags.append(_flags(as_array(pred), as_array(true)))
        if self._is_first:  # nearly always it tells
            self._flags.read()
            self._is_first = False
        given = {way: tree.process(as_read(state, known, way)) for way, tree in self.trees.items()}
        return given[self._likely]

    @property
    def _likely(self) -> str:
        """The way that everything read so far leaves."""
        left = [way for way in self.trees if not (way == "classes" and self.is_not_one_hot)]
        return "logits" if "logits" in left and self.is_outside and left[0] != "classes" else left[0]

    @property
    def way(self) -> str:
        """The way that all values leave."""
        self._flags.read()
        return self._likely

    @property
    def tree(self) -> "MetricTree":
        """The metric of that way."""
        return self.trees[self.way]

    def learn(self, other: Self) -> None:
        """Take over what the values of others have told."""
        other._flags.read()
        self.is_outside |= other.is_outside
        self.is_not_one_hot |= other.is_not_one_hot

    def _take(self, flags: list[np.ndarray], note: None) -> None:
        """Let a batch that has waited on the device tell."""
        if flags:
            self.is_outside |= bool(flags[0])
            self.is_not_one_hot |= bool(flags[1])

    def state_dict(self) -> dict[str, Any]:
        """Return what the batches so far have brought, in every way."""
        self._flags.read()
        trees = {way: tree.state_dict() for way, tree in self.trees.items()}
        return {"readings": trees, "told": {"is_outside": self.is_outside, "is_not_one_hot": self.is_not_one_hot}}

    def load_state_dict(self, state: Mapping[str, Any], tree: "MetricTree") -> None:
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


class MetricTree(Metric):
    """A root, computed once per batch, and any number of metrics that are given what it returned.

    Only those report. If the root returns values by name, they are given the first of them. A root on which nothing
    hangs reports itself, under its name.

    Parameters
    ----------
    metric
        The root.
    children
        What hangs on it: metrics, or further trees.

    Raises
    ------
    ConfigError
        If one of them is no metric.
    """

    def __init__(self, metric: Metric, children: Sequence[Metric] = ()):
        if not isinstance(metric, Metric):
            raise ConfigError(f"MetricTree: metric is an object of delira.metrics.Metric, got {metric!r}")
        if not isinstance(children, (list, tuple)) or not all(isinstance(child, Metric) for child in children):
            raise ConfigError(f"MetricTree: children is a list of metrics, got {children!r}")
        super().__init__(metric.name)
        self.root, self.children = metric, list(children)
        #: the metric in every way in which predictions may be read of which nobody says what they are
        self._readings = Readings()
        #: whether it is the metric in one of these ways
        self.is_read = False
        #: whether there was a batch in the pass
        self._has_seen = False

    def add_child(self, metric: Metric) -> None:
        """Hang a further metric on the root."""
        self.children.append(metric)

    def process(self, *args: Any) -> dict[str, Any]:
        """Compute the root, and what hangs on it.

        Returns
        -------
        dict
            Values of this batch by name, arrays of the device as lazy numbers.
        """
        self._has_seen = True
        root: Any = self.root
        if root.reads_outputs and not self.is_read and getattr(root, "threshold", None) is None:
            known = root.known_in(args[0])
            if known.output is None or known.kind is None:
                return self._process_in_ways(args[0], known)
        return self._process(*args)

    def _process_in_ways(self, state: Any, known: Criterion) -> dict[str, Any]:
        """Compute it for predictions of which nobody says what they are."""
        root: Any = self.root
        pair, readings = root.pair(state), self._readings
        if not readings.trees:
            ways = readings.ways(known, *pair)
            if len(ways) < 2:
                return self._process(as_read(state, known, ways[0]) if ways else state)
            readings.open(self, ways)
        return readings.process(state, known, *pair)

    def _process(self, *args: Any) -> dict[str, Any]:
        if self.root.delegate is not None and not self.children:
            return self.root.delegate.process(*args)
        value = self.root.process(*args)
        if value is None:
            return {}
        if not self.root.is_fresh:
            value = _safe(value)
        if not self.children:
            return by_name(self.root, value)
        first = _first(value)
        batch: Batch | None = None
        values: dict[str, Any] = {}
        for child in self.children:
            if child.shares_batches:
                batch = batch or Batch(first)
                given = child.take(batch)
            else:
                given = child.process(with_mask(first))
            if type(given) is Lazy:
                values[child.prefix + child.name] = given
            elif given is not None:
                values.update(by_name(child, given))
        return values

    def process_final(self, *args: Any) -> dict[str, Any]:
        """End a pass.

        Returns
        -------
        dict
            Values of the pass by name: numbers, and lists of numbers.
        """
        if self._readings.trees:
            state = as_read(args[0], known_of(args[0]), self._readings.way)
            return self._readings.tree.process_final(state)
        value = self.root.process_final(*args)
        if not self.children:
            return by_name(self.root, value)
        first = _first(value)
        given = [by_name(child, child.process_final(first)) for child in self.children]
        return {name: value for values in given for name, value in values.items()}

    def train(self) -> None:
        super().train()
        for metric in (self.root, *self.children):
            metric.train()

    def eval(self, data_key: object = None) -> None:
        super().eval(data_key)
        for metric in (self.root, *self.children):
            metric.eval(data_key)

    def reset(self, state: State) -> None:
        self._readings.reset()
        self._has_seen = False
        for metric in (self.root, *self.children):
            metric.reset(state)

    @property
    def lost(self) -> list[int]:
        """Positions in the pass of samples whose prediction is not finite, once it has ended."""
        root = self._readings.tree.root if self._readings.trees else self.root
        return list(getattr(root, "lost", ()))

    @property
    def way(self) -> str:
        """How predictions were read of which nobody says what they are; empty if somebody does."""
        if self._readings.trees:
            return self._readings.way
        return "logits" if self._readings.is_outside else ""

    def state_dict(self) -> dict[str, Any]:
        if self._readings.trees:
            return self._readings.state_dict()
        return {"root": self.root.state_dict(), "children": [child.state_dict() for child in self.children]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._has_seen = True
        if "readings" in state:
            self._readings.reset()
            self._readings.load_state_dict(state, self)
            return
        self.root.load_state_dict(state["root"])
        for child, kept in zip(self.children, state["children"], strict=True):
            child.load_state_dict(kept)

    def merge(self, other: Self) -> None:
        """Take in what another one has seen of the same pass, for the same criterion, as if it had come after the own.

        Parameters
        ----------
        other
            A tree of the same metrics; it stays as it is.

        Raises
        ------
        ConfigError
            If both have the same root, whose batches would count twice, or a metric keeps something and cannot.
        """
        if other.root is self.root:
            raise ConfigError(
                f"the metric {self.name!r} cannot be merged with itself: each part of a pass needs an object of its own"
            )
        if not other._has_seen:
            return
        own, theirs = self._readings, other._readings
        own.learn(theirs)
        if own.trees:
            # a way that is none to the other, which may have known before the pass, is none any more
            trees = theirs.trees or {own.way: other}
            own.trees = {way: tree for way, tree in own.trees.items() if way in trees}
            for way, tree in own.trees.items():
                tree.merge(trees[way])
        elif theirs.trees and not self._has_seen:
            own.trees = copy.deepcopy(theirs.trees)
        else:
            tree = theirs.tree if theirs.trees else other
            self.root.merge(tree.root)
            for child, their_child in zip(self.children, tree.children, strict=True):
                child.merge(their_child)
        self._has_seen = True

    def __repr__(self) -> str:
        return f"MetricTree({self.root!r}, {self.children!r})"


def as_tree(metric: Metric) -> MetricTree:
    """Return a tree of a metric: with what its class was decorated with."""
    if isinstance(metric, MetricTree):
        return metric
    if not isinstance(metric, Metric):
        raise ConfigError(f"{metric!r} is no metric; subclass delira.metrics.Metric, or use lambda_metric")
    return MetricTree(metric, [make(metric.name) for make in metric.aggregates])


def _first(value: object) -> Any:
    """Return what is given to whatever hangs on a root."""
    if type(value) is Weighted or not isinstance(value, Mapping):
        return value
    return next(iter(value.values()), None)


def by_name(metric: Metric, value: object) -> dict[str, Any]:
    """Return what a metric returned, by name; what is on a device as lazy numbers."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(name): reported(each) for name, each in value.items()}
    return {f"{metric.prefix}{metric.name}": reported(value)}


def reported(value: object) -> Any:
    """Return a number as it is; an array as a lazy number."""
    if isinstance(value, Weighted):
        value = value.value
    if value is None or isinstance(value, (Lazy, bool, int, float, str, list)):
        return value
    array = as_array(value)
    return Lazy(lambda: to_plain(read_arrays([array])[0]))


def _safe(value: Any) -> Any:
    """Return a copy that nothing changes any more: later steps write into weights, and loaders into their arrays."""
    if isinstance(value, Mapping):
        return {name: _safe(each) for name, each in value.items()}
    if isinstance(value, Weighted):
        value = with_mask(value)
        return Weighted(_safe(value.value), _safe(value.weight), _safe(value.doubt))
    if value is None or isinstance(value, (bool, int, float, str, Lazy)):
        return value
    array = as_array(value)
    return ops_of(array).snapshot(array)
