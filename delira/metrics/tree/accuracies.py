"""Shares of right predictions."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from delira.errors import ConfigError
from delira.metrics.gather import Batch, Moments, Weighted
from delira.metrics.tree.aggregators import RootMean
from delira.metrics.tree.criteria import Criterion, describe_criterion, known_of, threshold_of
from delira.metrics.tree.hanging import default_for_key, default_metric, mean, running_mean
from delira.metrics.tree.labels import (
    YES_OR_NO,
    Seen,
    binary_labels,
    check_settings,
    counted,
    pair_of,
    same_shape,
    true_labels,
)
from delira.metrics.tree.metric import Keeping, Metric, MetricTree, as_tree
from delira.state import CRITERION, MIXUP_LAMBDA, MODEL, OUTPUT, Y_PRED, Y_TRUE, State
from delira.utils.arrays import Array, as_array, ops_of, shape_of


class Stateless(Keeping):
    """A metric that compares two arrays of the state; of earlier batches it keeps only what checks them at the end.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state.
    """

    is_fresh = True
    #: what it is reported under
    label: str
    higher_is_better: bool | None = None

    def __init__(self, pred_key: object = Y_PRED, target_key: object = Y_TRUE):
        self.pred_key, self.target_key = pred_key, target_key
        super().__init__(self.label)

    def _clear(self) -> None:
        #: name in a state -> what looks at targets and scores of the pass, or at labels; there once it is needed
        self._seen: dict[str, Seen] = {}
        #: positions of samples without a finite prediction, of metrics that find them in what they keep
        self._lost: list[int] = []
        #: a criterion and a setting, and what they say of predictions
        self._described: tuple[Any, Any, Criterion] | None = None

    def pair(self, state: State) -> tuple[Any, Any]:
        """Prediction and target."""
        return pair_of(self.name, state, self.pred_key, self.target_key)

    @property
    def seen(self) -> Seen:
        """What is looked at when the pass ends."""
        if "seen" not in self._seen:
            self._seen["seen"] = Seen(self.name)
        return self._seen["seen"]

    @property
    def lost(self) -> list[int]:
        """Positions in the pass of samples whose prediction is not finite, as far as they were looked at."""
        return self._lost or [position for seen in self._seen.values() for position in seen.lost]

    def known_in(self, state: Mapping[Any, Any]) -> Criterion:
        """Return what a state says of its predictions; looked up again only when criterion or setting are others."""
        criterion, output = state.get(CRITERION), state.get(OUTPUT)
        if self._described is None or self._described[0] is not criterion or self._described[1] != output:
            self._described = (criterion, output, known_of(state))
        return self._described[2]

    def process_final(self, *args: Any) -> Any:
        """End a pass: a target, or a predicted label, that no class is is refused now."""
        for seen in self._seen.values():
            seen.check()

    def state_dict(self) -> dict[str, Any]:
        return {name: seen.state_dict() for name, seen in self._seen.items()}

    def take_in(self, state: Mapping[str, Any]) -> None:
        for name in state.keys() & {"seen", *self._seen}:  # those of older versions have fewer
            self._seen.setdefault(name, Seen(self.name)).take_in(state[name])


@default_for_key("cat_acc")
@default_for_key("cat_accuracy")
@running_mean
@mean
class CategoricalAccuracy(Stateless):
    """The share of labels, of samples or of pixels, that have the highest score.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: scores of shape ``(B, C, ...)`` or ``(B, ..., C)``, or labels; and labels of shape
        ``(B, ...)`` or, of the shape of the scores, one-hot ones or probabilities.
    ignore_index
        Targets that do not count; ``None`` for none.
    class_axis
        Axis of the classes. By default 1 for PyTorch and numpy, the last one for TensorFlow and JAX, or the other of
        the two if only that fits the target.
    """

    label = "acc"
    higher_is_better = True

    def __init__(
        self,
        pred_key: object = Y_PRED,
        target_key: object = Y_TRUE,
        ignore_index: int | None = -100,
        class_axis: int | None = None,
    ):
        super().__init__(pred_key, target_key)
        check_settings("acc", ignore_index=ignore_index, class_axis=class_axis)
        self.ignore_index, self.class_axis = ignore_index, class_axis

    def _clear(self) -> None:
        super()._clear()
        #: arrays of the batch before, and the axis of their classes; the criterion of a pass may be another one
        self._usual: tuple[Any, int] = (None, 0)

    def process(self, *args: Any) -> Any:
        """Return whether each is right; not a number where the highest score is not finite."""
        pred, true = args[0][self.pred_key], args[0][self.target_key]
        kind = _kind_of(pred, true)
        usual, axis = self._usual
        if kind is None or kind != usual:  # not as in the batch before: looked at once, not at every step
            pred, given = self.pair(args[0])
            if not ops_of(pred).is_float(pred):
                pred, true = same_shape(self.name, pred, given)
                return self._weighted(ops_of(pred).equal(pred, true), true)
            true, axis, is_one_hot = true_labels(self.name, pred, given, _axis_of(self.class_axis, args[0]))
            if is_one_hot:
                return self._right(pred, true, axis, is_one_hot=True)
            if true is given:
                self._usual = (kind, axis)
        return self._right(pred, true, axis)

    def _right(self, pred: Array, true: Array, axis: int, *, is_one_hot: bool = False) -> Any:
        ops = ops_of(pred)
        top, found = ops.best(pred, axis)
        kept = self.seen.add(true, top, 0 if is_one_hot else int(pred.shape[axis]), self.ignore_index)
        return self._weighted(ops.equal(found, true), true, top, kept)

    def _weighted(self, right: object, true: Array, top: object = None, kept: object = None) -> Any:
        mask = counted(true, self.ignore_index, kept)
        if mask is not None:
            return Weighted(right, mask, top)
        return right if top is None else ops_of(right).as_float(right) + ops_of(top).doubt(top)


def _axis_of(given: int | None, state: State) -> int | None:
    """Return where the metric, or what is known of the predictions, says that the classes are."""
    if given is not None or CRITERION not in state:
        return given
    return describe_criterion(state[CRITERION]).class_axis


def _kind_of(pred: Array, true: Array) -> Any:
    """Return what decides how two arrays of one framework are compared; None for anything else."""
    if type(pred) is not type(true) or not hasattr(pred, "dtype"):
        return None
    return type(pred), pred.dtype, pred.shape, true.dtype, true.shape


@default_for_key("top_5_acc", 5)
@default_for_key("top_5_accuracy", 5)
@default_for_key("top_10_acc", 10)
@default_for_key("top_10_accuracy", 10)
@running_mean
@mean
class TopKCategoricalAccuracy(Stateless):
    """The share of labels that are among the ``k`` highest scores.

    Of equal scores the first counts as the highest, as everywhere where one is taken. With fewer than ``k`` classes
    every score is among the highest. Not a number where the highest score is infinite, or none.

    Parameters
    ----------
    k
        How many scores count.
    pred_key, target_key, ignore_index, class_axis
        As for :class:`CategoricalAccuracy`.

    Raises
    ------
    ConfigError
        If ``k`` is below 1.
    """

    higher_is_better = True

    def __init__(
        self,
        k: int = 5,
        pred_key: object = Y_PRED,
        target_key: object = Y_TRUE,
        ignore_index: int | None = -100,
        class_axis: int | None = None,
    ):
        check_settings("TopKCategoricalAccuracy", k=k, ignore_index=ignore_index, class_axis=class_axis)
        if k is None:
            raise ConfigError("TopKCategoricalAccuracy: k is a whole number of at least 1, got None")
        self.label = f"top_{k}_acc"
        super().__init__(pred_key, target_key)
        self.k, self.ignore_index, self.class_axis = k, ignore_index, class_axis

    def process(self, *args: Any) -> Any:
        """Return whether each is among the highest."""
        pred, true = self.pair(args[0])
        true, axis, is_one_hot = true_labels(self.name, pred, true, _axis_of(self.class_axis, args[0]))
        ops = ops_of(pred)
        top = ops.largest(pred, axis)
        self.seen.add(true, top, 0 if is_one_hot else int(pred.shape[axis]), self.ignore_index)
        shape = [1] * len(pred.shape)
        shape[axis] = int(pred.shape[axis])
        classes = ops.reshape(ops.arange(shape[axis], pred), shape)
        target = ops.expand(true, axis)
        score = ops.expand(ops.largest(ops.where(ops.equal(classes, target), pred, float("-inf")), axis), axis)
        higher = (pred > score) | (ops.equal(pred, score) & ops.less(classes, target))
        is_number = ops.largest(ops.to_integer(ops.equal(score, score)), axis) > 0
        right = ops.as_float((ops.sum(higher, axis) < self.k) & is_number) + ops.doubt(top)
        mask = counted(true, self.ignore_index)
        return right if mask is None else Weighted(right, mask)


@default_for_key("binary_acc")
@default_for_key("binary_accuracy")
@running_mean
@mean
class BinaryAccuracy(Stateless):
    """The share of values for which prediction and target say the same, yes or no.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape. Targets above 0.5 mean yes.
    threshold
        Predictions above it mean yes. By default 0.5, and 0 of logits.
    """

    label = "binary_acc"
    reads_outputs = True
    higher_is_better = True

    def __init__(self, pred_key: object = Y_PRED, target_key: object = Y_TRUE, threshold: float | None = None):
        super().__init__(pred_key, target_key)
        check_settings(self.name, threshold=threshold)
        self.threshold = threshold

    def process(self, *args: Any) -> Any:
        """Return whether each is right; not a number where the prediction is not finite."""
        threshold = threshold_of(self.known_in(args[0])) if self.threshold is None else self.threshold
        scores, given = self.pair(args[0])
        ops = ops_of(scores)
        pred, true = binary_labels(self.name, scores, given, threshold)
        is_float = ops.is_float(scores)
        self.seen.add(given, scores if is_float else None, YES_OR_NO)
        right = ops.equal(pred, true)
        return ops.as_float(right) + ops.doubt(scores) if is_float else right


@default_for_key("mixup_acc")
@running_mean
@mean
class MixupAcc(CategoricalAccuracy):
    """The share of right labels among mixed samples, each right by the weight of the sample that has the label.

    In an evaluation, where nothing is mixed, the accuracy.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: scores as for :class:`CategoricalAccuracy`; in training the two targets that were mixed.
    class_axis
        As for :class:`CategoricalAccuracy`.

    References
    ----------
    H. Zhang, M. Cisse, Y. N. Dauphin, D. Lopez-Paz, "mixup: Beyond Empirical Risk Minimization", ICLR 2018.
    """

    label = "mixup_acc"

    def __init__(self, pred_key: object = Y_PRED, target_key: object = Y_TRUE, class_axis: int | None = None):
        super().__init__(pred_key, target_key, None, class_axis)

    def process(self, *args: Any) -> Any:
        """Return which predictions are right."""
        state = args[0]
        if not isinstance(state[self.target_key], (tuple, list)):
            return super().process(state)
        rights = []
        for target in state[self.target_key]:
            known = {CRITERION: state[CRITERION]} if CRITERION in state else {}
            right = super().process({self.pred_key: state[self.pred_key], self.target_key: target, **known})
            rights.append(ops_of(right).as_float(right))
        weight = state[MIXUP_LAMBDA]
        weight = weight if isinstance(weight, float) else as_array(weight, rights[0])
        return rights[0] * weight + rights[1] * (1 - weight)


@default_for_key("acc")
@default_for_key("accuracy")
class DefaultAccuracy(Metric):
    """The accuracy that fits the criterion, which is looked at whenever a pass begins; or scikit-learn's estimator.

    Cross entropies: :class:`CategoricalAccuracy`; binary ones: :class:`BinaryAccuracy`; squared error: ``mse``;
    absolute error: ``mae``. With the criterion's own ``ignore_index``, and with the threshold 0 if it takes logits.

    Raises
    ------
    ConfigError
        At the start of a pass, if none is known for the criterion.
    """

    is_fresh = True

    def __init__(self) -> None:
        super().__init__("acc")
        self._data_key: Any = None

    @property
    def lost(self) -> list[int]:
        """Those of the chosen metric."""
        return [] if self.delegate is None else self.delegate.lost

    def reset(self, state: State) -> None:
        """Begin a pass: choose by the criterion."""
        self.delegate = as_tree(accuracy_for(state.get(CRITERION), state.get(MODEL)))
        if not self.is_training:
            self.delegate.eval(self._data_key)
        self.delegate.reset(state)

    def train(self) -> None:
        super().train()
        if self.delegate is not None:
            self.delegate.train()

    def eval(self, data_key: object = None) -> None:
        super().eval(data_key)
        self._data_key = data_key
        if self.delegate is not None:
            self.delegate.eval(data_key)

    def process(self, *args: Any) -> Any:
        """Return what the chosen metric reports."""
        return self._chosen().process(*args)

    def process_final(self, *args: Any) -> Any:
        """Return what the chosen metric reports."""
        return self._chosen().process_final(*args)

    def _chosen(self) -> MetricTree:
        if self.delegate is None:
            raise ConfigError("the metric 'acc' chooses by the criterion when a pass begins: call reset(state) first")
        return self.delegate

    def state_dict(self) -> dict[str, Any]:
        return {} if self.delegate is None else self.delegate.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            self._chosen().load_state_dict(state)

    def merge(self, other: Self) -> None:
        if other.delegate is not None:
            self._chosen().merge(other.delegate)


def accuracy_for(criterion: object, model: object = None) -> Metric:
    """Return a new accuracy that fits a criterion; for an estimator of scikit-learn what it is made for.

    Raises
    ------
    ConfigError
        If none is known.
    """
    if hasattr(model, "__sklearn_tags__"):
        kind = model.__sklearn_tags__().estimator_type
        if kind in ("classifier", "regressor"):
            return as_tree(default_metric("cat_acc" if kind == "classifier" else "mse"))
    known = describe_criterion(criterion)
    if known.kind == "categorical":
        return CategoricalAccuracy(ignore_index=-100 if known.ignore_index is None else known.ignore_index)
    if known.kind in ("binary", "logits"):
        return BinaryAccuracy()
    if known.kind is not None:
        return as_tree(default_metric({"mixup": "mixup_acc"}.get(known.kind, known.kind)))
    what = (
        "there is no criterion"
        if criterion is None or not known.name
        else f"the criterion {known.name} is none it knows"
    )
    raise ConfigError(
        f"the metric 'acc' is chosen by the criterion, and {what}; name the one you mean: 'cat_acc', 'binary_acc', "
        "'top_5_acc', 'mse', 'mae', or a metric of your own"
    )


@default_for_key("mae")
@running_mean
@mean
class MeanAbsoluteError(Stateless):
    """The mean of the absolute differences of all values.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    """

    label = "mae"
    higher_is_better = False

    def process(self, *args: Any) -> Any:
        """Return the absolute difference of each value."""
        return abs(_difference(self, args[0]))


class SquaredError(Stateless):
    """The squared differences of all values; ``pred_key`` and ``target_key`` as for :class:`MeanSquaredError`."""

    label = "rmse"
    higher_is_better = False

    def process(self, *args: Any) -> Any:
        """Return the squared difference of each value."""
        return _difference(self, args[0]) ** 2


@default_for_key("mse")
@running_mean
@mean
class MeanSquaredError(SquaredError):
    """The mean of the squared differences of all values.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    """

    label = "mse"


class _RootOfOutputs(RootMean):
    """The root of the mean of each output of values of shape ``(B, outputs)``, and the mean of these roots."""

    def __init__(self, name: str, multioutput: str):
        super().__init__(name)
        self.multioutput = multioutput

    def process(self, *args: Any) -> Any:
        """Take in the values of a batch; pixels count as samples."""
        shape = shape_of(args[0])
        return self.take(Batch(args[0], 0 if len(shape) == 2 and shape[1] > 1 else None))

    def compute(self, moments: Moments) -> Any:
        """Return the mean of the roots, or all of them."""
        roots = super().compute(moments)
        return np.mean(roots) if self.multioutput == "uniform_average" else roots


class RootMeanSquaredError(MetricTree):
    """The root of the mean of the squared differences, ``sklearn.metrics.root_mean_squared_error``.

    Of values of shape ``(B, outputs)`` the mean of the roots of all outputs; of any other shape one root of all.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    multioutput
        ``"uniform_average"``, or ``"raw_values"``: a list of the roots.

    Raises
    ------
    ConfigError
        If ``multioutput`` is neither.
    """

    def __init__(self, pred_key: object = Y_PRED, target_key: object = Y_TRUE, multioutput: str = "uniform_average"):
        if multioutput not in ("uniform_average", "raw_values"):
            raise ConfigError(f"rmse: multioutput must be 'uniform_average' or 'raw_values', got {multioutput!r}")
        super().__init__(SquaredError(pred_key, target_key), [_RootOfOutputs("rmse", multioutput)])


default_for_key("rmse")(RootMeanSquaredError)


def _difference(metric: Stateless, state: State) -> Any:
    """Prediction less target, at least as exact as float32."""
    pred, true = same_shape(metric.name, *metric.pair(state))
    return ops_of(pred).as_float(pred) - ops_of(true).as_float(true)
