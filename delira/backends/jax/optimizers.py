"""Optimizers of JAX: an optax transformation with what must happen between the gradients and the update."""

import contextlib
import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from delira.backends.jax import graph, schedules
from delira.backends.jax.arrays import is_key
from delira.contract import Array, ByName, Network, Optimizer, Tree, UpdateConfig, WrappedOptimizers
from delira.errors import ConfigError, NetworkError
from delira.utils.optimizing import both_of, building

#: what optax calls it
RATE = "learning_rate"


class Plan(NamedTuple):
    """What an update does; a compiled step is traced once for each."""

    is_part: bool = False
    """More parts of the batch follow."""
    applies: bool = True
    """The weights change."""


class JaxOptimizer:
    """An optax transformation of the weights of one module, which accumulates, clips and skips as configured.

    A closure uses it like an ``nnx.Optimizer``, with the loss as ``value`` if it is to be looked at too::

        (loss, aux), gradients = nnx.value_and_grad(compute, has_aux=True)(model)
        optimizers["default"].update(model, gradients, value=loss)

    Of a network with several optimizers each has its own module::

        gradients = nnx.grad(lambda gen: adversarial(gen, model.discr))(model.gen)
        optimizers["gen"].update(model.gen, gradients)

    Weights whose metadata say ``frozen`` stay as they are, with the optimizer's state of them, whatever the gradients
    are; gradients that are missing count as 0.

    Parameters
    ----------
    module
        The module whose weights (``nnx.Param``) are updated.
    transformation
        From optax. Its learning rate can be changed if it was made by ``optax.inject_hyperparams``, as
        :func:`create_optims_default_jax` does.
    """

    def __init__(self, module: nnx.Module, transformation: optax.GradientTransformation):
        if not callable(getattr(transformation, "update", None)) or not callable(getattr(transformation, "init", None)):
            raise ConfigError(f"a JaxOptimizer takes a transformation of optax, got {transformation!r}")
        if not isinstance(module, nnx.Module):
            raise ConfigError(f"a JaxOptimizer learns the weights of a module of flax.nnx, got {module!r}")
        self.module, self.transformation = module, optax.with_extra_args_support(transformation)
        self.config = UpdateConfig()
        weights = graph.weight_values(module)
        if not weights:
            raise ConfigError(f"{type(module).__name__} has no weights (nnx.Param) that an optimizer could learn")
        self.shapes = {name: tuple(value.shape) for name, value in weights.items()}
        self.state: dict[str, Any] = {"optax": self._placed(self.transformation.init(weights))}
        #: sums for an update to come: of the ``"parts"`` of a batch, and of the batches of a ``"group"``
        self.pending: dict[str, Any] = {}
        self.plan, self.n_samples, self.num_calls = Plan(), np.float32(1), 0  # of the closure call at hand
        #: a network and its gradients, which a closure of a trial has left for the update
        self.left: tuple[Any, Any] | None = None
        self._num_updates, self._group = 0, 0  # since the beginning, and batches since the last one
        self._rate: float | None = None  # the learning rate without the rounding of the device

    def _placed(self, tree: Tree) -> Any:
        """The arrays where the weights are, and of the types that they have after an update."""
        sharding = next(iter(graph.weight_values(self.module).values())).sharding
        replicated = sharding if len(sharding.device_set) > 1 else next(iter(sharding.device_set))

        def place(leaf: Array) -> jax.Array:
            strong = leaf if is_key(leaf) else np.array(leaf, dtype=jnp.asarray(leaf).dtype)
            return jax.device_put(strong, replicated)

        return jax.tree.map(place, tree)

    def configure(self, update: UpdateConfig) -> None:
        """Say what is done with the gradients."""
        self.config = update
        if update.skip_nonfinite:
            self.state |= {"skipped": jnp.zeros((), jnp.int32), "updates": jnp.zeros((), jnp.int32)}

    # ------------------------------------------------------------------ what a closure calls

    def update(self, model: nnx.Module, grads: Any, **extra: Any) -> None:
        """Update the weights, unless more parts of the batch, or more batches, are to be added first.

        Parameters
        ----------
        model
            The module that the optimizer was made for, as the closure got it.
        grads
            Gradients of its weights, from ``nnx.grad`` or ``nnx.value_and_grad``.
        **extra
            For optax. ``value``, the loss, is looked at too if steps with losses that are not finite are left out.

        Raises
        ------
        ConfigError
            If the closure updates twice in a batch whose gradients are to be added to others.
        NetworkError
            If the gradients are not those of the module's weights.
        """
        if self.num_calls and (self.config.accumulation_steps > 1 or self.config.in_parts):
            raise ConfigError(
                "the closure updates the same weights twice in one batch, so its gradients can neither be accumulated "
                "nor computed in parts; leave gradient_accumulation_steps and micro_batches out"
            )
        weights = graph.weights_of(model)
        gradients = self._gradients(model, weights, grads)
        looked_at = [array for array in (*gradients.values(), extra.get("value")) if array is not None]
        is_fine = (
            jnp.stack([jnp.isfinite(array).all() for array in looked_at]).all() if self.config.skip_nonfinite else None
        )
        self.num_calls += 1
        combined = self._combine(gradients, is_fine)
        if combined is not None:
            self._apply(weights, *combined, extra)

    def _gradients(self, model: nnx.Module, weights: ByName, grads: Any) -> dict[str, Any]:
        """Gradients of all weights by name; 0 for frozen weights, and where there is none."""
        own = {name: tuple(variable.shape) for name, variable in weights.items()}
        given = {graph.dotted(path): graph.raw(leaf) for path, leaf in graph.flat_state(grads)}
        if own != self.shapes or given.keys() - own.keys():
            raise NetworkError(
                f"the optimizer was made for the weights {_shortened(self.shapes)}, but got the {type(model).__name__} "
                f"with {_shortened(own)} and gradients of {_shortened(given)}; pass it the module that it was made "
                "for, and gradients of that module"
            )
        return {
            name: jnp.zeros_like(variable.get_raw_value())
            if name not in given or graph.is_frozen(variable)
            else given[name]
            for name, variable in weights.items()
        }

    def _combine(self, gradients: dict[str, Any], is_fine: Any) -> tuple[dict[str, Any], Any] | None:
        """Gradients to update with, and whether to (``None``: yes); ``None`` if more are to be added first."""
        plan, parts, group = self.plan, self.pending.get("parts"), self.pending.get("group")
        accumulates, total = self.config.accumulation_steps > 1, jnp.asarray(self.n_samples, jnp.float32)
        is_sum = accumulates or plan.is_part or parts is not None
        if is_sum:
            gradients = optax.tree.scale(total, gradients)
        if parts is not None:
            gradients, total = jax.tree.map(jnp.add, (gradients, total), (parts["sums"], parts["samples"]))
            is_fine = None if is_fine is None else is_fine & parts["fine"]
        if plan.is_part:
            fine = {} if is_fine is None else {"fine": is_fine}
            self.pending = {**self.pending, "parts": {"sums": gradients, "samples": total, **fine}}
            return None
        self.pending = {}
        if is_fine is not None:
            self.state["skipped"] += (~is_fine).astype(jnp.int32)
        if accumulates:
            if is_fine is not None:
                gradients, total = jax.tree.map(lambda array: jnp.where(is_fine, array, 0), (gradients, total))
            if group is not None:
                gradients, total = jax.tree.map(jnp.add, (gradients, total), (group["sums"], group["samples"]))
            if not plan.applies:
                self.pending = {"group": {"sums": gradients, "samples": total}}
                return None
            is_fine = None if is_fine is None else total > 0
        if is_sum:
            gradients = optax.tree.scale(1 / jnp.maximum(total, 1), gradients)
        return gradients, is_fine

    def _apply(self, weights: ByName, gradients: dict[str, Any], is_fine: Any, extra: ByName) -> None:
        """Clip, let optax compute the update, and change the weights."""
        config, before = self.config, self.state["optax"]
        values = {name: variable.get_raw_value() for name, variable in weights.items()}
        if config.clip_norm is not None:
            # as torch does: a norm of 0 must not divide
            factor = jnp.minimum(1, config.clip_norm / (optax.tree.norm(gradients) + 1e-6))
            gradients = optax.tree.scale(factor, gradients)
        if config.clip_value is not None:
            gradients = optax.tree.clip(gradients, -config.clip_value, config.clip_value)
        updates, after = self.transformation.update(gradients, before, values, **extra)
        changed = optax.apply_updates(values, updates)
        if frozen := {name for name, variable in weights.items() if graph.is_frozen(variable)}:
            changed |= {name: values[name] for name in frozen}
            after = jax.tree_util.tree_map_with_path(
                lambda path, new, old: old if any(getattr(step, "key", None) in frozen for step in path) else new,
                after,
                before,
            )
        if is_fine is not None:
            self.state["updates"] += is_fine.astype(jnp.int32)
            changed, after = optax.tree.where(is_fine, (changed, after), (values, before))
        self.state["optax"] = after
        for name, variable in weights.items():
            variable.set_raw_value(changed[name])

    # ------------------------------------------------------------------ what the trainer calls

    @property
    def is_plain(self) -> bool:
        """Return True if batches are not weighted by their samples."""
        return self.config.accumulation_steps == 1 and not self.config.in_parts

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
        applies = not part and (is_last or self._group + 1 >= self.config.accumulation_steps)
        self.plan, self.n_samples = Plan(part, applies), np.float32(n_samples)

    def end_batch(self) -> None:
        """Do nothing: calls are counted one by one."""

    def begin_call(self) -> Plan:
        """What the update of the coming closure call will do."""
        self.num_calls = 0
        return self.plan

    def end_call(self, num_calls: int) -> None:
        """Count what the closure call did."""
        self.num_calls = num_calls
        if num_calls and self.plan.applies:
            self._group, self._num_updates = 0, self._num_updates + num_calls
        elif num_calls and not self.plan.is_part:
            self._group += 1

    def traced(self, plan: Plan, state: dict[str, Any], pending: dict[str, Any], n_samples: Any) -> "JaxOptimizer":
        """A twin with other arrays, for one call inside of a compiled step."""
        twin = copy.copy(self)
        twin.plan, twin.state, twin.pending, twin.n_samples, twin.num_calls = plan, state, pending, n_samples, 0
        return twin

    def discard_parts(self) -> bool:
        """Forget the parts of the current batch; return True unless an update contains some of them already."""
        self.pending.pop("parts", None)
        return self.plan.is_part or not self.num_calls

    def flush(self) -> None:
        """Apply what is left of a group when the epoch ends."""
        if not self._group:
            return
        group = self.pending.pop("group")
        is_fine = group["samples"] > 0 if self.config.skip_nonfinite else None
        gradients = optax.tree.scale(1 / jnp.maximum(group["samples"], 1), group["sums"])
        self._apply(graph.weights_of(self.module), gradients, is_fine, {})
        self._group, self._num_updates = 0, self._num_updates + 1

    @property
    def num_updates(self) -> int:
        """Updates so far; waits for the device if some may have been left out."""
        return int(self.state["updates"]) if "updates" in self.state else self._num_updates

    @property
    def num_skipped(self) -> int:
        """Batches that were left out of updates so far."""
        return int(self.state["skipped"]) if "skipped" in self.state else 0

    # ------------------------------------------------------------------ the learning rate

    def _hyperparams(self) -> Iterator[dict[str, Any]]:
        """The places in optax' state that hold a learning rate."""
        for node in _nodes(self.state["optax"]):
            hyperparams = getattr(node, "hyperparams", None)
            if isinstance(hyperparams, dict) and RATE in hyperparams:
                yield hyperparams

    @property
    def rate(self) -> float | None:
        """The learning rate; ``None`` if the transformation hides it."""
        for hyperparams in self._hyperparams():
            shown = float(hyperparams[RATE])
            return shown if self._rate is None or np.float32(self._rate) != np.float32(shown) else self._rate
        return None

    @rate.setter
    def rate(self, rate: float) -> None:
        scheduled = any(RATE in getattr(node, "hyperparams_states", {}) for node in _nodes(self.state["optax"]))
        places = list(self._hyperparams())
        if scheduled or not places:
            why = "is a schedule of optax already" if scheduled else "is hidden inside of the transformation"
            raise ConfigError(
                f"the learning rate {why}, so nothing else can change it; give optimizer_cls and a number as lr, or "
                "make the transformation by optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)"
            )
        for hyperparams in places:
            old = hyperparams[RATE]
            hyperparams[RATE] = jax.device_put(np.asarray(rate, old.dtype), old.sharding)
        self._rate = float(rate)

    # ------------------------------------------------------------------ checkpoints

    def pending_state(self) -> dict[str, Any]:
        """What a checkpoint keeps besides optax' state: the counts and, inside a group, the group so far."""
        state: dict[str, Any] = {"num_updates": self.num_updates, "num_skipped": self.num_skipped}
        if self._rate is not None:
            state["rate"] = self._rate
        if self._group:
            state |= {"length": self._group, **self.pending["group"]}
        return state

    def load_pending_state(self, state: ByName) -> None:
        """Continue inside the group that :meth:`pending_state` described; the state of optax is put back before."""
        self._num_updates = int(state.get("num_updates", self._num_updates))
        self._group, self._rate, self.pending = int(state.get("length", 0)), state.get("rate", self._rate), {}
        if "skipped" in self.state:
            numbers = {"skipped": state.get("num_skipped", 0), "updates": self._num_updates}
            self.state |= {name: jnp.asarray(number, jnp.int32) for name, number in numbers.items()}
        if self._group:
            group = {"sums": dict(state["sums"]), "samples": np.float32(state["samples"])}
            self.pending["group"] = self._placed(group)


def _nodes(tree: Tree) -> Iterator[Any]:
    """Every container of a state of optax."""
    yield tree
    if isinstance(tree, (Mapping, tuple, list)):
        for child in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _nodes(child)


def _shortened(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "") or "none"


class JaxOptimizers(WrappedOptimizers):
    """Transformations of optax in wrappers."""

    build_schedules = staticmethod(schedules.build_schedules)

    cure = "pass optimizer_cls=optax.adam, optimizer_params={'lr': 1e-3}"

    def make(self, network: nnx.Module, optimizer_cls: Any, **params: Any) -> dict[str, Any]:
        return dict(create_optims_default_jax(network, optimizer_cls, **params))

    def wrap(self, network: nnx.Module, made: ByName, update: UpdateConfig) -> dict[str, Any]:
        if update.precision == "fp16":
            raise ConfigError("mixed_precision='fp16' needs loss scaling, which JAX does not have; use 'bf16'")
        if update.precision != "32" and not graph.open_layers(network):
            raise ConfigError(
                f"mixed_precision={update.precision!r} changes the dtype of flax' layers, but {type(network).__name__} "
                "has none whose dtype is open; leave mixed_precision out"
            )
        return {name: _wrapped(name, network, optimizer, update) for name, optimizer in made.items()}

    def copy(self, optimizer: Optimizer, network: Network, twin: Network) -> Any:
        return optimizer  # a transformation of optax has no state of its own

    def none(self) -> optax.GradientTransformation:
        return optax.set_to_zero()

    @contextlib.contextmanager
    def leaving_out(self, network: Network, optimizers: ByName) -> Iterator[None]:
        # all of it stays on the device: nobody waits to hear whether the batch was left out
        variables = [v for v in graph.state_variables(network).values() if not isinstance(v, nnx.Param)]
        kept = [jnp.copy(variable.get_raw_value()) for variable in variables]
        before = [jnp.copy(optimizer.state["skipped"]) for optimizer in optimizers.values()]
        yield
        if not variables:
            return
        after = [optimizer.state["skipped"] for optimizer in optimizers.values()]
        is_left_out = jnp.any(jnp.stack(after) != jnp.stack(before))
        for variable, value in zip(variables, kept, strict=True):
            variable.set_raw_value(jnp.where(is_left_out, value, variable.get_raw_value()))


def create_optims_default_jax(model: nnx.Module, optim_cls: Any, **optim_params: Any) -> dict[str, JaxOptimizer]:
    """One optimizer of all weights, called ``"default"``: ``optim_cls`` is a function of optax, e.g. ``optax.adam``.

    The learning rate is ``lr`` or ``learning_rate``.
    """
    with building(optim_cls, optim_params, JaxOptimizers.cure):
        return {"default": _make(model, optim_cls, optim_params)}


def create_optims_gan_default_jax(model: Network, optim_cls: Any, **optim_params: Any) -> dict[str, JaxOptimizer]:
    """Two optimizers by ``optim_cls``: ``"gen"`` of ``model.gen`` and ``"discr"`` of ``model.discr``."""
    gen, discr = both_of(model)
    with building(optim_cls, optim_params, JaxOptimizers.cure):
        return {"gen": _make(gen, optim_cls, optim_params), "discr": _make(discr, optim_cls, optim_params)}


def _make(module: nnx.Module, optimizer_cls: Any, params: ByName) -> JaxOptimizer:
    params = dict(params)
    names = inspect.signature(optimizer_cls).parameters
    if "lr" in params and "lr" not in names:
        if RATE in params:
            raise TypeError("lr and learning_rate say the same; give only one of them")
        params[RATE] = params.pop("lr")
    if RATE not in names:
        return JaxOptimizer(module, optimizer_cls(**params))
    inspect.signature(optimizer_cls).bind(**params)  # optax' own message does not name what is wrong
    # a number in the optimizer's state can change without a new trace; all else stays as it is
    others = [name for name in names if name != RATE]
    optimizer = JaxOptimizer(module, optax.inject_hyperparams(optimizer_cls, static_args=others)(**params))
    if isinstance(params[RATE], (int, float)):
        optimizer.rate = params[RATE]
    return optimizer


def _wrapped(name: str, network: nnx.Module, optimizer: Optimizer, update: UpdateConfig) -> JaxOptimizer:
    if not isinstance(optimizer, (JaxOptimizer, optax.GradientTransformation)):
        raise ConfigError(
            f"optim_fn returned a {type(optimizer).__name__} as {name!r}; return a JaxOptimizer(model.part, "
            "optax.adam(1e-3)), or a transformation of optax for all weights"
        )
    wrapped = optimizer if isinstance(optimizer, JaxOptimizer) else JaxOptimizer(network, optimizer)
    wrapped.configure(update)
    return wrapped
