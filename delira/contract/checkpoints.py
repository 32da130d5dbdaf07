"""The role of a backend that takes and gives back the state of a training."""

import abc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from delira.contract.kinds import ByName, Network, Role
from delira.errors import CheckpointError
from delira.io.container import read_tree, write_tree


class CheckpointsRole(Role):
    """States of networks and optimizers as trees, and trees as files: in the plain case the common container."""

    role = "checkpoints"

    writes_plain_weights: ClassVar[bool] = False
    """Whether :meth:`write` makes of weights alone a file that the framework reads by itself. If not, callbacks that
    are asked for weights alone write ``.safetensors``.
    """

    @abc.abstractmethod
    def state_tree(self, network: Network, optimizers: ByName) -> dict[str, Any]:
        """``{"model": …, "optimizer": {name: …}}`` and whatever else the backend must keep, as a tree.

        It may hold the arrays of the network themselves: where they must not change, the trainer takes a snapshot.
        Generators that belong to a layer are part of ``"model"``.
        """

    @abc.abstractmethod
    def load_state_tree(self, tree: ByName, network: Network, optimizers: ByName) -> None:
        """Put a tree back; optimizers that are not passed are left alone.

        Raises
        ------
        CheckpointError
            If the weights do not fit the network, naming the entries; nothing is changed then.
        """

    def write(self, file: BinaryIO, tree: ByName) -> None:
        """Serialise a checkpoint tree."""
        write_tree(file, tree)

    def read(self, path: Path) -> dict[str, Any]:
        """Read a checkpoint tree whose file was verified; executes nothing that the file says."""
        return read_tree(path)

    def weights_in(self, tree: ByName) -> Any:
        """The weights of a checkpoint tree, without what may differ between networks that are equal."""
        return tree["model"]

    def arguments(self, tree: ByName, given: ByName, trusted: Iterable[Any] = ()) -> dict[str, Any]:
        """Arguments of a network that is made for a checkpoint.

        Parameters
        ----------
        tree
            The checkpoint.
        given
            The arguments that it names, by name; what could not be read is no argument yet.
        trusted
            What the user trusts besides, where a part of the checkpoint is more than arrays.
        """
        return dict(given)

    def further_files(self, network: Network) -> Mapping[str, Callable[[BinaryIO, ByName], None]]:
        """What is written beside each checkpoint, for other programs: ending of the file -> writer of a tree.

        Nothing is continued from these files: the checkpoint alone holds all.
        """
        return {}


def optimizer_states(tree: ByName, optimizers: ByName) -> ByName:
    """The states of optimizers in a tree.

    Parameters
    ----------
    tree
        A checkpoint tree.
    optimizers
        Those that get their states.

    Raises
    ------
    CheckpointError
        Naming the optimizers that it lacks.
    """
    states: ByName = tree.get("optimizer", {})
    if missing := sorted(optimizers.keys() - states.keys()):
        raise CheckpointError(f"the checkpoint has no optimizer {missing}; it has {sorted(states)}")
    return states


def check_fit(network: Network, weights: ByName, own: ByName, differs: Callable[[str], str | None]) -> None:
    """Refuse weights of another network.

    Parameters
    ----------
    network
        Whose weights they should be.
    weights
        Those of a checkpoint by name.
    own
        Those of the network by name.
    differs
        Says of the name of a weight that both have how it differs, if it does.

    Raises
    ------
    CheckpointError
        Naming the entries.
    """
    complaints = []
    if missing := [name for name in own if name not in weights]:
        complaints.append(f"missing in the checkpoint: {', '.join(missing)}")
    if unknown := [str(name) for name in weights if name not in own]:
        complaints.append(f"unknown to the network: {', '.join(unknown)}")
    complaints += [complaint for name in own if name in weights and (complaint := differs(name))]
    if complaints:
        raise CheckpointError(
            f"the checkpoint does not fit the network {type(network).__name__}: " + "; ".join(complaints)
        )
