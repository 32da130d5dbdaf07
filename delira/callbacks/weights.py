"""The weights of a network as the step differentiates them: penalties on them, and limits of their gradients."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import Trainer
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import trainer_of
from delira.errors import ConfigError
from delira.state import State
from delira.utils.arrays import cast, ops_of
from delira.utils.checks import check_known, check_numbers, check_order

#: which weights: None for all that are learned, names, a function that is true for names, or the weights themselves
Selection = None | str | Iterable[Any] | Callable[[str], bool]


def learned_weights(state: State) -> dict[str, Any]:
    """Return the learned weights of the state's network by name; arrays of the framework, through which gradients go.

    Parameters
    ----------
    state
        Of the fit, at any hook.

    Raises
    ------
    ConfigError
        If it is no state of a fit.
    """
    if not isinstance(state, State) or keys.SELF not in state:
        raise ConfigError(f"learned_weights takes the state of a fit, as hooks get it, got {state!r}")
    return trainer_of(state).backend.weights.learned_weights(state[keys.MODEL])


class WeightFilter:
    """Chooses among weights by name.

    Parameters
    ----------
    params
        None: all. A name, or several; a function that is true for the names that are chosen; or the weights
        themselves, as ``network.parameters()`` of PyTorch gives them.
    who
        For messages.
    """

    def __init__(self, params: Selection, who: str):
        # its attributes are in the manifests of runs
        self._who, self._is_chosen = who, params if callable(params) and not hasattr(params, "shape") else None
        given: Any = [] if params is None or self._is_chosen else params
        # a list: a generator, which network.parameters() is, could be read once only
        if not hasattr(given, "__iter__") and not hasattr(given, "shape"):
            raise ConfigError(f"{who}: params are names of weights, a function of a name or weights, got {params!r}")
        items = [given] if isinstance(given, str) or hasattr(given, "shape") else list(given)
        self._is_all = params is None
        self._names = {item for item in items if isinstance(item, str)}
        self._ids = {id(item) for item in items if not isinstance(item, str)}
        self._items = items  # their ids must stay theirs
        self._known: set[str] = set()

    def chosen(self, state: State, there: Iterable[str]) -> set[str]:
        """Return those of the names that are chosen.

        Raises
        ------
        ConfigError
            If a name, or a weight, is none of the network's.
        """
        names = set(there)
        if self._is_all:
            return names
        if self._is_chosen is not None:
            return set(filter(self._is_chosen, names))
        if unknown := self._names - names:  # weights that are frozen just now are no mistake
            trainer = trainer_of(state)
            self._known = self._known or set(trainer.backend.checkpoints.state_tree(trainer.module, {})["model"])
            check_known(sorted(unknown), self._known, f"{self._who}: params: there is no weight")
        if not self._ids:
            return self._names & names
        weights, model = learned_weights(state), state[keys.MODEL]
        frozen = model.parameters() if hasattr(model, "named_parameters") else ()
        if self._ids - {id(weight) for weight in (*weights.values(), *frozen)}:
            raise ConfigError(
                f"{self._who}: params holds what is no weight of the network; pass their names: {', '.join(weights)}"
            )
        return (self._names | {name for name, weight in weights.items() if id(weight) in self._ids}) & names


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
                state[keys.LOSS] = state[keys.LOSS] + self.rate * _smooth_norm(weight, self.p)


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


def _smooth_norm(weight: Any, p: float) -> Any:
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


class _Clipping(Callback):
    """What limits gradients: only learning has any."""

    phases = ("fit",)
    traceable = True
    needs_gradients = True
    _setting = ""
    _filter: WeightFilter

    def attach(self, trainer: Trainer) -> None:
        """Refuse gradients that are not yet what they are updated with."""
        update = trainer.config.update
        if update.precision == "fp16" or update.accumulation_steps > 1:
            raise ConfigError(
                f"{type(self).__name__} sees gradients before they are unscaled (fp16) and complete "
                f"(gradient_accumulation_steps); use the setting {self._setting}, which knows the whole"
            )

    def on_backward(self, state: State) -> None:
        """Limit the gradients."""
        gradients = dict(state[keys.GRADIENTS])
        chosen = {name: _dense(gradients[name]) for name in sorted(self._filter.chosen(state, gradients))}
        if chosen:
            self._limit(chosen)
            state[keys.GRADIENTS] = gradients | chosen

    def _limit(self, gradients: dict[str, Any]) -> None:
        """Change the gradients that are chosen, by name."""


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

    def _limit(self, gradients: dict[str, Any]) -> None:
        """Scale the gradients."""
        limit = self.max_norm / (_norm([*gradients.values()], self.norm_type) + 1e-6)
        factor = ops_of(limit).where(limit < 1, limit, 1.0)
        for name, gradient in gradients.items():
            gradients[name] = gradient * cast(factor, gradient)


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

    def _limit(self, gradients: dict[str, Any]) -> None:
        """Cut values off."""
        limit = self.clip_value
        for name, gradient in gradients.items():
            ops = ops_of(gradient)
            # a gradient that is no number stays one, so that it is found
            low = ops.where((gradient > -limit) | (gradient != gradient), gradient, -limit)
            gradients[name] = ops.where((low < limit) | (low != low), low, limit)


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
