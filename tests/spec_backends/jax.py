"""The JAX backend for the specification."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import export

from delira.backends.jax.generators import GENERATOR
from delira.models import AbstractJaxNetwork
from delira.testing.spec import BackendUnderTest
from delira.training import JaxExperiment, JaxNetworkTrainer, create_optims_gan_default_jax
from delira.training.callbacks import StepLRCallbackJax


class Linear(AbstractJaxNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_outputs=n_outputs, dropout=dropout)
        self.drop = nnx.Dropout(dropout, rngs=self.rngs)
        self.dense = nnx.Linear(n_features, n_outputs, rngs=self.rngs)

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        return {"pred": self.dense(self.drop(x))}


class Mlp(AbstractJaxNetwork):
    def __init__(self, n_features: int = 3, n_hidden: int = 5, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_hidden=n_hidden, n_outputs=n_outputs, dropout=dropout)
        self.body = nnx.Linear(n_features, n_hidden, rngs=self.rngs)
        self.norm = nnx.BatchNorm(n_hidden, momentum=0.9, rngs=self.rngs)
        self.drop = nnx.Dropout(dropout, rngs=self.rngs)
        self.head = nnx.Linear(n_hidden, n_outputs, rngs=self.rngs)

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        return {"pred": self.head(self.drop(jnp.tanh(self.norm(self.body(x)))))}


class Two(AbstractJaxNetwork):
    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left = nnx.Linear(n_features, 1, rngs=self.rngs)
        self.right = nnx.Linear(n_features, 1, rngs=self.rngs)

    def __call__(self, left: jax.Array, right: jax.Array) -> dict[str, jax.Array]:
        first = self.left(left)
        return {"pred": first + self.right(right), "other": first}


class Nested(AbstractJaxNetwork):
    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left = nnx.Linear(n_features, 1, rngs=self.rngs)
        self.right = nnx.Linear(n_features, 1, rngs=self.rngs)

    def __call__(self, pair: dict[str, jax.Array]) -> dict[str, Any]:
        parts = {"left": self.left(pair["left"]), "right": self.right(pair["right"])}
        return {"pred": parts["left"] + parts["right"], "parts": parts}


class ByHand(AbstractJaxNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1):
        super().__init__(n_features=n_features, n_outputs=n_outputs)
        self.dense = nnx.Linear(n_features, n_outputs, rngs=self.rngs)

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        return {"pred": self.dense(x)}

    @staticmethod
    def closure(  # type: ignore[override]
        model, data_dict, optimizers, losses, metrics=None, fold=0, factor=1.0, iter_num=0, global_iter_num=0
    ):
        def compute(network: Any) -> tuple[Any, Any]:
            pred = network(data_dict["data"])["pred"]
            return losses["mse"](pred, data_dict["label"]), pred

        (loss, pred), gradients = nnx.value_and_grad(compute, has_aux=True)(model)
        optimizers["default"].update(model, gradients, value=loss)
        counted = {"iter_num": iter_num, "global_iter_num": global_iter_num, "fold": fold}
        return counted, {"mse": loss, "scaled": factor * loss}, {"pred": pred}


class Gan(AbstractJaxNetwork):
    def __init__(self, n_features: int = 2):
        super().__init__(n_features=n_features)
        self.gen = nnx.Linear(n_features, n_features, rngs=self.rngs)
        self.discr = nnx.Linear(n_features, 1, rngs=self.rngs)

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        fake = self.gen(x)
        return {"pred": self.discr(fake), "fake": fake}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore[override]
        fake = model.gen(data_dict["data"])

        def judge(discr: Any) -> Any:
            return jnp.mean((discr(data_dict["real"]) - 1) ** 2) + jnp.mean(discr(fake) ** 2)

        def deceive(gen: Any) -> tuple[Any, Any]:
            made = gen(data_dict["data"])
            pred = model.discr(made)
            return jnp.mean((pred - 1) ** 2), {"pred": pred, "fake": made}

        loss_discr, gradients = nnx.value_and_grad(judge)(model.discr)
        optimizers["discr"].update(model.discr, gradients, value=loss_discr)
        (loss_gen, made), gradients = nnx.value_and_grad(deceive, has_aux=True)(model.gen)
        optimizers["gen"].update(model.gen, gradients, value=loss_gen)
        return {}, {"discr": loss_discr, "gen": loss_gen}, made


class JaxUnderTest(BackendUnderTest):
    name = "jax"
    trainer_cls, experiment_cls = JaxNetworkTrainer, JaxExperiment
    Linear, Mlp, Two, Nested, ByHand, Gan = Linear, Mlp, Two, Nested, ByHand, Gan
    exports = (".stablehlo",)

    def mse(self, prediction: Any, target: Any) -> Any:
        return jnp.mean((prediction - target) ** 2)

    def absolute(self, prediction: Any, target: Any) -> Any:
        return jnp.mean(jnp.abs(prediction - target))

    def cross_entropy(self, prediction: Any, target: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(prediction, target).mean()

    def sgd(self, lr: float, momentum: float = 0.0) -> dict[str, Any]:
        return {"optimizer_cls": optax.sgd, "optimizer_params": {"lr": lr, "momentum": momentum or None}}

    def adam(self, lr: float) -> dict[str, Any]:
        return {"optimizer_cls": optax.adam, "optimizer_params": {"lr": lr, "eps": 1e-12}}

    def halving(self) -> dict[str, Any]:
        return {"lr_scheduler_cls": StepLRCallbackJax, "lr_scheduler_params": {"step_size": 1, "gamma": 0.5}}

    def gan_optimizers(self) -> dict[str, Any]:
        return {"optim_fn": create_optims_gan_default_jax}

    def is_learning(self, network: Any) -> bool:
        return not network.drop.deterministic

    def draw(self) -> float:
        return float(jax.random.uniform(GENERATOR.next_key()))

    def run_exported(self, path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        program = export.deserialize(bytearray(path.read_bytes()))
        return {name: np.asarray(value) for name, value in program.call(dict(inputs)).items()}


BACKEND = JaxUnderTest()
