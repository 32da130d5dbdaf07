"""Steps of the TensorFlow backend: compiled, in the mode of the training, with the arithmetic that is written down."""

import logging

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.errors import CheckpointError, ConfigError, NetworkError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from delira.backends.tensorflow.backend import BACKEND  # noqa: E402
from delira.contract import StepHooks  # noqa: E402
from delira.models import AbstractTfNetwork, named_weights  # noqa: E402
from delira.training import Predictor, TfNetworkTrainer  # noqa: E402

SETTINGS = {
    "optimizer_cls": keras.optimizers.SGD,
    "optimizer_params": {"lr": 0.1, "momentum": 0.5},
    "logging_type": None,
    "verbose": False,
    "save_freq": None,
}


def mse(prediction, target):
    return tf.reduce_mean(tf.square(prediction - target))


def arrays(n=10):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, 3))
    return {"data": x, "label": x @ np.arange(1.0, 4.0).reshape(-1, 1) + 0.1 * rng.normal(size=(n, 1))}


class Lazy(AbstractTfNetwork):
    """Its weights get their shapes with the first batch."""

    def __init__(self, dropout=0.0):
        super().__init__(dropout=dropout)
        self.drop = keras.layers.Dropout(dropout)
        self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        self.calls = []

    def call(self, x):
        self.calls.append(tf.executing_eagerly())
        return {"pred": self.dense(self.drop(x))}


def train(path, network=None, epochs=2, data=None, **settings):
    trainer = TfNetworkTrainer(network or Lazy(), path, **{**SETTINGS, "losses": {"mse": mse}, **settings})
    trainer.train(epochs, BaseDataManager(data or arrays(), 4, sampler_cls=SequentialSampler))
    return trainer


def by_hand(epochs=2):
    weight, velocity, data = np.zeros((3, 1)), np.zeros((3, 1)), arrays()
    for _ in range(epochs):
        for start in (0, 4, 8):
            x, y = data["data"][start : start + 4], data["label"][start : start + 4]
            velocity = 0.5 * velocity - 0.1 * 2 * x.T @ (x @ weight - y) / len(x)
            weight = weight + velocity
    return weight


@pytest.mark.sampled("half")
@pytest.mark.parametrize(
    "settings", [{}, {"compiled": False}, {"jit_compile": True}, {"compiled": {"autograph": True}}]
)
def test_training_is_gradient_descent_however_the_step_is_run(tmp_path, settings):
    trainer = train(tmp_path, **settings)
    np.testing.assert_allclose(trainer.network.dense.kernel.numpy(), by_hand(), rtol=1e-4)


def test_a_compiled_step_runs_python_once_however_long_the_batches_are(tmp_path):
    network = train(tmp_path).network  # of 4, 4 and 2 samples
    eager, traced = network.calls.count(True), network.calls.count(False)
    assert eager == 1  # for the shapes
    assert traced <= 4, "tf.function calls the closure twice for a graph, and so the prediction"


def test_without_compilation_python_runs_at_every_step_and_in_every_prediction(tmp_path):
    network = Lazy()
    network(tf.ones((1, 3)))  # Keras itself calls without values to find shapes
    network.calls.clear()
    trainer = train(tmp_path, network, compiled=False)
    trainer.predict(arrays())
    assert False not in trainer.network.calls
    assert len(trainer.network.calls) >= 8


def test_an_unknown_option_of_the_compiler_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"tf\.function has no option 'autograf'"):
        train(tmp_path, compiled={"autograf": True})


class Switched(Lazy):
    """``call`` knows nothing of ``training``; neither do the layers it is asked for one by one."""

    def call(self, x):
        return {"pred": self.dense(keras.ops.ones_like(self.drop(x)) * self.drop(x))}


@pytest.mark.parametrize("compiled", [None, False])
def test_dropout_follows_the_trainer_and_not_the_signature_of_call(tmp_path, compiled):
    network = Switched(dropout=0.9)
    trainer = train(tmp_path, network, compiled=compiled)
    network.dense.kernel.assign(np.ones((3, 1), np.float32))
    ones = {"data": np.ones((50, 3)), "label": np.zeros((50, 1))}
    np.testing.assert_array_equal(trainer.predict(ones)["pred"], 3)
    with BACKEND.calls.training(network):
        assert len(np.unique(network(tf.ones((50, 3)))["pred"])) > 1
    np.testing.assert_array_equal(network(tf.ones((50, 3)))["pred"], 3)  # outside, as Keras has it


def test_masks_follow_the_seed_of_the_training_and_not_the_network(tmp_path):
    results = [train(tmp_path / str(n), Lazy(0.5), seed=seed) for n, seed in enumerate((3, 3, 4))]
    weights = [trainer.network.dense.kernel.numpy() for trainer in results]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_a_frozen_layer_stays_as_it_is_in_the_compiled_step(tmp_path):
    class Two(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.first, self.second = keras.layers.Dense(3), keras.layers.Dense(1)

        def call(self, x):
            return {"pred": self.second(self.first(x))}

    class Freeze:
        seen = ()

        def at_epoch_end(self, trainer, **facts):
            self.seen = [*self.seen, trainer.network.first.kernel.numpy()]
            trainer.network.first.trainable = facts["curr_epoch"] == 2

    freeze = Freeze()
    train(tmp_path, Two(), epochs=3, callbacks=[freeze])
    one, two, three = freeze.seen
    assert np.array_equal(one, two)
    assert not np.array_equal(two, three)


def test_a_hook_that_cannot_be_compiled_runs_at_every_step_and_that_is_said(tmp_path, caplog):
    seen = []
    trainer = TfNetworkTrainer(Lazy(), tmp_path, losses={"mse": mse}, **SETTINGS)
    trainer.hooks = StepHooks(criterion=(lambda step: seen.append(float(step.losses["mse"])),))
    with caplog.at_level(logging.WARNING, "delira"):
        trainer.train(1, BaseDataManager(arrays(), 4))
    assert len(seen) == 3
    assert "not compiled, since a hook inside it is not marked traceable" in caplog.text


def test_names_do_not_reach_a_compiled_step_and_counters_do_as_arrays(tmp_path):
    seen = {}

    class Own(Lazy):
        @staticmethod
        def closure(model, data_dict, optimizers, losses, iter_num, **kwargs):
            seen.update(keys=sorted(data_dict), counter=iter_num, more=sorted(kwargs))
            with tf.GradientTape() as tape:
                loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
            optimizers["default"].minimize(loss, tape)
            return {"mse": loss, "count": iter_num}, {}

    names = np.array([f"case {n}" for n in range(10)])
    trainer = train(tmp_path, Own(), epochs=1, data={**arrays(), "name": names}, reduce_mode="sum")
    assert seen["keys"] == ["data", "label"]
    assert seen["counter"].dtype is tf.int64
    assert "global_iter_num" not in seen["more"]
    assert trainer.state.history[0]["count"] == 0 + 1 + 2


def test_losses_of_keras_get_the_target_first(tmp_path):
    class Classes(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(3, kernel_initializer="zeros")

        def call(self, x):
            return {"pred": self.dense(x)}

    data = {"data": arrays()["data"], "label": np.arange(10) % 3}
    losses = {"ce": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    trainer = train(tmp_path, Classes(), epochs=1, data=data, losses=losses, optimizer_params={"lr": 1e-6})
    assert trainer.state.history[0]["ce"] == pytest.approx(np.log(3), rel=1e-3)


def test_what_layers_add_to_the_loss_is_minimised_too(tmp_path):
    class Regularised(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=keras.regularizers.L2(0.5))

        def call(self, x):
            return {"pred": self.dense(x)}

    data = {"data": np.zeros((4, 3)), "label": np.zeros((4, 1))}
    trainer = train(tmp_path, Regularised(), epochs=1, data=data)
    assert trainer.state.history[0]["regularisation"] == pytest.approx(1.5)
    np.testing.assert_allclose(trainer.network.dense.kernel.numpy(), 1 - 0.1 * 0.5 * 2)


def test_an_error_of_the_user_keeps_its_type_and_is_told_that_it_was_compiled(tmp_path):
    class Broken(Lazy):
        @staticmethod
        def closure(model, data_dict, optimizers, **kwargs):
            raise KeyError("mask")

    with pytest.raises(KeyError, match="mask") as caught:
        train(tmp_path, Broken())
    assert any("compiled=False" in note for note in caught.value.__notes__)


def test_a_loss_without_gradient_is_refused(tmp_path):
    with pytest.raises(NetworkError, match="depends on no weight that is learned"):
        train(tmp_path, losses={"constant": lambda prediction, target: tf.reduce_mean(target)})


def test_variables_and_generators_that_keras_does_not_save_are_refused(tmp_path):
    class Hidden(Lazy):
        def __init__(self, what):
            super().__init__()
            self.hidden = what

    for what, message in (
        (tf.Variable(1.0), r"Hidden\.hidden is a tf\.Variable.*add_weight"),
        (tf.random.Generator.from_seed(1), r"Hidden\.hidden is a tf\.random\.Generator.*SeedGenerator"),
    ):
        with pytest.raises(NetworkError, match=message):
            TfNetworkTrainer(Hidden(what), tmp_path, losses={"mse": mse}, **SETTINGS)


def test_a_network_without_shapes_has_no_state_yet(tmp_path):
    trainer = TfNetworkTrainer(Lazy(), tmp_path, losses={"mse": mse}, **SETTINGS)
    with pytest.raises(CheckpointError, match="call the network once"):
        trainer.save_state(tmp_path / "state")


def test_a_predictor_builds_and_compiles_a_network(tmp_path):
    network = Lazy()
    predictor = Predictor(network)
    first, again = predictor.predict(arrays()), predictor.predict(arrays(5))
    assert first["pred"].shape == (10, 1)
    assert again["pred"].shape == (5, 1)
    assert network.calls.count(True) == 1
    assert set(named_weights(network)) == {"dense.kernel"}


def test_a_network_that_draws_by_itself_is_exact_between_epochs_only(tmp_path, caplog):
    class Noisy(Lazy):
        def call(self, x):
            return {"pred": self.dense(x + tf.random.normal(tf.shape(x)))}

    trainer = train(tmp_path / "whole", Noisy(), epochs=3)
    assert "tf.random.normal" in BACKEND.generators.not_resumable(trainer.network)
    train(tmp_path / "broken", Noisy(), epochs=1)
    again = train(tmp_path / "broken", Noisy(), epochs=3)
    np.testing.assert_array_equal(trainer.network.dense.kernel.numpy(), again.network.dense.kernel.numpy())
    losses = [record["mse"] for record in trainer.state.history]
    assert len(set(losses)) == 3


def test_the_noise_of_every_epoch_is_another(tmp_path):
    class Drawn(Lazy):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            with tf.GradientTape() as tape:
                loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
            optimizers["default"].minimize(loss, tape)
            return {"draw": tf.random.uniform(())}, {"mse": loss}, {}

    history = train(tmp_path, Drawn(), epochs=3).state.history
    assert len({record["draw"] for record in history}) == 3
