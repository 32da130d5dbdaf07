"""Checkpoints of JAX: weights, optimizers and epochs come back bit for bit, or nothing does."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")
import jax.numpy as jnp
import optax
from small_jax_network import Net

from delira.backends.jax.backend import BACKEND
from delira.io import load_checkpoint_jax, save_checkpoint_jax
from delira.models import load_named_weights, named_weights
from delira.training import JaxNetworkTrainer, create_optims_default_jax


def mse(prediction, target):
    return jnp.mean((prediction - target) ** 2)


def test_a_checkpoint_holds_weights_optimizers_and_epoch(tmp_path):
    network = Net()
    optimizers = create_optims_default_jax(network, optax.adam, lr=0.1)
    path = save_checkpoint_jax(tmp_path / "a.zip", network, optimizers, 3, note="kept")
    tree = load_checkpoint_jax(path)
    assert (tree["epoch"], tree["note"]) == (3, "kept")
    other = Net()
    BACKEND.checkpoints.load_state_tree(tree, other, create_optims_default_jax(other, optax.adam, lr=0.1))
    weights = named_weights(network)
    assert all(array.tobytes() == weights[name].tobytes() for name, array in named_weights(other).items())


def test_bfloat16_weights_keep_their_bits(tmp_path):
    network, other = Net(param_dtype=jnp.bfloat16), Net(param_dtype=jnp.bfloat16)
    path = save_checkpoint_jax(tmp_path / "a.zip", network)
    BACKEND.checkpoints.load_state_tree(load_checkpoint_jax(path), other, {})
    kernel = named_weights(other)["linear.kernel"]
    assert kernel.dtype.name == "bfloat16"
    assert kernel.tobytes() == named_weights(network)["linear.kernel"].tobytes()


def test_a_state_that_does_not_fit_changes_nothing():
    network = Net()
    optimizers = create_optims_default_jax(network, optax.adam, lr=0.1)
    tree = BACKEND.checkpoints.state_tree(network, optimizers)
    other = Net(4)
    before = named_weights(other)
    with pytest.raises(CheckpointError, match=r"linear.kernel has shape \(3, 1\) in the checkpoint and \(4, 1\)"):
        BACKEND.checkpoints.load_state_tree(tree, other, {})
    third = Net()
    own = named_weights(third)
    with pytest.raises(CheckpointError, match="does not fit the optimizer 'default'"):
        BACKEND.checkpoints.load_state_tree(tree, third, create_optims_default_jax(third, optax.sgd, lr=0.1))
    for weights, now in ((before, named_weights(other)), (own, named_weights(third))):
        assert all(now[name].tobytes() == array.tobytes() for name, array in weights.items())


def test_a_state_is_not_changed_by_later_steps(tmp_path):
    network = Net()
    trainer = JaxNetworkTrainer(
        network, tmp_path, losses={"mse": mse}, optimizer_cls=optax.sgd, optimizer_params={"lr": 0.1},
        save_freq=None, logging_type=None, verbose=False,
    )  # fmt: skip
    tree, weights = BACKEND.checkpoints.state_tree(network, trainer.optimizers)["model"], named_weights(network)
    arrays = {"data": np.eye(3, dtype=np.float32), "label": np.ones((3, 1), np.float32)}
    trainer.train(1, BaseDataManager(arrays, 3))
    assert not np.allclose(named_weights(network)["norm.bias"], weights["norm.bias"])
    assert all(tree[name].tobytes() == array.tobytes() for name, array in weights.items())


def test_weights_of_another_network_are_refused():
    with pytest.raises(CheckpointError, match=r"missing: norm\.var"):
        load_named_weights(Net(), {n: a for n, a in named_weights(Net()).items() if n != "norm.var"})
