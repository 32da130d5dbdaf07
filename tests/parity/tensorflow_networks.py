"""The networks of the comparison in TensorFlow."""

import keras
import tensorflow as tf

from delira.models import AbstractTfNetwork


class Mlp(AbstractTfNetwork):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)
        self.build((None, 64))

    def build(self, shape):
        self.hidden.build(shape)
        self.head.build((None, 32))
        self.built = True

    def call(self, x):
        return {"pred": self.head(self.hidden(x))}


class Convnet(AbstractTfNetwork):
    """With the channels last inside, as TensorFlow computes on the CPU."""

    def __init__(self):
        super().__init__()
        self.first = keras.layers.Conv2D(4, 3, padding="same", activation="relu")
        self.second = keras.layers.Conv2D(8, 3, padding="same", activation="relu")
        self.pool, self.flatten = keras.layers.AveragePooling2D(2), keras.layers.Flatten()
        self.head = keras.layers.Dense(10)
        self(tf.zeros((1, 1, 8, 8)))

    def call(self, x):
        x = tf.transpose(x, (0, 2, 3, 1))
        x = self.pool(self.second(self.pool(self.first(x))))
        return {"pred": self.head(self.flatten(x))}


def cross_entropy(pred, label):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=pred))


NETWORKS = {"mlp": Mlp, "convnet": Convnet}
SETTINGS = {
    "SGD": {"optimizer_cls": keras.optimizers.SGD, "optimizer_params": {"momentum": 0.9}},
    "Adam": {"optimizer_cls": keras.optimizers.Adam, "optimizer_params": {"epsilon": 1e-12}},
}
RATE = "learning_rate"
LOSS = cross_entropy
TRAINER = "TfNetworkTrainer"
#: reads a flattened image with the channels last
FLATTENED = {"convnet": {"head": (8, 2, 2)}}
