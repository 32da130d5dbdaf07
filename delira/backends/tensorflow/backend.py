"""The backend of TensorFlow."""

from delira.backends.tensorflow import (
    arrays,
    calls,
    checkpoints,
    devices,
    export,
    generators,
    optimizers,
    step,
    weights,
)
from delira.backends.tensorflow.schedules import SCHEDULES
from delira.backends.tensorflow.tools import FreeImage, trace, write_graph
from delira.contract import Backend
from delira.contract.backend import roles_in


class TfBackend(Backend):
    """TensorFlow, with Keras."""

    name = "tensorflow"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractTfNetwork"
    packages = ("keras", "tensorflow")
    channels_last = True
    compiles = True
    schedules = SCHEDULES
    trace = staticmethod(trace)
    write_graph = staticmethod(write_graph)
    free_image = FreeImage
    roles = roles_in(arrays, calls, checkpoints, devices, export, generators, optimizers, step, weights)


BACKEND = TfBackend()
