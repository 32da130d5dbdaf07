"""Updates and learning rates of JAX."""

import numpy as np
import pytest

from delira.errors import ConfigError

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")
import jax.numpy as jnp
import optax
from flax import nnx
from small_jax_network import Net

from delira.backends.jax.backend import BACKEND
from delira.contract import UpdateConfig
from delira.training import JaxOptimizer, create_optims_default_jax


@pytest.mark.slow
def test_accumulated_batches_make_the_update_of_one_large_batch():
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    weights = []
    for parts in ([x], [x[:3], x[3:]]):
        module = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
        optimizer = JaxOptimizer(module, optax.sgd(0.1))
        optimizer.configure(UpdateConfig(accumulation_steps=len(parts)))
        for part in parts:
            optimizer.begin_batch(len(part), part is parts[-1])
            optimizer.begin_call()
            optimizer.update(module, nnx.grad(lambda model, part=part: (model(part) ** 2).mean())(module))
            optimizer.end_call(1)
        assert optimizer.num_updates == 1
        weights.append(np.asarray(module.kernel.get_value()))
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5)


@pytest.mark.slow
def test_an_update_that_is_not_finite_is_left_out_with_the_optimizers_state():
    module = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
    optimizer = JaxOptimizer(module, optax.adam(0.1))
    optimizer.configure(UpdateConfig(skip_nonfinite=True))
    before = np.array(module.kernel.get_value())
    for factor in (np.inf, 1.0):
        optimizer.begin_call()
        gradients = nnx.grad(lambda model, factor=factor: factor * model(jnp.ones((2, 3))).sum())(module)
        optimizer.update(module, gradients)
        optimizer.end_call(1)
        if factor == np.inf:
            assert before.tobytes() == np.array(module.kernel.get_value()).tobytes()
    assert (optimizer.num_updates, optimizer.num_skipped) == (1, 1)
    assert np.isfinite(np.asarray(module.kernel.get_value())).all()
    assert not np.allclose(before, module.kernel.get_value())


def test_the_learning_rate_has_both_names_and_keeps_its_digits():
    for name in ("lr", "learning_rate"):
        (optimizer,) = create_optims_default_jax(Net(), optax.adam, **{name: 0.1}).values()
        assert optimizer.rate == 0.1
    with pytest.raises(ConfigError, match="say the same"):
        create_optims_default_jax(Net(), optax.adam, lr=0.1, learning_rate=0.1)


def test_a_hidden_rate_is_not_shown_and_cannot_be_changed():
    optimizer = JaxOptimizer(Net(), optax.adam(0.1))
    assert BACKEND.optimizers.learning_rates({"default": optimizer}) == {}
    with pytest.raises(ConfigError, match=r"optax.inject_hyperparams\(optax.adam\)"):
        BACKEND.optimizers.scale_rates({"default": optimizer}, 0.5)
    (scheduled,) = create_optims_default_jax(Net(), optax.adam, lr=optax.constant_schedule(0.1)).values()
    with pytest.raises(ConfigError, match="is a schedule of optax already"):
        scheduled.rate = 0.2
