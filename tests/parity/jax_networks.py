"""The networks of the comparison in JAX."""

import jax.numpy as jnp
import optax
from flax import nnx

from delira.models import AbstractJaxNetwork


class Mlp(AbstractJaxNetwork):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nnx.Linear(64, 32, rngs=self.rngs), nnx.Linear(32, 10, rngs=self.rngs)

    def __call__(self, x):
        return {"pred": self.head(nnx.relu(self.hidden(x)))}


class Convnet(AbstractJaxNetwork):
    """With the channels last inside, as flax has them."""

    def __init__(self):
        super().__init__()
        self.first = nnx.Conv(1, 4, (3, 3), rngs=self.rngs)
        self.second = nnx.Conv(4, 8, (3, 3), rngs=self.rngs)
        self.head = nnx.Linear(32, 10, rngs=self.rngs)

    def __call__(self, x):
        x = jnp.transpose(x, (0, 2, 3, 1))
        x = nnx.avg_pool(nnx.relu(self.first(x)), (2, 2), (2, 2))
        x = nnx.avg_pool(nnx.relu(self.second(x)), (2, 2), (2, 2))
        return {"pred": self.head(x.reshape(len(x), -1))}


def cross_entropy(pred, label):
    return optax.softmax_cross_entropy_with_integer_labels(pred, label).mean()


NETWORKS = {"mlp": Mlp, "convnet": Convnet}
SETTINGS = {
    "SGD": {"optimizer_cls": optax.sgd, "optimizer_params": {"momentum": 0.9}},
    "Adam": {"optimizer_cls": optax.adam, "optimizer_params": {"eps": 1e-12}},
}
RATE = "learning_rate"
LOSS = cross_entropy
TRAINER = "JaxNetworkTrainer"
#: reads a flattened image with the channels last
FLATTENED = {"convnet": {"head": (8, 2, 2)}}
