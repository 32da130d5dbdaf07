"""The TensorFlow backend; import it only where TensorFlow is installed."""

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from small_backends import Kit

from delira.backends.tensorflow.runtime import runtime_of
from delira.models import AbstractTfNetwork
from delira.training import TfExperiment, TfNetworkTrainer
from delira.training.callbacks import StepLRCallbackTf


class TfLinear(AbstractTfNetwork):
    """``pred = dropped(x) @ weight``."""

    def __init__(self, n_features: int = 3, dropout: float = 0.0):
        super().__init__(n_features=n_features, dropout=dropout)
        self.drop = keras.layers.Dropout(dropout) if dropout else keras.layers.Identity()
        self.linear = keras.layers.Dense(1, use_bias=False)
        self.linear.build((None, n_features))

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.linear(self.drop(x))}


def mean_squared_error(prediction: Any, target: Any) -> Any:
    return tf.reduce_mean(tf.square(prediction - target))


def write(network: Any, weight: np.ndarray) -> None:
    network.linear.kernel.assign(weight.astype(np.float32))


def step(model: Any, batch: Any, optimizers: Any, losses: Any) -> tuple[Any, Any]:
    with tf.GradientTape() as tape:
        pred = model(batch["data"])["pred"]
        loss = sum(loss(pred, batch["label"]) for loss in losses.values())
        scaled = optimizers["default"].scale_loss(loss)
    optimizers["default"].minimize(scaled, tape)
    return loss, pred


@functools.cache
def tensorflow_kit() -> Kit:
    return Kit(
        name="tensorflow",
        network=TfLinear,
        trainer_cls=TfNetworkTrainer,
        experiment_cls=TfExperiment,
        loss=mean_squared_error,
        optimizer_cls=keras.optimizers.SGD,
        rtol=1e-4,
        read=lambda network: network.linear.kernel.numpy().copy(),
        write=write,
        step=step,
        halving=lambda: {
            "lr_scheduler_cls": StepLRCallbackTf,
            "lr_scheduler_params": {"step_size": 1, "gamma": 0.5},
        },
        draw=lambda: float(tf.random.uniform(())),
        learns=lambda network: runtime_of(network).mode is True,
        weight_name="linear.kernel",
        compiles=True,
    )
