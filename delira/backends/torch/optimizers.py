"""Optimizers of PyTorch, with what must happen between the gradients and the update."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from delira.contract import UpdateConfig
from delira.errors import ConfigError

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class TorchOptimizer:
    """A torch optimizer that scales losses, accumulates and clips as configured.

    A closure uses it like the optimizer itself::

        optimizers["default"].zero_grad()
        with optimizers["default"].scale_loss(loss) as scaled:
            scaled.backward()
        optimizers["default"].step()

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
        self.num_updates = 0
        self.is_plain = update == UpdateConfig()
        self._accumulates = update.accumulation_steps > 1
        self._n_samples, self._is_last, self._is_bad = 1, True, False  # of the batch at hand
        self._weights: list[int] = []  # samples of each step of the group; 0 for one that is left out
        self._reference = 1  # samples of the group's first step
        self._sums: dict[torch.Tensor, torch.Tensor] = {}  # gradients of the batches of the group so far
        if not self.is_plain:  # not counted here: loss scaling leaves updates out
            optimizer.register_step_post_hook(self._count_update)

    # ------------------------------------------------------------------ what a closure calls

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; what was accumulated is kept elsewhere."""
        self.optimizer.zero_grad(set_to_none=set_to_none)

    @contextlib.contextmanager
    def _prepared(self, loss: torch.Tensor) -> Iterator[torch.Tensor]:
        """The loss, scaled and weighted, outside of autocast."""
        with torch.autocast(self.device_type, enabled=False):
            if self.update.skip_nonfinite and not bool(torch.isfinite(loss).all()):
                self._is_bad = True
                loss = torch.zeros_like(loss, requires_grad=True)
            if self._accumulates:
                self._reference = self._reference if self._weights else self._n_samples
                loss = loss * (self._n_samples / self._reference)
            yield self.scaler.scale(loss)

    def scale_loss(self, loss: torch.Tensor) -> contextlib.AbstractContextManager[torch.Tensor]:
        """Scope that gives the loss to differentiate."""
        return contextlib.nullcontext(loss) if self.is_plain else self._prepared(loss)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, unless more batches are to be accumulated first."""
        if self.is_plain:
            self.num_updates += 1
            return self.optimizer.step(closure) if closure is not None else self.optimizer.step()
        if closure is not None:
            raise ConfigError(
                "an optimizer that evaluates the loss itself (LBFGS) works with neither mixed precision nor gradient "
                "accumulation, clipping or nonfinite='skip'"
            )
        with torch.autocast(self.device_type, enabled=False):
            self._weights.append(0 if self._is_bad else self._n_samples)
            self._is_bad = False
            if self._accumulates:
                self._add_up()
            if self._is_last or len(self._weights) >= self.update.accumulation_steps:
                self._apply()
        return None

    def _add_up(self) -> None:
        """Move the gradients of the batch to those of its group, unless the batch is left out.

        They do not stay on the parameters, where the losses of other optimizers (a GAN's) would add to them.
        """
        for parameter in self._parameters():
            gradient, parameter.grad = parameter.grad, None
            if gradient is not None and self._weights[-1]:
                before = self._sums.get(parameter)
                self._sums[parameter] = gradient if before is None else before.add_(gradient)

    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _apply(self) -> None:
        update, samples, sums = self.update, sum(self._weights), self._sums
        self._weights, self._sums = [], {}
        if samples == 0:  # every step of the group was left out
            return
        for parameter, gradient in sums.items():
            parameter.grad = gradient
        parameters = [parameter for parameter in self._parameters() if parameter.grad is not None]
        self.scaler.unscale_(self.optimizer)
        if self._accumulates:
            for parameter in parameters:
                parameter.grad.mul_(self._reference / samples)  # type: ignore[union-attr]
        if update.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, update.clip_norm)
        if update.clip_value is not None:
            torch.nn.utils.clip_grad_value_(parameters, update.clip_value)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        # autocast keeps casts of the old weights until its scope ends: a second forward would see them
        torch.clear_autocast_cache()

    def _count_update(self, *args: Any) -> None:
        self.num_updates += 1

    # ------------------------------------------------------------------ what the trainer calls

    def begin_batch(self, n_samples: int, is_last: bool) -> None:
        """Say how large the next batch is and whether the epoch ends with it."""
        self._n_samples, self._is_last, self._is_bad = n_samples, is_last, False

    def flush(self) -> None:
        """Apply what is left of a group when the epoch ends."""
        if self._weights:
            self._apply()

    def state_dict(self) -> dict[str, Any]:
        """State of the torch optimizer."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take a state of the torch optimizer over; a group that was broken off is forgotten."""
        self.optimizer.load_state_dict(dict(state))
        self._weights, self._sums = [], {}

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":  # not there yet: while copying
            raise AttributeError(name)
        return getattr(self.optimizer, name)


def create_optims_default_pytorch(model: torch.nn.Module, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """One optimizer of all parameters, called ``"default"``."""
    return {"default": optim_cls(model.parameters(), **optim_params)}


def create_optims_gan_default_pytorch(model: Any, optim_cls: Any, **optim_params: Any) -> dict[str, Any]:
    """Two optimizers: ``"gen"`` of ``model.gen`` and ``"discr"`` of ``model.discr``."""
    return {
        "gen": optim_cls(model.gen.parameters(), **optim_params),
        "discr": optim_cls(model.discr.parameters(), **optim_params),
    }


def build_optimizers(
    network: torch.nn.Module,
    builder: Callable[..., dict[str, Any]] | None,
    optimizer_cls: Any,
    optimizer_params: Mapping[str, Any],
    update: UpdateConfig,
) -> dict[str, TorchOptimizer]:
    """Create the optimizers and wrap each.

    Raises
    ------
    ConfigError
        If no optimizer is set, or the builder returns no dict of optimizers.
    """
    if builder is None:
        made = _default_optimizers(network, optimizer_cls, optimizer_params)
    else:
        made = builder(network, optimizer_cls, **optimizer_params)
    if not isinstance(made, Mapping) or not made:
        found = "an empty dict" if isinstance(made, Mapping) else f"a {type(made).__name__}"
        raise ConfigError(f"optim_fn returned {found}; it returns a dict, e.g. {{'default': optimizer}}")
    first = next(network.parameters(), None)
    device_type = "cpu" if first is None else first.device.type
    if update.precision == "auto":
        half = device_type == "cuda" and not torch.cuda.is_bf16_supported()
        update = UpdateConfig(**{**vars(update), "precision": "fp16" if half else "bf16"})
    return {name: TorchOptimizer(optimizer, update, device_type) for name, optimizer in made.items()}


def _default_optimizers(network: torch.nn.Module, optimizer_cls: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    cure = "pass optimizer_cls=torch.optim.Adam, optimizer_params={'lr': 1e-3}"
    if optimizer_cls is None:
        raise ConfigError(f"no optimizer is set; {cure}")
    if not callable(optimizer_cls):
        raise ConfigError(f"optimizer_cls must be an optimizer class, got {optimizer_cls!r}; {cure}")
    try:
        return create_optims_default_pytorch(network, optimizer_cls, **params)
    except TypeError as error:
        name = getattr(optimizer_cls, "__name__", repr(optimizer_cls))
        raise ConfigError(f"{name} cannot be built from optimizer_params={dict(params)}: {error}") from error


@contextlib.contextmanager
def step_scope(optimizers: Mapping[str, Any], n_samples: int, is_last: bool) -> Iterator[None]:
    """Scope of one closure: place in the accumulation, autocast."""
    wrapped = next(iter(optimizers.values()))
    for optimizer in optimizers.values():
        optimizer.begin_batch(n_samples, is_last)
    dtype = _DTYPES.get(wrapped.update.precision)
    with torch.autocast(wrapped.device_type, dtype) if dtype is not None else contextlib.nullcontext():
        yield
