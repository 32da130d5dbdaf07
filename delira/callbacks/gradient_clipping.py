"""Limits of the gradients, before the optimizer sees them."""

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.weights import Selection, WeightFilter
from delira.errors import ConfigError
from delira.state import State
from delira.utils.array_functions import cast
from delira.utils.arrays import ops_of
from delira.utils.checks import check_numbers, check_order

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class _Clipping(Callback):
    """What limits gradients: only learning has any."""

    phases = ("fit",)
    traceable = True
    needs_gradients = True
    _setting = ""

    def attach(self, trainer: "BaseNetworkTrainer") -> None:
        """Refuse gradients that are not yet what they are updated with."""
        update = trainer.config.update
        if update.precision == "fp16" or update.accumulation_steps > 1:
            raise ConfigError(
                f"{type(self).__name__} sees gradients before they are unscaled (fp16) and complete "
                f"(gradient_accumulation_steps); use the setting {self._setting}, which knows the whole"
            )


class GradientNormClipping(_Clipping):
    """Scale the gradients of every batch down so that their common norm is at most ``max_norm``.

    As ``torch.nn.utils.clip_grad_norm_``, on every backend.

    Parameters
    ----------
    max_norm
        The largest norm, above 0.
    norm_type
        Order of the norm, at least 1; ``float("inf")``: the largest value.
    params
        Whose gradients; see :class:`WeightDecay`. None: all.

    Raises
    ------
    ConfigError
        If a number is impossible; if gradients are accumulated, or scaled for half precision; at the first step, if
        ``params`` names what is no weight.

    References
    ----------
    Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, ICML 2013.
    """

    _setting = "gradient_clip_norm"

    def __init__(self, max_norm: float, norm_type: float = 2, params: Selection = None):
        check_numbers(self, above=0, max_norm=max_norm)
        check_order(self, norm_type=norm_type)
        self.max_norm, self.norm_type = max_norm, norm_type
        self._filter = WeightFilter(params, "GradientNormClipping")

    def on_backward(self, state: State) -> None:
        """Scale the gradients."""
        gradients = dict(state[keys.GRADIENTS])
        chosen = sorted(self._filter.chosen(state, gradients))
        if not chosen:
            return
        dense = {name: _dense(gradients[name]) for name in chosen}
        limit = self.max_norm / (_norm([*dense.values()], self.norm_type) + 1e-6)
        factor = ops_of(limit).where(limit < 1, limit, 1.0)
        gradients.update({name: gradient * cast(factor, gradient) for name, gradient in dense.items()})
        state[keys.GRADIENTS] = gradients


class GradientClipping(_Clipping):
    """Limit each value of the gradients of every batch to ``[-clip_value, clip_value]``.

    Parameters
    ----------
    clip_value
        The limit, above 0.
    params
        Whose gradients; see :class:`WeightDecay`. None: all.

    Raises
    ------
    ConfigError
        If ``clip_value`` is impossible; if gradients are accumulated, or scaled for half precision; at the first
        step, if ``params`` names what is no weight.
    """

    _setting = "gradient_clip_value"

    def __init__(self, clip_value: float, params: Selection = None):
        check_numbers(self, above=0, clip_value=clip_value)
        self.clip_value = clip_value
        self._filter = WeightFilter(params, "GradientClipping")

    def on_backward(self, state: State) -> None:
        """Limit the gradients."""
        gradients, limit = dict(state[keys.GRADIENTS]), self.clip_value
        for name in self._filter.chosen(state, gradients):
            gradient = _dense(gradients[name])
            ops = ops_of(gradient)
            # a gradient that is no number stays one, so that it is found
            low = ops.where((gradient > -limit) | (gradient != gradient), gradient, -limit)
            gradients[name] = ops.where((low < limit) | (low != low), low, limit)
        state[keys.GRADIENTS] = gradients


def _dense(gradient: object) -> Any:
    """Return the gradient as an array: that of an embedding of TensorFlow has only the rows that were used."""
    return ops_of(gradient).xp.convert_to_tensor(gradient) if hasattr(gradient, "dense_shape") else gradient


def _norm(gradients: Sequence[Any], p: float) -> Any:
    """Return the p-norm over all values of all arrays."""
    ops = ops_of(gradients[0])
    sizes = [ops.as_float(abs(gradient)) for gradient in gradients]
    if math.isinf(p):
        return functools.reduce(ops.xp.maximum, [ops.largest(size) for size in sizes])
    return sum(ops.sum(size**p) for size in sizes) ** (1.0 / p)
