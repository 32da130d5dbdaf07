"""What lies between gradients and update in TensorFlow: accumulation, clipping, leaving out, half precision, parts."""

import numpy as np
import pytest

from delira.errors import ConfigError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from delira.backends.tensorflow.backend import BACKEND  # noqa: E402
from delira.contract import UpdateConfig  # noqa: E402
from delira.models import AbstractTfNetwork  # noqa: E402
from delira.training import TfNetworkTrainer, create_optims_default_tf, create_optims_gan_default_tf  # noqa: E402


def mse(prediction, target):
    return tf.reduce_mean(tf.square(prediction - target))


class Net(AbstractTfNetwork):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        self.dense.build((None, 3))

    def call(self, x):
        return {"pred": self.dense(x)}


def batches(sizes, seed=7):
    rng = np.random.default_rng(seed)
    data = [rng.normal(size=(n, 3)) for n in sizes]
    return [{"data": x, "label": x @ np.array([[1.0], [2.0], [3.0]])} for x in data]


def train(path, data, network=None, epochs=1, lr=0.1, **settings):
    chosen = {
        "losses": {"mse": mse},
        "optimizer_cls": keras.optimizers.SGD,
        "optimizer_params": {"lr": lr},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
        **settings,
    }
    trainer = TfNetworkTrainer(network or Net(), path, **chosen)
    trainer.train(epochs, data)
    return trainer


def weight(trainer):
    return trainer.network.dense.kernel.numpy()


def joined(parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("compiled", [None, False])
def test_accumulated_batches_make_the_update_of_one_large_batch(tmp_path, compiled):
    parts = batches([4, 2, 5, 3])
    found = train(tmp_path / "parts", parts, gradient_accumulation_steps=3, compiled=compiled)
    large = train(tmp_path / "large", [joined(parts[:3]), parts[3]])  # the last group ends with the epoch
    np.testing.assert_allclose(weight(found), weight(large), rtol=1e-5)
    assert found.optimizers["default"].num_updates == 2


@pytest.mark.parametrize("settings", [{"gradient_clip_norm": 0.5}, {"gradient_clip_value": 0.1}])
def test_gradients_are_clipped(tmp_path, settings):
    data = batches([4])
    gradient = (np.ones((3, 1)) - weight(train(tmp_path / "plain", data))) / 0.1
    if "gradient_clip_norm" in settings:
        clipped = gradient * min(1, 0.5 / np.linalg.norm(gradient))
    else:
        clipped = np.clip(gradient, -0.1, 0.1)
    found = weight(train(tmp_path / "clipped", data, **settings))
    np.testing.assert_allclose(found, 1 - 0.1 * clipped, rtol=1e-5)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_bad_batch_is_left_out_and_counted(tmp_path, accumulate):
    good, bad = batches([4, 4]), batches([4])[0]
    bad["label"] = bad["label"] * np.nan
    settings = {"nonfinite": "skip", "gradient_accumulation_steps": accumulate}
    found = train(tmp_path / "bad", [good[0], bad, good[1]], **settings)
    expected = train(tmp_path / "good", good, gradient_accumulation_steps=min(accumulate, 2))
    np.testing.assert_allclose(weight(found), weight(expected), rtol=1e-5)
    assert found.optimizers["default"].num_skipped == 1


def test_a_batch_that_is_left_out_leaves_no_trace_in_the_statistics_of_the_network(tmp_path):
    class Normal(Net):
        def __init__(self):
            super().__init__()
            self.norm = keras.layers.BatchNormalization()
            self.norm.build((None, 3))

        def call(self, x):
            return {"pred": self.dense(self.norm(x))}

    bad = {"data": np.full((4, 3), 7.0), "label": np.full((4, 1), np.nan)}
    trainer = train(tmp_path, [bad], Normal(), nonfinite="skip")
    np.testing.assert_array_equal(trainer.network.norm.moving_mean, 0)


def test_bfloat16_computes_in_bfloat16_and_keeps_weights_and_outputs_in_float32(tmp_path):
    seen = {}

    class Watched(Net):
        def call(self, x):
            out = self.dense(x)
            seen.setdefault(tf.executing_eagerly(), set()).add(out.dtype)
            return {"pred": out}

    network = Watched()
    trainer = train(tmp_path, batches([4]), network, mixed_precision="bf16")
    assert tf.bfloat16 in seen[False]
    assert network.dense.kernel.dtype == "float32"
    assert network.dense.dtype_policy.name == "float32"  # its own again
    assert trainer.predict(batches([2])[0])["pred"].dtype == np.float32
    np.testing.assert_allclose(weight(trainer), weight(train(tmp_path / "32", batches([4]))), rtol=0.05)


def test_the_scale_of_fp16_falls_when_a_gradient_is_infinite_and_the_update_is_left_out(tmp_path):
    trainer = train(tmp_path, batches([4]), lr=1e-3, mixed_precision="fp16", nonfinite="ignore")
    optimizer = trainer.optimizers["default"]
    state = {name: float(value) for name, value in optimizer.pending_state().items()}
    huge = [tf.fill((3, 1), np.inf)]
    before, updates = trainer.network.dense.kernel.numpy(), optimizer.num_updates
    with BACKEND.optimizers.scope(trainer.optimizers, 4, True):
        optimizer.scale_loss(tf.constant(1.0))
        optimizer.apply(huge)
    np.testing.assert_array_equal(trainer.network.dense.kernel.numpy(), before)
    assert optimizer.num_updates == updates
    assert float(optimizer.pending_state()["scale"]) == state["scale"] / 2
    assert optimizer.num_skipped == state["skipped"] + 1


def test_a_closure_that_does_not_scale_its_loss_is_right_in_fp16_too(tmp_path):
    class Plain(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            with tf.GradientTape() as tape:
                loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
            optimizers["default"].minimize(loss, tape)
            return {"mse": loss}, {}

    data = batches([4])
    found = train(tmp_path / "fp16", data, Plain(), mixed_precision="fp16")
    np.testing.assert_allclose(weight(found), weight(train(tmp_path / "32", data)), rtol=0.01)


@pytest.mark.parametrize("n_parts", [2, 3])
def test_a_batch_in_parts_makes_the_update_of_the_whole(tmp_path, n_parts):
    data = batches([5, 4])
    found = train(tmp_path / "parts", data, micro_batches=n_parts, train_metrics={"again": mse})
    whole = train(tmp_path / "whole", data, train_metrics={"again": mse})
    np.testing.assert_allclose(weight(found), weight(whole), rtol=1e-5)
    assert found.state.history[0]["mse"] == pytest.approx(whole.state.history[0]["mse"], rel=1e-5)
    assert found.state.history[0]["again"] == pytest.approx(whole.state.history[0]["again"], rel=1e-5)


def test_parts_that_are_discarded_leave_the_group_as_it_was():
    network = Net()
    update = UpdateConfig(accumulation_steps=2, in_parts=True)
    optimizers = BACKEND.optimizers.build(network, None, keras.optimizers.SGD, {"lr": 1.0}, update)
    optimizer, ones = optimizers["default"], [tf.ones((3, 1))]
    with BACKEND.optimizers.scope(optimizers, 4, False):
        optimizer.apply(ones)
    with BACKEND.optimizers.scope(optimizers, 2, False, part=True):
        optimizer.apply([100 * ones[0]])
    assert BACKEND.optimizers.discard_parts(optimizers)
    with BACKEND.optimizers.scope(optimizers, 4, False):
        optimizer.apply(ones)
    np.testing.assert_allclose(network.dense.kernel.numpy(), 0, atol=1e-6)


@pytest.mark.parametrize("compiled", [None, False])
def test_masks_are_those_of_the_parts_if_a_batch_had_to_be_computed_again(tmp_path, compiled):
    class Hungry(Net):
        """Fits into the memory with two samples."""

        def __init__(self):
            super().__init__()
            self.drop = keras.layers.Dropout(0.5)
            self.most = 100

        def call(self, x):
            dropped = self.drop(x)
            with tf.control_dependencies([dropped, *([self.check(x)] if self.most < 100 else [])]):
                return {"pred": self.dense(tf.identity(dropped))}

        def check(self, x):
            def run_out(n):
                if n > self.most:
                    raise MemoryError  # a tf.errors.ResourceExhaustedError outside
                return n

            return tf.py_function(run_out, [tf.shape(x)[0]], tf.int32)

    data, network = batches([6, 6]), Hungry()
    network.most = 2
    auto = train(tmp_path / "auto", data, network, micro_batches="auto", compiled=compiled)
    parts = train(tmp_path / "parts", data, Hungry(), micro_batches=4, compiled=compiled)
    assert auto.state.micro_batches == 4
    np.testing.assert_array_equal(weight(auto), weight(parts))


def test_two_optimizers_change_their_own_layers(tmp_path):
    class Gan(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.gen, self.discr = keras.layers.Dense(3), keras.layers.Dense(1)

        def call(self, x):
            return {"pred": self.discr(self.gen(x))}

        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(data_dict["data"])["pred"] ** 2)
            optimizers["gen"].minimize(loss, tape)
            return {"gen": loss}, {}

    network = Gan()
    network(tf.ones((1, 3)))
    gen, discr = network.gen.kernel.numpy(), network.discr.kernel.numpy()
    trainer = train(tmp_path, batches([4, 4]), network, optim_fn=create_optims_gan_default_tf)
    assert not np.array_equal(network.gen.kernel, gen)
    np.testing.assert_array_equal(network.discr.kernel, discr)
    assert trainer.backend.optimizers.learning_rates(trainer.optimizers) == {"lr_gen": 0.1, "lr_discr": 0.1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer_cls": None}, "no optimizer is set"),
        ({"optimizer_params": {"rate": 1}}, "cannot be built from optimizer_params"),
        ({"optim_fn": lambda network, cls, **params: {}}, "returned an empty dict"),
        ({"optim_fn": lambda network, cls, **params: {"default": 3}}, "is a int; it must be a Keras optimizer"),
    ],
)
def test_what_is_no_optimizer_is_refused(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        train(tmp_path, batches([4]), **settings)


def test_a_rate_that_is_a_schedule_of_keras_is_followed_and_cannot_be_scaled(tmp_path):
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.5, 0.25])
    trainer = train(tmp_path, batches([4, 4]), optimizer_params={"learning_rate": schedule})
    assert trainer.backend.optimizers.learning_rates(trainer.optimizers) == {"lr": 0.25}
    with pytest.raises(ConfigError, match="is a schedule of Keras, which cannot be changed"):
        trainer.scale_rates(0.5)


def test_the_historic_builder_needs_no_network():
    assert isinstance(create_optims_default_tf(keras.optimizers.Adam, lr=0.3)["default"], keras.optimizers.Adam)


def test_averages_that_only_keras_own_fit_takes_over_are_refused(tmp_path):
    class Dense(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(1)

        def call(self, x):
            return {"pred": self.head(x)}

    with pytest.raises(ConfigError, match=r"use the callback .*ExponentialMovingAverage"):
        TfNetworkTrainer(
            Dense(), tmp_path, losses={"mse": keras.losses.MeanSquaredError()}, optimizer_cls=keras.optimizers.SGD,
            optimizer_params={"learning_rate": 0.1, "use_ema": True},
        )  # fmt: skip
