"""The role of a backend that calls networks."""

import abc
import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from delira.contract.kinds import ByName, Network, Scope, Tree
from delira.contract.role import Role
from delira.errors import ConfigError
from delira.utils.binding import parameters_of_method


class CallsRole(Role):
    """Modes, arguments and calls of networks. In the plain case a network is a function of named inputs."""

    role = "calls"

    method: ClassVar[str] = "forward"
    """What users write to say what a network computes."""

    @abc.abstractmethod
    def training(self, network: Network) -> Scope:
        """Scope in which the network learns."""

    @abc.abstractmethod
    def evaluating(self, network: Network) -> Scope:
        """Scope in which the network only predicts: evaluation mode, no gradients; both restored after."""

    def set_evaluating(self, network: Network) -> None:
        """Put the network into evaluation mode for good: called at the end of a training. Nothing to do where a network
        predicts unless it is told to learn.
        """

    def parameters(self, network: Network) -> Mapping[str, inspect.Parameter]:
        """Arguments of the network that a batch can fill."""
        return parameters_of_method(getattr(network, self.method))

    def key_mapping(self, network: Network) -> dict[str, str]:
        """Argument of the network -> batch entry, if the user did not say: the only one that is needed, or ``x``."""
        parameters = self.parameters(network)
        required = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        if len(required) == 1:
            return {required[0]: "data"}
        if "x" in parameters and not required:
            return {"x": "data"}
        raise ConfigError(
            f"{type(network).__name__}.{self.method} takes {list(parameters)}, so it is not clear which of them gets "
            f"the batch entry 'data'; {self.cure(required)}"
        )

    def cure(self, required: Sequence[str]) -> str:
        """What a user whose network needs these arguments can do."""
        return "pass key_mapping={argument: batch entry}"

    def arguments_of(self, network: Network) -> frozenset[str] | None:
        """Names of the arguments a network takes; ``None`` if it takes any."""
        parameters = self.parameters(network)
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if is_open else frozenset(parameters)

    def is_ready(self, network: Network) -> bool:
        """Return True if the network can predict; an estimator that was never fitted cannot."""
        return True

    def forward(self, network: Network, inputs: ByName) -> Any:
        """Call the network."""
        return self.call_apart(network, inputs, lambda own: network(**own))

    def call_apart(self, network: Network, inputs: Any, call: Callable[[Any], Any]) -> Any:
        """Call with inputs that stay what they are, also if the network works in place: they are read afterwards.

        ``call`` gets the tree of inputs, or a copy of it. Where arrays cannot be changed, there is nothing to do.
        """
        return call(inputs)

    def calling(self, network: Network) -> Scope:
        """Scope in which a network may be called by others than the backend: as it predicts, or learns, at the time."""
        return contextlib.nullcontext()

    def added_losses(self, network: Network) -> ByName:
        """What the network itself adds to the loss in the call before, e.g. regularisation, as one-number losses."""
        return {}

    def constants_of(self, value: Tree) -> Sequence[Any]:
        """Arrays within an object of the framework that a compiled step takes as they were when it was traced."""
        return ()

    def no_network(self) -> Any:
        """A network without weights that returns None."""
        raise self.lacking("cannot train without a network")
