"""Arrays of JAX on their way to numpy."""

import pytest

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")
import jax.numpy as jnp

from delira.training import convert_jax_array_to_npy


def test_single_values_become_arrays_of_one_number():
    (first,), named = convert_jax_array_to_npy(jnp.float32(2), other={"a": jnp.ones((2, 2)), "b": "text"})
    assert first.shape == (1,)
    assert named["other"]["a"].shape == (2, 2)
    assert named["other"]["b"] == "text"
