"""Several devices in TensorFlow, each with a share of every batch; and what the devices of a process are told."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.errors import ConfigError, NetworkError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
from tensorflow.python.framework import config as settings  # noqa: E402

from delira.backends.tensorflow.backend import BACKEND  # noqa: E402
from delira.backends.tensorflow.devices import Several  # noqa: E402
from delira.backends.tensorflow.runtime import named_variables  # noqa: E402
from delira.contract import CompileConfig, Devices, UpdateConfig  # noqa: E402
from delira.io import export  # noqa: E402
from delira.models import AbstractTfNetwork, named_weights  # noqa: E402
from delira.training import Predictor, TfNetworkTrainer, create_optims_gan_default_tf  # noqa: E402
from delira.training.callbacks import AbstractCallback, ExponentialMovingAverage  # noqa: E402


def mse(prediction, target):
    return tf.reduce_mean(tf.square(prediction - target))


class Net(AbstractTfNetwork):
    """Its weights get their shapes with the first batch; its layers add to the loss before and after normalising."""

    def __init__(self, normalise=False, dropout=0.0):
        super().__init__(normalise=normalise, dropout=dropout)
        self.hidden = keras.layers.Dense(4, kernel_regularizer="l2", activity_regularizer="l2")
        self.norm = keras.layers.BatchNormalization(momentum=0.5) if normalise else keras.layers.Identity()
        self.drop = keras.layers.Dropout(dropout)
        self.head = keras.layers.Dense(1, activity_regularizer="l1")

    def call(self, x):
        return {"pred": self.head(self.drop(self.norm(self.hidden(x))))}


def arrays(n=9):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, 3))
    return {"data": x, "label": x @ np.arange(1.0, 4.0).reshape(-1, 1)}


def build(path, device, make=Net, **settings):
    keras.utils.set_random_seed(3)
    chosen = {
        "losses": {"mse": mse},
        "train_metrics": {"again": mse},
        "optimizer_cls": keras.optimizers.SGD,
        "optimizer_params": {"lr": 0.05, "momentum": 0.5},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
        **settings,
    }
    return TfNetworkTrainer(make(), path, device=device, **chosen)


def train(path, device, make=Net, epochs=3, data=None, **settings):
    trainer = build(path, device, make, **settings)
    trainer.train(epochs, BaseDataManager(arrays() if data is None else data, 4, sampler_cls=SequentialSampler))
    return trainer


def same(left, right, rtol=1e-4, atol=1e-5):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(left[name], right[name], rtol=rtol, atol=atol, err_msg=name)


def state(trainer):
    return {name: variable.numpy() for name, variable in named_variables(trainer.network).items()}


def history(trainer):
    records = [(r["mse"], r["again"], r["regularisation"]) for r in trainer.state.history]
    return {"history": np.array(records)}


def equal_outcomes(path, **settings):
    """What one device computes, and two."""
    one, two = train(path / "one", "cpu", **settings), train(path / "two", "cpu", devices=2, **settings)
    same(named_weights(one.network), named_weights(two.network))
    same(history(one), history(two))
    same(one.predict(arrays(7)), two.predict(arrays(7)))
    same(one.predict(arrays(1)), two.predict(arrays(1)))  # each device has the whole of it
    return two


def check_two_devices_compute_what_one_does(path):
    # nine samples in batches of 4, 4 and 1
    two = equal_outcomes(path / "plain")
    kernel = two.network.head.kernel.value
    assert [tf.DeviceSpec.from_string(v.device).device_index for v in kernel.values] == [0, 1]
    np.testing.assert_array_equal(kernel.values[0].numpy(), kernel.values[1].numpy())
    equal_outcomes(path / "eager", compiled=False)
    equal_outcomes(
        path / "clipped", gradient_clip_norm=0.3, optimizer_cls=keras.optimizers.AdamW, optimizer_params={"lr": 0.05}
    )
    equal_outcomes(path / "accumulated", gradient_accumulation_steps=2)
    equal_outcomes(path / "parts", micro_batches=2)
    equal_outcomes(path / "keras", losses={"mse": keras.losses.MeanSquaredError()})
    equal_outcomes(path / "keras_eager", losses={"mse": keras.losses.MeanSquaredError()}, compiled=False)
    rate = {"lr_scheduler_cls": keras.optimizers.schedules.ExponentialDecay}
    equal_outcomes(path / "rate", **rate, lr_scheduler_params={"decay_steps": 1, "decay_rate": 0.5})


def check_state_is_where_the_weights_are(path):
    trainer = train(path, "cpu:1", gradient_accumulation_steps=2)
    optimizer = trainer.optimizers["default"]
    slots = [v.value for v in optimizer.optimizer.variables if v.shape.rank]
    for variable in (
        trainer.network.head.kernel.value,
        *slots,
        *optimizer._sums._totals.values(),
        *optimizer._notes.values(),
    ):
        assert variable.device.endswith("CPU:1")


def check_a_group_is_applied_when_an_epoch_of_unknown_length_ends(path):
    outcomes = []
    for device in ("cpu", "cpu:0,1"):
        trainer = build(path / device, device, gradient_accumulation_steps=2)
        trainer.train(1, Unknown())
        assert trainer.optimizers["default"].num_updates == 2
        outcomes.append(named_weights(trainer.network))
    same(*outcomes)


class Unknown:
    """Three batches; nobody knows how many."""

    def __iter__(self):
        data = arrays(9)
        return ({name: array[n : n + 3] for name, array in data.items()} for n in (0, 3, 6))


def check_fp16_scales_its_loss(path):
    one, two = (train(path / device, device, mixed_precision="fp16") for device in ("cpu", "cpu:0,1"))
    assert two.optimizers["default"].num_skipped == one.optimizers["default"].num_skipped > 0
    same(named_weights(one.network), named_weights(two.network), rtol=0.02)


def check_statistics_are_means_over_the_devices(path):
    half = arrays(2)
    data = {name: np.concatenate([array, array]) for name, array in half.items()}  # each share is like the whole
    outcomes = [train(path / device, device, lambda: Net(normalise=True), data=data) for device in ("cpu", "cpu:0,1")]
    same(state(outcomes[0]), state(outcomes[1]))
    same(history(outcomes[0]), history(outcomes[1]))


class Seen(AbstractCallback):
    def __init__(self):
        self.masks = []

    def at_iter_end(self, trainer, predictions, **kwargs):
        self.masks.append(BACKEND.arrays.to_numpy(dict(predictions))["mask"])


def check_every_device_drops_something_else(path):
    class Masks(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            with tf.GradientTape() as tape:
                mask = model.drop(tf.ones((tf.shape(data_dict["data"])[0], 64)))
                loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
            optimizers["default"].minimize(loss, tape)
            return {}, {"mse": loss}, {"mask": mask}

    for compiled in (None, False):
        trainer = build(
            path / str(compiled), "cpu:0,1", lambda: Masks(dropout=0.5), train_metrics=None, compiled=compiled
        )
        seen = Seen()
        trainer.register_callback(seen)
        trainer.train(1, BaseDataManager(arrays(4), 4))
        (mask,) = seen.masks
        assert mask.shape == (4, 64)
        assert (mask[:2] != mask[2:]).any()


def check_a_run_continues_in_the_same_bits(path):
    settings = {"make": lambda: Net(normalise=True, dropout=0.3), "optimizer_cls": keras.optimizers.Adam}
    settings |= {"optimizer_params": {"lr": 0.01}, "save_freq": 1}
    whole = train(path / "whole", "cpu:0,1", **settings, gradient_accumulation_steps=2)
    train(path / "broken", "cpu:0,1", epochs=1, **settings, gradient_accumulation_steps=2)
    again = train(path / "broken", "cpu:0,1", **settings, gradient_accumulation_steps=2)
    for name, array in state(whole).items():
        np.testing.assert_array_equal(array, state(again)[name], err_msg=name)
    np.testing.assert_array_equal(history(whole)["history"], history(again)["history"])
    other = train(path / "broken", "cpu", epochs=4, **settings, gradient_accumulation_steps=2)  # on one device
    assert len(other.state.history) == 4


def check_a_bad_share_leaves_out_the_batch(path):
    data = arrays(12)
    data["label"][7] = np.nan  # of the second device's share of the second batch
    trainer = train(path / "bad", "cpu:0,1", lambda: Net(normalise=True), 1, data, nonfinite="skip")
    good = {name: np.delete(array, range(4, 8), axis=0) for name, array in data.items()}
    expected = train(path / "good", "cpu:0,1", lambda: Net(normalise=True), 1, good, nonfinite="skip")
    same(named_weights(trainer.network), named_weights(expected.network))
    assert trainer.optimizers["default"].num_skipped == 1


class Pair(AbstractTfNetwork):
    """Two optimizers in one closure: the second sees what the first has changed."""

    def __init__(self):
        super().__init__()
        self.gen, self.discr = keras.layers.Dense(2), keras.layers.Dense(1)
        self.gen.build((None, 3)), self.discr.build((None, 2))

    def call(self, x):
        return {"pred": self.discr(self.gen(x))}

    @staticmethod
    def closure(model, data_dict, optimizers, losses, metrics=None, **kwargs):
        found = {}
        for name in ("discr", "gen"):
            with tf.GradientTape() as tape:
                found[name] = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
                scaled = optimizers[name].scale_loss(found[name])
            optimizers[name].minimize(scaled, tape)
        return {}, found, {}


def check_two_optimizers(path):
    settings = {
        "optim_fn": create_optims_gan_default_tf,
        "train_metrics": None,
        "make": Pair,
        "optimizer_params": {"lr": 0.01},
    }
    one, two = (train(path / device, device, **settings) for device in ("cpu", "cpu:0,1"))
    same(named_weights(one.network), named_weights(two.network))
    for name in ("discr", "gen"):
        np.testing.assert_allclose(one.state.history[-1][name], two.state.history[-1][name], rtol=1e-4)


def check_averages_exports_and_moves(path):
    def built():
        network = Net()
        network(tf.ones((1, 3)))
        return network

    trainer = train(path, "cpu:0,1", built, callbacks=[ExponentialMovingAverage(decay=0.5)])
    x = arrays(5)["data"].astype(np.float32)
    expected = trainer.predict({"data": x})["pred"]
    export(trainer.network, path / "net", {"data": x})
    serve = tf.saved_model.load(str(path / "net")).signatures["serving_default"]
    np.testing.assert_allclose(serve(x=tf.constant(x))["pred"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trainer.network(x)["pred"], expected, rtol=1e-5, atol=1e-6)
    same(Predictor(trainer.network).predict({"data": x}), {"pred": expected})
    moved = build(path / "moved", "cpu", lambda: trainer.network)
    assert not isinstance(trainer.network.head.kernel.value, tf.distribute.DistributedValues)
    same(moved.predict({"data": x}), {"pred": expected})


def check_what_goes_wrong_is_said(path):
    class Broken(Net):
        def call(self, x):
            raise KeyError("mine")

    class Stopped(Pair):
        closure = staticmethod(AbstractTfNetwork.closure)

        def call(self, x):
            return {"pred": tf.stop_gradient(self.discr(self.gen(x)))}

    with pytest.raises(KeyError, match="mine"):
        train(path / "broken", "cpu:0,1", Broken)
    with pytest.raises(NetworkError, match="no gradient"):
        train(path / "stopped", "cpu:0,1", Stopped)
    with pytest.raises(ConfigError, match="jit_compile=True does not work with several devices"):
        train(path / "jit", "cpu:0,1", jit_compile=True)
    for device in ("cpu:0,2", "cpu:1,1"):
        with pytest.raises(ConfigError, match=f"device='{device}' was asked for, but TensorFlow sees only 2"):
            build(path / "there", device)


@pytest.mark.slow
def test_a_strategy_of_one_device_computes_what_the_device_does():
    """The short form of the next test."""
    batch = {name: tf.constant(array, tf.float32) for name, array in arrays(4).items()}
    outcomes = []
    for device in ("/CPU:0", Several(["/CPU:0"])):
        keras.utils.set_random_seed(3)
        network = Net(normalise=True)
        BACKEND.devices.place(network, {}, Devices(device, device))
        assert BACKEND.devices.of(network).input == device
        update = UpdateConfig(accumulation_steps=2, clip_norm=0.5)
        optimizers = BACKEND.optimizers.build(network, None, keras.optimizers.Adam, {"lr": 0.1}, update)
        arguments = {"optimizers": optimizers, "losses": {"mse": mse}, "metrics": {"again": mse}}
        step = BACKEND.step.bind(network.closure, network, arguments, CompileConfig())
        found = {}
        for number in range(3):
            with BACKEND.calls.training(network), BACKEND.optimizers.scope(optimizers, 4, number == 2):
                metrics, losses, predictions = step(batch)
            found |= {
                f"{name}{number}": value for name, value in BACKEND.arrays.to_numpy({**metrics, **losses}).items()
            }
        with BACKEND.calls.evaluating(network):
            found |= {"pred": BACKEND.arrays.to_numpy(BACKEND.calls.forward(network, {"x": batch["data"]})["pred"])}
        assert predictions["pred"].shape == (4, 1)
        assert optimizers["default"].num_updates == 2
        outcomes.append({**found, **named_weights(network)})
    same(*outcomes)


def test_several_gpus_that_are_not_there_are_refused(tmp_path):
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("there are GPUs")
    with pytest.raises(ConfigError, match=r"gpu_ids=\[0, 1\] was asked for, but TensorFlow sees no GPU"):
        build(tmp_path, None, gpu_ids=[0, 1])
    with pytest.raises(ConfigError, match="device='cpu:0,7' was asked for, but TensorFlow sees only 1 CPU"):
        build(tmp_path, "cpu:0,7")
    with pytest.raises(ConfigError, match="is no device of TensorFlow"):
        build(tmp_path, "cpu:0,")


PROGRAM = """
    import sys
    sys.path[:0] = [{here!r}]
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    from pathlib import Path
    import test_tensorflow_devices
    for name, check in list(vars(test_tensorflow_devices).items()):
        if name.startswith("check_"):
            print(name, flush=True)
            check(Path({path!r}) / name)
"""


@pytest.mark.slow
def test_two_devices_are_like_one(tmp_path):
    here = Path(__file__).parent
    code = textwrap.dedent(PROGRAM.format(here=str(here), path=str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
        cwd=here.parent.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("check_") >= 9


def is_deterministic():
    return settings.is_op_determinism_enabled()


def test_deterministic_holds_for_the_training_alone_and_gives_the_same_bits(tmp_path):
    seen = Determinism()
    runs = [
        train(tmp_path / str(number), "cpu", lambda: Net(dropout=0.3), deterministic=True, callbacks=[seen])
        for number in range(2)
    ]
    assert seen.found == [True] * 6
    assert not is_deterministic()
    for name, array in state(runs[0]).items():
        np.testing.assert_array_equal(array, state(runs[1])[name])
    with BACKEND.devices.deterministic():
        with BACKEND.devices.deterministic():
            pass
        assert is_deterministic()
    assert not is_deterministic()


class Determinism(AbstractCallback):
    def __init__(self):
        self.found = []

    def __deepcopy__(self, memo):
        return self

    def at_epoch_end(self, trainer, **facts):
        self.found.append(is_deterministic())


def test_an_operation_that_is_not_deterministic_is_explained(tmp_path):
    class Drawing(Net):
        def call(self, x):
            return {"pred": self.head(self.hidden(x)) + tf.raw_ops.RandomStandardNormal(shape=[1], dtype=tf.float32)}

    with pytest.raises(Exception, match="determinis") as caught:
        train(tmp_path, "cpu", Drawing, deterministic=True, compiled=False)
    assert any("deterministic=False" in note for note in caught.value.__notes__)


def test_threads_that_come_too_late_are_refused(tmp_path):
    tf.constant(0)  # TensorFlow is in use
    have = BACKEND.devices.thread_count()
    with pytest.raises(ConfigError, match=r"num_threads=\d+ comes too late: TensorFlow is in use"):
        train(tmp_path, "cpu", num_threads=(have or 0) + 1)
    assert BACKEND.devices.thread_count() == have
    with BACKEND.devices.threads(have):  # what there is already is no change
        assert BACKEND.devices.thread_count() == have
