"""Optimizers of PyTorch, with what must happen between the gradients and the update."""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from delira.backends.torch import schedules
from delira.contract import ByName, Network, UpdateConfig, WrappedOptimizers
from delira.errors import CheckpointError, ConfigError
from delira.utils.optimizing import both_of, building

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

#: it also opens a range of the profiler, which costs more than the act itself, at every step
_ZERO_GRAD = torch.optim.Optimizer.zero_grad

#: of a parameter group
_RATES = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr")


class TorchOptimizer:
    """A torch optimizer that scales losses, accumulates and clips as configured.

    A closure uses it like the optimizer itself::

        optimizers["default"].zero_grad()
        with optimizers["default"].scale_loss(loss) as scaled:
            scaled.backward()
        optimizers["default"].step()

    With ``in_parts`` a batch may come in parts, one closure call for each: their gradients, weighted by samples,
    make one update. A loss is a mean over samples; what the network itself computes over a batch (batch
    normalisation) it computes over each part. Of several optimizers, none has updated when the losses of the
    others are computed.

    With ``skip_nonfinite`` a batch is left out if its loss or a gradient of it is infinite or not a number. In fp16
    an infinite gradient means that the loss is scaled too high: then the whole update is left out and the
    scale falls.

    Parameters
    ----------
    optimizer
        The torch optimizer; its other attributes are reached through this object.
    update
        What is done with the gradients.
    device_type
        ``"cpu"``, ``"cuda"`` or ``"mps"``.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, update: UpdateConfig, device_type: str):
        self.optimizer, self.update, self.device_type = optimizer, update, device_type
        self.scaler = torch.amp.GradScaler(device_type, enabled=update.precision == "fp16")
        self.num_updates, self.num_skipped = 0, 0  # updates made; batches that were left out of them
        # what the groups of every state of it have; read now: when torch loads a state, it adds to the defaults only
        self.entries = frozenset(getattr(optimizer, "defaults", ())).intersection(*optimizer.param_groups)
        #: how gradients of several processes are added up, if there are several
        self.group: Any = None
        self._counting: Any = None
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        #: whether it evaluates the loss itself, as often as it likes (LBFGS)
        self.evaluates = closure is not None and closure.default is closure.empty
        self._accumulates = update.accumulation_steps > 1
        self._n_samples, self._is_last, self._is_part = 1, True, False  # of the call at hand
        self._is_bad, self._has_stepped = False, False  # in the batch, and in the call at hand
        self._parts: list[int] = []  # samples of each part of the batch at hand
        self._part_sums: dict[int, torch.Tensor] = {}  # their gradients, by number of the parameter
        self._weights: list[int] = []  # samples of each batch of the group; 0 for one that is left out
        self._reference = 1  # samples of what came first in the group
        self._sums: dict[int, torch.Tensor] = {}  # gradients of the batches of the group so far
        self._is_scaled, self._is_added = False, False  # the loss at hand; the gradients, over all processes
        self.join(None)

    def join(self, group: Any) -> None:
        """Add the gradients of several processes up from now on; of this one alone if ``group`` is ``None``."""
        self.group, self.is_plain = group, group is None and self.update == UpdateConfig()
        if group is not None:  # the weights that it was made of may have been on the host
            self.device_type = group.device.type
        if self._counting is not None:
            self._counting.remove()
        # where it is plain :meth:`step` counts; loss scaling leaves updates out
        self._counting = None if self.is_plain else self.optimizer.register_step_post_hook(self._count_update)

    # ------------------------------------------------------------------ what a closure calls

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; what was accumulated is kept elsewhere."""
        forget = self.optimizer.zero_grad
        if not set_to_none or getattr(forget, "__func__", None) is not _ZERO_GRAD:
            forget(set_to_none=set_to_none)
            return
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @contextlib.contextmanager
    def _prepared(self, loss: torch.Tensor) -> Iterator[torch.Tensor]:
        """The loss, scaled and weighted, outside of autocast."""
        with torch.autocast(self.device_type, enabled=False):
            if self.update.skip_nonfinite:
                is_bad = not bool(torch.isfinite(loss).all())
                # all or none go back through the network: those with parts of weights meet there
                if is_bad if self.group is None else self.group.any(is_bad):
                    self._is_bad = True
                    loss = torch.zeros_like(loss, requires_grad=True)
            if self._accumulates or self._is_part or self._parts or self.group is not None:
                loss = loss * self._share()
                self._is_scaled = True
            if self.group is not None:
                self.group.is_scaled = True
            yield self.scaler.scale(loss)

    def _share(self) -> float:
        """What the samples of the call at hand count, of those that came first in the group."""
        self._reference = self._reference if self._weights or self._parts else self._n_in_batch
        return self._n_samples / self._reference

    @property
    def is_inside_group(self) -> bool:
        """Return True if there are gradients of batches that are not in an update yet."""
        return bool(self._weights)

    @property
    def _n_in_batch(self) -> int:
        return self._n_samples if self.group is None else int(self.group.n_samples)

    def scale_loss(self, loss: torch.Tensor) -> contextlib.AbstractContextManager[torch.Tensor]:
        """Scope that gives the loss to differentiate."""
        return contextlib.nullcontext(loss) if self.is_plain else self._prepared(loss)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, unless more parts of the batch, or more batches, are to be added first.

        Raises
        ------
        ConfigError
            If the closure updates twice in a part of a batch, or the optimizer evaluates the loss itself.
        """
        if self.is_plain:
            self.num_updates += 1
            return self.optimizer.step(closure) if closure is not None else self.optimizer.step()
        if closure is not None:
            raise ConfigError(
                "an optimizer that evaluates the loss itself (LBFGS) works with neither mixed precision nor gradient "
                "accumulation, clipping, nonfinite='skip', micro_batches or several processes"
            )
        if self._is_part and self._has_stepped:
            raise ConfigError(
                "the closure updates the same parameters twice in one batch, so the batch cannot be computed in parts; "
                "use a smaller batch_size"
            )
        self._has_stepped = True
        with torch.autocast(self.device_type, enabled=False):
            if self.update.skip_nonfinite and not self.scaler.is_enabled():
                self._is_bad = self._is_bad or not self._has_finite_gradients()
            if self.group is not None:
                self._prepare_to_add()
            if self._is_part or self._parts:
                self._parts.append(self._n_samples)
                _add(self._part_sums, self._take_gradients())
            if not self._is_part:
                self._end_batch()
        return None

    def _prepare_to_add(self) -> None:
        """Bring what all processes have to agree on together before their gradients are added up."""
        if self.update.skip_nonfinite:
            self._is_bad = self.group.any(self._is_bad)
        if not self._is_scaled:  # a closure of the user's differentiates its loss as it is
            if self.group.is_scaled:
                raise ConfigError(
                    "the closure differentiates the loss of one optimizer by scale_loss, and updates with another "
                    "one's gradients without it: several processes cannot tell whether these are scaled, too; call "
                    "backward() of every loss as it is, or have each optimizer scale a loss of its own"
                )
            share = self._share()
            for parameter in self._parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(share)
        self._is_scaled = False  # a loss that the closure differentiates after this is another one

    def add_gradients(self) -> None:
        """Add the gradients of all processes up now, as somebody looks at them; else it is done before the update."""
        if self.group is not None:
            self.group.add_gradients(self._parameters())
            self._is_added = True

    def _end_batch(self) -> None:
        """Count the batch to its group, or leave it out, and update if the group is complete."""
        self._weights.append(0 if self._is_bad else sum(self._parts) or self._n_in_batch)
        if self._accumulates and not self._parts:
            self._part_sums = self._take_gradients()
        if self._is_bad:
            self.num_skipped += 1
        else:
            _add(self._sums, self._part_sums)
        self._forget_parts()
        if self._is_last or len(self._weights) >= self.update.accumulation_steps:
            self.flush()

    def _take_gradients(self) -> dict[int, torch.Tensor]:
        """The gradients, taken off the parameters, where the losses of other optimizers (a GAN's) would add to them."""
        parameters = self._parameters()
        taken = {number: one.grad for number, one in enumerate(parameters) if one.grad is not None}
        for parameter in parameters:
            parameter.grad = None
        return taken

    def _has_finite_gradients(self) -> bool:
        gradients = [parameter.grad for parameter in self._parameters() if parameter.grad is not None]
        own = [gradient.to_local() if hasattr(gradient, "to_local") else gradient for gradient in gradients]
        dense = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in own]
        finite = [torch.isfinite(gradient).all() for gradient in dense]
        return not finite or bool(torch.stack([value.to(finite[0].device) for value in finite]).all())

    def _forget_parts(self) -> None:
        self._parts, self._part_sums, self._is_bad = [], {}, False

    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def flush(self) -> None:
        """Apply what there is of a group, complete or because the epoch ends."""
        update, weights, sums, before = self.update, self._weights, self._sums, self.num_updates
        self._weights, self._sums = [], {}
        samples = sum(weights)
        if samples == 0:  # there is no group, or every batch of it was left out
            return
        parameters = self._parameters()
        for number, gradient in sums.items():
            parameters[number].grad = gradient
        if self.group is not None and not self._is_added:
            self.group.add_gradients(parameters)
        self._is_added = False
        parameters = [parameter for parameter in parameters if parameter.grad is not None]
        self.scaler.unscale_(self.optimizer)
        if sums:
            for parameter in parameters:
                parameter.grad.mul_(self._reference / samples)  # type: ignore[union-attr]
        if update.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, update.clip_norm)
        if update.clip_value is not None:
            torch.nn.utils.clip_grad_value_(parameters, update.clip_value)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.num_updates == before:  # the scaled gradients were not finite
            self.num_skipped += sum(weight > 0 for weight in weights)
        # autocast keeps casts of the old weights until its scope ends: a second forward would see them
        torch.clear_autocast_cache()

    def _count_update(self, *args: Any) -> None:
        self.num_updates += 1

    # ------------------------------------------------------------------ what the trainer calls

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
        self._n_samples, self._is_last, self._is_part, self._has_stepped = n_samples, is_last, part, False
        self._is_bad = self._is_bad and bool(self._parts)
        self._is_scaled = False

    def discard_parts(self) -> bool:
        """Forget the batch at hand, e.g. because the memory ran out; the group of earlier batches stays as it was.

        Returns
        -------
        bool
            Whether the batch can be computed again; not if it is part of an update or of the group already.
        """
        can_repeat = bool(self._parts) or not self._has_stepped
        self._forget_parts()
        self.optimizer.zero_grad()
        return can_repeat

    def load_state_dict(self, state: ByName) -> None:
        """Take a state of the torch optimizer over, with its dtypes; a group that was broken off is forgotten."""
        self.optimizer.load_state_dict(dict(state))
        # torch's own layout; an optimizer of somebody else may have another
        stored, groups = state.get("state", {}), state.get("param_groups", ())
        numbers = [number for group in groups for number in group["params"]]
        for number, parameter in zip(numbers, self._parameters(), strict=False):
            if number in stored:
                self.optimizer.state[parameter] = _as_stored(stored[number], self.optimizer.state[parameter])
        self._weights, self._sums = [], {}
        self._forget_parts()

    def pending_state(self) -> dict[str, Any]:
        """What a checkpoint keeps besides ``state_dict()``: the counts and, inside a group, the group so far.

        Returns
        -------
        dict
            ``num_updates`` and ``num_skipped``; inside a group also ``weights`` (samples of each batch),
            ``reference`` and ``sums``: the tensors themselves, by number of the parameter.
        """
        state: dict[str, Any] = {"num_updates": self.num_updates, "num_skipped": self.num_skipped}
        if self._weights:
            state |= {"weights": list(self._weights), "reference": self._reference, "sums": dict(self._sums)}
        return state

    def load_pending_state(self, state: ByName) -> None:
        """Continue inside the group that :meth:`pending_state` described; call it after :meth:`load_state_dict`.

        Raises
        ------
        CheckpointError
            If the sums do not fit the parameters; nothing is changed then.
        """
        parameters, sums = self._parameters(), {}
        shapes = [None if is_lazy(parameter) else tuple(parameter.shape) for parameter in parameters]
        for number, gradient in state.get("sums", {}).items():
            shape = shapes[number] if number < len(parameters) else "missing"
            if shape not in (tuple(gradient.shape), None):
                raise CheckpointError(
                    f"the checkpoint does not fit the optimizer: the accumulated gradient of parameter {number} has "
                    f"shape {tuple(gradient.shape)}, but the parameter is {shape}; build the network as it was"
                )
            sums[number] = gradient.to(parameters[number].device, copy=True)
        self.num_updates = state.get("num_updates", self.num_updates)
        self.num_skipped = state.get("num_skipped", self.num_skipped)
        self._weights, self._sums = list(state.get("weights", ())), sums
        self._reference = state.get("reference", 1)
        self._forget_parts()

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":  # not there yet: while copying
            raise AttributeError(name)
        return getattr(self.optimizer, name)


def _add(sums: dict[int, torch.Tensor], gradients: Mapping[int, torch.Tensor]) -> None:
    for number, gradient in gradients.items():
        sums[number] = sums[number].add_(gradient) if number in sums else gradient


def _as_stored(stored: Any, loaded: Any) -> Any:
    """What torch loaded, but with the dtypes and texts that were stored.

    It casts the state of a parameter to the parameter's dtype: the float32 counters of a bfloat16 network lose their
    digits. Of a text it makes the name of a generator.
    """
    if isinstance(stored, str):
        return stored
    if isinstance(stored, torch.Tensor) and isinstance(loaded, torch.Tensor):
        return loaded if loaded.dtype is stored.dtype else stored.to(loaded.device)
    if isinstance(stored, Mapping) and isinstance(loaded, dict):
        return {name: _as_stored(stored.get(name), value) for name, value in loaded.items()}
    if isinstance(stored, (list, tuple)) and type(loaded) is type(stored) and len(stored) == len(loaded):
        return type(stored)(map(_as_stored, stored, loaded))
    return loaded


class TorchOptimizers(WrappedOptimizers):
    """Optimizers of PyTorch in wrappers."""

    build_schedules = staticmethod(schedules.build_schedules)
    cure = "pass optimizer_cls=torch.optim.Adam, optimizer_params={'lr': 1e-3}"

    def make(self, network: torch.nn.Module, optimizer_cls: Any, **params: Any) -> dict[str, Any]:
        try:
            return create_optims_default_pytorch(network, optimizer_cls, **params)
        except ConfigError as error:
            lazy = [name for name, weight in network.named_parameters() if is_lazy(weight)]
            if not lazy:
                raise
            raise ConfigError(
                f"{getattr(optimizer_cls, '__name__', repr(optimizer_cls))} cannot be built before the weights "
                f"{', '.join(lazy)} have a shape; call the network once with a batch before you give it to the trainer"
            ) from error

    def wrap(self, network: torch.nn.Module, made: ByName, update: UpdateConfig) -> dict[str, Any]:
        self.check(network, made)
        device_type = self.backend.devices.of(network).input.type
        if update.precision == "auto":
            half = device_type == "cuda" and not torch.cuda.is_bf16_supported()
            update = dataclasses.replace(update, precision="fp16" if half else "bf16")
        return {name: TorchOptimizer(optimizer, update, device_type) for name, optimizer in made.items()}

    def check(self, network: torch.nn.Module, optimizers: ByName) -> None:
        own = {id(weight) for weight in network.parameters()}
        for name, optimizer in optimizers.items():
            groups = getattr(optimizer, "param_groups", None)
            if groups is None and not hasattr(optimizer, "step"):
                raise ConfigError(
                    f"the optimizer {name!r} is one of PyTorch, e.g. torch.optim.Adam(…), got {optimizer!r}"
                )
            weights = [weight for group in groups or () for weight in group["params"]]
            may_be_any = groups is None or not own or hasattr(optimizer, "updates_nothing")
            if not may_be_any and not own.intersection(map(id, weights)):
                raise ConfigError(
                    f"the optimizer {name!r} has {len(weights)} weights, and none of them is one of the "
                    f"{type(network).__name__}; make it of the weights of the network that is trained"
                )

    def copy(
        self, optimizer: torch.optim.Optimizer, network: torch.nn.Module, twin: torch.nn.Module
    ) -> torch.optim.Optimizer:
        names = {weight: name for name, weight in network.named_parameters()}
        theirs = dict(twin.named_parameters())
        if any(weight not in names for group in optimizer.param_groups for weight in group["params"]):
            raise ConfigError("the optimizer has parameters that are not of the model, so it cannot be copied")
        groups = [
            dict(group, params=[theirs[names[one]] for one in group["params"]]) for group in optimizer.param_groups
        ]
        return type(optimizer)(groups)  # type: ignore[call-arg]

    def none(self) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=0.0)
        optimizer.updates_nothing = True  # type: ignore[attr-defined]
        return optimizer

    @contextlib.contextmanager
    def batch(self, optimizers: ByName, n_samples: int, is_last: bool, part: bool) -> Iterator[None]:
        wrapped = next(iter(optimizers.values()))
        for optimizer in optimizers.values():
            optimizer.begin_batch(n_samples, is_last, part)
        dtype = _DTYPES.get(wrapped.update.precision)
        with torch.autocast(wrapped.device_type, dtype) if dtype is not None else contextlib.nullcontext():
            yield

    def noted(self, network: torch.nn.Module) -> Callable[[], None]:
        buffers = [(buffer, buffer.clone()) for buffer in network.buffers()]

        def restore() -> None:
            for buffer, value in buffers:
                buffer.copy_(value)

        return restore

    def learning_rates(self, optimizers: ByName) -> dict[str, float]:
        rates = {name: float(o.param_groups[0]["lr"]) for name, o in optimizers.items() if o.param_groups}
        return {"lr" if len(rates) == 1 else f"lr_{name}": rate for name, rate in rates.items()}

    def scale_rates(self, optimizers: ByName, factor: float) -> None:
        for optimizer in optimizers.values():
            for group in optimizer.param_groups:
                group |= {name: group[name] * factor for name in _RATES if name in group}


def create_optims_default_pytorch(model: torch.nn.Module, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """One optimizer of all parameters, called ``"default"``."""
    with building(optim_cls, optim_params, TorchOptimizers.cure):
        if not callable(getattr(model, "parameters", None)):
            raise ConfigError(f"optimizers are made for a network of PyTorch, got {model!r}")
        return {"default": optim_cls(model.parameters(), **optim_params)}


def create_optims_gan_default_pytorch(model: Network, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """Two optimizers: ``"gen"`` of ``model.gen`` and ``"discr"`` of ``model.discr``."""
    parts = zip(("gen", "discr"), both_of(model), strict=True)
    return {name: create_optims_default_pytorch(part, optim_cls, **optim_params)["default"] for name, part in parts}
