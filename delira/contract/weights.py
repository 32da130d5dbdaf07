"""The role of a backend that knows the weights of networks by name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from delira.contract.kinds import ByName, Network, Role
from delira.errors import ConfigError, NetworkError


class WeightsRole(Role):
    """Weights: learned, averaged, in other layouts, and the layers that hold them."""

    role = "weights"

    def learned_names(self, network: Network) -> frozenset[str]:
        """Names of the entries of ``state_tree(...)["model"]`` that the training changes by gradients.

        Resuming and rolling back read them, so a backend with optimizers writes this.
        """
        return frozenset()

    def learned_weights(self, network: Network) -> dict[str, Any]:
        """The learned weights by name: arrays through which gradients go, inside of a step, too."""
        learned = self.learned_names(network)
        every = self.backend.checkpoints.state_tree(network, {})["model"]
        return {name: value for name, value in every.items() if name in learned}

    def set_learned_names(self, network: Network, names: frozenset[str]) -> None:
        """Freeze and unfreeze weights, so that ``learned_names`` are these."""

    def average(self, average: Any, network: Network, decay: float) -> dict[str, Any]:
        """Move an average of the learned weights by ``1 - decay`` towards the network's; ``None`` begins with a copy.

        Returns a dict by the names of ``state_tree(...)["model"]``; it may be the one that was passed, changed in
        place. Averages follow ``num_updates`` of the optimizers; where they have none, every step is an update.

        Raises
        ------
        NetworkError
            If the weights of the network are not those of the average.
        """
        weights = self.averaged(network)
        if average is not None and average.keys() != weights.keys():
            raise NetworkError(
                f"the average of the weights does not fit the network {type(network).__name__}: "
                f"{', '.join(sorted(average.keys() ^ weights.keys()))} is in one of them only; begin a new average"
            )
        return self.moved(average, weights, decay)

    def averaged(self, network: Network) -> dict[str, Any]:
        """The weights that are averaged, frozen ones included, by name."""
        raise self.lacking("cannot average weights")

    def moved(self, average: ByName | None, weights: ByName, decay: float) -> dict[str, Any]:
        """An average moved towards weights, or copies of these; in the plain case of numpy."""
        if average is None:
            return {name: weight.copy() for name, weight in weights.items()}
        return {name: decay * average[name] + (1 - decay) * weight for name, weight in weights.items()}

    def statistics_names(self, network: Network) -> frozenset[str]:
        """Names of the entries of ``state_tree(...)["model"]`` that are running statistics of the data, as those of
        batch normalisation: they belong to the weights they were seen with. None as long as they have no shape.
        """
        return frozenset()

    def renew_statistics(self, network: Network, calls: Iterable[Callable[[], Any]]) -> None:
        """Let the running statistics be the mean over some calls of the network, in the scope of a training.

        Each of ``calls`` calls the network on a batch; each call of a layer counts alike, and those from before not at
        all. Statistics that no call reaches stay, and without calls all do; what cannot be computed anew is refused
        all the same. What else of the network changes is the trainer's to restore.
        """
        raise ConfigError(f"{self.backend.name!r} cannot compute running statistics anew; set update_statistics=False")

    def named(self, network: Network) -> dict[str, np.ndarray]:
        """Copies of all weights by name, as arrays."""
        raise self.lacking("does not show its weights by name")

    def load_named(self, network: Network, weights: Mapping[str, np.ndarray]) -> None:
        """Put weights by name into the network; refuses others than its own, and changes nothing then."""
        raise self.lacking("does not take weights by name")

    def portable(self, network: Network) -> dict[str, np.ndarray]:
        """Copies of all weights by attribute path, in the layout that every backend understands.

        That is PyTorch's: ``weight`` of a dense layer of shape (out, in), of a convolution (out, in, kernel axes), of
        a transposed one (in, out, kernel axes), and ``bias``; of a normalisation ``weight``, ``bias``,
        ``running_mean``, ``running_var``; of an embedding ``weight`` (entries, features). Counters and states of
        generators are none.
        """
        return self.named(network)

    def load_portable(self, network: Network, weights: Mapping[str, np.ndarray]) -> None:
        """Put weights of :meth:`portable` into the network; names and shapes fit."""
        self.load_named(network, weights)

    def layers(self, network: Network) -> dict[str, Any]:
        """The layers that hold weights, under the paths that :meth:`portable` has for them; ``""``: itself."""
        raise self.lacking("does not show its layers")

    def layer_settings(self, layer: Any) -> ByName:
        """What a layer computes with besides weights, in the words of :mod:`delira.models.weights`."""
        return {}
