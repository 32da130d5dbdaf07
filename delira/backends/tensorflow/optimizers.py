"""Optimizers of Keras, with what must happen between the gradients and the update."""

import functools
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow import schedules
from delira.backends.tensorflow.devices import share_number, together, updating
from delira.backends.tensorflow.runtime import in_share, learnable, runtime_of
from delira.backends.tensorflow.weights import assign
from delira.contract import ByName, Network, Optimizer, Tree, UpdateConfig, WrappedOptimizers
from delira.errors import ConfigError, NetworkError
from delira.utils.optimizing import both_of, building

#: what notes begin with; others with 0
_FIRST = {"scale": 2.0**16}
_STEPS_TO_GROW = 2000


class Role(NamedTuple):
    """What a step does with its gradients; it is known before the step, so that each is compiled apart."""

    is_part: bool = False
    """A part of a batch, with more to come."""
    has_parts: bool = False
    """Parts of the batch came before."""
    is_update: bool = True
    """The group of batches is complete with this one."""


class Sums:
    """Gradients that are added up until there is an update.

    Parameters
    ----------
    variables
        Those whose gradients there are.
    """

    def __init__(self, variables: Sequence[Any] = ()) -> None:
        self._totals = {id(one): tf.Variable(tf.zeros(one.shape), trainable=False) for one in variables}

    def add(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Add the gradients of variables."""
        for gradient, variable in zip(gradients, variables, strict=True):
            self._totals[id(variable)].assign_add(gradient)

    def read(self, variables: Sequence[Any]) -> list[Any]:
        """The sums of variables."""
        return [self._totals[id(variable)].read_value() for variable in variables]

    def write(self, values: Sequence[Any] | None = None) -> None:
        """Begin with the sums of all variables, or with 0."""
        for number, total in enumerate(self._totals.values()):
            total.assign(tf.zeros_like(total) if values is None else values[number])


class TfOptimizer:
    """A Keras optimizer that scales losses, accumulates and clips as configured, inside a compiled step too.

    A closure uses it so::

        with tf.GradientTape() as tape:
            loss = …
            scaled = optimizers["default"].scale_loss(loss)
        optimizers["default"].minimize(scaled, tape)

    or with ``apply(gradients, variables)`` for gradients it has computed itself. ``scale_loss`` may be left out: it
    is needed for fp16, and to leave out a batch whose loss is not finite while its gradients are.

    With ``in_parts`` a batch may come in parts, one closure call for each: their gradients, weighted by samples, make
    one update. A loss is a mean over samples; what the network itself computes over a batch (batch normalisation) it
    computes over each part.

    Parameters
    ----------
    optimizer
        The Keras optimizer; its other attributes are reached through this object.
    update
        What is done with the gradients.
    find
        Gives the variables it is responsible for, once they exist.
    strategy
        Of the devices that share out a batch, if there are several.
    """

    def __init__(
        self, optimizer: Optimizer, update: UpdateConfig, find: Callable[[], Sequence[Any]], strategy: Any = None
    ):
        self.optimizer, self.update, self._find, self._strategy = optimizer, update, find, strategy
        # bf16 alone needs nothing here
        self.is_plain = strategy is None and update in (UpdateConfig(), UpdateConfig(precision="bf16"))
        self.is_built = False
        self.role, self.n_samples = Role(), 1.0
        self.weights: Sequence[Any] = ()  # of the shares of the devices in the call at hand
        self.has_stepped = False  # in the call at hand
        #: gradients and variables that a closure of a trial has left for the update
        self.left: tuple[list[Any], list[Any]] | None = None
        self._n_batches = self._n_parts = 0  # of the group, and of the batch at hand
        self._is_scaled, self._loss_is_finite = False, None
        self._accumulates = update.accumulation_steps > 1 or update.in_parts
        self._notes: dict[str, tf.Variable] = {}
        self._sums, self._part_sums = Sums(), Sums()

    def build(self) -> None:
        """Create the state, when the weights are there."""
        if self.is_built:
            return
        self.variables_of_network = list(self._find())
        with tf.device(next((variable.value.device for variable in self.variables_of_network), None)):
            if not self.optimizer.built and self._strategy is None:
                self.optimizer.build(self.variables_of_network)
            elif not self.optimizer.built:
                self.optimizer._distribution_strategy = self._strategy
                with self._strategy.scope():
                    self.optimizer.build(self.variables_of_network)
            elif self._strategy is not None:
                raise ConfigError(
                    "an optimizer that is built already cannot train on several devices; return from optim_fn one that "
                    "has not seen the weights"
                )
            if not self.is_plain:
                names = ["skipped", "samples", "good", "part_samples", "part_is_bad"]
                names += ["scale", "good_updates"] if self.update.precision == "fp16" else []
                self._notes = {name: tf.Variable(_FIRST.get(name, 0.0), trainable=False, name=name) for name in names}
            if self._accumulates:
                self._sums = Sums(self.variables_of_network)
            if self.update.in_parts:
                self._part_sums = Sums(self.variables_of_network)
        self.is_built = True

    # ------------------------------------------------------------------ what a closure calls

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that are not frozen: a closure differentiates by these."""
        self.build()
        return [variable for variable in self.variables_of_network if variable.trainable]

    def scale_loss(self, loss: Any) -> Any:
        """The loss to differentiate."""
        if self.update.skip_nonfinite:
            self._loss_is_finite = tf.reduce_all(tf.math.is_finite(loss))
        if self.update.precision != "fp16":
            return loss
        self.build()
        self._is_scaled = True
        return tf.cast(loss, tf.float32) * self._notes["scale"]

    def minimize(self, loss: Any, tape: tf.GradientTape) -> None:
        """Update with the gradients of a loss that the tape has recorded, times the factor of :meth:`scale_loss`."""
        variables = self.trainable_variables
        self.apply(tape.gradient(loss, [variable.value for variable in variables]), variables)

    def apply(self, gradients: Sequence[Any], variables: Sequence[Any] | None = None) -> None:
        """Update variables, unless more parts of the batch, or more batches, are to be added first.

        Parameters
        ----------
        gradients
            Of each variable, of its shape; None where the loss does not depend on it.
        variables
            :attr:`trainable_variables` if None.

        Raises
        ------
        NetworkError
            If no variable has a gradient.
        ConfigError
            If the closure updates twice in a part of a batch.
        """
        self.build()
        chosen = self.trainable_variables if variables is None else list(variables)
        pairs = [pair for pair in zip(gradients, chosen, strict=True) if pair[0] is not None]
        if not pairs:
            raise NetworkError(
                f"no gradient reaches the {len(chosen)} weights of the optimizer; a loss is computed with TensorFlow, "
                "under the tape, from weights that are not frozen"
            )
        found, chosen = map(list, zip(*pairs, strict=True))
        if self.is_plain:
            self.has_stepped = True
            self.optimizer.apply(found, chosen)
            return
        values = [tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in found]
        if self._is_scaled:
            values = [value / self._notes["scale"] for value in values]
        # the next share comes here before this one is at the end
        is_finite, self._is_scaled, self._loss_is_finite = self._loss_is_finite, False, None
        if in_share():
            weight = self.weights[share_number()]
            bad = tf.constant(0.0) if is_finite is None else 1.0 - tf.cast(is_finite, tf.float32)
            together(
                lambda sums: self._take(sums[1:], chosen, sums[0] < 0.5), [bad, *(value * weight for value in values)]
            )
        else:
            self._take(values, chosen, is_finite)

    # ------------------------------------------------------------------ from gradients to the update

    def _take(self, gradients: list[Any], variables: list[Any], loss_is_finite: Any) -> None:
        """Add the gradients of a part or a batch, or update."""
        if self.role.is_part and self.has_stepped:
            raise ConfigError(
                "the closure updates the same weights twice in one batch, so the batch cannot be computed in parts; "
                "use a smaller batch_size"
            )
        self.has_stepped = True
        update, notes = self.update, self._notes
        is_bad: Any = tf.constant(False)
        if update.skip_nonfinite:
            finite = [] if loss_is_finite is None else [loss_is_finite]
            if update.precision != "fp16":  # there, infinite gradients mean that the scale is too high
                finite += [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]
            is_bad = tf.logical_not(tf.reduce_all(tf.stack([tf.constant(True), *finite])))
        samples = tf.constant(self.n_samples) if isinstance(self.n_samples, float) else self.n_samples
        if not self._accumulates:
            notes["skipped"].assign_add(tf.cast(is_bad, tf.float32))
            self._update(gradients, variables, is_bad, tf.constant(1.0))
            return
        weighted = [gradient * samples for gradient in gradients]
        if self.role.is_part or self.role.has_parts:
            is_bad = tf.logical_or(is_bad, notes["part_is_bad"] > 0)
            notes["part_is_bad"].assign(tf.cast(is_bad, tf.float32))
            notes["part_samples"].assign_add(samples)
            self._part_sums.add(weighted, variables)
            if self.role.is_part:
                return
            variables = self.variables_of_network
            weighted, samples = self._part_sums.read(variables), notes["part_samples"].read_value()
            self._forget(self._part_sums, "part_samples", "part_is_bad")
        keep = tf.where(is_bad, 0.0, 1.0)
        self._sums.add([tf.where(is_bad, tf.zeros_like(gradient), gradient) for gradient in weighted], variables)
        notes["samples"].assign_add(keep * samples)
        notes["good"].assign_add(keep)
        notes["skipped"].assign_add(1.0 - keep)
        if self.role.is_update:
            self._end_group()

    def _end_group(self) -> None:
        """Update with what the batches of the group have brought."""
        total = tf.maximum(self._notes["samples"].read_value(), 1.0)
        is_empty = self._notes["good"] < 0.5  # every batch was left out
        variables = self.trainable_variables
        gradients = [gradient / total for gradient in self._sums.read(variables)]
        good = self._notes["good"].read_value()
        self._forget(self._sums, "samples", "good")
        self._update(gradients, variables, is_empty, good)

    def _update(self, gradients: list[Any], variables: list[Any], leave_out: Any, good: Any) -> None:
        notes, is_masked = self._notes, self.update.skip_nonfinite
        if "scale" in notes:
            found = [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]
            is_infinite = tf.logical_and(tf.logical_not(leave_out), tf.logical_not(tf.reduce_all(tf.stack(found))))
            self._change_scale(is_infinite, leave_out)
            notes["skipped"].assign_add(tf.where(is_infinite, good, 0.0))
            leave_out, is_masked = tf.logical_or(leave_out, is_infinite), True

        def change() -> None:
            clipped = gradients
            if self.update.clip_norm is not None:
                clipped, _ = tf.clip_by_global_norm(clipped, self.update.clip_norm)
            if (value := self.update.clip_value) is not None:
                clipped = [tf.clip_by_value(gradient, -value, value) for gradient in clipped]
            with updating(self._strategy):
                self.optimizer.apply(clipped, variables)

        if is_masked:
            tf.cond(leave_out, lambda: None, change)
        else:
            change()

    def _change_scale(self, is_infinite: Any, leave_out: Any) -> None:
        """Halve the factor of the loss, or double it after a long while without infinite gradients."""
        scale, count = self._notes["scale"], self._notes["good_updates"]
        after = tf.where(is_infinite, 0.0, count + tf.where(leave_out, 0.0, 1.0))
        grows = after >= _STEPS_TO_GROW
        factor = tf.where(is_infinite, 0.5, tf.where(grows, 2.0, 1.0))
        scale.assign(scale * factor)
        count.assign(tf.where(grows, 0.0, after))

    def _forget(self, sums: Sums, *notes: str) -> None:
        sums.write()
        for name in notes:
            self._notes[name].assign(0.0)

    # ------------------------------------------------------------------ what the trainer calls

    @property
    def rate(self) -> float:
        """The learning rate; it cannot be set if it is a schedule of Keras."""
        return float(str(np.float32(self.optimizer.learning_rate)))

    @rate.setter
    def rate(self, rate: float) -> None:
        if not isinstance(self.optimizer._learning_rate, keras.Variable):
            raise ConfigError(
                "the learning rate of the optimizer is a schedule of Keras, which cannot be changed; give the schedule "
                "as lr_scheduler_cls and lr_scheduler_params, and the optimizer a number"
            )
        self.optimizer.learning_rate = rate

    @property
    def num_updates(self) -> int:
        """Updates so far; waits for the device."""
        return int(self.optimizer.iterations.numpy())

    @property
    def num_skipped(self) -> int:
        """Batches that were left out of updates; waits for the device."""
        return int(self._notes["skipped"].numpy()) if self._notes else 0

    def begin_batch(self, n_samples: int, is_last: bool, part: bool = False) -> None:
        """Say what the next closure call computes.

        Parameters
        ----------
        n_samples
            Number of samples of the batch, or of this part of it.
        is_last
            Whether the epoch ends with the batch.
        part
            Whether more parts of the same batch follow; only with ``in_parts``.
        """
        is_full = is_last or self._n_batches + 1 >= self.update.accumulation_steps
        self.n_samples, self.has_stepped = float(n_samples), False
        self.role = Role(part, self._n_parts > 0, is_full and not part)

    def end_batch(self) -> None:
        """Count what was computed."""
        if self.has_stepped and self.role.is_part:
            self._n_parts += 1
        elif self.has_stepped:
            self._n_parts, self._n_batches = 0, 0 if self.role.is_update else self._n_batches + 1

    def discard_parts(self) -> bool:
        """Forget the batch at hand, e.g. because the memory ran out; the group of earlier batches stays as it was.

        Returns
        -------
        bool
            Whether the batch can be computed again; not if it is part of an update or of the group already.
        """
        can_repeat = self._n_parts > 0 or not self.has_stepped
        self._n_parts = 0
        if self._notes:
            self._forget(self._part_sums, "part_samples", "part_is_bad")
        return can_repeat

    def flush(self) -> None:
        """Apply what is left of a group when the epoch ends."""
        if self._n_batches:
            self._end_group()
            self._n_batches = 0

    def pending_state(self) -> dict[str, Any]:
        """What a checkpoint keeps besides the Keras optimizer: the counts and, inside a group, the group so far."""
        if self.is_plain:
            return {}
        state: dict[str, Any] = {name: value.read_value() for name, value in self._notes.items()}
        if self._n_batches:
            state |= {"batches": self._n_batches, "sums": self._sums.read(self.variables_of_network)}
        return state

    def load_pending_state(self, state: ByName) -> None:
        """Continue from what :meth:`pending_state` has returned."""
        if self.is_plain:
            return
        for name, note in self._notes.items():
            note.assign(state.get(name, _FIRST.get(name, 0.0)))
        self._n_batches, self._n_parts = int(state.get("batches", 0)), 0
        self._sums.write(state.get("sums"))

    def __getattr__(self, name: str) -> Any:
        if name in ("optimizer", "variables_of_network"):  # not there yet
            raise AttributeError(name)
        return getattr(self.optimizer, name)


class TfOptimizers(WrappedOptimizers):
    """Optimizers of Keras in wrappers."""

    build_schedules = staticmethod(schedules.build_schedules)

    cure = "pass optimizer_cls=keras.optimizers.Adam, optimizer_params={'learning_rate': 1e-3}"

    def make(self, network: Network, optimizer_cls: Any, **params: Any) -> dict[str, Any]:
        return create_optims_default_tf(network, optimizer_cls, **params)

    def wrap(self, network: Network, made: ByName, update: UpdateConfig) -> dict[str, Any]:
        if update.precision == "auto":
            update = UpdateConfig(**{**vars(update), "precision": "bf16"})
        return {name: _wrapped(name, entry, network, update) for name, entry in made.items()}

    def check(self, network: Network, optimizers: ByName) -> None:
        own = {id(weight) for weight in learnable(network).values()}
        for name, wrapped in optimizers.items():
            optimizer = wrapped.optimizer
            if optimizer.built and own and own.isdisjoint(map(id, optimizer._trainable_variables)):
                raise ConfigError(
                    f"the optimizer {name!r} was built for {len(optimizer._trainable_variables)} weights, and none of "
                    f"them is one of the {type(network).__name__}; set a new optimizer with the network"
                )

    def copy(self, optimizer: Optimizer, network: Network, twin: Network) -> Any:
        return type(optimizer).from_config(optimizer.get_config())

    def none(self) -> keras.optimizers.Optimizer:
        optimizer = keras.optimizers.SGD(learning_rate=0.0)
        optimizer.updates_nothing = True
        return optimizer

    def noted(self, network: Network) -> Callable[[], None]:
        variables = [one for layer in network._flatten_layers() for one in layer._non_trainable_variables]
        return functools.partial(assign, variables, [variable.value.read_value() for variable in variables])


def create_optims_default_tf(model: Network, optim_cls: Any = None, **optim_params: Any) -> dict[str, Any]:
    """One optimizer of all weights, called ``"default"``.

    Parameters
    ----------
    model
        The network; it may be left out, as it was once.
    optim_cls
        A class of ``keras.optimizers``.
    **optim_params
        Its arguments; ``lr`` means ``learning_rate``.
    """
    cls, params = model if optim_cls is None else optim_cls, _keras_names(optim_params)
    with building(cls, params, TfOptimizers.cure):
        return {"default": cls(**params)}


def create_optims_gan_default_tf(model: Network, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """Two optimizers: ``"gen"`` of ``model.gen`` and ``"discr"`` of ``model.discr``.

    An entry of the dict is an optimizer of all weights, or ``(optimizer, layer)`` for those of a layer, or
    ``(optimizer, [layer, …])``.

    Parameters
    ----------
    model
        The network.
    optim_cls
        A class of ``keras.optimizers``.
    **optim_params
        Its arguments, for both; ``lr`` means ``learning_rate``.
    """
    params, (gen, discr) = _keras_names(optim_params), both_of(model)
    with building(optim_cls, params, TfOptimizers.cure):
        return {"gen": (optim_cls(**params), gen), "discr": (optim_cls(**params), discr)}


def _keras_names(params: ByName) -> dict[str, Any]:
    """The learning rate under the name, and of the type, that Keras has for it."""
    named = {"learning_rate" if name == "lr" else name: value for name, value in params.items()}
    rate = named.get("learning_rate")
    if isinstance(rate, Real) and not isinstance(rate, bool):
        named["learning_rate"] = float(rate)
    return named


def _wrapped(name: str, entry: Tree, network: Network, update: UpdateConfig) -> TfOptimizer:
    optimizer, of = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, network)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ConfigError(
            f"the optimizer {name!r} is a {type(optimizer).__name__}; it must be a Keras optimizer, or the tuple "
            "(Keras optimizer, layer)"
        )
    if optimizer.use_ema:
        raise ConfigError(
            f"the optimizer {name!r} has use_ema=True, whose averages Keras takes over only at the end of its own fit; "
            "use the callback delira.training.callbacks.ExponentialMovingAverage"
        )
    layers = list(of) if isinstance(of, (list, tuple)) else [of]
    if wrong := [type(layer).__name__ for layer in layers if not isinstance(layer, keras.Layer)]:
        raise ConfigError(f"the optimizer {name!r} is to train a {wrong[0]}; give it a layer or a list of layers")

    def find() -> list[Any]:
        if optimizer.built:
            return list(optimizer._trainable_variables)
        return list({id(v): v for layer in layers for v in learnable(layer).values()}.values())

    return TfOptimizer(optimizer, update, find, runtime_of(network).strategy)
