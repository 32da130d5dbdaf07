"""Two targets for each sample, and the loss that weighs them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.mixing.batches import (
    MixedTargets,
    check_classes,
    harden,
    one_hot,
    rows_of,
    set_target,
    target_of,
)
from delira.callbacks.mixing.randomness import RandomCallback
from delira.contract.step import call_loss
from delira.errors import ConfigError
from delira.state import State
from delira.utils.arrays import as_array, cast, iterate_leaves, ops_of, spread
from delira.utils.binding import has_more, positional
from delira.utils.checks import check_flags, check_functions, check_numbers
from delira.utils.frameworks import LIBRARIES


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
        self.state: State | None = None

    def __call__(self, state: Any, target: Any = None) -> Any:
        """Return the loss, of the state of a trial, or of prediction and target."""
        if isinstance(state, State):
            prediction, target = state[keys.Y_PRED], state[keys.Y_TRUE]
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

    def _publish(self, state: State, share: Any, rows: np.ndarray) -> None:
        """Put into the state how much of the first sample there is, and which sample is the second."""
        like = next(leaf for _, leaf in iterate_leaves(state[keys.X]))
        ops = ops_of(like)
        state[keys.MIXUP_LAMBDA] = ops.asarray(np.asarray(share, np.float32), like)
        state[keys.MIXUP_PERMUTATION] = ops.asarray(rows, like)
        for loss in _mixup_losses(state):
            loss.state = state

    def _pair(self, state: State, share: float, rows: np.ndarray) -> None:
        """Make pairs of the targets."""
        if (criterion := state.get(keys.CRITERION)) is not self._checked:
            self._checked = _check(criterion, type(self).__name__)
        target = target_of(state, type(self).__name__)
        set_target(state, MixedTargets(target, rows_of(target, rows)))
        self._publish(state, share, rows)

    def on_end(self, state: State) -> None:
        """Let losses forget this fit."""
        for loss in _mixup_losses(state):
            loss.state = None


class ImageMixing(MixingCallback):
    """Mixes images; their targets become pairs for :func:`mixup_loss`, or probabilities of classes."""

    phases = ("fit", "evaluate", "predict")

    def __init__(self, alpha: float, classes: int, mixup_loss: bool):
        check_numbers(self, above=0, alpha=alpha)
        self.alpha, self.classes = alpha, check_classes(classes, type(self).__name__)
        check_flags(self, mixup_loss=mixup_loss)
        self.mixup_loss = mixup_loss

    def _mix_targets(self, state: State, shares: np.ndarray, rows: np.ndarray) -> None:
        """Make pairs with one weight, or weighted means of one-hot targets, with a weight for each sample."""
        if self.mixup_loss:
            self._pair(state, float(shares[0]), rows)
            return
        who = type(self).__name__
        target = one_hot(target_of(state, who), self.classes, who)
        ops = ops_of(target)
        shape = (len(shares), *(1 for _ in target.shape[1:]))
        weights = cast(ops.asarray(shares.astype(np.float32).reshape(shape), target), target)
        set_target(state, weights * target + (1.0 - weights) * rows_of(target, rows))
        self._publish(state, shares, rows)

    def on_sample_validation(self, state: State) -> None:
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
    if str(getattr(loss, "__module__", "")).partition(".")[0] in LIBRARIES:
        return False  # it takes one target; a second one would be the weights of the samples in Keras
    if not is_of_trial or takes_state(loss):  # that of an experiment gets MixedTargets
        return True
    try:
        given = parameters_of(loss)
    except (TypeError, ValueError):  # of C, without a signature
        return True
    return len(positional(given)) > 2 or has_more(given)


def _mixup_losses(state: State) -> Iterator[MixupLoss]:
    """Return those of an experiment; the criterion of a trial gets the state."""
    losses = state.get(keys.CRITERION)
    if isinstance(losses, Mapping):
        yield from (loss for loss in losses.values() if isinstance(loss, MixupLoss))
