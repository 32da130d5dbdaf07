"""The role of a backend that knows where it computes, and with what."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from delira.contract.kinds import ByName, Devices, Network, Role, Scope
from delira.contract.process_settings import Setting
from delira.errors import ConfigError


class DevicesRole(Role):
    """Devices, their memory and threads. The plain case computes on the CPU only."""

    role = "devices"
    #: whether each of several devices has a process of its own, which :meth:`group` brings together
    in_processes = False
    #: by name, settings of the framework for the whole process that change numbers: other processes compute by the same
    process_settings: ClassVar[Mapping[str, Setting]] = {}

    def resolve(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        """Resolve the historic ``gpu_ids`` or the modern ``device``; an absent GPU is an error."""
        if gpu_ids or device not in (None, "auto", "cpu"):
            raise ConfigError(
                f"{self.backend.title} computes on the CPU only, got gpu_ids={list(gpu_ids)}, device={device!r}"
            )
        return Devices("cpu", "cpu")

    def meeting(self, size: int, seconds: float) -> Any:
        """Where processes of this machine meet that train one network; others are told its ``port``.

        Parameters
        ----------
        size
            How many there are.
        seconds
            After which one that waits for another raises a :class:`delira.errors.WorkerLostError`.
        """
        raise self.lacking("cannot train one network in several processes; leave devices out")

    def launch_store(self, prefix: str) -> Any:
        """Where processes that a launcher has started leave messages for each other, under names that begin so.

        Parameters
        ----------
        prefix
            Of the names.
        """
        raise self.lacking("knows no launcher; start the script with python")

    def group(
        self, rank: int, size: int, meeting: Any, seconds: float, devices: Devices, look: Callable[[], object]
    ) -> contextlib.AbstractContextManager[Any]:
        """Scope in which this process is one of several that train a network; it gives what they exchange arrays by.

        Parameters
        ----------
        rank, size
            Which one of how many.
        meeting
            What :meth:`meeting` returned, or its port.
        seconds
            As for :meth:`meeting`.
        devices
            Of this process.
        look
            Called again and again while the others are waited for; what it raises ends the waiting.
        """
        raise self.lacking("cannot train one network in several processes; leave devices out")

    def of(self, network: Network) -> Devices:
        """Where the network is."""
        return Devices("cpu", "cpu")

    def place(self, network: Network, losses: ByName, devices: Devices) -> Any:
        """Move the network, and losses that hold arrays, to their devices."""
        return network

    def move(self, network: Network, optimizers: ByName, devices: Devices, dtype: Any) -> None:
        """Bring a network and the states of its optimizers to devices and, if that is not None, into a dtype."""
        if dtype is not None:
            raise ConfigError(
                f"the backend {self.backend.name!r} cannot change the number format of a network; build it with the "
                "dtype"
            )
        self.place(network, {}, devices)

    def threads(self, number: int | None) -> Scope:
        """Scope in which the framework computes with ``number`` threads (``None``: leave it alone)."""
        if number is not None:
            raise self.lacking("cannot choose the number of threads; leave num_threads out")
        return contextlib.nullcontext()

    def thread_count(self) -> int | None:
        """Number of CPU threads the framework computes with, if it can tell."""
        return None

    def synchronize(self, devices: Devices) -> None:
        """Return when the devices have done what they were given: only then does a clock tell what it took."""

    def memory(self, devices: Devices) -> int | None:
        """Bytes that the framework holds on an accelerator; ``None`` on the CPU, or if it cannot tell."""
        return None

    def prepare_deterministic(self) -> None:
        """Choose what :meth:`deterministic` needs and has to be chosen before the device is used."""

    def deterministic(self) -> Scope:
        """Scope in which the framework uses only algorithms that give the same bits every time."""
        return contextlib.nullcontext()

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Return True if an error says that the memory of the device did not suffice."""
        return isinstance(error, MemoryError)

    def free_memory(self) -> None:
        """Give memory that is kept for later back to the device."""


def asked_for(gpu_ids: Sequence[int], device: str | None) -> str:
    """What a user has asked for, for messages.

    Parameters
    ----------
    gpu_ids, device
        The historic and the modern spelling.

    Raises
    ------
    ConfigError
        If both are given.
    """
    if gpu_ids and device is not None:
        raise ConfigError(f"gpu_ids={gpu_ids} and device={device!r} say the same; give only one of them")
    return f"gpu_ids={gpu_ids}" if gpu_ids else f"device={device!r}"
