"""Devices of PyTorch."""

from collections.abc import Sequence

import torch

from delira.contract import Devices
from delira.errors import ConfigError


def resolve_devices(gpu_ids: Sequence[int], device: str | None) -> Devices:
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
        If both are given, if the device is unknown or not there, or if several GPUs are asked for.
    """
    gpu_ids = list(gpu_ids)
    if gpu_ids and device is not None:
        raise ConfigError(f"gpu_ids={gpu_ids} and device={device!r} say the same; give only one of them")
    if len(gpu_ids) > 1:
        raise ConfigError(
            f"gpu_ids={gpu_ids} asks for several GPUs, which arrives with distributed training; "
            f"use gpu_ids=[{gpu_ids[0]}]"
        )
    if gpu_ids:
        device = f"cuda:{gpu_ids[0]}"
    if device is None:
        device = "cpu"
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = _checked(device, f"gpu_ids={gpu_ids}" if gpu_ids else f"device={device!r}")
    return Devices(chosen, chosen)


def synchronize(devices: Devices) -> None:
    """Wait for an accelerator."""
    if devices.input.type != "cpu":
        torch.accelerator.synchronize(devices.input)


def device_memory(devices: Devices) -> int | None:
    """Bytes that PyTorch holds on a GPU, those included that it keeps for later."""
    return torch.cuda.memory_reserved(devices.input) if devices.input.type == "cuda" else None


def _checked(device: str, asked: str) -> torch.device:
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f"{asked} is no device of PyTorch: {error}") from error
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(
                f"{asked} was asked for, but PyTorch sees no GPU; leave gpu_ids empty, or use device='cpu' or 'auto'"
            )
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise ConfigError(f"{asked} was asked for, but PyTorch sees only {torch.cuda.device_count()} GPU(s)")
    if chosen.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(f"{asked} was asked for, but PyTorch sees no MPS device; use device='cpu' or 'auto'")
    return chosen
