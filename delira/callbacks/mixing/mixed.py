"""What callbacks that change batches share: random numbers, inputs and targets, pairs of targets and their loss."""

import inspect
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.contract.step import call_loss
from delira.errors import ConfigError, DataError, check_flags, check_functions, check_numbers, check_that
from delira.utils import binding, frameworks
from delira.utils.arrays import Array, as_array, cast, iterate_leaves, map_leaves, n_rows, ops_of, shape_of, spread
from delira.utils.seeding import derive

#: the target among several entries of an experiment's batch
_LABEL = "label"


class MixedTargets(NamedTuple):
    """The targets of a batch whose samples were mixed; the share of the first ones is under MIXUP_LAMBDA."""

    first: Any
    """The targets of the samples themselves."""

    second: Any
    """The targets of the samples that were mixed in."""


def step_generator(state: keys.State, callback: object) -> np.random.Generator:
    """Return the generator of a callback at the step at hand.

    Parameters
    ----------
    state
        In ``on_sample``, or later in the step.
    callback
        Of several of one class, each has numbers of its own.

    Returns
    -------
    Generator
        A new one, from seed, fold, epoch, batch, and the callback's class and place among those of its class.
    """
    same = [one for one in state.get(keys.CALLBACK_LIST, ()) if type(one) is type(callback)]
    number = next((at for at, one in enumerate(same) if one is callback), 0)
    owner, stream = state[keys.SELF], f"callback {type(callback).__name__} {number}"
    return np.random.default_rng(derive(owner.seed, owner.fold, state[keys.EPOCH], state[keys.BATCH], stream=stream))


class RandomCallback(Callback):
    """A callback that changes the batches of a training at random, before each step."""

    phases: tuple[str, ...] = ("fit",)

    def _draw(self, state: keys.State) -> np.random.Generator:
        """Return the generator of the step at hand."""
        return step_generator(state, self)


def refuse_weights(state: keys.State, who: str) -> None:
    """Refuse weights of samples where samples are mixed: they would count for nothing, or for others.

    Raises
    ------
    ConfigError
        If the batch has weights.
    """
    if state.get(keys.SAMPLE_WEIGHT) is not None:
        raise ConfigError(f"{who} mixes samples, and the batch has weights of its samples; leave one of them out")


def n_samples_of(state: keys.State, who: str) -> int:
    """Samples of the batch, whose inputs can be mixed.

    Raises
    ------
    DataError
        If the input holds anything but arrays of floating-point numbers with samples.
    """
    for leaf in [leaf for _, leaf in iterate_leaves(state[keys.X])] or [None]:
        if not shape_of(leaf) or not ops_of(leaf).is_float(leaf):
            what = getattr(leaf, "dtype", type(leaf).__name__)
            raise DataError(f"{who} computes with inputs of floating-point numbers, and X holds {what}; convert it")
    return n_rows(state[keys.X])


def images_of(state: keys.State, who: str) -> Any:
    """Return the input, one array of images of shape ``(B, ...)`` with channels and at least one further axis.

    Raises
    ------
    DataError
        If it is anything else.
    """
    n_samples_of(state, who)
    images = state[keys.X]
    if len(shape_of(images)) < 3:
        what = f"an array of shape {shape_of(images)}" if shape_of(images) else f"a {type(images).__name__}"
        raise DataError(f"{who} needs images of shape (B, C, ...) or (B, ..., C) as the input, got {what}")
    return images


def rows_of(tree: object, rows: object) -> Any:
    """Samples of every array, by an array of their numbers on the host."""
    return map_leaves(lambda leaf: ops_of(leaf).take(leaf, ops_of(leaf).asarray(rows, leaf)), tree)


def blend(first: object, second: object, share: float) -> Any:
    """``share * first + (1 - share) * second`` for every array of two trees of one structure."""
    others = iter([leaf for _, leaf in iterate_leaves(second)])
    return map_leaves(lambda leaf: share * leaf + (1.0 - share) * next(others), first)


def target_of(state: keys.State, who: str) -> Any:
    """Return the target of the batch; of an experiment that has several further entries, the one called ``"label"``.

    Raises
    ------
    DataError
        If there is none.
    ConfigError
        If another callback has made pairs of targets.
    """
    target = state[keys.Y_TRUE]
    if isinstance(target, Mapping):
        if _LABEL not in target:
            raise DataError(f"{who} changes one target, called {_LABEL!r}, and there are {sorted(map(str, target))}")
        target = target[_LABEL]
    if target is None:
        raise DataError(f"{who} changes targets, and the batch has none")
    if isinstance(target, MixedTargets):
        raise ConfigError(f"{who} comes after a callback that mixes targets; put it before that one, or leave one out")
    return target


def set_target(state: keys.State, target: Array) -> None:
    """Put another target into the place of :func:`target_of`'s."""
    all_ = state[keys.Y_TRUE]
    state[keys.Y_TRUE] = {**all_, _LABEL: target} if isinstance(all_, Mapping) else target


def one_hot(target: Array, classes: int, who: str) -> Any:
    """Targets as a probability for each class.

    Parameters
    ----------
    target
        Array of class numbers of shape ``(B, ...)``, or of probabilities.
    classes
        How many classes there are; ``-1``: the targets are probabilities already.
    who
        For the message.

    Returns
    -------
    Array of floating-point numbers, with the classes along axis 1 for PyTorch and numpy, along the last one elsewhere.

    Raises
    ------
    DataError
        If targets of shape ``(B,)`` are to be probabilities.
    """
    ops = ops_of(target)
    if classes == -1:
        if len(shape_of(target)) < 2:
            raise DataError(
                f"{who}: targets of shape {shape_of(target)} are no probabilities of classes; say how many classes "
                f"there are: {who}(classes=...)"
            )
        return ops.as_float(target)
    n_axes = len(shape_of(target))
    axis = ops.class_axis if ops.class_axis > 0 else n_axes
    shape = [classes if at == axis else 1 for at in range(n_axes + 1)]
    return ops.as_float(ops.equal(ops.expand(target, axis), ops.reshape(ops.arange(classes, target), shape)))


def check_classes(classes: int, who: str) -> int:
    """Refuse what is no number of classes, and not ``-1``.

    Raises
    ------
    ConfigError
        If it is anything else.
    """
    is_right = isinstance(classes, Integral) and not isinstance(classes, bool) and (classes >= 2 or classes == -1)
    check_that(is_right, who, "classes is at least 2, or -1 for targets that are one-hot already", classes)
    return int(classes)


def harden(state: keys.State, classes: int, who: str) -> None:
    """Make one-hot targets of the labels of a validation, if there are any."""
    if classes != -1 and state.get(keys.Y_TRUE) is not None:
        set_target(state, one_hot(target_of(state, who), classes, who))


class LabelSmoothingRegularisation(Callback):
    """Train on labels that leave every class a little: ``(1 - epsilon) * one_hot + epsilon / C``.

    Validations and evaluations have one-hot targets.

    Parameters
    ----------
    epsilon
        What is spread over all classes, from 0 to 1.
    classes
        How many classes there are: labels of shape ``(B, ...)`` become probabilities of shape ``(B, C, ...)`` in
        PyTorch, ``(B, ..., C)`` elsewhere; ``-1``: targets are one-hot already.

    Raises
    ------
    ConfigError
        If a number is impossible.
    DataError
        At a step, if there is no target, or ``classes`` is needed.

    References
    ----------
    Szegedy et al., Rethinking the inception architecture for computer vision, CVPR 2016, arXiv:1512.00567.
    """

    phases = ("fit", "evaluate", "predict")
    needs_gradients = True  # estimators learn from labels as they are

    def __init__(self, epsilon: float, classes: int = -1):
        check_numbers(self, epsilon=epsilon)
        check_that(0 <= epsilon <= 1, "LabelSmoothingRegularisation", "epsilon is from 0 to 1", epsilon)
        self.epsilon, self.classes = epsilon, check_classes(classes, "LabelSmoothingRegularisation")

    def on_sample(self, state: keys.State) -> None:
        """Make smooth targets of the labels."""
        who = type(self).__name__
        target = one_hot(target_of(state, who), self.classes, who)
        n_classes = int(target.shape[ops_of(target).class_axis])
        set_target(state, (1.0 - self.epsilon) * target + self.epsilon / n_classes)

    def on_sample_validation(self, state: keys.State) -> None:
        """Make one-hot targets of the labels."""
        harden(state, self.classes, type(self).__name__)


class MixupLoss:
    """A loss that is the weighted mean of those for both targets; made by :func:`mixup_loss`.

    Parameters
    ----------
    loss
        Called as ``loss(prediction, target)``.
    """

    __name__ = "mixup_loss"  # by which metrics choose
    #: for an experiment it is a loss of prediction and target, as any other
    takes_target_first = False

    def __init__(self, loss: Callable[..., Any]):
        check_functions(self, loss=loss)
        self.loss = self.__wrapped__ = loss
        self.__signature__ = inspect.signature(self.__call__)  # else it would be that of the loss
        #: of the fit in an experiment, whose losses do not get it; the callback that mixes sets it
        self.state: keys.State | None = None

    def __call__(self, state: Any, target: Any = None) -> Any:
        """Return the loss, of the state of a trial, or of prediction and target."""
        if isinstance(state, keys.State):
            prediction, target = state[keys.Y_PRED], state[keys.Y_TRUE]
            refuse_weights(state, "mixup_loss")
        else:
            prediction, state = state, self.state
        if not isinstance(target, MixedTargets):  # of a validation, an evaluation
            return self._of(prediction, target)
        if state is None:
            raise ConfigError("mixup_loss was given mixed targets, but no callback that mixes is at work")
        first, second = (self._of(prediction, one) for one in target)
        share = cast(as_array(state[keys.MIXUP_LAMBDA], first), first)
        return share * first + (1.0 - share) * second

    def _of(self, prediction: Any, target: Any) -> Any:
        return call_loss("mixup_loss", self.loss, (*spread(prediction), *spread(target)))

    def __repr__(self) -> str:
        return f"mixup_loss({self.loss!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "state": None}  # a copy belongs to another fit


def mixup_loss(loss: Callable[..., Any]) -> MixupLoss:
    """The criterion for mixed samples: ``lambda * loss(prediction, first) + (1 - lambda) * loss(prediction, second)``.

    Where targets are not mixed, in a validation or an evaluation of whatever data, it is the loss itself. ``"acc"`` of
    a trial with it is :class:`delira.metrics.MixupAcc`.

    Parameters
    ----------
    loss
        Any loss of predictions and targets that gives one number.

    Returns
    -------
    MixupLoss
        A criterion for a trial, and a loss for an experiment.

    Raises
    ------
    ConfigError
        If it cannot be called.

    References
    ----------
    Zhang et al., mixup: Beyond empirical risk minimization, ICLR 2018, arXiv:1710.09412.
    """
    if not callable(loss):
        raise ConfigError(f"mixup_loss takes a loss of predictions and targets, got {loss!r}")
    return MixupLoss(loss)


class MixingCallback(RandomCallback):
    """A callback that gives each sample a second target, or lets :func:`mixup_loss` know of it."""

    needs_gradients = True  # estimators learn from labels as they are
    _checked: Any = None

    def _publish(self, state: keys.State, share: Any, rows: np.ndarray) -> None:
        """Put into the state how much of the first sample there is, and which sample is the second."""
        like = next(leaf for _, leaf in iterate_leaves(state[keys.X]))
        ops = ops_of(like)
        state[keys.MIXUP_LAMBDA] = ops.asarray(np.asarray(share, np.float32), like)
        state[keys.MIXUP_PERMUTATION] = ops.asarray(rows, like)
        _tell_losses(state, state)

    def _pair(self, state: keys.State, share: float, rows: np.ndarray) -> None:
        """Make pairs of the targets."""
        if (criterion := state.get(keys.CRITERION)) is not self._checked:
            self._checked = _check(criterion, type(self).__name__)
        target = target_of(state, type(self).__name__)
        set_target(state, MixedTargets(target, rows_of(target, rows)))
        self._publish(state, share, rows)

    def on_end(self, state: keys.State) -> None:
        """Let losses forget this fit."""
        _tell_losses(state, None)


class ImageMixing(MixingCallback):
    """Mixes images; their targets become pairs for :func:`mixup_loss`, or probabilities of classes."""

    phases = ("fit", "evaluate", "predict")

    def __init__(self, alpha: float, classes: int, mixup_loss: bool):
        check_numbers(self, above=0, alpha=alpha)
        self.alpha, self.classes = alpha, check_classes(classes, type(self).__name__)
        check_flags(self, mixup_loss=mixup_loss)
        self.mixup_loss = mixup_loss

    def _mix_targets(self, state: keys.State, shares: np.ndarray, rows: np.ndarray) -> None:
        """Make pairs with one weight, or weighted means of one-hot targets, with a weight for each sample."""
        if self.mixup_loss:
            self._pair(state, float(shares[0]), rows)
            return
        who = type(self).__name__
        target = one_hot(target_of(state, who), self.classes, who)
        ops, shape = ops_of(target), (len(shares), *(1 for _ in target.shape[1:]))
        weights = cast(ops.asarray(shares.astype(np.float32).reshape(shape), target), target)
        set_target(state, weights * target + (1.0 - weights) * rows_of(target, rows))
        self._publish(state, shares, rows)

    def on_sample_validation(self, state: keys.State) -> None:
        """Make one-hot targets of labels, as in training."""
        if not self.mixup_loss:
            harden(state, self.classes, type(self).__name__)


def _check(criterion: Any, who: str) -> Any:
    """Refuse a criterion of a trial, or losses of an experiment, that cannot take pairs of targets."""
    for loss in criterion.values() if isinstance(criterion, Mapping) else [criterion]:
        if loss is not None and not _takes_pairs(loss, is_of_trial=loss is criterion):
            raise ConfigError(
                f"{who} makes a pair of each target, which {getattr(loss, '__name__', type(loss).__name__)} does not "
                "take; make it mixup_loss(...) of delira.training.callbacks"
            )
    return criterion


def _takes_pairs(loss: Any, *, is_of_trial: bool) -> bool:
    from delira.contract.calls import parameters_of, takes_state  # it imports callbacks

    if isinstance(loss, MixupLoss):
        return True
    if str(getattr(loss, "__module__", "")).partition(".")[0] in frameworks.LIBRARIES:
        return False  # it takes one target; a second one would be the weights of the samples in Keras
    if not is_of_trial or takes_state(loss):  # that of an experiment gets MixedTargets
        return True
    try:
        given = parameters_of(loss)
    except (TypeError, ValueError):  # of C, without a signature
        return True
    return len(binding.positional(given)) > 2 or binding.has_more(given)


def _tell_losses(state: keys.State, fit: keys.State | None) -> None:
    """Let the losses of an experiment know the state of the fit that they are computed in."""
    losses = state.get(keys.CRITERION)
    for loss in losses.values() if isinstance(losses, Mapping) else ():
        if isinstance(loss, MixupLoss):
            loss.state = fit
