"""What looks like TensorFlow and trains something else: metrics with a memory, hidden generators, lazy networks."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, NetworkError

pytest.importorskip("tensorflow")

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

from delira.backends.tensorflow.generators import GENERATORS as BACKEND_GENERATORS
from delira.models import AbstractTfNetwork, named_weights
from delira.training import TfNetworkTrainer

N_SAMPLES, N_FEATURES, N_CLASSES = 22, 5, 3


def make_data() -> BaseDataManager:
    rng = np.random.default_rng(0)
    arrays = {
        "data": rng.normal(size=(N_SAMPLES, N_FEATURES)).astype("float32"),
        "label": rng.integers(0, N_CLASSES, N_SAMPLES),
    }
    return BaseDataManager(arrays, batch_size=8)


def make_trainer(network: Any, folder: Path, **settings: Any) -> TfNetworkTrainer:
    return TfNetworkTrainer(
        network, folder, losses={"ce": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        optimizer_cls=keras.optimizers.Adam, optimizer_params={"learning_rate": 1e-2}, logging_type=None, **settings,
    )  # fmt: skip


class TwoLayers(AbstractTfNetwork):
    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(4, kernel_initializer="ones")
        self.last = keras.layers.Dense(N_CLASSES, kernel_initializer="ones")

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.last(self.first(x))}


class FreezesInEpoch:
    """Freezes the first layer when an epoch begins; not again when a run continues after it."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def at_epoch_begin(self, trainer: Any, curr_epoch: int = 0, **facts: Any) -> None:
        if curr_epoch == self.epoch:
            trainer.module.first.trainable = False


def test_a_lazy_network_is_frozen_again_when_a_run_continues(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    unbroken = TwoLayers()
    make_trainer(unbroken, tmp_path / "a", callbacks=[FreezesInEpoch(2)]).train(3, make_data(), verbose=False)
    make_trainer(TwoLayers(), tmp_path / "b", callbacks=[FreezesInEpoch(2)]).train(2, make_data(), verbose=False)
    continued = TwoLayers()
    make_trainer(continued, tmp_path / "b", callbacks=[FreezesInEpoch(2)]).train(3, make_data(), verbose=False)
    expected = named_weights(unbroken)
    for name, weight in named_weights(continued).items():
        np.testing.assert_array_equal(weight, expected[name], err_msg=name)
    assert not continued.first.trainable
    assert "frozen and learned" not in caplog.text


class DrawsFromKeras(TwoLayers):
    def call(self, x: Any) -> dict[str, Any]:
        return super().call(x + keras.random.normal(tf.shape(x)))


def test_the_generator_of_keras_is_followed_in_every_training_of_a_trainer(tmp_path: Path) -> None:
    global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)  # as in a process that begins
    in_one, in_two = DrawsFromKeras(), DrawsFromKeras()
    make_trainer(in_one, tmp_path / "one").train(2, make_data(), verbose=False)
    global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)
    trainer = make_trainer(in_two, tmp_path / "two")
    trainer.train(1, make_data(), verbose=False)
    trainer.train(2, make_data(), verbose=False)
    expected = named_weights(in_one)
    for name, weight in named_weights(in_two).items():
        np.testing.assert_array_equal(weight, expected[name], err_msg=name)


@pytest.mark.parametrize("compiled", [None, False])
def test_a_metric_of_keras_is_that_of_its_step(tmp_path: Path, compiled: Any) -> None:
    seen = []

    class Looks:
        def at_iter_end(self, trainer: Any, data_dict: Any, metrics: Any, predictions: Any, **facts: Any) -> None:
            right = np.argmax(predictions["pred"].numpy(), axis=1) == data_dict["label"]
            seen.append((float(metrics["accuracy"]), right.mean()))

    metrics = {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
    trainer = make_trainer(TwoLayers(), tmp_path, train_metrics=metrics, callbacks=[Looks()], compiled=compiled)
    trainer.train(2, make_data(), verbose=False)
    shown, expected = np.array(seen).T
    np.testing.assert_allclose(shown, expected, rtol=1e-6)


class AnyLength(AbstractTfNetwork):
    def __init__(self) -> None:
        super().__init__()
        self.last = keras.layers.Dense(N_CLASSES)
        self.n_traces = 0

    def call(self, x: Any) -> dict[str, Any]:
        self.n_traces += 1
        return {"pred": self.last(tf.reduce_mean(x, axis=1))}


def test_many_lengths_share_a_graph() -> None:
    network = AnyLength()
    backend = network.__delira_backend__
    with backend.calls.evaluating(network):
        for length in (*range(1, 31), 30):
            x = np.ones((2, length, N_FEATURES), np.float32)
            found = backend.calls.forward(network, {"x": tf.constant(x)})
            assert found["pred"].shape == (2, N_CLASSES)
    assert network.n_traces < 15


@pytest.mark.parametrize("make", [lambda v: [v], lambda v: {"a": (v,)}])
def test_a_foreign_variable_is_found_in_lists_and_dicts(tmp_path: Path, make: Any) -> None:
    class Hides(TwoLayers):
        def __init__(self) -> None:
            super().__init__()
            self.scale = make(tf.Variable(tf.ones(N_CLASSES)))

    with pytest.raises(NetworkError, match=r"Hides\.scale\["):
        make_trainer(Hides(), tmp_path)


class Both(NamedTuple):
    left: Any
    right: Any


class TakesBoth(TwoLayers):
    @staticmethod
    def prepare_batch(batch: Any, input_device: Any, output_device: Any) -> dict[str, Any]:
        prepared = AbstractTfNetwork.prepare_batch(batch, input_device, output_device)
        return {**prepared, "both": Both(prepared["data"], {"label": prepared["label"]})}

    def call(self, x: Any) -> dict[str, Any]:
        predictions = super().call(x)
        return {**predictions, "both": Both(predictions["pred"], 2 * predictions["pred"])}


class LooksAtBoth:
    def __init__(self) -> None:
        self.n_steps = 0

    def at_iter_end(self, trainer: Any, predictions: Any, **facts: Any) -> None:
        both, self.n_steps = predictions["both"], self.n_steps + 1
        np.testing.assert_array_equal(np.asarray(both.right), 2 * np.asarray(predictions["pred"]))


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_named_tuples_pass_through_a_step_whole_or_in_parts(tmp_path: Path, micro_batches: int) -> None:
    looks = LooksAtBoth()
    trainer = make_trainer(TakesBoth(), tmp_path, callbacks=[looks], micro_batches=micro_batches)
    trainer.train(1, make_data(), verbose=False)
    assert looks.n_steps == 3


def test_a_partly_built_network_continues_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def partly_built() -> TwoLayers:
        network = TwoLayers()
        network.first.build((None, N_FEATURES))
        return network

    make_trainer(partly_built(), tmp_path).train(1, make_data(), verbose=False)
    make_trainer(partly_built(), tmp_path).train(2, make_data(), verbose=False)
    assert "frozen and learned" not in caplog.text


class NotMade(AbstractTfNetwork):
    def __init__(self) -> None:
        self.first = keras.layers.Dense(N_CLASSES)


def test_a_network_that_was_not_initialised_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"NotMade.__init__ must call super\(\).__init__\(\) first"):
        make_trainer(NotMade(), tmp_path)


@pytest.mark.parametrize("compiled", [None, False])
def test_texts_as_data_are_called_texts(tmp_path: Path, compiled: bool | None) -> None:
    texts = BaseDataManager({"data": np.array(["word"] * 8), "label": np.zeros(8, int)}, batch_size=4)
    with pytest.raises(DataError, match="the argument 'x' of the network holds text"):
        make_trainer(TwoLayers(), tmp_path, compiled=compiled).train(1, texts, verbose=False)


def test_a_function_of_keras_is_refused_as_a_loss(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"takes the target first.*keras.losses.SparseCategoricalCrossentropy"):
        TfNetworkTrainer(
            TwoLayers(), tmp_path, losses={"ce": keras.losses.sparse_categorical_crossentropy},
            optimizer_cls=keras.optimizers.Adam, logging_type=None,
        ).train(1, make_data(), verbose=False)  # fmt: skip


class Refuses(TwoLayers):
    @staticmethod
    def closure(*args: Any, **kwargs: Any) -> Any:
        raise ConfigError("of the closure")


def test_an_error_that_says_what_to_do_gets_no_note_on_compiling(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="of the closure") as caught:
        make_trainer(Refuses(), tmp_path).train(1, make_data(), verbose=False)
    assert not any("tf.function" in note for note in getattr(caught.value, "__notes__", ()))


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


def test_a_seed_that_comes_again_draws_the_same_again():
    from delira.backends.tensorflow.backend import BACKEND

    with BACKEND_GENERATORS.undisturbed():
        drawn = []
        for seed in (5, 6, 5, 7, 5):  # between the last two nothing is drawn with 7
            BACKEND.generators.seed(seed)
            drawn.append(tf.random.uniform((3,)).numpy().tolist() if seed != 7 else None)
        assert drawn[0] == drawn[2] == drawn[4] != drawn[1]


def test_only_seeds_that_were_drawn_with_cost_the_compiled_kernels(monkeypatch):
    from delira.backends.tensorflow.backend import BACKEND

    with BACKEND_GENERATORS.undisturbed():
        forgotten = []
        monkeypatch.setattr(tf.random, "set_seed", forgotten.append)  # forgets all compiled kernels
        for seed in (11, 12, 11, 12):
            BACKEND.generators.seed(seed)
        assert forgotten == []
        tf.random.uniform(())
        BACKEND.generators.seed(11)
        BACKEND.generators.seed(12)
        assert forgotten == [12]
        monkeypatch.undo()
