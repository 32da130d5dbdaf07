"""The training of the golden checkpoints of TensorFlow."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.models import AbstractTfNetwork
from delira.training import TfNetworkTrainer
from delira.training.callbacks import StepLRCallbackTf


class Golden(AbstractTfNetwork):
    def __init__(self) -> None:
        super().__init__()
        layers = keras.layers
        # no bias before the normalisation: its gradient is rounding error alone, and Adam makes steps of that
        self.body = keras.Sequential(
            [layers.Dense(4, use_bias=False), layers.BatchNormalization(), layers.Dropout(0.3)]
        )
        self.head = layers.Dense(1)
        self(tf.zeros((1, 3)))

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.head(self.body(x))}


class GoldenOfTwo(Golden):
    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore
        values = {}
        for name, optimizer in optimizers.items():
            with tf.GradientTape() as tape:
                pred = model(data_dict["data"])["pred"]
                loss = losses["mse"](pred, data_dict["label"])
                scaled = optimizer.scale_loss(loss)
            optimizer.minimize(scaled, tape)
            values[f"mse {name}"] = loss
        return {}, values, {"pred": pred}


def two_optimizers(network: Any, cls: Any, **params: Any) -> dict[str, Any]:
    return {
        "body": (cls(**params), network.body),
        "head": (keras.optimizers.SGD(0.05, momentum=0.9), network.head),
    }


def mse(prediction: Any, target: Any) -> Any:
    return tf.reduce_mean(tf.square(prediction - target))


def trainer(path: Path, settings: dict[str, Any], features: set[str]) -> Any:
    network = GoldenOfTwo() if "two optimizers" in features else Golden()
    for number, weight in enumerate(network.trainable_variables):
        weight.assign(np.linspace(-0.5, 0.7, weight.shape.num_elements()).reshape(weight.shape) + 0.01 * number)
    if "two optimizers" in features:
        settings["optim_fn"] = two_optimizers
    if "schedule" in features:
        settings |= {"lr_scheduler_cls": StepLRCallbackTf, "lr_scheduler_params": {"step_size": 1, "gamma": 0.5}}
    settings |= {"losses": {"mse": mse}, "optimizer_cls": keras.optimizers.Adam}
    return TfNetworkTrainer(network, path, optimizer_params={"learning_rate": 0.01}, **settings)
