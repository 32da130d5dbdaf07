"""The verbs of the contract in TorchScript: those of PyTorch, but for devices, arguments and programs."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import torch

from delira.backends.torch.backend import TorchBackend
from delira.backends.torch.device import resolve_devices
from delira.backends.torchscript import io
from delira.contract import Backend, Devices
from delira.errors import ConfigError

_log = logging.getLogger("delira")


class TorchScriptBackend(TorchBackend):
    """TorchScript."""

    name = "torchscript"
    checkpoint_suffix = io.STATE
    other_suffixes = io.OTHERS

    bind_step = Backend.bind_step
    export = staticmethod(io.export)

    @staticmethod
    def devices(gpu_ids: Sequence[int], device: str | None) -> Devices:
        if len(gpu_ids) > 1:
            _log.warning("a TorchScript network trains on one GPU: of gpu_ids=%s only the first is used", list(gpu_ids))
        return resolve_devices(list(gpu_ids)[:1], device)

    def further_files(self, network: torch.nn.Module) -> Mapping[str, Callable[[BinaryIO, Mapping[str, Any]], None]]:
        return {io.MODEL: lambda file, tree: io.write_program(file, network, tree["model"])}

    def key_mapping(self, network: torch.nn.Module) -> dict[str, str]:
        arguments = _arguments(network)
        required = [name for name, is_optional in arguments.items() if not is_optional]
        if len(required) == 1:
            return {required[0]: "data"}
        if "x" in arguments and not required:
            return {"x": "data"}
        raise ConfigError(
            f"{type(network).__name__}.forward takes {list(arguments)}, so it is not clear which of them gets the "
            "batch entry 'data'; pass key_mapping={argument: batch entry}"
        )

    def arguments_of(self, network: torch.nn.Module) -> frozenset[str]:
        return frozenset(_arguments(network))


def _arguments(network: torch.nn.Module) -> dict[str, bool]:
    """Arguments of forward, and whether each has a default."""
    forward: Any = getattr(network, "forward", None)
    if not hasattr(forward, "schema"):
        raise ConfigError(
            f"{type(network).__name__}.forward is no TorchScript; write @torch.jit.script_method above it, or subclass "
            "delira.models.AbstractPyTorchNetwork"
        )
    return {argument.name: argument.has_default_value() for argument in forward.schema.arguments[1:]}


BACKEND = TorchScriptBackend()
