"""The backend of TensorFlow."""

from typing import ClassVar

from delira.backends.tensorflow import schedules, tools
from delira.backends.tensorflow.arrays import TfArrays
from delira.backends.tensorflow.calls import TfCalls
from delira.backends.tensorflow.checkpoints import TfCheckpoints
from delira.backends.tensorflow.devices import TfDevices
from delira.backends.tensorflow.export import TfExport
from delira.backends.tensorflow.generators import TfGenerators
from delira.backends.tensorflow.optimizers import TfOptimizers
from delira.backends.tensorflow.step import TfStep
from delira.backends.tensorflow.weights import TfWeights
from delira.contract import Backend, Role


class TfBackend(Backend):
    """TensorFlow, with Keras."""

    name = "tensorflow"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractTfNetwork"
    packages = ("keras", "tensorflow")
    channels_last = True
    compiles = True
    schedules = schedules.SCHEDULES
    trace = staticmethod(tools.trace)
    write_graph = staticmethod(tools.write_graph)
    free_image = tools.FreeImage
    roles: ClassVar[tuple[type[Role], ...]] = (
        TfDevices,
        TfCalls,
        TfStep,
        TfOptimizers,
        TfArrays,
        TfGenerators,
        TfWeights,
        TfCheckpoints,
        TfExport,
    )


BACKEND = TfBackend()
