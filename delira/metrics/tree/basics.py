"""Loss, epoch and learning rate as metrics."""

from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.metrics.loss_weights import Weigh, weigh
from delira.metrics.tree.hanging import default_for_key, mean, running_mean
from delira.metrics.tree.metric import Fleeting
from delira.metrics.tree.moments import Weighted
from delira.metrics.tree.roots import for_samples
from delira.state import CRITERION, EPOCH, LOSS, OPTIMIZER, SELF, Y_TRUE
from delira.utils.arrays import as_array, ops_of, read_arrays
from delira.utils.optimizing import rates_of_groups


@default_for_key("loss")
@running_mean
@mean
class Loss(Fleeting):
    """The loss; that of a batch, which is a mean over its samples, counts for all of them.

    Of losses with class weights or targets left out it counts as these do (:func:`delira.metrics.loss_weights.weigh`).
    """

    is_fresh = True
    higher_is_better = False
    #: whether training steps whose loss is not finite are left out, as the update is
    skips_nonfinite = False

    def __init__(self) -> None:
        super().__init__("loss")
        self._weighed: tuple[Any, Weigh | None] = (None, None)

    def process(self, *args: Any) -> Any:
        """Return the loss of the batch."""
        state = args[0]
        if self._weighed[0] is not state.get(CRITERION):
            self._weighed = (state[CRITERION], weigh(state[CRITERION]))
        loss, count = state[LOSS], self._weighed[1]
        weight = count(state[Y_TRUE]) if count is not None and getattr(loss, "shape", None) == () else None
        weighed = for_samples(loss, state) if weight is None else Weighted(loss, weight)
        if type(weighed) is not Weighted:
            return weighed
        if self.skips_nonfinite and self.is_training:
            value, weight = as_array(weighed.value), weighed.weight
            is_finite = value - value == 0  # without waiting for the device
            weight = float(weight) if isinstance(weight, (int, float, np.generic)) else weight
            return Weighted(value, weight * ops_of(value).wide(is_finite))
        return weighed


@default_for_key("epoch")
class Epoch(Fleeting):
    """The number of the epoch as the state has it, from 0.

    The records of a trial have a number of their own under that name, from 1; this one they have of validations only,
    as ``val_epoch``.
    """

    is_fresh = True

    def __init__(self) -> None:
        super().__init__("epoch")

    def process(self, *args: Any) -> Any:
        """Return the number."""
        return args[0][EPOCH]

    process_final = process


@default_for_key("lr")
class LR(Fleeting):
    """The learning rate, in training only; a list for an optimizer with several groups of parameters.

    Asked for is ``learning_rates()`` of what the state has under ``SELF``, which gives a list; without it, what the
    optimizer itself has: ``param_groups`` of PyTorch, ``learning_rate`` of Keras.
    """

    is_fresh = True

    def __init__(self) -> None:
        super().__init__("lr")

    def process(self, *args: Any) -> Any:
        """Return the rate."""
        if not self.is_training:
            return None
        rates = _rates(args[0])
        return rates[0] if len(rates) == 1 else rates

    def process_final(self, *args: Any) -> Any:
        return self.process(*args)


def _rates(state: Any) -> list[float]:
    owner, optimizer = state.get(SELF), state[OPTIMIZER]
    if callable(getattr(owner, "learning_rates", None)):
        rates = [float(rate) for rate in owner.learning_rates()]
        if rates or optimizer is None:
            return rates
    if hasattr(optimizer, "param_groups"):
        return rates_of_groups([optimizer])
    if hasattr(optimizer, "learning_rate"):
        return [float(str(read_arrays([as_array(optimizer.learning_rate)])[0]))]
    raise ConfigError(
        f"the metric 'lr' does not know the learning rate of {type(optimizer).__name__}; "
        "leave it out, or list a function of the state, e.g. to_dict(lambda state: ...); a transformation of optax "
        "tells it if it was made by optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)"
    )
