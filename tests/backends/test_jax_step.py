"""The JAX backend's steps: compiled or not, the same arithmetic; traced once; keys from the counters."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, NetworkError

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from delira.backends.jax.generators import GENERATOR
from delira.models import AbstractJaxNetwork, load_named_weights, named_weights
from delira.training import JaxNetworkTrainer, JaxOptimizer
from delira.training.callbacks import StepLRCallbackJax


def mse(prediction, target):
    return jnp.mean((prediction - target) ** 2)


class Net(AbstractJaxNetwork):
    def __init__(self, dropout: float = 0.0):
        super().__init__(dropout=dropout)
        self.traces = Count()
        layers = nnx.Linear(3, 4, rngs=self.rngs), nnx.BatchNorm(4, rngs=self.rngs), jnp.tanh
        self.body = nnx.Sequential(*layers, nnx.Dropout(dropout, rngs=self.rngs))
        self.head = nnx.Linear(4, 1, rngs=self.rngs)

    def __call__(self, x):
        self.traces.number += 1
        return {"pred": self.head(self.body(x))}


class Count:
    """How often Python came by."""

    number = 0


WEIGHTS = {
    "body.layers.0.kernel": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "body.layers.0.bias": np.zeros(4, np.float32),
    "body.layers.1.scale": np.ones(4, np.float32),
    "body.layers.1.bias": np.zeros(4, np.float32),
    "body.layers.1.mean": np.zeros(4, np.float32),
    "body.layers.1.var": np.ones(4, np.float32),
    "head.kernel": np.linspace(-0.5, 0.5, 4, dtype=np.float32).reshape(4, 1),
    "head.bias": np.zeros(1, np.float32),
}


def build(cls=Net, **kwargs):
    network = cls(**kwargs)
    load_named_weights(network, WEIGHTS)
    return network


def trainer(path, network=None, **settings):
    chosen = {
        # not Adam: it makes noise of the bias before the normalisation, whose gradient is 0 but for rounding
        "losses": {"mse": mse}, "optimizer_cls": optax.sgd, "optimizer_params": {"lr": 0.05, "momentum": 0.5},
        "save_freq": None, "logging_type": None, "verbose": False,
    }  # fmt: skip
    return JaxNetworkTrainer(network or build(), path, **{**chosen, **settings})


def data(n=10, batch_size=4, **more):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    label = (x @ np.array([[1.0], [2.0], [3.0]])).astype(np.float32)
    return BaseDataManager({"data": x, "label": label, **more}, batch_size)


def outcome(path, epochs=2, network=None, manager=None, **settings):
    done = trainer(path, network, **settings)
    done.train(epochs, manager or data())
    return named_weights(done.module)


def assert_close(left, right, rtol=1e-4):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(left[name], right[name], rtol=rtol, atol=1e-5, err_msg=name)


# ------------------------------------------------------------------ compiled or not


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"gradient_accumulation_steps": 2}, marks=pytest.mark.slow),
        pytest.param({"gradient_clip_norm": 0.1, "gradient_clip_value": 0.02}, marks=pytest.mark.slow),
    ],
    ids=["plain", "accumulation", "clipping"],
)
def test_compiled_and_step_by_step_give_the_same_weights(tmp_path, settings):
    compiled = outcome(tmp_path / "compiled", network=build(dropout=0.3), **settings)
    plain = outcome(tmp_path / "plain", network=build(dropout=0.3), compiled=False, **settings)
    assert_close(compiled, plain)


def test_a_step_is_traced_once_for_each_shape_of_a_batch(tmp_path):
    network = build()
    done = trainer(tmp_path, network)
    done.train(1, data(10))
    before = network.traces.number
    done.train(4, data(10))
    assert network.traces.number == before
    done.train(5, data(11))  # the last batch is longer
    assert network.traces.number == before + 1


def test_a_changed_rate_takes_no_new_trace(tmp_path):
    network = build()
    done = trainer(tmp_path, network, callbacks=[StepLRCallbackJax(step_size=1, gamma=0.5)])
    done.train(1, data(8))
    before = network.traces.number
    done.train(3, data(8))
    assert network.traces.number == before
    assert [record["lr"] for record in done.state.history] == [0.05, 0.025, 0.0125]


@pytest.mark.slow
def test_a_layer_that_is_set_otherwise_between_epochs_takes_effect(tmp_path):
    class Switch:
        def at_epoch_begin(self, trainer, curr_epoch, **facts):
            trainer.module.body.layers[3].rate = 0.9 if curr_epoch > 1 else 0.0

    switched = outcome(tmp_path / "switched", network=build(dropout=0.5), callbacks=[Switch()])
    plain = outcome(tmp_path / "plain", network=build(dropout=0.0))
    assert not np.allclose(switched["head.kernel"], plain["head.kernel"])


def test_a_network_that_decides_by_values_says_what_to_do_and_works_uncompiled(tmp_path):
    class Deciding(Net):
        def __call__(self, x):
            return {"pred": self.head(self.body(x if float(x.sum()) > 1e9 else 2 * x))}

    with pytest.raises(jax.errors.ConcretizationTypeError) as caught:
        trainer(tmp_path / "compiled", build(Deciding)).train(1, data())
    assert any("compiled=False" in note for note in caught.value.__notes__)
    done = trainer(tmp_path / "plain", build(Deciding), compiled=False)
    done.train(2, data(), data(7))
    assert np.isfinite(done.state.history[1]["val_mse"])


def test_texts_and_names_do_not_reach_a_compiled_step(tmp_path):
    seen = []

    class Looking(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            seen.append(sorted(data_dict))
            return AbstractJaxNetwork.closure(model, data_dict, optimizers, losses)

    trainer(tmp_path, build(Looking)).train(1, data(8, name=np.array([f"case {i}" for i in range(8)])))
    assert seen == [["data", "label"]]


def test_counters_that_a_closure_names_are_those_of_each_step(tmp_path):
    class Counting(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses, iter_num):
            _, values, predictions = AbstractJaxNetwork.closure(model, data_dict, optimizers, losses)
            return {"number": iter_num}, values, predictions

    done = trainer(tmp_path, build(Counting), reduce_mode="sum")
    done.train(1, data(12))
    assert done.state.history[0]["number"] == 0 + 1 + 2


# ------------------------------------------------------------------ random streams


@pytest.mark.slow
def test_a_run_does_not_depend_on_what_was_drawn_before(tmp_path):
    first = outcome(tmp_path / "first", network=build(dropout=0.5))
    for _ in range(5):
        GENERATOR.next_key()
    build(dropout=0.5)(jnp.ones((2, 3)))
    second = outcome(tmp_path / "second", network=build(dropout=0.5))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_the_steps_of_an_epoch_drop_different_values(tmp_path):
    class Noisy(AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.weight = nnx.Param(jnp.zeros(()))

        def __call__(self, x):
            return {"pred": self.weight * x + jax.random.normal(self.rngs.noise(), ())}

    done = trainer(tmp_path, Noisy(), optimizer_params={"lr": 0.0}, log_freq=1)
    zeros = BaseDataManager({"data": np.zeros((4, 3), np.float32), "label": np.zeros((4, 1), np.float32)}, 1)
    seen = []

    class Look:
        def at_iter_end(self, trainer, losses, **facts):
            seen.append(float(losses["mse"]))

    done.register_callback(Look())
    done.train(2, zeros)
    assert len(set(seen)) == 8


# ------------------------------------------------------------------ what is in the network's state


def test_statistics_are_kept_but_not_learned_and_streams_are_neither():
    network = build(dropout=0.5)
    backend = JaxNetworkTrainer.backend
    assert set(backend.checkpoints.state_tree(network, {})["model"]) == set(WEIGHTS)
    assert set(WEIGHTS) - backend.weights.learned_names(network) == {"body.layers.1.mean", "body.layers.1.var"}


def test_shared_weights_have_all_of_their_names_and_one_update(tmp_path):
    class Tied(AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.first = nnx.Linear(3, 3, use_bias=False, rngs=self.rngs)
            self.second = self.first

        def __call__(self, x):
            return {"pred": self.second(self.first(x)).sum(axis=1, keepdims=True)}

    network = Tied()
    trainer(tmp_path, network).train(1, data())
    weights = named_weights(network)
    assert weights["first.kernel"].tobytes() == weights["second.kernel"].tobytes()
    assert network.second is network.first
    load_named_weights(network, weights)


@pytest.mark.slow
def test_frozen_weights_stay_and_so_does_their_part_of_the_optimizer(tmp_path):
    network = build()
    network.head.kernel.set_metadata(frozen=True)
    done = trainer(tmp_path, network)
    done.train(2, data())
    weights = named_weights(network)
    assert weights["head.kernel"].tobytes() == WEIGHTS["head.kernel"].tobytes()
    assert not np.allclose(weights["head.bias"], 0)
    moments = done.backend.checkpoints.state_tree(network, done.optimizers)["optimizer"]["default"]
    (mean,) = [array for place, array in moments.items() if place.endswith("trace/head.kernel")]
    assert not mean.any()


# ------------------------------------------------------------------ numbers and devices


def test_bfloat16_is_used_inside_of_layers_only(tmp_path):
    seen = []

    class Looking(Net):
        def __call__(self, x):
            hidden = self.body(x)
            seen.append((self.head.kernel.dtype, hidden.dtype))
            return {"pred": self.head(hidden)}

    done = trainer(tmp_path, build(Looking), mixed_precision="bf16")
    done.train(2, data(8))
    assert (jnp.dtype("float32"), jnp.dtype("bfloat16")) in seen
    assert all(array.dtype == np.float32 for array in named_weights(done.module).values())
    assert done.module.head.dtype is None
    assert np.isfinite(done.state.history[1]["mse"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mixed_precision": "fp16"}, "needs loss scaling"),
        ({"jit_compile": True}, "jit_compile is of TensorFlow"),
        ({"num_threads": 2}, "JAX chooses its threads when it starts"),
        ({"device": "tpu"}, "JAX sees only"),
        ({"device": "cpu:9"}, "sees only . device"),
        ({"device": "cpu:x"}, "is no device of JAX"),
        ({"optimizer_cls": None}, "no optimizer is set"),
        ({"optimizer_params": {"learning": 1}}, "sgd cannot be built from"),
        ({"optim_fn": lambda model, cls, **kw: {"default": nnx.Optimizer(model, cls(0.1), wrt=nnx.Param)}},
         "return a JaxOptimizer"),
    ],
)  # fmt: skip
def test_what_jax_cannot_do_is_refused_before_training(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        trainer(tmp_path, **settings).train(1, data())


def test_integers_that_jax_would_cut_off_are_refused():
    batch = {"data": np.zeros((1, 3)), "label": np.array([2**40])}
    with pytest.raises(DataError, match="'label' holds integers that do not fit into 32 bit"):
        Net.prepare_batch(batch, "cpu", "cpu")


def test_a_prepared_batch_has_memory_of_its_own():
    array = np.zeros((64, 64), np.float32)
    prepared = Net.prepare_batch({"data": array}, "cpu", "cpu")["data"]
    array[:] = 1
    assert float(prepared.sum()) == 0


def test_gradients_of_another_module_are_refused():
    network = build()
    optimizer = JaxOptimizer(network.head, optax.sgd(0.1))
    gradients = nnx.grad(lambda model: model(jnp.ones((2, 3)))["pred"].sum())(network)
    with pytest.raises(NetworkError, match="pass it the module that it was made for"):
        optimizer.update(network, gradients)


DEVICES = """
    import sys
    sys.path[:0] = [{tests!r}, {here!r}]
    import jax, numpy as np
    from flax import nnx
    from test_jax_step import build, outcome
    assert len(jax.devices()) == 2

    def weights(name, **settings):
        network = build()
        nnx.update(network, jax.tree.map(lambda array: array.astype("float64"), nnx.state(network, nnx.Param)))
        return outcome({path!r} + name, network=network, **settings)

    one, two = weights("/one", device="cpu"), weights("/two", device="cpu", devices=2)
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-9, atol=1e-12, err_msg=name)
"""


@pytest.mark.slow
def test_two_devices_compute_what_one_does_also_if_a_batch_cannot_be_shared_out(tmp_path):
    here = Path(__file__).parent
    code = DEVICES.format(tests=str(here.parent), here=str(here), path=str(tmp_path))
    # ten samples in batches of 4 and 3: of the last but one each device has two, of the last both have all
    # in double precision: batches of three are normalised, which makes 1e-7 of rounding 2e-5 of the weights
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_ENABLE_X64": "1"}
    environment = {**flags, "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=here.parent.parent)
    assert done.returncode == 0, done.stderr
