"""The training of the golden checkpoints of JAX."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from delira.backends.jax import JaxOptimizer
from delira.models import AbstractJaxNetwork
from delira.training import JaxNetworkTrainer
from delira.training.callbacks import StepLRCallbackJax


class Golden(AbstractJaxNetwork):
    def __init__(self) -> None:
        super().__init__()
        # no bias before the normalisation: its gradient is rounding error alone, and Adam makes steps of that
        linear = nnx.Linear(3, 4, use_bias=False, rngs=self.rngs)
        self.body = nnx.Sequential(linear, nnx.BatchNorm(4, rngs=self.rngs), nnx.Dropout(0.3, rngs=self.rngs))
        self.head = nnx.Linear(4, 1, rngs=self.rngs)

    def __call__(self, x: Any) -> dict[str, Any]:
        return {"pred": self.head(self.body(x))}


class GoldenOfTwo(Golden):
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


def mse(prediction: Any, target: Any) -> Any:
    return jnp.mean((prediction - target) ** 2)


def trainer(path: Path, settings: dict[str, Any], features: set[str]) -> Any:
    network = GoldenOfTwo() if "two optimizers" in features else Golden()
    weights = nnx.state(network, nnx.Param)
    leaves, structure = jax.tree.flatten(weights)
    ramps = [
        jnp.linspace(-0.5, 0.7, leaf.size, dtype=leaf.dtype).reshape(leaf.shape) + 0.01 * number
        for number, leaf in enumerate(leaves)
    ]
    nnx.update(network, jax.tree.unflatten(structure, ramps))
    if "two optimizers" in features:
        settings["optim_fn"] = two_optimizers
    if "schedule" in features:
        settings |= {"lr_scheduler_cls": StepLRCallbackJax, "lr_scheduler_params": {"step_size": 1, "gamma": 0.5}}
    settings |= {"losses": {"mse": mse}, "optimizer_cls": optax.adam}
    return JaxNetworkTrainer(network, path, optimizer_params={"learning_rate": 0.01}, **settings)
