"""The TensorFlow backend for the specification."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.runtime import runtime_of
from delira.models import AbstractTfNetwork
from delira.testing.spec import BackendUnderTest
from delira.training import TfExperiment, TfNetworkTrainer, create_optims_gan_default_tf
from delira.training.callbacks import StepLRCallbackTf


def dense(n_features: int, n_outputs: int) -> keras.layers.Dense:
    """A layer that has its weights."""
    layer = keras.layers.Dense(n_outputs)
    layer.build((None, n_features))
    return layer


class Linear(AbstractTfNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_outputs=n_outputs, dropout=dropout)
        self.drop = keras.layers.Dropout(dropout)
        self.dense = dense(n_features, n_outputs)

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.dense(self.drop(x))}


class Mlp(AbstractTfNetwork):
    def __init__(self, n_features: int = 3, n_hidden: int = 5, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_hidden=n_hidden, n_outputs=n_outputs, dropout=dropout)
        self.body = dense(n_features, n_hidden)
        self.norm = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)
        self.norm.build((None, n_hidden))
        self.drop = keras.layers.Dropout(dropout)
        self.head = dense(n_hidden, n_outputs)

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.head(self.drop(tf.tanh(self.norm(self.body(x)))))}


class Two(AbstractTfNetwork):
    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left, self.right = dense(n_features, 1), dense(n_features, 1)

    def call(self, left: Any, right: Any) -> dict[str, Any]:
        first = self.left(left)
        return {"pred": first + self.right(right), "other": first}


class Nested(AbstractTfNetwork):
    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left, self.right = dense(n_features, 1), dense(n_features, 1)

    def call(self, pair: dict[str, Any]) -> dict[str, Any]:
        parts = {"left": self.left(pair["left"]), "right": self.right(pair["right"])}
        return {"pred": parts["left"] + parts["right"], "parts": parts}


class ByHand(AbstractTfNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1):
        super().__init__(n_features=n_features, n_outputs=n_outputs)
        self.dense = dense(n_features, n_outputs)

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.dense(x)}

    @staticmethod
    def closure(  # type: ignore[override]
        model, data_dict, optimizers, losses, metrics=None, fold=0, factor=1.0, iter_num=0, global_iter_num=0
    ):
        with tf.GradientTape() as tape:
            pred = model(data_dict["data"])["pred"]
            loss = losses["mse"](pred, data_dict["label"])
            scaled = optimizers["default"].scale_loss(loss)
        optimizers["default"].minimize(scaled, tape)
        counted = {"iter_num": iter_num, "global_iter_num": global_iter_num, "fold": fold}
        return counted, {"mse": loss, "scaled": factor * loss}, {"pred": pred}


class Gan(AbstractTfNetwork):
    def __init__(self, n_features: int = 2):
        super().__init__(n_features=n_features)
        self.gen, self.discr = dense(n_features, n_features), dense(n_features, 1)

    def call(self, x: Any) -> dict[str, Any]:
        fake = self.gen(x)
        return {"pred": self.discr(fake), "fake": fake}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore[override]
        fake = model.gen(data_dict["data"])
        with tf.GradientTape() as tape:
            real = tf.reduce_mean((model.discr(data_dict["real"]) - 1) ** 2)
            discr = real + tf.reduce_mean(model.discr(fake) ** 2)
        optimizers["discr"].minimize(discr, tape)
        with tf.GradientTape() as tape:
            made = model(data_dict["data"])
            gen = tf.reduce_mean((made["pred"] - 1) ** 2)
        optimizers["gen"].minimize(gen, tape)
        return {}, {"discr": discr, "gen": gen}, made


def squared(prediction: Any, target: Any) -> Any:
    return tf.reduce_mean(tf.square(prediction - target))


def absolute(prediction: Any, target: Any) -> Any:
    return tf.reduce_mean(tf.abs(prediction - target))


def cross_entropy(prediction: Any, target: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=prediction))


class Sgd(keras.optimizers.SGD):
    """Gradient descent as the specification has it: Keras has the rate in the velocity, which matters if it changes."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        velocity = self.momentums[self._get_variable_index(variable)] if self.momentum else None
        if velocity is not None:
            self.assign(velocity, velocity * self.momentum + gradient)
            gradient = velocity
        self.assign_sub(variable, gradient * keras.ops.cast(learning_rate, variable.dtype))


class TensorFlowUnderTest(BackendUnderTest):
    name = "tensorflow"
    rtol = 2e-4  # Keras computes Adam's 1 - 0.999**n in float32
    trainer_cls, experiment_cls = TfNetworkTrainer, TfExperiment
    transposed = False
    Linear, Mlp, Two, Nested, ByHand, Gan = Linear, Mlp, Two, Nested, ByHand, Gan
    exports = (".savedmodel",)

    mse = staticmethod(squared)
    absolute = staticmethod(absolute)
    cross_entropy = staticmethod(cross_entropy)

    def sgd(self, lr: float, momentum: float = 0.0) -> dict[str, Any]:
        params = {"learning_rate": lr, "momentum": momentum}
        return {"optimizer_cls": Sgd, "optimizer_params": params}

    def adam(self, lr: float) -> dict[str, Any]:
        return {"optimizer_cls": keras.optimizers.Adam, "optimizer_params": {"learning_rate": lr, "epsilon": 1e-12}}

    def halving(self) -> dict[str, Any]:
        return {"lr_scheduler_cls": StepLRCallbackTf, "lr_scheduler_params": {"step_size": 1, "gamma": 0.5}}

    def gan_optimizers(self) -> dict[str, Any]:
        return {"optim_fn": create_optims_gan_default_tf}

    def is_learning(self, network: Any) -> bool:
        return runtime_of(network).mode is True

    def draw(self) -> float:
        return float(tf.random.uniform(()))

    def run_exported(self, path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        program = tf.saved_model.load(str(path)).signatures["serving_default"]
        outputs = program(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}


BACKEND = TensorFlowUnderTest()
