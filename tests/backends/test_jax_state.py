"""The JAX room's files, schedules and exports."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, DataError

pytest.importorskip("flax", reason="the JAX room needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX room needs the package 'optax', which is not installed")

import jax.numpy as jnp
import optax
from flax import nnx

from delira.backends.jax.backend import BACKEND
from delira.backends.jax.schedules import build_schedules
from delira.contract import UpdateConfig
from delira.io import export, load_checkpoint_jax, save_checkpoint_jax
from delira.models import AbstractJaxNetwork, load_named_weights, named_weights
from delira.training import JaxNetworkTrainer, JaxOptimizer, convert_jax_array_to_npy, create_optims_default_jax
from delira.training.callbacks import (
    CosineAnnealingLRCallbackJax,
    ExponentialLRCallbackJax,
    LambdaLRCallbackJax,
    MultiStepLRCallbackJax,
    OneCycleLRCallbackJax,
    ReduceLROnPlateauCallbackJax,
    StepLRCallbackJax,
)


class Net(AbstractJaxNetwork):
    def __init__(self, n_features: int = 3, param_dtype=jnp.float32):
        super().__init__(n_features=n_features)
        self.linear = nnx.Linear(n_features, 1, rngs=self.rngs, param_dtype=param_dtype)
        self.norm = nnx.BatchNorm(1, rngs=self.rngs)

    def __call__(self, x):
        return {"pred": self.norm(self.linear(x)), "parts": {"sum": x.sum(axis=1)}}


def mse(prediction, target):
    return jnp.mean((prediction - target) ** 2)


# ------------------------------------------------------------------ files


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


# ------------------------------------------------------------------ optimizers


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


# ------------------------------------------------------------------ schedules


class Trainer:
    """As much of a trainer as schedules see."""

    score_key, score_mode, skips_validation = "score", "lowest", False

    def __init__(self):
        self.optimizers = create_optims_default_jax(nnx.Linear(1, 1, rngs=nnx.Rngs(0)), optax.sgd, lr=0.8)


def rates_of(callback, n, **facts):
    trainer = Trainer()
    callback.attach(trainer)
    callback.at_training_begin(trainer)
    rates = [trainer.optimizers["default"].rate]
    for _ in range(n):
        if callback.step_on == "iter":
            trainer.optimizers["default"]._num_updates += 1
            callback.at_iter_end(trainer)
        else:
            callback.at_epoch_end(trainer, metrics={"val_score": 1.0}, val_score_key="score", **facts)
        rates.append(trainer.optimizers["default"].rate)
    return rates


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (lambda: StepLRCallbackJax(step_size=2, gamma=0.5), [0.8, 0.8, 0.4, 0.4, 0.2]),
        (lambda: ExponentialLRCallbackJax(gamma=0.5), [0.8, 0.4, 0.2, 0.1, 0.05]),
        (lambda: MultiStepLRCallbackJax(milestones=[1, 3], gamma=0.5), [0.8, 0.4, 0.4, 0.2, 0.2]),
        (lambda: LambdaLRCallbackJax(lr_lambda=lambda n: 1 / (1 + n)), [0.8, 0.4, 0.8 / 3, 0.2, 0.16]),
        (lambda: CosineAnnealingLRCallbackJax(T_max=4, eta_min=0.0),
         [0.4 * (1 + math.cos(math.pi * n / 4)) for n in range(5)]),
        (lambda: ReduceLROnPlateauCallbackJax(patience=1, factor=0.5), [0.8, 0.8, 0.8, 0.4, 0.4]),
        (lambda: OneCycleLRCallbackJax(max_lr=1.0, total_steps=10, div_factor=4.0, final_div_factor=10.0),
         [0.25, 0.625, 1.0]),
    ],
    ids=["step", "exponential", "milestones", "lambda", "cosine", "plateau", "one cycle"],
)  # fmt: skip
def test_a_schedule_follows_its_formula(callback, expected):
    assert rates_of(callback(), len(expected) - 1) == pytest.approx(expected)


def test_schedules_of_optax_count_updates():
    params = {"init_value": 1.0, "end_value": 0.0, "transition_steps": 4}
    (callback,) = build_schedules({"default": "default"}, optax.linear_schedule, params)
    assert rates_of(callback, 2) == pytest.approx([1.0, 0.75, 0.5])


def test_a_schedule_continues_where_it_was_and_its_rates_can_be_scaled():
    first = StepLRCallbackJax(step_size=1, gamma=0.5)
    rates_of(first, 3)
    trainer, second = Trainer(), StepLRCallbackJax(step_size=1, gamma=0.5)
    second.attach(trainer)
    second.load_state_dict(first.state_dict())
    second.scale_rates(0.1)
    second.at_epoch_end(trainer)
    assert trainer.optimizers["default"].rate == pytest.approx(0.8 * 0.1 / 16)


# ------------------------------------------------------------------ for other programs


@pytest.mark.slow
def test_an_exported_network_runs_without_delira_for_any_number_of_samples(tmp_path):
    network = Net()
    path = export(network, tmp_path / "net.stablehlo", {"data": np.ones((4, 3))})
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    np.save(tmp_path / "x.npy", x)
    code = f"""
        import sys
        import numpy as np
        from jax import export
        program = export.deserialize(bytearray(open({str(path)!r}, "rb").read()))
        made = program.call({{"x": np.load({str(tmp_path / "x.npy")!r})}})
        np.save({str(tmp_path / "pred.npy")!r}, made["pred"])
        np.save({str(tmp_path / "sum.npy")!r}, made["parts"]["sum"])
        sys.exit("delira" in sys.modules or "flax" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = x @ named_weights(network)["linear.kernel"] / math.sqrt(1 + 1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "pred.npy"), expected, rtol=1e-4)
    np.testing.assert_allclose(np.load(tmp_path / "sum.npy"), x.sum(axis=1))


def test_an_export_says_what_is_wrong(tmp_path):
    with pytest.raises(ConfigError, match=r"the ending says the format, which is '.stablehlo'"):
        export(Net(), tmp_path / "net.onnx", {"data": np.ones((4, 3))})
    with pytest.raises(DataError, match="need the samples first"):
        export(Net(), tmp_path / "net.stablehlo", {"x": np.ones(())})
    assert not list(tmp_path.iterdir())


def test_weights_of_another_network_are_refused():
    with pytest.raises(CheckpointError, match=r"missing: norm\.var"):
        load_named_weights(Net(), {n: a for n, a in named_weights(Net()).items() if n != "norm.var"})


def test_single_values_become_arrays_of_one_number():
    (first,), named = convert_jax_array_to_npy(jnp.float32(2), other={"a": jnp.ones((2, 2)), "b": "text"})
    assert first.shape == (1,)
    assert named["other"]["a"].shape == (2, 2)
    assert named["other"]["b"] == "text"
