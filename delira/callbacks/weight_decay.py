"""Penalties on the weights, as a part of the loss."""

import math
from typing import Any

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.weights import Selection, WeightFilter, learned_weights
from delira.state import State
from delira.utils.arrays import ops_of
from delira.utils.checks import check_numbers, check_order


class WeightDecay(Callback):
    """Add ``rate`` times the p-norm of each weight to the loss, at every training step; not in validation.

    It is the norm, not its square: what optimizers call weight decay is another thing.

    Parameters
    ----------
    rate
        Factor of the norms, at least 0.
    p
        Order of the norm, at least 1; infinite: the largest absolute value of each weight.
    params
        Which weights: None for all that are learned; names; a function that is true for the names that are meant;
        or, of PyTorch, the parameters themselves.

    Raises
    ------
    ConfigError
        If ``rate`` or ``p`` is impossible; at the first step, if ``params`` names what is no weight.
    """

    phases = ("fit",)
    traceable = True
    needs_gradients = True

    def __init__(self, rate: float = 5e-4, p: float = 2, params: Selection = None):
        check_numbers(self, at_least=0, rate=rate)
        check_order(self, p=p)
        self.rate, self.p = rate, p
        self._filter = WeightFilter(params, type(self).__name__)

    def on_criterion(self, state: State) -> None:
        """Add the norms."""
        weights = learned_weights(state)
        chosen = self._filter.chosen(state, weights)
        for name, weight in weights.items():
            if name in chosen:
                # a new value: the old one may be a leaf, or shared
                state[keys.LOSS] = state[keys.LOSS] + self.rate * _norm(weight, self.p)


class L1WeightDecay(WeightDecay):
    """Add ``rate`` times the sum of the absolute values of each weight to the loss; see :class:`WeightDecay`.

    Parameters
    ----------
    rate, params
        As there.
    """

    def __init__(self, rate: float = 5e-4, params: Selection = None):
        super().__init__(rate, 1, params)


class L2WeightDecay(WeightDecay):
    """Add ``rate`` times the Euclidean norm of each weight to the loss; see :class:`WeightDecay`.

    Parameters
    ----------
    rate, params
        As there.
    """

    def __init__(self, rate: float = 5e-4, params: Selection = None):
        super().__init__(rate, 2, params)


def _norm(weight: Any, p: float) -> Any:
    """Return the p-norm over all values, with a gradient of 0 where all of them are 0."""
    ops = ops_of(weight)
    size = ops.as_float(abs(weight))
    if p == math.inf:
        return ops.largest(size)
    if p == 1:
        return ops.sum(size)
    total = ops.sum(size**p)
    # the root has no slope at 0, and 0 times infinity is no number: it is taken of 1 there
    return ops.where(total > 0, ops.where(total > 0, total, 1.0) ** (1.0 / p), 0.0)
