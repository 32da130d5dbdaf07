"""The role of a backend that makes optimizers, and says when they update."""

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from delira.contract.kinds import Builder, ByName, Network, Optimizer, Role, Scope, UpdateConfig
from delira.errors import ConfigError

_NOTHING = contextlib.nullcontext()


class OptimizersRole(Role):
    """Optimizers, their updates and rates. In the plain case every batch updates, with those of the framework."""

    role = "optimizers"

    @abc.abstractmethod
    def build(
        self, network: Network, builder: Builder, optimizer_cls: Any, optimizer_params: ByName, update: UpdateConfig
    ) -> dict[str, Any]:
        """Create the named optimizers of the network."""

    def build_schedules(self, optimizers: ByName, cls: Any, params: ByName) -> list[Any]:
        """One schedule callback for each optimizer."""
        raise self.lacking("has no learning-rate schedules; leave lr_scheduler_cls out")

    def check(self, network: Network, optimizers: ByName) -> None:
        """Refuse optimizers of other weights than the network's; those that keep no weights go on with any."""

    def copy(self, optimizer: Optimizer, network: Network, twin: Network) -> Any:
        """An optimizer as one of the framework is, with no state yet, for a network that is a copy of its own."""
        raise self.lacking("cannot copy optimizers")

    def none(self) -> Any:
        """An optimizer that updates nothing, for :meth:`build`."""
        raise self.lacking("cannot train without an optimizer")

    def scope(self, optimizers: ByName, n_samples: int, is_last: bool, part: bool = False) -> Scope:
        """Scope of one closure call: number format, place in the accumulation.

        ``n_samples`` is the size of the batch; ``is_last`` says that the epoch ends with it; ``part`` that it is a
        part of a batch with more to come, so that no optimizer updates yet. Each part has a scope of its own.
        """
        return contextlib.nullcontext()

    def leaving_out(self, network: Network, optimizers: ByName) -> Scope:
        """Scope of one step that may be left out (``nonfinite="skip"``): what the network notes of a batch is taken
        back then.
        """
        return contextlib.nullcontext()

    def count_left_out(self, optimizers: ByName) -> int:
        """Batches so far that were left out of updates, because of numbers that are not finite."""
        return 0

    def discard_parts(self, optimizers: ByName) -> bool:
        """Forget the gradients of the parts of the batch at hand.

        Returns whether the batch can be computed again: not if an optimizer has updated with it.
        """
        return False

    def finish_epoch(self, optimizers: ByName) -> None:
        """Apply what is still accumulated, for epochs whose length was not known."""

    def learning_rates(self, optimizers: ByName) -> dict[str, float]:
        """``{"lr": …}``, or ``{"lr_<name>": …}`` where there are several optimizers.

        The history has them, so a backend with optimizers writes this.
        """
        return {}

    def set_rates(self, optimizers: ByName, rate: float) -> None:
        """Set the rate of every group of parameters; of optimizers without groups their ``rate``."""
        for optimizer in optimizers.values():
            if not hasattr(optimizer, "param_groups"):
                if not hasattr(optimizer, "rate"):
                    raise self.lacking("has no learning rates to change")
                optimizer.rate = rate
            for group in getattr(optimizer, "param_groups", ()):
                if hasattr(group["lr"], "fill_"):  # a tensor, which a compiled update reads
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def scale_rates(self, optimizers: ByName, factor: float) -> None:
        """Multiply the learning rates."""
        raise self.lacking("cannot change learning rates, so nonfinite='rollback' does not work")


class WrappedOptimizers(OptimizersRole):
    """Optimizers in wrappers of the backend, which add up gradients until there is an update.

    A wrapper has ``begin_batch(n_samples, is_last, part)`` and ``end_batch()`` around each closure call,
    ``discard_parts()``, ``flush()``, the count ``num_skipped``, the ``rate``, and ``is_plain`` if it does nothing of
    all that.
    """

    cure: ClassVar[str] = ""
    """What to pass if no optimizer is set."""

    @abc.abstractmethod
    def make(self, network: Network, optimizer_cls: Any, **params: Any) -> dict[str, Any]:
        """Optimizers of the framework, where users give no builder of their own."""

    @abc.abstractmethod
    def wrap(self, network: Network, made: ByName, update: UpdateConfig) -> dict[str, Any]:
        """The wrappers of optimizers of the framework."""

    def noted(self, network: Network) -> Callable[[], None]:
        """Return a function that undoes what the network records of batches from now on, e.g. running statistics."""
        return lambda: None

    def build(
        self, network: Network, builder: Builder, optimizer_cls: Any, optimizer_params: ByName, update: UpdateConfig
    ) -> dict[str, Any]:
        """Create the optimizers and wrap each.

        Raises
        ------
        ConfigError
            If no optimizer is set, or the builder returns no dict of optimizers.
        """
        if builder is None and optimizer_cls is None:
            raise ConfigError(f"no optimizer is set; {self.cure}")
        made: Any = (builder or self.make)(network, optimizer_cls, **optimizer_params)
        if not isinstance(made, Mapping) or not made:
            found = "an empty dict" if isinstance(made, Mapping) else f"a {type(made).__name__}"
            raise ConfigError(f"optim_fn returned {found}; it returns a dict, e.g. {{'default': optimizer}}")
        return self.wrap(network, made, update)

    def scope(self, optimizers: ByName, n_samples: int, is_last: bool, part: bool = False) -> Scope:
        """Tell every wrapper; most runs need nothing here, and this is called at every step."""
        for optimizer in optimizers.values():
            if not optimizer.is_plain:
                return self.batch(optimizers, n_samples, is_last, part)
        return _NOTHING

    @contextlib.contextmanager
    def batch(self, optimizers: ByName, n_samples: int, is_last: bool, part: bool) -> Iterator[None]:
        """Scope of one closure call of wrappers of which some are not plain."""
        for optimizer in optimizers.values():
            optimizer.begin_batch(n_samples, is_last, part)
        yield
        for optimizer in optimizers.values():
            optimizer.end_batch()

    @contextlib.contextmanager
    def leaving_out(self, network: Network, optimizers: ByName) -> Iterator[None]:
        """Take back what the network notes of a batch that a wrapper leaves out."""
        before, restore = self.count_left_out(optimizers), self.noted(network)
        yield
        if self.count_left_out(optimizers) != before:
            restore()

    def count_left_out(self, optimizers: ByName) -> int:
        """Return the number of batches that the wrappers have left out."""
        return sum(optimizer.num_skipped for optimizer in optimizers.values())

    def discard_parts(self, optimizers: ByName) -> bool:
        """Forget the parts of the current batch in every wrapper."""
        answers = [optimizer.discard_parts() for optimizer in optimizers.values()]  # asks every one of them
        return all(answers)

    def finish_epoch(self, optimizers: ByName) -> None:
        """Flush every wrapper."""
        for optimizer in optimizers.values():
            optimizer.flush()

    def learning_rates(self, optimizers: ByName) -> dict[str, float]:
        """The rates that wrappers show."""
        rates = {name: rate for name, optimizer in optimizers.items() if (rate := optimizer.rate) is not None}
        return {"lr" if len(optimizers) == 1 else f"lr_{name}": rate for name, rate in rates.items()}

    def scale_rates(self, optimizers: ByName, factor: float) -> None:
        """Multiply the rates of the wrappers."""
        for optimizer in optimizers.values():
            optimizer.rate = (optimizer.rate or 0.0) * factor
