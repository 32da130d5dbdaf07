"""Inputs and targets of a batch, as callbacks find and change them that mix samples, or make labels less certain."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.errors import ConfigError, DataError
from delira.state import State
from delira.utils.arrays import Array, iterate_leaves, map_leaves, n_rows, ops_of, shape_of, take
from delira.utils.checks import check_numbers

#: the target among several entries of an experiment's batch
_LABEL = "label"


class MixedTargets(NamedTuple):
    """The targets of a batch whose samples were mixed; how much of the first it is, is under MIXUP_LAMBDA."""

    first: Any
    """Of the samples themselves."""
    second: Any
    """Of the samples that were mixed in."""


def n_samples_of(state: State, who: str) -> int:
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


def images_of(state: State, who: str) -> Any:
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
    return map_leaves(lambda leaf: take(leaf, ops_of(leaf).asarray(rows, leaf)), tree)


def blend(first: object, second: object, share: float) -> Any:
    """``share * first + (1 - share) * second`` for every array of two trees of one structure."""
    others = iter([leaf for _, leaf in iterate_leaves(second)])
    return map_leaves(lambda leaf: share * leaf + (1.0 - share) * next(others), first)


def target_of(state: State, who: str) -> Any:
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


def set_target(state: State, target: Array) -> None:
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
    numbers = ops.reshape(ops.arange(classes, target), shape)
    return ops.as_float(ops.equal(ops.expand(target, axis), numbers))


def check_classes(classes: int, who: str) -> int:
    """Refuse what is no number of classes, and not ``-1``.

    Raises
    ------
    ConfigError
        If it is anything else.
    """
    if isinstance(classes, bool) or not isinstance(classes, Integral) or (classes < 2 and classes != -1):
        raise ConfigError(f"{who}: classes is at least 2, or -1 for targets that are one-hot already, got {classes!r}")
    return int(classes)


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
        if not 0 <= epsilon <= 1:
            raise ConfigError(f"LabelSmoothingRegularisation: epsilon is from 0 to 1, got {epsilon!r}")
        self.epsilon, self.classes = epsilon, check_classes(classes, "LabelSmoothingRegularisation")

    def on_sample(self, state: State) -> None:
        """Make smooth targets of the labels."""
        who = type(self).__name__
        target = one_hot(target_of(state, who), self.classes, who)
        n_classes = int(target.shape[ops_of(target).class_axis])
        set_target(state, (1.0 - self.epsilon) * target + self.epsilon / n_classes)

    def on_sample_validation(self, state: State) -> None:
        """Make one-hot targets of the labels."""
        harden(state, self.classes, type(self).__name__)


def harden(state: State, classes: int, who: str) -> None:
    """Make one-hot targets of the labels of a validation, if there are any."""
    if classes != -1 and state.get(keys.Y_TRUE) is not None:
        set_target(state, one_hot(target_of(state, who), classes, who))
