"""The backend of PyTorch."""

from typing import ClassVar

from delira.backends.torch import schedules, tools
from delira.backends.torch.arrays import TorchArrays
from delira.backends.torch.calls import TorchCalls
from delira.backends.torch.checkpoints import TorchCheckpoints
from delira.backends.torch.devices import TorchDevices
from delira.backends.torch.export import TorchExport
from delira.backends.torch.generators import TorchGenerators
from delira.backends.torch.optimizers import TorchOptimizers
from delira.backends.torch.step import TorchStep
from delira.backends.torch.weights import TorchWeights
from delira.contract import Backend, Role


class TorchBackend(Backend):
    """PyTorch."""

    name = "torch"
    checkpoint_suffix = ".pt"
    network_class = "delira.models.AbstractPyTorchNetwork"
    packages = ("torch",)
    schedules = schedules.SCHEDULES
    trace = staticmethod(tools.trace)
    write_graph = staticmethod(tools.write_graph)
    free_image = tools.FreeImage
    roles: ClassVar[tuple[type[Role], ...]] = (
        TorchDevices,
        TorchCalls,
        TorchStep,
        TorchOptimizers,
        TorchArrays,
        TorchGenerators,
        TorchWeights,
        TorchCheckpoints,
        TorchExport,
    )


BACKEND = TorchBackend()
