"""Between the gradients and the update: parts of batches, accumulation, what is left out, clipping."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy_autograd import Module, Parameter, StepDecay, Tensor
from numpy_autograd.operations import QUIET
from numpy_autograd.optimizers import Optimizer

from delira.contract import UpdateConfig, WrappedOptimizers
from delira.contract.checkpoints import optimizer_states as states_of
from delira.errors import CheckpointError, ConfigError, NetworkError
from numpy_backend.schedules import ScheduleCallback

Gradients = list[np.ndarray | None]


class NumpyOptimizer:
    """An optimizer that updates as configured; a closure calls ``differentiate(loss)``, then ``step()``.

    Gradients of batches, and of parts of one, are added up, each times its number of samples, and divided by all
    samples before the update: as if it had been one batch, for losses that are means over samples.

    Parameters
    ----------
    optimizer
        The framework's.
    update
        What is done with the gradients.
    """

    def __init__(self, optimizer: Optimizer, update: UpdateConfig):
        self.optimizer, self.update = optimizer, update
        self.num_updates, self.num_skipped = 0, 0  # updates made; batches that were left out of them
        self._n_samples, self._is_last, self._is_part = 1, True, False  # of the call at hand
        self._has_stepped = False  # in the call at hand
        self._is_bad = False  # the batch at hand
        self._batch = _Sum()  # parts of the batch at hand
        self._group = _Sum()  # batches that make one update
        self._n_batches = 0  # of the group so far

    # ------------------------------------------------------------------ what a closure calls

    def differentiate(self, loss: Tensor) -> None:
        """Put the gradients of a loss at this optimizer's parameters, in place of older ones."""
        self.optimizer.zero_grad()
        loss.backward()
        self._is_bad |= self.update.skip_nonfinite and not np.isfinite(loss.data).all()

    @QUIET
    def step(self) -> None:
        """Update, unless more parts of the batch, or more batches, come first."""
        if self._is_part and self._has_stepped:
            raise ConfigError(
                "the closure updates the same parameters twice in one batch, so the batch cannot be computed in parts; "
                "use a smaller batch_size"
            )
        self._has_stepped = True
        gradients: Gradients = [parameter.grad for parameter in self.optimizer.parameters]
        self.optimizer.zero_grad()  # the losses of other optimizers (a GAN's) would add to them
        self._is_bad |= self.update.skip_nonfinite and not _are_finite(gradients)
        adds = self.update.in_parts or self.update.accumulation_steps > 1
        self._batch.add(gradients, self._n_samples if adds else 1)
        if not self._is_part:
            self._end_batch()

    def _end_batch(self) -> None:
        batch, is_bad = self._batch, self._is_bad
        self._batch, self._is_bad = _Sum(), False
        self._n_batches += 1
        if is_bad:
            self.num_skipped += 1
        else:
            self._group.add(batch.sums, 1, batch.samples)
        if self._is_last or self._n_batches >= self.update.accumulation_steps:
            self.flush()

    # ------------------------------------------------------------------ what the verbs call

    is_plain = False  # every batch is told

    def begin_batch(self, n_samples: int, is_last: bool, is_part: bool) -> None:
        """Say what the next closure call computes."""
        self._n_samples, self._is_last, self._is_part, self._has_stepped = n_samples, is_last, is_part, False
        self._is_bad &= self._batch.samples > 0

    def end_batch(self) -> None:
        """Nothing is left to do."""

    def discard_parts(self) -> bool:
        """Forget the parts of the batch at hand; whether it can be computed again."""
        can_repeat = self._batch.samples > 0 or not self._has_stepped
        self._batch, self._is_bad = _Sum(), False
        self.optimizer.zero_grad()
        return can_repeat

    @QUIET
    def flush(self) -> None:
        """Update with what there is."""
        group = self._group
        self._group, self._n_batches = _Sum(), 0
        if group.samples == 0:
            return
        for parameter, gradient in zip(self.optimizer.parameters, self._clipped(group.mean()), strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.num_updates += 1

    def _clipped(self, gradients: Gradients) -> Gradients:
        update = self.update
        if update.clip_norm is not None:
            norm = np.sqrt(sum(np.sum(gradient**2) for gradient in gradients if gradient is not None))
            factor = update.clip_norm / max(norm, update.clip_norm)
            gradients = [None if gradient is None else gradient * factor for gradient in gradients]
        if (limit := update.clip_value) is not None:
            gradients = [None if gradient is None else np.clip(gradient, -limit, limit) for gradient in gradients]
        return gradients

    @property
    def rate(self) -> float:
        """Learning rate."""
        return float(self.optimizer.lr)

    @rate.setter
    def rate(self, rate: float) -> None:
        self.optimizer.lr = rate

    lr = rate  # the framework's schedules set it

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, the counts, and the group so far."""
        counts = {"num_updates": self.num_updates, "num_skipped": self.num_skipped, "n_batches": self._n_batches}
        return {**self.optimizer.state_dict(), **counts, "sums": self._group.sums, "samples": self._group.samples}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; ValueError or KeyError if it is none of this optimizer."""
        sums = [None if array is None else np.array(array) for array in state["sums"]]
        for parameter, total in zip(self.optimizer.parameters, sums, strict=False):
            if total is not None and total.shape != parameter.shape:
                raise ValueError(f"an accumulated gradient has shape {total.shape}, its parameter {parameter.shape}")
        counts = state["num_updates"], state["num_skipped"], state["n_batches"], state["samples"]
        self.optimizer.load_state_dict(state)
        self._batch, self._is_bad, self._group = _Sum(), False, _Sum()
        self.num_updates, self.num_skipped, self._n_batches, self._group.samples = counts
        self._group.sums = sums


class _Sum:
    """Gradients added up, each times its samples."""

    def __init__(self) -> None:
        self.sums: Gradients = []
        self.samples = 0

    def add(self, gradients: Gradients, weight: int, samples: int | None = None) -> None:
        """Add gradients times ``weight``; they stand for ``samples`` (as many as the weight if None)."""
        weighted = [None if gradient is None else gradient * weight for gradient in gradients]
        known = self.sums or [None] * len(weighted)
        self.sums = [b if a is None else a if b is None else a + b for a, b in zip(known, weighted, strict=True)]
        self.samples += weight if samples is None else samples

    def mean(self) -> Gradients:
        return [None if total is None else total / self.samples for total in self.sums]


def total(losses: Mapping[str, Any]) -> Tensor:
    """The sum of the losses of a step."""
    first, *others = losses.values()
    total = sum(others, first)
    if not isinstance(total, Tensor) or not total.requires_grad:
        raise NetworkError(
            f"the loss ({', '.join(losses)}) has no gradient: it is computed with tensors, out of predictions that "
            "were not detached, of a network that has weights to learn"
        )
    return total


def _are_finite(gradients: Gradients) -> bool:
    return all(gradient is None or bool(np.isfinite(gradient).all()) for gradient in gradients)


class NumpyOptimizers(WrappedOptimizers):
    """Optimizers in wrappers."""

    cure = "pass optimizer_cls=numpy_autograd.Adam, optimizer_params={'lr': 1e-3}"

    def make(self, network: Module, optimizer_cls: Any, **params: Any) -> dict[str, Optimizer]:
        if not callable(optimizer_cls):
            raise ConfigError(f"optimizer_cls must be an optimizer class, got {optimizer_cls!r}; {self.cure}")
        try:
            return {"default": optimizer_cls(network.parameters(), **params)}
        except TypeError as error:
            raise ConfigError(f"{optimizer_cls!r} cannot be built from optimizer_params={params}: {error}") from error

    def wrap(self, network: Module, made: Mapping[str, Any], update: UpdateConfig) -> dict[str, NumpyOptimizer]:
        if update.precision != "32":
            raise ConfigError(
                "this backend computes with float64 and has no mixed precision; leave mixed_precision out"
            )
        return {name: NumpyOptimizer(optimizer, update) for name, optimizer in made.items()}

    def noted(self, network: Module) -> Callable[[], None]:
        notes = [(t, t.data.copy()) for _, t in network.named_tensors() if not isinstance(t, Parameter)]

        def restore() -> None:
            for tensor, data in notes:
                tensor.data[...] = data

        return restore

    def build_schedules(self, optimizers: Mapping[str, Any], cls: Any, params: Mapping[str, Any]) -> list[Any]:
        if not (isinstance(cls, type) and issubclass(cls, StepDecay)):
            raise ConfigError(f"lr_scheduler_cls must be a schedule of numpy_autograd, e.g. StepDecay, got {cls!r}")
        try:
            return [ScheduleCallback(cls(optimizer, **params)) for optimizer in optimizers.values()]
        except TypeError as error:
            raise ConfigError(
                f"{cls.__name__} cannot be built from lr_scheduler_params={dict(params)}: {error}"
            ) from error


def optimizer_states(optimizers: Mapping[str, NumpyOptimizer]) -> dict[str, Any]:
    """States by name."""
    return {name: optimizer.state_dict() for name, optimizer in optimizers.items()}


def load_optimizer_states(tree: Mapping[str, Any], optimizers: Mapping[str, NumpyOptimizer]) -> None:
    """Put states back into the optimizers that are passed, all or none of them."""
    states = states_of(tree, optimizers)
    before = optimizer_states(optimizers)
    for name, optimizer in optimizers.items():
        try:
            optimizer.load_state_dict(states[name])
        except (ValueError, KeyError) as error:
            for done, earlier in optimizers.items():
                earlier.load_state_dict(before[done])
            raise CheckpointError(f"the checkpoint does not fit the optimizer {name!r}: {error}") from error
