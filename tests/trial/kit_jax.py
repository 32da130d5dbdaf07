"""Flax, optax and JAX for the tests of the Trial."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from kits import Kit

from delira.backends.jax import JaxOptimizer
from delira.backends.jax.backend import BACKEND
from delira.state import MODEL, Y_TRUE, X


class Free(nnx.Module):
    """Weights by name, and a function of the module and its inputs."""

    def __init__(self, weights, function):
        for name, value in weights.items():
            setattr(self, name, nnx.Param(jnp.asarray(value, jnp.float32)))
        self.function = function

    def __call__(self, *inputs):
        return self.function(self, *inputs)


class Stateful(Free):
    def __call__(self, x, state):
        return self.function(self, x, state)


class Both(nnx.Module):
    def __init__(self, generator, discriminator):
        self.generator, self.discriminator = generator, discriminator

    def __call__(self, x):
        return self.generator(x)


class JaxKit(Kit):
    name = "jax"
    module, state_module = Free, Stateful
    label_type = "i4"

    def __init__(self):
        self.sum, self.mean, self.exp, self.relu, self.sign = jnp.sum, jnp.mean, jnp.exp, jax.nn.relu, jnp.sign
        self.softplus, self.norm, self.clip = jax.nn.softplus, jnp.linalg.norm, jnp.clip
        self.detached = jax.lax.stop_gradient
        self.concatenate, self.array, self.numpy = jnp.concatenate, jnp.asarray, np.array

    def mse(self, prediction, target):
        return ((prediction - target) ** 2).mean()

    def cross_entropy(self, prediction, target):
        return optax.softmax_cross_entropy_with_integer_labels(prediction, target).mean()

    def where(self, condition, one, other):
        return jnp.where(condition, one, other)

    def linear(self, weight):
        net = nnx.Linear(*np.shape(weight), use_bias=False, rngs=nnx.Rngs(0))
        net.kernel.set_value(jnp.asarray(weight, jnp.float32))
        return net

    def weight(self, net):
        return np.array(net.kernel.get_value())

    def weights(self, net):
        flat = nnx.to_flat_state(nnx.state(net, nnx.Param))
        return {".".join(map(str, path)): np.array(leaf.get_value()) for path, leaf in flat}

    def parameters(self, net):
        return [leaf.get_value() for _, leaf in nnx.to_flat_state(nnx.state(net, nnx.Param))]

    def set_weight(self, net, name, value):
        getattr(net, name).set_value(jnp.asarray(value))

    def sgd(self, nets, rate, momentum=0.0):
        return optax.sgd(rate, momentum=momentum or None)

    def set_linear(self, net, weight):
        net.kernel.set_value(jnp.asarray(weight))

    def sgd_of(self, net, rate):
        return JaxOptimizer(net, optax.sgd(rate, momentum=0.0))

    def both(self, **nets):
        return Both(**nets)

    def tunable_sgd(self, nets, rate):
        return optax.inject_hyperparams(optax.sgd)(learning_rate=rate)

    def adam(self, nets, rate):
        return optax.adam(rate)

    def amsgrad(self, nets, rate):
        return optax.amsgrad(rate, b2=0.99)

    def rmsprop(self, nets, rate):
        return optax.rmsprop(rate)

    def needs_gradient(self, value):
        return value

    def input_gradient(self, state, criterion):
        """Of the loss, by a second pass: JAX differentiates functions, and this one of the input."""
        return jax.grad(lambda x: criterion(state[MODEL](x), state[Y_TRUE]))(jnp.asarray(state[X]))

    def plain_weights(self, path):
        """The weights of a file, without delira and the framework."""
        from safetensors.numpy import load_file

        return load_file(path)

    def stored(self, tree, path):
        """The tree, written to a file and read again."""
        with path.open("wb") as file:
            BACKEND.checkpoints.write(file, tree)
        return BACKEND.checkpoints.read(path)
