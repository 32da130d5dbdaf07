"""The backend of TensorFlow."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow import (
    arrays,
    calls,
    checkpoints,
    devices,
    export,
    generators,
    natives,
    optimizers,
    step,
    weights,
)
from delira.backends.tensorflow.schedules import SCHEDULES
from delira.contract import Backend, Defaults, roles_in
from delira.errors import import_optional
from delira.state import State

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter


class FreeImage(keras.Model):
    """A picture whose pixels are learned; see :attr:`delira.contract.Backend.free_image`."""

    keywords: ClassVar[dict[str, bool]] = {"training": False}  # else Keras takes the mode of the picture, which learns

    def __init__(self, pixels: np.ndarray, compute: Callable[[tf.Tensor, State], tf.Tensor]):
        super().__init__()
        self.image = self.add_weight(shape=pixels.shape, name="image")
        self.image.assign(pixels)
        self.compute, self.built = compute, True

    def call(self, state: State) -> tf.Tensor:
        return self.compute(self.image.value, state)

    def make_optimizer(self) -> keras.optimizers.Optimizer:
        """Return Adam with the rate 0.5."""
        return keras.optimizers.Adam(0.5)


class TfBackend(Backend):
    """TensorFlow, with Keras."""

    name = "tensorflow"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractTfNetwork"
    packages = ("keras", "tensorflow")
    channels_last = True
    compiles = True
    schedules = SCHEDULES
    defaults = Defaults(
        network="delira.models.MultilayerPerceptronTf",
        losses={
            "classification": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "regression": keras.losses.MeanSquaredError,
        },
        optimizer_cls=keras.optimizers.Adam,
        rate="learning_rate",
    )
    free_image = FreeImage
    roles = roles_in(arrays, calls, checkpoints, devices, export, generators, natives, optimizers, step, weights)

    @staticmethod
    def trace(folder: Path) -> contextlib.AbstractContextManager[None]:
        """Scope that leaves a trace for TensorBoard and XProf."""
        return tf.profiler.experimental.Profile(str(folder))  # type: ignore[no-any-return]

    @staticmethod
    def write_graph(
        writer: "SummaryWriter",
        network: keras.Model,
        call: Callable[[Sequence[tf.Tensor]], list[tf.Tensor]],
        leaves: list[tf.Tensor],
    ) -> None:
        """Write the graph of a network for TensorBoard, as it is traced by ``call(leaves)``."""
        events = import_optional("tensorboardX.proto.event_pb2", "TensorBoard", "delira[logging]")
        function = tf.function(lambda *leaves: call(leaves), autograph=False)
        specs = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]
        graph = function.get_concrete_function(*specs).graph.as_graph_def(add_shapes=True)
        writer.file_writer.add_event(events.Event(graph_def=graph.SerializeToString()))


BACKEND = TfBackend()
