"""A network of JAX with weights and running statistics."""

import pytest

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")
import jax.numpy as jnp
from flax import nnx

from delira.models import AbstractJaxNetwork


class Net(AbstractJaxNetwork):
    def __init__(self, n_features: int = 3, param_dtype=jnp.float32):
        super().__init__(n_features=n_features)
        self.linear = nnx.Linear(n_features, 1, rngs=self.rngs, param_dtype=param_dtype)
        self.norm = nnx.BatchNorm(1, rngs=self.rngs)

    def __call__(self, x):
        return {"pred": self.norm(self.linear(x)), "parts": {"sum": x.sum(axis=1)}}
