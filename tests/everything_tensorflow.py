"""Networks and optimizers of ``everything`` in TensorFlow."""

from typing import Any

import keras
import tensorflow as tf

from delira.models import AbstractTfNetwork


class Halves(AbstractTfNetwork):
    """A network with dropout and normalisation."""

    def __init__(self, dropout: float = 0.0):
        super().__init__(dropout=dropout)
        layers = keras.layers
        self.body = keras.Sequential(
            [layers.Dense(5), layers.BatchNormalization(), layers.Activation("tanh"), layers.Dropout(dropout)]
        )
        self.head = layers.Dense(1)
        self(tf.zeros((1, 3)))

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.head(self.body(x))}


class TwoOptimizers(Halves):
    """The same network with an optimizer for each of its halves."""

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


ADAM = {"optimizer_cls": keras.optimizers.Adam, "optimizer_params": {"learning_rate": 0.01}}
