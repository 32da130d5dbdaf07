"""Networks of TensorFlow whose layers have no shapes yet, and those that cannot be trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delira.errors import NetworkError

pytest.importorskip("tensorflow")
import keras
import tensorflow as tf
from tensorflow_trainings import N_CLASSES, N_FEATURES, TwoLayers, make_data, make_trainer

from delira.models import AbstractTfNetwork, named_weights


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


@pytest.mark.parametrize("make", [lambda v: [v], lambda v: {"a": (v,)}])
def test_a_foreign_variable_is_found_in_lists_and_dicts(tmp_path: Path, make: Any) -> None:
    class Hides(TwoLayers):
        def __init__(self) -> None:
            super().__init__()
            self.scale = make(tf.Variable(tf.ones(N_CLASSES)))

    with pytest.raises(NetworkError, match=r"Hides\.scale\["):
        make_trainer(Hides(), tmp_path)


def test_a_foreign_variable_is_found_whatever_its_name(tmp_path: Path) -> None:
    class Hides(TwoLayers):
        def __init__(self) -> None:
            super().__init__()
            self._self_scale = tf.Variable(tf.ones(N_CLASSES))

    with pytest.raises(NetworkError, match=r"Hides\._self_scale is a tf\.Variable, which Keras neither trains"):
        make_trainer(Hides(), tmp_path)


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
