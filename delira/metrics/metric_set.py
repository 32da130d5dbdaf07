"""The forms in which an experiment computes any metric, and the set of them: exact whatever the batch size."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError, check_mappings, check_whole
from delira.metrics.gather import LIMIT_BYTES, Gatherer
from delira.metrics.of_arrays import OF_LABELS, told
from delira.metrics.of_samples import computed_together, values_of_samples
from delira.metrics.per_class import expanded, lacking, may_lack_values, mean_of_values
from delira.metrics.scoring import (
    Kind,
    as_number,
    as_only_number,
    feed,
    is_plain,
    is_torchmetrics,
    keys_of,
    load_stream_state,
    lookup,
    merge_streams,
    raw_kind_of,
    stream_state,
)
from delira.metrics.tree.adapters import SklearnMetric, made, what_is, with_known
from delira.metrics.tree.criteria import describe_criterion, read_values, says_yes_or_no
from delira.metrics.tree.hanging import KeyMetric
from delira.metrics.tree.metric import MetricTree
from delira.metrics.tree.metric_list import LR, Epoch, Loss, MetricList
from delira.state import CRITERION, EPOCH, MODEL, VALIDATION_DATA, Y_PRED, Y_TRUE, State, X
from delira.utils.arrays import Array, iterate_leaves, map_leaves, ops_of
from delira.utils.binding import tell_order
from delira.utils.threads import single_threaded


class MetricSet:
    """Sees the batches of a data set one by one and computes every metric over all of them.

    A metric is one of

    * a function ``f(y_true, y_pred)`` giving a number: called once, on the concatenated batches. Where the names of its
      parameters tell, they decide which is which (``pred``, ``y_hat``, ``logits``, … and ``target``, ``label``, …), so
      that ``f(preds, target)`` is as good;
    * a metric over samples (:func:`~delira.metrics.per_sample`, or any callable whose attribute
      ``over`` is ``"sample"``): called per sample, in bounded memory;
    * a metric per class (:class:`~delira.metrics.DicePerClass` and its like), which stands for one over samples and one
      for each class, ``"dice"``, ``"dice.liver"``, …;
    * an object with ``update``, ``compute`` and ``reset``, e.g. of torchmetrics: reset before the first
      batch, updated per batch; one object serves one pass at a time;
    * a function of scikit-learn, as it is: it gets the labels, probabilities or scores that it compares, out of what
      is predicted, e.g. ``(B, C)`` scores;
    * a metric of trials: a string (:func:`~delira.metrics.known_keys`), a :class:`~delira.metrics.Metric`, or a class
      of these or of torchmetrics. It sees arrays of numpy. Of several values the one with the metric's name counts.

    Parameters
    ----------
    metrics
        By name.
    metric_keys
        Metric name to the entries it reads, in the order of its arguments, whatever their names. A metric left out
        reads ``"label"`` and ``"pred"``; where the names of its parameters tell nothing, as ``("label", "pred")``, one
        of torchmetrics as ``("pred", "label")``, or ``("pred",)`` if it takes no more. Dotted paths reach nested
        entries.
    limit_bytes
        Gathered predictions beyond it lie in temporary files.

    Raises
    ------
    ConfigError
        If a metric is none of these, or ``metric_keys`` names one that does not exist.

    Examples
    --------
    >>> metrics = MetricSet({"accuracy": lambda y_true, y_pred: (y_true == y_pred).mean()})
    >>> metrics.update({"label": np.array([0, 1, 1]), "pred": np.array([0, 1, 0])})
    >>> metrics.update({"label": np.array([1]), "pred": np.array([1])})
    >>> metrics.compute()
    {'accuracy': array([0.75])}
    """

    def __init__(
        self,
        metrics: Mapping[str, Any],
        metric_keys: Mapping[str, Sequence[str]] | None = None,
        limit_bytes: int = LIMIT_BYTES,
    ):
        check_mappings(self, metrics=metrics)
        if metric_keys is not None:
            check_mappings(self, metric_keys=metric_keys)
        check_whole(self, at_least=0, limit_bytes=limit_bytes)
        metrics = expanded(metrics)
        self.metrics = {name: in_form(metric, name) for name, metric in metrics.items()}
        self.limit_bytes = limit_bytes
        self._kinds = {name: raw_kind_of(metric, name) for name, metric in self.metrics.items()}
        self._streams = {name: self.metrics[name] for name, kind in self._kinds.items() if kind == "stream"}
        self._keys = keys_of(self.metrics, metric_keys)
        together = computed_together(self.metrics, self._keys)
        #: of metrics over samples, the first of those that are computed together -> all of them
        self._together = {name: together.get(name, [name]) for name, kind in self._kinds.items() if kind == "sample"}
        for first, names in together.items():
            self._together = {one: each for one, each in self._together.items() if one == first or one not in names}
        #: whose order is found by names, or assumed
        self._unsaid = {
            name for name in self.metrics.keys() - (metric_keys or {}) if not is_torchmetrics(metrics[name])
        }
        self._clear()

    def __len__(self) -> int:
        return len(self.metrics)

    @functools.cached_property
    def entries(self) -> frozenset[str]:
        """All entries that any metric reads."""
        return frozenset(key for keys in self._keys.values() for key in keys)

    def required_keys(self) -> dict[str, tuple[str, ...]]:
        """Metric name to the entries it reads."""
        return dict(self._keys)

    def check_keys(self, available: Mapping[str, Any], predictions: Mapping[str, Any] | None = None) -> None:
        """Refuse entries that no metric can be computed from.

        Parameters
        ----------
        available
            The batch; or the batch and the predictions in one mapping.
        predictions
            What the network returned, where it is given apart.

        Raises
        ------
        MissingKeyError
            Naming each metric, the entry it reads, and what there is.
        """
        values = {**available, **(predictions or {})}
        mistakes = []
        for name, keys in self._keys.items():
            if getattr(self.metrics[name], "reads_as", name) != name and self.metrics[name].reads_as in self._keys:
                continue  # a class of a metric that is named anyway
            for key in keys:
                try:
                    lookup(values, key)
                except MissingKeyError:
                    mistakes.append(
                        f"metric {name!r} reads {key!r}, but {_inventory(available, predictions)}; "
                        f"set metric_keys={{{name!r}: (...)}}"
                    )
        if mistakes:
            raise MissingKeyError("\n".join(mistakes))

    def update(self, values: Mapping[str, Any]) -> None:
        """Take in one batch.

        Parameters
        ----------
        values
            Entries of the batch and the network's predictions, numpy arrays of shape ``(batch, ...)``,
            possibly nested.

        Raises
        ------
        MissingKeyError
            If a metric reads an entry that is not there.
        DataError
            If a metric over samples returns something that is not a number.
        """
        self.check_keys(values)
        if self._n_updates == 0:  # a streaming object may come from another pass
            self.reset()
        gathered: dict[str, Any] = {}
        for name, metric in self.metrics.items():
            keys = self._keys[name]
            arrays = [map_leaves(np.asarray, lookup(values, key)) for key in keys]
            if self._n_updates == 0 and name in self._unsaid:
                tell_order("metric", name, metric, keys, [getattr(array, "shape", None) for array in arrays])
            if self._kinds[name] == "dataset":
                gathered.update(zip(keys, arrays, strict=True))
                continue
            with _told(name, keys, arrays), single_threaded():  # the same bits wherever it is computed
                if self._kinds[name] == "stream":
                    feed(metric, arrays)
                elif name in self._together:
                    members = {one: self.metrics[one] for one in self._together[name]}
                    for one, found in values_of_samples(members, arrays, len(self._values[name])).items():
                        self._values[one] += found
        if gathered:
            self._gatherer.append(gathered)
        self._n_updates += 1

    @property
    def lacking(self) -> tuple[str, ...]:
        """Names of metrics over samples of which a sample may have no value, NaN, which no mean counts."""
        return lacking(self.metrics)

    @property
    def gathered(self) -> dict[str, Any]:
        """Entries of all batches that functions of whole arrays read; empty without such metrics."""
        return self._gatherer.result()

    def compute(self) -> dict[str, np.ndarray]:
        """Return the value of every metric.

        Returns
        -------
        dict of ndarray
            float64 of shape ``(1,)``; of shape ``(n_samples,)`` for a metric over samples.

        Raises
        ------
        DataError
            If there was no batch, or a metric returned something that is not one number.
        """
        if self.metrics and self._n_updates == 0:
            raise DataError(f"the metrics {list(self.metrics)} have seen no data: the data set is empty")
        data = self._gatherer.result()
        return {name: self._value(name, data) for name in self.metrics}

    def _value(self, name: str, data: Mapping[str, Any]) -> np.ndarray:
        metric, keys = self.metrics[name], self._keys[name]
        if self._kinds[name] == "sample":
            return np.array(self._values[name], dtype=np.float64)
        arrays = [data[key] for key in keys] if self._kinds[name] == "dataset" else []
        with _told(name, keys, arrays), single_threaded():
            if name in self._streams:
                return np.array([as_only_number(metric.compute(), name)])
            return np.array([as_number(metric(*arrays), name)])

    @property
    def is_storable(self) -> bool:
        """Return True if :meth:`state_dict` can tell everything: not of streaming metrics that hide their state."""
        streams = map(stream_state, self._streams.values())
        return is_plain(self._gatherer.result()) and all(state is not None for state in streams)

    def state_dict(self) -> dict[str, Any]:
        """Return what the batches so far have brought, as a checkpoint tree."""
        return {
            "updates": self._n_updates,
            "gathered": self._gatherer.result(),
            "values": {name: np.array(values, dtype=np.float64) for name, values in self._values.items()},
            "streams": {name: stream_state(metric) for name, metric in self._streams.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batches that a state has seen."""
        self.reset()
        self._n_updates = state["updates"]
        if state["gathered"]:
            self._gatherer.append(state["gathered"])
        self._values.update({name: array.tolist() for name, array in state["values"].items()})
        for name, kept in state["streams"].items():
            load_stream_state(self.metrics[name], kept)

    def merge(self, other: Self) -> None:
        """Take in what another set has seen of the same pass, as if its batches had come after the own.

        Parameters
        ----------
        other
            A set of the same metrics, made in the same way, with streaming metrics of its own; it stays as it is.

        Raises
        ------
        ConfigError
            If it is of other metrics, or a streaming metric cannot take in what another one has seen.
        """
        if (other._kinds, other._keys) != (self._kinds, self._keys):
            raise ConfigError(f"the metrics {list(other.metrics)} cannot be merged into {list(self.metrics)}")
        if not other._n_updates:
            return
        if not self._n_updates:
            self.reset()
        if found := other._gatherer.result():
            self._gatherer.append(found)
        for name, values in other._values.items():
            self._values[name] += values
        for name, metric in self._streams.items():
            merge_streams(name, metric, other.metrics[name])
        self._n_updates += other._n_updates

    def reset(self) -> None:
        """Forget all data; a fresh set has none."""
        self._clear()
        for metric in self._streams.values():
            metric.reset()

    def _clear(self) -> None:
        self._gatherer = Gatherer(self.limit_bytes)
        self._values: dict[str, list[float]] = {name: [] for name, kind in self._kinds.items() if kind == "sample"}
        self._n_updates = 0


@contextlib.contextmanager
def _told(name: str, keys: Sequence[str], arrays: Sequence[Any]) -> Iterator[None]:
    """Let an error of a metric say which metric it was, and what it was given."""
    try:
        yield
    except Exception as error:
        given = [f"{key}: {_describe(array)}" for key, array in zip(keys, arrays, strict=False)]
        error.add_note(f"in metric {name!r}, called with ({', '.join(given or keys)})")
        raise


def _describe(array: Array) -> str:
    leaves = [f"{np.asarray(leaf).dtype}{np.shape(leaf)}" for _, leaf in iterate_leaves(array)]
    return leaves[0] if len(leaves) == 1 else f"[{', '.join(leaves)}]"


def _inventory(available: Mapping[str, Any], predictions: Mapping[str, Any] | None) -> str:
    if predictions is None:
        return f"the batch and the network's predictions have {_names(available)}"
    return f"the batch has {_names(available)} and the network's predictions have {_names(predictions)}"


def _names(values: Mapping[str, Any]) -> list[str]:
    return [".".join(map(str, path)) for path, _ in iterate_leaves(values)]


#: what a trial takes, and an experiment as a :class:`TreeMetric`
_OF_TREE = ("key", "name", "metric", "class")


class SklearnFunction:
    """A function of scikit-learn that is given what it compares, out of whatever the network predicts.

    Parameters
    ----------
    function
        Or a ``functools.partial`` of one.
    criterion
        What :func:`describe_criterion` takes: whether scores are logits, and which targets do not count.
    """

    takes_target_first = True

    def __init__(self, function: Callable[..., Any], criterion: object = None):
        self.function, self.criterion = function, describe_criterion(criterion)

    def __call__(self, *arrays: Any) -> Any:
        """Return the value for labels and predictions; other numbers of arrays, and trees, are handed on as they are.

        Raises
        ------
        DataError
            If shapes do not fit, or labels are no numbers of columns of the scores.
        """
        if len(arrays) != 2 or not all(isinstance(array, np.ndarray) for array in arrays):
            return self.function(*arrays)
        true, pred = arrays
        metric = SklearnMetric(self.function)
        known = self.criterion
        if metric.kind in OF_LABELS:
            known = read_values(known, pred, true)
            if self._are_labels(true, pred):
                is_lost = pred.dtype.kind == "f" and not np.isfinite(pred).all()
                is_table = true.ndim == pred.ndim == 2 and true.shape[1] > 1
                if not (is_table and says_yes_or_no(true) and says_yes_or_no(pred)):  # one label per row
                    true, pred = true.ravel(), pred.ravel()
                with told(self, *arrays):
                    return float("nan") if is_lost else self.function(true, pred)
            refuse_texts(metric.name, true, pred)
        metric.n_samples = len(true)
        pred, true = metric.prepare(pred, true, {CRITERION: known})
        metric.seen.check()
        return metric.compute(true, pred)

    def _are_labels(self, true: np.ndarray, pred: np.ndarray) -> bool:
        """Return True if predictions are labels already; those of a network's criterion never are."""
        if true.size != pred.size:
            return False
        if not ops_of(pred).is_float(pred) or self.criterion.output == "labels":
            return True
        if self.criterion.told_by == "setting" or self.criterion.kind not in (None, "mse", "mae"):
            return False
        finite = pred[np.isfinite(pred)]
        return bool(np.all(finite == np.floor(finite)))

    def __repr__(self) -> str:
        return f"SklearnFunction({self.function!r})"


class TreeMetric:
    """A metric of a trial as one of an experiment: it sees batches of arrays of numpy, and is computed at the end.

    Parameters
    ----------
    metric
        What a trial takes as a metric.
    criterion, model
        By which some metrics are chosen.

    Raises
    ------
    ConfigError
        If it reads what only a trial has, or is chosen by a criterion that is not known.
    """

    def __init__(self, metric: object, criterion: object = None, model: object = None):
        self.given = metric
        self.metrics = MetricList([metric])
        root = self.tree.root
        if isinstance(root, (Loss, LR, Epoch, KeyMetric)):
            raise ConfigError(
                f"the metric {root.name!r} reads the state of a trial; an experiment records its losses and learning "
                "rates by itself, and metrics of it compare predictions with targets"
            )
        #: entries that it reads besides target and prediction
        self.further_keys: tuple[str, ...] = tuple(getattr(root, "further_keys", ()))
        self.criterion, self.model = describe_criterion(criterion), model
        self._state = State({CRITERION: self.criterion, MODEL: model, EPOCH: 0})
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.metrics.eval(VALIDATION_DATA)
        self.metrics.reset(self._state)

    def update(self, target: Array, prediction: Array, *further: Any) -> None:
        """Take in a batch."""
        self.metrics.process(self.state_of(target, prediction, *further))

    def state_of(self, target: Array, prediction: Array, *further: Any) -> State:
        """Return the state in which the metric finds a batch."""
        refuse_texts(self.metrics.names[0], target, prediction)
        self._state.update({X: target, Y_TRUE: target, Y_PRED: prediction})
        self._state.update(zip(self.further_keys, further, strict=True))
        return self._state

    def compute(self) -> dict[str, Any]:
        """Return values over all batches, by name."""
        values = self.metrics.process_final(self._state)
        return {name.removeprefix("val_"): value for name, value in values.items()}

    @property
    def tree(self) -> MetricTree:
        """What is computed; of an accuracy that chooses by the criterion, the chosen one."""
        tree = self.metrics.trees[0]
        return tree.root.delegate or tree

    @property
    def way(self) -> str:
        """How predictions were read of which nobody says what they are; empty if it is said, or does not matter."""
        return self.metrics.trees[0].way

    def state_dict(self) -> dict[str, Any]:
        """Return what the batches so far have brought."""
        return self.metrics.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batches that a state has seen."""
        self.metrics.load_state_dict(state)

    def merge(self, other: Self) -> None:
        """Take in what another one has seen."""
        self.metrics.merge(other.metrics)

    def __repr__(self) -> str:
        return f"TreeMetric({self.metrics.trees[0].root!r})"


def in_form(metric: Any, name: str = "metric", criterion: Any = None, model: Any = None) -> Any:
    """Return a metric as a function of arrays, or as an object with ``update``, ``compute`` and ``reset``.

    Parameters
    ----------
    metric
        Anything that :class:`~delira.metrics.MetricSet` takes; what is in form already is returned as it is.
    name
        For the messages.
    criterion, model
        By which some metrics are chosen: how predictions are to be understood.

    Raises
    ------
    ConfigError
        If a string stands for no metric, a class needs arguments, or a metric reads what only a trial has.
    """
    what = what_is(metric)
    if what == "torchmetrics":
        return made(metric)
    if what in _OF_TREE:
        try:
            return TreeMetric(metric, criterion, model)
        except ConfigError as error:
            error.add_note(f"in metric {name!r}")
            raise
    if what == "scikit-learn":
        return SklearnFunction(metric, criterion)
    return with_known(metric, describe_criterion(criterion))


def settled(metric: object, name: str, criterion: object) -> Any:
    """Return a metric in form, with what was settled of its predictions since it was brought into form.

    Parameters
    ----------
    metric
        In form, or as it was given.
    name
        For the messages.
    criterion
        What is known by now.
    """
    if isinstance(metric, SklearnFunction):
        return SklearnFunction(metric.function, criterion)
    if isinstance(metric, TreeMetric):
        return TreeMetric(metric.given, criterion, metric.model)
    return in_form(metric, name, criterion)


def is_in_reach(metric: object) -> bool:
    """Return True if something that is no function and no object with ``update`` can be put in form."""
    return what_is(metric) in ("torchmetrics", *_OF_TREE)


def kind_of(metric: object, name: str = "metric") -> Kind:
    """``"stream"``, ``"sample"`` or ``"dataset"``: how a metric is computed.

    Raises
    ------
    ConfigError
        If it is none of those that :class:`~delira.metrics.MetricSet` takes, or if its attribute ``over`` is text
        other than ``"sample"`` and ``"dataset"``.
    """
    return raw_kind_of(in_form(metric, name), name)


def evaluator(metric: Any, name: str = "metric") -> Callable[..., float]:
    """Make a function of whole arrays out of a metric, to be called as often as needed.

    A metric over samples gives the mean of its values. A streaming one is copied once and reset before
    each call, so that the metric itself keeps its state.
    """
    metric = in_form(metric, name)
    kind = raw_kind_of(metric, name)
    if kind == "dataset":
        return lambda *arrays: as_number(metric(*arrays), name)
    if kind == "sample":
        may_lack = may_lack_values(metric)
        return lambda *arrays: mean_of_values(
            [as_number(metric(*sample), name) for sample in zip(*arrays, strict=True)], may_lack
        )
    fresh = copy.deepcopy(metric)

    def evaluate(*arrays: Any) -> float:
        fresh.reset()
        feed(fresh, arrays)
        return as_only_number(fresh.compute(), name)

    return evaluate


def score(metric: object, arrays: Sequence[Any], name: str = "metric") -> float:
    """Evaluate a metric once over whole arrays.

    Parameters
    ----------
    metric
        Of any kind.
    arrays
        What it reads, in the order of its arguments, each of shape ``(n, ...)``.
    name
        For messages.

    Raises
    ------
    ConfigError
        If ``arrays`` is no list of arrays.
    DataError
        If the metric returns something that is not one number.
    """
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise ConfigError(
            f"score: arrays is a list of what the metric reads, e.g. [y_true, y_pred], got {arrays!r:.80}"
        )
    return evaluator(metric, name)(*arrays)


def refuse_texts(name: str, true: Array, pred: Array) -> None:
    """Refuse texts as labels where predictions are scores: nobody knows which column stands for which.

    Raises
    ------
    DataError
        If they are that.
    """
    kinds = [getattr(getattr(array, "dtype", None), "kind", "") for array in (true, pred)]
    if kinds[0] in ("O", "S", "U") and kinds[1] == "f":
        raise DataError(
            f"{name} got texts as labels and class scores as predictions; compare them with predicted labels "
            "(scikit-learn: metric_keys={...: ('label', 'label_pred')}), or number the classes from 0"
        )
