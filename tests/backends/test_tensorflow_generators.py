"""Generators of TensorFlow and Keras: seeded, followed, and left as they were."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from tensorflow_trainings import TwoLayers, make_data, make_trainer

from delira.backends.tensorflow.generators import GENERATORS as BACKEND_GENERATORS
from delira.models import named_weights


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
