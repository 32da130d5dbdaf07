"""Keras and TensorFlow for the tests of the Trial."""

import keras
import numpy as np
import tensorflow as tf
from kits import Kit

from delira.backends.tensorflow.backend import BACKEND
from delira.state import MODEL, Y_TRUE, X


class Free(keras.Model):
    """Weights by name, and a function of the model and its inputs."""

    def __init__(self, weights, function):
        super().__init__()
        for name, value in weights.items():
            value = np.asarray(value, "f4")
            variable = self.add_weight(shape=value.shape, name=name)
            variable.assign(value)
            setattr(self, name, variable)
        self.function = function
        self.built = True

    def call(self, *inputs):
        return self.function(self, *inputs)


class Stateful(Free):
    def call(self, x, state):
        return self.function(self, x, state)


class Both(keras.Model):
    def __init__(self, generator, discriminator):
        super().__init__()
        self.generator, self.discriminator = generator, discriminator
        self.built = True

    def call(self, x):
        return self.generator(x)


class TensorFlowKit(Kit):
    name = "tensorflow"
    module, state_module = Free, Stateful
    label_type = "i4"

    def __init__(self):
        self.sum, self.mean, self.exp, self.relu, self.sign = tf.reduce_sum, tf.reduce_mean, tf.exp, tf.nn.relu, tf.sign
        self.softplus, self.norm, self.clip = tf.math.softplus, tf.norm, tf.clip_by_value
        self.detached = tf.stop_gradient

    def array(self, values):
        return tf.constant(values)

    def numpy(self, value):
        return value.numpy().copy() if hasattr(value, "numpy") else np.asarray(value)

    def concatenate(self, values):
        return tf.concat(values, 0)

    def mse(self, prediction, target):
        return tf.reduce_mean(tf.square(prediction - target))

    def cross_entropy(self, prediction, target):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, prediction))

    def where(self, condition, one, other):
        return tf.where(condition, one, other)

    def linear(self, weight):
        net = keras.Sequential([keras.layers.Input((len(weight),)), keras.layers.Dense(len(weight[0]), use_bias=False)])
        net.layers[-1].kernel.assign(np.asarray(weight, "f4"))
        return net

    def weight(self, net):
        return net.layers[-1].kernel.numpy().copy()

    def weights(self, net):
        return {variable.path: variable.numpy().copy() for variable in net.trainable_variables}

    def parameters(self, net):
        return [variable.value for variable in net.trainable_variables]

    def set_weight(self, net, name, value):
        getattr(net, name).assign(value)

    def set_linear(self, net, weight):
        net.layers[-1].kernel.assign(weight)

    def sgd_of(self, net, rate):
        return keras.optimizers.SGD(rate), net

    def both(self, **nets):
        return Both(**nets)

    def sgd(self, nets, rate, momentum=0.0):
        return keras.optimizers.SGD(rate, momentum=momentum)

    def adam(self, nets, rate):
        return keras.optimizers.Adam(rate)

    def amsgrad(self, nets, rate):
        return keras.optimizers.Adam(rate, beta_2=0.99, amsgrad=True)

    def rmsprop(self, nets, rate):
        return keras.optimizers.RMSprop(rate)

    def needs_gradient(self, value):
        return value

    def input_gradient(self, state, criterion):
        """Of the loss, by a second pass: a tape only knows what it watched from the beginning."""
        with tf.GradientTape() as tape:
            tape.watch(state[X])
            loss = criterion(state[MODEL](state[X]), state[Y_TRUE])
        return tape.gradient(loss, state[X])

    def plain_weights(self, path):
        """The weights of a file, without delira and the framework."""
        from safetensors.numpy import load_file

        return load_file(path)

    def stored(self, tree, path):
        """The tree, written to a file and read again."""
        with path.open("wb") as file:
            BACKEND.checkpoints.write(file, tree)
        return BACKEND.checkpoints.read(path)
