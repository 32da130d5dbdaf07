"""What a trial needs of a room beside what trains networks of ours."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from delira.contract.settings import Devices
from delira.errors import ConfigError


class TrialVerbs:
    """The verbs of :class:`Backend` that only a :class:`delira.Trial` asks for."""

    name: str
    place: Callable[[Any, Mapping[str, Any], Devices], Any]

    def draw_seed(self) -> int:
        """One number below ``2**31`` from the global generator of the framework, which goes on by one draw.

        Numpy's, for frameworks that have none: that is what their users seed.
        """
        return int(np.random.randint(2**31))  # noqa: NPY002 - the global one is meant

    def calling(self, network: Any) -> AbstractContextManager[None]:
        """Scope in which a network may be called by others than the room: as it predicts, or learns, at the time."""
        return contextlib.nullcontext()

    def copy_optimizer(self, optimizer: Any, network: Any, twin: Any) -> Any:
        """An optimizer as one of the framework is, with no state yet, for a network that is a copy of its own."""
        raise ConfigError(f"the room {self.name!r} cannot copy optimizers")

    def check_optimizers(self, network: Any, optimizers: Mapping[str, Any]) -> None:
        """Refuse optimizers of other weights than the network's; those that keep no weights go on with any."""
        return

    def move(self, network: Any, optimizers: Mapping[str, Any], devices: Devices, dtype: Any) -> None:
        """Bring a network and the states of its optimizers to devices and, if that is not None, into a dtype."""
        if dtype is not None:
            raise ConfigError(
                f"the room {self.name!r} cannot change the number format of a network; build it with the dtype"
            )
        self.place(network, {}, devices)

    def constants_of(self, value: Any) -> Sequence[Any]:
        """Arrays within an object of the framework that a compiled step takes as they were when it was traced."""
        return ()

    def differentiate(
        self, network: Any, optimizer: Any, compute: Callable[[Any], tuple[Any, dict[Any, Any]]]
    ) -> tuple[Any, dict[Any, Any], dict[str, Any]]:
        """Loss, further values, and the gradients of one network's learned weights by name.

        Parameters
        ----------
        network
            Whose weights are meant; no other network gets gradients.
        optimizer
            That will update them.
        compute
            Called with the network, returns the loss and further values.
        """
        raise ConfigError(f"the room {self.name!r} differentiates in its own closure only")

    def leave_gradients(self, network: Any, optimizer: Any, gradients: Mapping[str, Any]) -> None:
        """Keep gradients by name for :meth:`update_after`."""
        return

    def update_after(self, optimizers: Mapping[str, Any]) -> None:
        """Update with gradients that a closure of a trial has left: on the weights, where frameworks do so."""
        return

    def no_network(self) -> Any:
        """A network without weights that returns None."""
        raise ConfigError(f"the room {self.name!r} cannot train without a network")

    def no_optimizer(self) -> Any:
        """An optimizer that updates nothing, for :meth:`build_optimizers`."""
        raise ConfigError(f"the room {self.name!r} cannot train without an optimizer")

    def zero_loss(self, devices: Devices) -> Any:
        """A loss of nothing, to which others can be added."""
        return 0.0
