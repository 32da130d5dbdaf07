"""The JAX backend with a network small enough to be checked by hand."""

import functools
from typing import Any

import numpy as np
from small_backends import Kit


def mean_squared_error(prediction: Any, target: Any) -> Any:
    return ((prediction - target) ** 2).mean()


def __getattr__(name: str) -> Any:
    """The network, for a process that is sent one before it has built its kit."""
    if name != "JaxLinear":
        raise AttributeError(name)
    jax_kit()
    return globals()[name]


@functools.cache
def jax_kit() -> Kit:
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    from delira.models import AbstractJaxNetwork
    from delira.training import JaxExperiment, JaxNetworkTrainer
    from delira.training.callbacks import StepLRCallbackJax

    class JaxLinear(AbstractJaxNetwork):
        """``pred = dropped(x) @ weight``."""

        def __init__(self, n_features: int = 3, dropout: float = 0.0):
            super().__init__(n_features=n_features, dropout=dropout)
            self.drop = nnx.Dropout(dropout, rngs=self.rngs)
            self.linear = nnx.Linear(n_features, 1, use_bias=False, rngs=self.rngs)

        def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
            return {"pred": self.linear(self.drop(x))}

    # found again by its name in files, though JAX is imported only where it is needed
    JaxLinear.__qualname__ = "JaxLinear"
    globals()["JaxLinear"] = JaxLinear

    def write(network: Any, weight: np.ndarray) -> None:
        network.linear.kernel.set_value(jnp.array(weight, jnp.float32))

    def step(model: Any, batch: Any, optimizers: Any, losses: Any) -> tuple[Any, Any]:
        def compute(network: Any) -> tuple[Any, Any]:
            pred = network(batch["data"])["pred"]
            return sum(loss(pred, batch["label"]) for loss in losses.values()), pred

        (loss, pred), gradients = nnx.value_and_grad(compute, has_aux=True)(model)
        optimizers["default"].update(model, gradients, value=loss)
        return loss, pred

    schedule = {"lr_scheduler_cls": StepLRCallbackJax, "lr_scheduler_params": {"step_size": 1, "gamma": 0.5}}
    return Kit(
        name="jax",
        network=JaxLinear,
        trainer_cls=JaxNetworkTrainer,
        experiment_cls=JaxExperiment,
        loss=mean_squared_error,
        optimizer_cls=optax.sgd,
        rtol=1e-4,
        # inside of a gradient too
        read=lambda network: np.array(jax.lax.stop_gradient(network.linear.kernel.get_value())),
        write=write,
        step=step,
        halving=lambda: dict(schedule),
        draw=draw,
        learns=lambda network: not network.drop.deterministic,
        weight_name="linear.kernel",
        compiles=True,
    )


def draw() -> float:
    """One number of the backend's generator."""
    import jax

    from delira.backends.jax.generators import GENERATOR

    return float(jax.random.uniform(GENERATOR.next_key()))
