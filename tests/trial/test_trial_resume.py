"""A trial that was broken off and continued is, bit for bit, the one that was not."""

import numpy as np
import pytest

import delira
from delira.callbacks.decorators import on_step_training
from delira.data_loading import BaseDataManager
from delira.state import EPOCH, LOSS


def parts(backend):
    if backend == "torch":
        torch = pytest.importorskip(
            "torch", reason="the torch backend needs the package 'torch', which is not installed"
        )
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
        return net, torch.optim.Adam(net.parameters(), 0.05), torch.nn.CrossEntropyLoss()
    if backend == "tensorflow":
        pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow'")
        import keras

        keras.utils.set_random_seed(0)
        layers = [keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return keras.Sequential(layers), keras.optimizers.Adam(0.05), loss
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import optax

    rngs = nnx.Rngs(0)
    net = nnx.Sequential(nnx.Linear(3, 4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs), nnx.Linear(4, 2, rngs=rngs))
    return net, optax.adam(0.05), lambda p, t: optax.softmax_cross_entropy_with_integer_labels(p, t).mean()


rng = np.random.default_rng(0)
DATA = rng.normal(size=(22, 3)).astype(np.float32)
LABELS = (DATA.sum(axis=1) > 0).astype(np.int64)


class Broken(Exception):
    pass


def build(backend, path, broken_at=None, metrics=("loss", "cat_acc"), **settings):
    net, optimizer, loss = parts(backend)

    left = [broken_at]

    @on_step_training
    def break_off(state):
        if left == [(state[EPOCH], state["t"])]:
            left.clear()
            raise Broken(float(state[LOSS]))

    callbacks = [break_off] if broken_at else []
    trial = delira.Trial(net, optimizer, loss, [*metrics], callbacks, 0, save_path=path, seed=3, **settings)
    manager = BaseDataManager({"data": DATA, "label": LABELS}, 4)
    return trial.with_train_generator(manager).with_val_generator(manager)


def state_of(trial):
    backend = trial.trainer.backend
    model = backend.arrays.to_numpy(
        backend.arrays.snapshot(backend.checkpoints.state_tree(trial.trainer.module, trial.trainer.optimizers))
    )
    return [np.asarray(leaf) for leaf in _leaves(model)]


def _leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree, key=str) for leaf in _leaves(tree[key])]
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, (list, tuple)) else [tree]


def assert_same(first, second):
    assert first.history == second.history
    for ours, theirs in zip(state_of(first), state_of(second), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.left_to_full("tensorflow")
@pytest.mark.sampled("values")
@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
@pytest.mark.parametrize("broken_at", [(1, 2), (2, 0)])
def test_inside_an_epoch(backend, broken_at, tmp_path):
    whole = build(backend, tmp_path / "whole")
    whole.run(3)
    first = build(backend, tmp_path / "broken", broken_at, save_freq_steps=1)
    with pytest.raises(Broken):
        first.run(3)
    continued = build(backend, tmp_path / "broken")
    assert continued.trainer.state.global_step == 6 * broken_at[0] + broken_at[1]
    continued.run(3)
    assert_same(whole, continued)


@pytest.mark.left_to_full("tensorflow")
@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_by_a_state_of_after_an_exception(backend, caplog):
    """Nothing of the half epoch is continued: its weights stay, and it begins anew, as where the same trial goes on."""
    broken = build(backend, None, (1, 2))
    with pytest.raises(Broken):
        broken.run(2)
    state = broken.state_dict()
    assert "epoch 2 was broken off after step 3" in caplog.text
    assert (state["epoch"], state["step"]) == (1, 0)
    assert broken.trainer.state.step_in_epoch == 3  # to ask for it changes nothing
    other = build(backend, None).load_state_dict(state)
    assert [record["epoch"] for record in other.run(2)] == [1, 2]
    broken.run(2)
    assert_same(broken, other)


@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_by_a_state_that_was_kept(backend):
    whole, first, second = (build(backend, None) for _ in range(3))
    whole.run(3)
    first.run(1)
    kept = first.state_dict()
    assert {"version", "model", "optimizer", "history", "callback_list"} <= kept.keys()
    first.run(2)  # what is kept does not change with it
    second.load_state_dict(kept).run(3)
    assert_same(whole, second)


@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_weights_alone_are_taken_without_the_fit(backend):
    first, second = build(backend, None), build(backend, None)
    first.run(1)
    for kept in (first.state_dict(), first.state_dict()["model"]):
        second.load_state_dict(kept, resume=False)
        assert second.history == []
    assert second.evaluate() == pytest.approx(first.evaluate(), rel=1e-6)
