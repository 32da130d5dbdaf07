"""Calls of TensorFlow's networks: batches of any structure, metrics, and what errors say."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError

pytest.importorskip("tensorflow")
import keras
import tensorflow as tf
from tensorflow_trainings import N_CLASSES, N_FEATURES, TwoLayers, make_data, make_trainer

from delira.models import AbstractTfNetwork
from delira.training import TfNetworkTrainer


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
