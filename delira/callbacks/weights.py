"""The weights of a network in a training: penalties, limits of their gradients, which of them learn, and averages."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from delira import errors
from delira.callbacks.abstract_callback import AbstractCallback, Callback, Trainer, trainer_of
from delira.state import EPOCH, GRADIENTS, LOSS, MODEL, SELF, State
from delira.utils.arrays import cast, ops_of

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
    if not isinstance(state, State) or SELF not in state:
        raise errors.ConfigError(f"learned_weights takes the state of a fit, as hooks get it, got {state!r}")
    return trainer_of(state).backend.weights.learned_weights(state[MODEL])


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
        is_right = hasattr(given, "__iter__") or hasattr(given, "shape")
        errors.check_that(is_right, who, "params are names of weights, a function of a name or weights", params)
        items = [given] if isinstance(given, str) or hasattr(given, "shape") else list(given)
        self._is_all = params is None
        self._names = {item for item in items if isinstance(item, str)}
        self._ids = {id(item) for item in items if not isinstance(item, str)}
        self._items = items  # their ids must stay theirs
        self._known: set[str] = set()

    @property
    def given(self) -> Selection:
        """What it was made of; weights themselves have no name that a file could have."""
        if self._ids:
            raise AttributeError("weights that were given as they are have no names here")
        return None if self._is_all else self._is_chosen or sorted(self._names)

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
            errors.check_known(sorted(unknown), self._known, f"{self._who}: params: there is no weight")
        if not self._ids:
            return self._names & names
        weights, model = learned_weights(state), state[MODEL]
        frozen = model.parameters() if hasattr(model, "named_parameters") else ()
        if self._ids - {id(weight) for weight in (*weights.values(), *frozen)}:
            raise errors.ConfigError(
                f"{self._who}: params holds what is no weight of the network; pass their names: {', '.join(weights)}"
            )
        return (self._names | {name for name, weight in weights.items() if id(weight) in self._ids}) & names


class _OfWeights(Callback):
    """Computes with weights that are chosen, or with their gradients, inside the step of a fit."""

    phases = ("fit",)
    traceable = True
    needs_gradients = True
    _filter: WeightFilter

    @property
    def params(self) -> Selection:
        """Which weights were chosen, by name."""
        return self._filter.given


class WeightDecay(_OfWeights):
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

    def __init__(self, rate: float = 5e-4, p: float = 2, params: Selection = None):
        errors.check_numbers(self, at_least=0, rate=rate)
        errors.check_order(self, p=p)
        self.rate, self.p = rate, p
        self._filter = WeightFilter(params, type(self).__name__)

    def on_criterion(self, state: State) -> None:
        """Add the norms."""
        weights = learned_weights(state)
        chosen = self._filter.chosen(state, weights)
        for name, weight in weights.items():
            if name in chosen:
                # a new value: the old one may be a leaf, or shared
                state[LOSS] = state[LOSS] + self.rate * _smooth_norm(weight, self.p)


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


class _Clipping(_OfWeights):
    """What limits gradients: only learning has any."""

    _setting = ""

    def attach(self, trainer: Trainer) -> None:
        """Refuse gradients that are not yet what they are updated with."""
        update = trainer.config.update
        if update.precision == "fp16" or update.accumulation_steps > 1:
            raise errors.ConfigError(
                f"{type(self).__name__} sees gradients before they are unscaled (fp16) and complete "
                f"(gradient_accumulation_steps); use the setting {self._setting}, which knows the whole"
            )

    def on_backward(self, state: State) -> None:
        """Limit the gradients."""
        gradients = dict(state[GRADIENTS])
        chosen = {name: _dense(gradients[name]) for name in sorted(self._filter.chosen(state, gradients))}
        if chosen:
            self._limit(chosen)
            state[GRADIENTS] = gradients | chosen

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
        errors.check_numbers(self, above=0, max_norm=max_norm)
        errors.check_order(self, norm_type=norm_type)
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
        errors.check_numbers(self, above=0, clip_value=clip_value)
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


class FreezeUnfreeze(Callback):
    """Freeze and unfreeze layers at the beginning of given epochs.

    Parameters
    ----------
    schedule
        Epoch, counted from 0 -> what learns from then on: None for all that learned at first; a name, or several, of
        weights or of layers (``"body"`` stands for every ``"body.…"``); or a function that is true for the names
        of weights that learn. Before the first of the epochs all learn.

    Raises
    ------
    ConfigError
        If an epoch is impossible; when an epoch begins, if a name is none of the network's, or nothing would learn.

    Examples
    --------
    >>> schedule = FreezeUnfreeze({0: "head", 5: ["head", "body.2"], 10: None})
    """

    phases = ("fit",)
    needs_gradients = True

    def __init__(self, schedule: Mapping[int, str | Iterable[str] | Callable[[str], bool] | None]):
        is_dict = isinstance(schedule, Mapping)
        errors.check_that(is_dict, "FreezeUnfreeze", "the schedule is a dict of what learns by epoch", schedule)
        listed = {}
        for epoch, chosen in schedule.items():
            errors.check_whole(self, at_least=0, epoch=epoch)
            if chosen is not None and not callable(chosen):
                errors.check_names("FreezeUnfreeze: schedule", chosen=chosen)
                # a list: a generator could be read once only
                chosen = [chosen] if isinstance(chosen, str) else list(chosen)
            listed[epoch] = chosen
        self.schedule: dict[int, Any] = dict(sorted(listed.items()))
        self._all: frozenset[str] = frozenset()

    def attach(self, trainer: Trainer) -> None:
        """Remember what learns without the schedule."""
        self._all = trainer.learned_names

    def on_start_epoch(self, state: State) -> None:
        """Freeze and unfreeze."""
        trainer = trainer_of(state)
        self._all = self._all or trainer.learned_names  # a network without shapes has no names at first
        begun = [epoch for epoch in self.schedule if epoch <= state[EPOCH]]
        names = self._names(self.schedule[begun[-1]]) if begun else self._all
        if names != trainer.learned_names:
            trainer.backend.weights.set_learned_names(trainer.module, names)

    on_start = on_start_epoch  # of a fit that is continued inside an epoch

    def _names(self, chosen: Any) -> frozenset[str]:
        if chosen is None:
            return self._all
        if callable(chosen):
            names = frozenset(filter(chosen, self._all))
        else:
            names = frozenset().union(*map(self._names_of, chosen))
        if not names:
            raise errors.ConfigError(
                f"FreezeUnfreeze would freeze all weights; there are {', '.join(sorted(self._all))}"
            )
        return names

    def _names_of(self, layer: str) -> frozenset[str]:
        names = frozenset(name for name in self._all if name == layer or name.startswith(f"{layer}."))
        if not names:
            raise errors.ConfigError(
                f"FreezeUnfreeze: there is no layer {layer!r}{errors.did_you_mean(layer, sorted(self._all))}"
            )
        return names


class WeightAverage(AbstractCallback):
    """An average of the weights, which a trainer validates, selects and keeps instead of the weights."""

    _average: Any = None
    _trainer: Any = None

    def attach(self, trainer: Trainer) -> None:
        """Become the average of this trainer; its backend must be able to average."""
        trainer.averages.use(self)
        self._trainer = trainer

    def __getstate__(self) -> dict[str, Any]:
        # a copy is attached to a trainer of its own, which has the average of the checkpoint that it goes on from
        return {name: value for name, value in vars(self).items() if name not in ("_trainer", "_average")}

    def take(self, network: object) -> None:
        """Let the weights of ``network``, which a checkpoint held, be the average so far."""
        self._average = self._trainer.backend.weights.average(None, network, 0.0)

    def _move(self, before: object, decay: float) -> None:
        """Let the average be ``decay`` of the one before, and the rest of the weights as they are."""
        self._average = self._trainer.backend.weights.average(before, self._trainer.module, decay)


class ExponentialMovingAverage(WeightAverage):
    """Validate, select and keep an exponential moving average of the weights instead of the weights.

    The average moves by ``1 - decay`` towards the weights after every update. It is what the network has during
    validation and after ``train``, and what checkpoints hold under ``"model"``; the weights that are trained are
    beside it, as ``"training_model"``. Buffers (statistics of normalisation layers) are not averaged: see
    ``update_statistics``.

    Parameters
    ----------
    decay
        Part of the old average that is kept, in [0, 1).
    warmup
        Begin with smaller decays: ``min(decay, (1 + n) / (10 + n))`` in the n-th update, as
        ``tf.train.ExponentialMovingAverage`` has it with ``num_updates``.
    update_statistics
        Whether the running statistics of normalisation layers are computed anew for the average, by a pass over the
        training data (forward only, in training mode, with the transforms of the training) before each validation, and
        each checkpoint at the end of an epoch. If not, the average has those of the trained weights, which is said
        where there are any, in the log and in the warnings of the result.

    Raises
    ------
    ConfigError
        If ``decay`` is impossible, the trainer has such a callback already, or ``update_statistics`` is asked for of
        layers that ``torch.jit.trace`` has fixed.

    References
    ----------
    Polyak and Juditsky, Acceleration of stochastic approximation by averaging, SIAM J. Control Optim. 30 (1992).
    """

    _kept = ("n_updates",)

    def __init__(self, decay: float = 0.999, warmup: bool = True, update_statistics: bool = False):
        errors.check_numbers(self, at_least=0, decay=decay)
        errors.check_flags(self, warmup=warmup, update_statistics=update_statistics)
        errors.check_that(decay < 1, "ExponentialMovingAverage", "decay must be at least 0 and below 1", decay)
        self.decay, self.warmup, self.update_statistics = decay, warmup, update_statistics
        self.n_updates = self._seen = 0

    def attach(self, trainer: Trainer) -> None:
        """Become the average of this trainer, and begin with the weights as they are."""
        super().attach(trainer)
        self.take(trainer.module)

    def at_training_begin(self, trainer: Trainer, **facts: Any) -> None:
        """Count updates from here on."""
        self._seen = self._count()

    def at_iter_end(self, trainer: Trainer, **facts: Any) -> None:
        """Follow the weights, if they were updated."""
        self._follow()

    def weights(self) -> dict[str, Any]:
        """Return the average, by the names of the weights; arrays of the framework."""
        self._follow()  # the end of an epoch may bring one more update
        return dict(self._average)

    def take(self, network: object) -> None:
        """Let the weights of ``network`` be the average."""
        super().take(network)
        self._seen = self._count()

    def _follow(self) -> None:
        before, self._seen = self._seen, self._count()
        if self._seen != before:
            self.n_updates += 1
            decay = min(self.decay, (1 + self.n_updates) / (10 + self.n_updates)) if self.warmup else self.decay
            self._move(self._average, decay)

    def _count(self) -> int:
        """Updates so far; where optimizers do not count them, steps."""
        counted = [one.num_updates for one in self._trainer.optimizers.values() if hasattr(one, "num_updates")]
        return sum(counted) if counted else self._trainer.state.global_step


class SWA(WeightAverage, Callback):
    """Validate, select and keep the mean of the weights at the ends of epochs instead of the weights.

    The mean is what the network has during validation and after the fit, from the epoch ``start_epoch`` on, and what
    checkpoints hold under ``"model"``; the weights that are trained are beside it, as ``"training_model"``. Buffers
    (statistics of normalisation layers) are not averaged: see ``update_statistics``. The learning rate is a schedule's:
    a constant one, or cycles.

    Parameters
    ----------
    start_epoch
        The first epoch whose weights count, from 0.
    period
        Epochs from one that counts to the next.
    update_statistics
        Whether the running statistics of normalisation layers are computed anew for the mean, as the paper has it
        (section 3.2) and as ``torch.optim.swa_utils.update_bn`` does: by a pass over the training data (forward only,
        in training mode, with the transforms of the training) before each validation, and each checkpoint at the end
        of an epoch. If not, the mean has those of the trained weights, which is said where there are any, in the log
        and in the warnings of the result.

    Raises
    ------
    ConfigError
        If a number is impossible, the trainer averages weights already, or there are statistics to be updated of
        layers that ``torch.jit.trace`` has fixed.

    References
    ----------
    Izmailov et al., Averaging weights leads to wider optima and better generalization, UAI 2018, arXiv:1803.05407.
    """

    phases = ("fit",)
    _kept = ("n_averaged",)

    def __init__(self, start_epoch: int = 0, period: int = 1, update_statistics: bool = True):
        errors.check_whole(self, at_least=0, start_epoch=start_epoch)
        errors.check_whole(self, at_least=1, period=period)
        errors.check_flags(self, update_statistics=update_statistics)
        self.start_epoch, self.period, self.update_statistics = start_epoch, period, update_statistics
        self.n_averaged = 0

    def on_end_training(self, state: State) -> None:
        """Take the weights of an epoch into the mean."""
        epochs = state[EPOCH] - self.start_epoch
        if epochs >= 0 and epochs % self.period == 0:
            self._move(self._average if self.n_averaged else None, self.n_averaged / (self.n_averaged + 1))
            self.n_averaged += 1

    def weights(self) -> dict[str, Any] | None:
        """Return the mean, by the names of the weights; None before the first epoch that counts."""
        return dict(self._average) if self.n_averaged else None
