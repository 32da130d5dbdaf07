"""The backend of PyTorch."""

from delira.backends.torch import arrays, calls, checkpoints, devices, export, generators, optimizers, step, weights
from delira.backends.torch.schedules import SCHEDULES
from delira.backends.torch.tools import FreeImage, trace, write_graph
from delira.contract import Backend, roles_in


class TorchBackend(Backend):
    """PyTorch."""

    name = "torch"
    checkpoint_suffix = ".pt"
    network_class = "delira.models.AbstractPyTorchNetwork"
    packages = ("torch",)
    schedules = SCHEDULES
    trace = staticmethod(trace)
    write_graph = staticmethod(write_graph)
    free_image = FreeImage
    roles = roles_in(arrays, calls, checkpoints, devices, export, generators, optimizers, step, weights)


BACKEND = TorchBackend()
