"""The backend of TorchScript: that of PyTorch, but for devices, arguments and programs."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import torch

from delira.backends.torch.backend import TorchBackend
from delira.backends.torch.calls import TorchCalls
from delira.backends.torch.checkpoints import TorchCheckpoints
from delira.backends.torch.devices import TorchDevices
from delira.backends.torch.step import TorchStep
from delira.backends.torchscript import io
from delira.contract import ByName, Devices, ExportRole, StepRole
from delira.errors import ConfigError
from delira.utils.binding import parameters_of_method

_log = logging.getLogger("delira")


class TorchScriptDevices(TorchDevices):
    """One device."""

    in_processes = False

    def resolve(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        if device is not None and "," in device:
            raise self.lacking("trains on one device; leave devices out, or use the PyTorch backend")
        if len(gpu_ids) > 1:
            _log.warning("a TorchScript network trains on one GPU: of gpu_ids=%s only the first is used", list(gpu_ids))
        return super().resolve(list(gpu_ids)[:1], device)


class TorchScriptCalls(TorchCalls):
    """The forward of a network is a program, which has a schema."""

    def parameters(self, network: torch.nn.Module) -> Mapping[str, inspect.Parameter]:
        forward: Any = getattr(network, "forward", None)
        if not hasattr(forward, "schema"):
            raise ConfigError(
                f"{type(network).__name__}.forward is no TorchScript; write @torch.jit.script_method above it, or "
                "subclass delira.models.AbstractPyTorchNetwork"
            )
        return {name: one for name, one in parameters_of_method(forward).items() if name != "self"}


class TorchScriptStep(TorchStep):
    """The step is Python."""

    bind = StepRole.bind


class TorchScriptCheckpoints(TorchCheckpoints):
    """Beside each checkpoint lies the network as a program."""

    writes_plain_weights = False  # the ending of its checkpoints says that they are of a trainer

    def further_files(self, network: torch.nn.Module) -> Mapping[str, Callable[[BinaryIO, ByName], None]]:
        return {io.MODEL: lambda file, tree: io.write_program(file, network, tree["model"])}


class TorchScriptExport(ExportRole):
    """The program of the network itself."""

    write = staticmethod(io.export)
    write_program = staticmethod(io.export_program)


class TorchScriptBackend(TorchBackend):
    """TorchScript."""

    name = "torchscript"
    checkpoint_suffix = io.STATE
    other_suffixes = io.OTHERS
    roles = (
        *TorchBackend.roles,
        TorchScriptDevices,
        TorchScriptCalls,
        TorchScriptStep,
        TorchScriptCheckpoints,
        TorchScriptExport,
    )


BACKEND = TorchScriptBackend()
