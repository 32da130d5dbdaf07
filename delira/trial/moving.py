"""Where a trial computes, in which number format, and in which mode."""

import numbers
from typing import Any, Self

from delira import state as keys
from delira.contract.kinds import Array, Tree
from delira.errors import ConfigError
from delira.state import State
from delira.trial.backends import backend_of
from delira.utils.array_functions import cast
from delira.utils.arrays import ops_of
from delira.utils.trees import map_leaves


class Movable:
    """The methods of a trial that move it; each returns the trial."""

    state: State
    settings: dict[str, Any]
    metrics: Any
    trainer: Any
    _trainer: Any

    def to(self, device: Any = None, dtype: Any = None) -> Self:
        """Compute somewhere else, or in another number format: network, optimizers' states and later batches.

        Parameters
        ----------
        device
            As the setting ``device`` takes it, or a device of PyTorch; None: stay. A dtype may be given in its place.
        dtype
            A floating-point dtype of PyTorch; None: stay. In other frameworks the network is built with its dtype.

        Raises
        ------
        ConfigError
            If there is no such device, or the framework cannot change the number format of a network.
        """
        if dtype is None and device is not None and type(device).__name__ == "dtype":
            device, dtype = None, device
        device = None if device is None else str(device)
        if self._trainer is not None or dtype is not None:
            self._move(device, dtype)
        elif device is not None:
            backend_of(self.state[keys.MODEL]).devices.resolve((), device)  # refuses one that is not there
            self.settings = {**self.settings, "device": device}
        return self

    def _move(self, device: str | None, dtype: Any) -> None:
        """Bring the network and the states of its optimizers somewhere else, or into another number format."""
        run, facts = self.trainer.run, self.state
        devices = run.devices if device is None else run.backend.devices.resolve((), device)
        run.backend.devices.move(run.network, run.optimizers, devices, dtype)
        run.devices, run.n_replaced = devices, run.n_replaced + 1
        facts[keys.DEVICE], facts[keys.DATA_TYPE] = devices.input, dtype or facts[keys.DATA_TYPE]

    def cuda(self, device: int | None = None) -> Self:
        """Compute on a GPU.

        Parameters
        ----------
        device
            Its number.
        """
        return self.to("cuda" if device is None else f"cuda:{device}")

    def cpu(self) -> Self:
        """Compute on the CPU."""
        return self.to("cpu")

    def train(self) -> Self:
        """Put network and metrics into training mode; each pass of the trial sets its own."""
        if callable(getattr(self.state[keys.MODEL], "train", None)):
            self.state[keys.MODEL].train()
        self.metrics.train()
        return self

    def eval(self, data_key: Any = None) -> Self:
        """Put network and metrics into evaluation mode; each pass of the trial sets its own.

        Parameters
        ----------
        data_key
            Of the data that the metrics name their values after; by default those to validate on.
        """
        if callable(getattr(self.state[keys.MODEL], "eval", None)):
            self.state[keys.MODEL].eval()
        self.metrics.eval(data_key)
        return self


def deep_to(batch: Tree, device: Any = None, dtype: Any = None) -> Any:
    """A batch somewhere else, or in another number format; the batch itself stays as it is.

    Parameters
    ----------
    batch
        Arrays, and tuples, lists, named tuples and dicts of them; what is no array is passed as it is.
    device
        Of PyTorch, for its tensors; None: stay.
    dtype
        For floating-point numbers; None: stay.

    Raises
    ------
    ConfigError
        If there is no such device, or the dtype is none of floating-point numbers.
    """

    def move(leaf: Array) -> Any:
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            return leaf
        if device is not None:
            if not hasattr(leaf, "to"):
                raise ConfigError(f"deep_to moves tensors of PyTorch to devices, got a {type(leaf).__name__}")
            leaf = _moved(leaf, device)
        return _of_type(leaf, dtype) if dtype is not None and ops_of(leaf).is_float(leaf) else leaf

    return map_leaves(move, batch)


def _moved(tensor: Array, device: Any) -> Any:
    if not isinstance(device, bool):
        try:
            return tensor.to(device=device)
        except Exception as error:  # each kind of device has its own
            raise ConfigError(f"deep_to: there is no device {device!r}: {error}") from error
    raise ConfigError(f"deep_to: device is one of PyTorch, got {device!r}")


def _of_type(array: Array, dtype: Any) -> Any:
    why = None
    if not isinstance(dtype, (numbers.Number, list, dict)):  # which PyTorch and numpy make something of
        try:
            if ops_of(made := cast(array, dtype)).is_float(made):
                return made
        except Exception as error:  # each framework has its own
            why = error
    raise ConfigError(f"deep_to: dtype is a floating-point dtype of the framework of the batch, got {dtype!r}") from why
