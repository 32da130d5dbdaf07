"""Devices of PyTorch, their memory and threads, and deterministic algorithms on them."""

import contextlib
import gc
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from delira.backends.torch.process_settings import SETTINGS
from delira.contract import ByName, Devices, DevicesRole, Network
from delira.contract.devices import asked_for
from delira.errors import ConfigError
from delira.utils.seeding import CUBLAS_SETTING, choose_cublas_workspace, make_torch_deterministic

#: in the messages of errors that are no ``OutOfMemoryError``: of CUDA itself, cuBLAS, and the host
_OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")


class TorchDevices(DevicesRole):
    """Devices of PyTorch: the CPU, a GPU, or Apple's; of several each has a process of its own."""

    in_processes = True
    process_settings = SETTINGS

    def resolve(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        """Devices of inputs and targets.

        Parameters
        ----------
        gpu_ids
            Historic spelling: empty for the CPU, ``[i]`` for one GPU.
        device
            ``"auto"`` (the first GPU if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

        Raises
        ------
        ConfigError
            If both are given, or if the device is unknown or not there.
        """
        gpu_ids = list(gpu_ids)
        asked = asked_for(gpu_ids, device)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            chosen = torch.device(f"cuda:{gpu_ids[0]}" if gpu_ids else "cpu" if device is None else device)
        except (RuntimeError, TypeError) as error:
            raise ConfigError(f"{asked} is no device of PyTorch: {error}") from error
        if chosen.type == "cuda" and not torch.cuda.is_available():
            raise ConfigError(
                f"{asked} was asked for, but PyTorch sees no GPU; leave gpu_ids empty, or use device='cpu' or 'auto'"
            )
        if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
            raise ConfigError(f"{asked} was asked for, but PyTorch sees only {torch.cuda.device_count()} GPU(s)")
        if chosen.type == "mps" and not torch.backends.mps.is_available():
            raise ConfigError(f"{asked} was asked for, but PyTorch sees no MPS device; use device='cpu' or 'auto'")
        return Devices(chosen, chosen)

    def meeting(self, size: int, seconds: float) -> Any:
        from delira.backends.torch import meeting  # torch.distributed: few need it

        return meeting.opened(size, seconds)

    def launch_store(self, prefix: str) -> Any:
        from delira.backends.torch import meeting

        return meeting.launch_store(prefix, os.getpid())

    def group(
        self, rank: int, size: int, meeting: Any, seconds: float, devices: Devices, look: Callable[[], object]
    ) -> contextlib.AbstractContextManager[Any]:
        from delira.backends.torch.meeting import entered

        return entered(rank, size, meeting, seconds, devices, look)

    def of(self, network: torch.nn.Module) -> Devices:
        device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
        return Devices(device, device)

    def place(self, network: torch.nn.Module, losses: ByName, devices: Devices) -> torch.nn.Module:
        for loss in map(inspect.unwrap, losses.values()):  # one may be inside of another
            if isinstance(loss, torch.nn.Module):
                loss.to(devices.output)
        return network.to(devices.input)

    def move(self, network: Network, optimizers: ByName, devices: Devices, dtype: Any) -> None:
        if dtype is not None and not getattr(dtype, "is_floating_point", False):
            raise ConfigError(f"a network computes in a floating-point dtype of PyTorch, got {dtype!r}")
        network.to(devices.input, dtype)
        for optimizer in optimizers.values():  # loading brings its state to the weights
            optimizer.optimizer.load_state_dict(optimizer.optimizer.state_dict())

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        if number is None:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def thread_count(self) -> int:
        return torch.get_num_threads()

    def synchronize(self, devices: Devices) -> None:
        if devices.input.type != "cpu":
            torch.accelerator.synchronize(devices.input)

    def memory(self, devices: Devices) -> int | None:
        return torch.cuda.memory_reserved(devices.input) if devices.input.type == "cuda" else None

    def prepare_deterministic(self) -> None:
        """Choose what has to be chosen before CUDA is used: the workspace of cuBLAS, by an environment variable."""
        choose_cublas_workspace(torch)

    @contextlib.contextmanager
    def deterministic(self) -> Iterator[None]:
        """Scope in which an operation gives the same bits every time, or raises; all settings are restored on exit.

        Warns in the log if CUDA was initialised without ``CUBLAS_WORKSPACE_CONFIG``: that cannot be made up for.
        """
        cudnn = torch.backends.cudnn
        is_on = torch.are_deterministic_algorithms_enabled()
        only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
        chosen, searches, workspace = cudnn.deterministic, cudnn.benchmark, os.environ.get(CUBLAS_SETTING)
        try:
            make_torch_deterministic(torch)
            yield
        finally:
            torch.use_deterministic_algorithms(is_on, warn_only=only_warns)
            cudnn.deterministic, cudnn.benchmark = chosen, searches
            if not torch.cuda.is_initialized():  # else cuBLAS has read it, and goes on with it
                os.environ.pop(CUBLAS_SETTING, None)
                if workspace is not None:
                    os.environ[CUBLAS_SETTING] = workspace

    def is_out_of_memory(self, error: BaseException) -> bool:
        is_told = isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)
        return is_told or isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError))

    def free_memory(self) -> None:
        """Give memory that nothing holds any more back to the devices.

        The traceback of an error holds the tensors of the step that it broke off: leave the ``except`` clause first.
        """
        gc.collect()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if torch.backends.mps.is_available():
            torch.mps.empty_cache()
