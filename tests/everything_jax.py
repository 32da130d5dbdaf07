"""Networks and optimizers of ``everything`` in JAX."""

from typing import Any

import optax
from flax import nnx

from delira.backends.jax import JaxOptimizer
from delira.models import AbstractJaxNetwork


class Halves(AbstractJaxNetwork):
    """A network with dropout and normalisation."""

    def __init__(self, dropout: float = 0.0):
        super().__init__(dropout=dropout)
        self.body = nnx.Sequential(
            nnx.Linear(3, 5, rngs=self.rngs), nnx.BatchNorm(5, rngs=self.rngs), nnx.tanh,
            nnx.Dropout(dropout, rngs=self.rngs),
        )  # fmt: skip
        self.head = nnx.Linear(5, 1, rngs=self.rngs)

    def __call__(self, x: Any) -> dict[str, Any]:
        return {"pred": self.head(self.body(x))}


class TwoOptimizers(Halves):
    """The same network with an optimizer for each of its halves."""

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore
        values = {}

        def compute(network: Any) -> Any:
            pred = network(data_dict["data"])["pred"]
            return losses["mse"](pred, data_dict["label"]), pred

        for name, optimizer in optimizers.items():
            half = nnx.DiffState(0, nnx.All(nnx.Param, nnx.PathContains(name)))
            (loss, pred), gradients = nnx.value_and_grad(compute, argnums=half, has_aux=True)(model)
            optimizer.update(getattr(model, name), gradients[name], value=loss)
            values[f"mse {name}"] = loss
        return {}, values, {"pred": pred}


def two_optimizers(network: Any, cls: Any, learning_rate: float) -> dict[str, Any]:
    return {
        "body": JaxOptimizer(network.body, optax.inject_hyperparams(cls)(learning_rate)),
        "head": JaxOptimizer(network.head, optax.inject_hyperparams(optax.sgd)(0.05, momentum=0.9)),
    }


ADAM = {"optimizer_cls": optax.adam, "optimizer_params": {"learning_rate": 0.01}}
