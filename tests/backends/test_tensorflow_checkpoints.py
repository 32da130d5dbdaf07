"""What TensorFlow keeps of a network and its optimizers, and how runs go on with it."""

import numpy as np
import pytest

from delira.errors import CheckpointError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
from small_tensorflow_network import Net, built, data  # noqa: E402

from delira.backends.tensorflow.backend import BACKEND  # noqa: E402
from delira.io import load_checkpoint_tf, save_checkpoint_tf  # noqa: E402
from delira.models import load_named_weights, named_weights  # noqa: E402
from delira.training import TfNetworkTrainer  # noqa: E402
from delira.training.callbacks import ExponentialMovingAverage  # noqa: E402


def mse(prediction, target):
    return tf.reduce_mean(tf.square(prediction - target))


def build(path, network=None, **settings):
    BACKEND.generators.seed(3)
    keras.utils.set_random_seed(3)
    chosen = {
        "losses": {"mse": mse},
        "optimizer_cls": keras.optimizers.Adam,
        "optimizer_params": {"lr": 0.01},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
        **settings,
    }
    return TfNetworkTrainer(network or Net(), path, **chosen)


def same(left, right):
    ours, theirs = BACKEND.arrays.to_numpy(left), BACKEND.arrays.to_numpy(right)
    np.testing.assert_equal(ours, theirs)


def test_weights_go_from_one_network_to_another_by_name():
    first, second = built(), built()
    weights = named_weights(first)
    assert not any("seed_generator" in name for name in weights)
    load_named_weights(second, weights)
    x = tf.ones((2, 3))
    np.testing.assert_array_equal(first(x)["pred"], second(x)["pred"])
    with pytest.raises(CheckpointError, match=r"scale is a float|scale is float32 \(1,\), in the network float32 \(\)"):
        load_named_weights(second, {**weights, "scale": np.ones(1, np.float32)})


class Stop(Exception):
    pass


class StopAfter:
    def __init__(self, step):
        self.step = step

    def at_iter_end(self, trainer, **facts):
        if trainer.state.global_step == self.step:
            raise Stop


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 5])
def test_a_network_without_shapes_continues_in_the_same_bits(tmp_path, step):
    whole = build(tmp_path / "whole", gradient_accumulation_steps=2)
    whole.train(3, data())
    broken = build(tmp_path / "broken", gradient_accumulation_steps=2, save_freq_steps=1, callbacks=[StopAfter(step)])
    with pytest.raises(Stop):
        broken.train(3, data())
    again = build(tmp_path / "broken", gradient_accumulation_steps=2)
    assert again.state.global_step >= step - 1
    again.train(3, data())
    same(whole.checkpoint_tree()["model"], again.checkpoint_tree()["model"])
    same(whole.checkpoint_tree()["optimizer"], again.checkpoint_tree()["optimizer"])
    assert whole.state.history == again.state.history


def test_a_checkpoint_of_another_network_or_optimizer_is_refused_and_changes_nothing(tmp_path):
    build(tmp_path / "run").train(1, data())
    network = Net(3)
    network(tf.ones((1, 3)))
    with pytest.raises(CheckpointError, match=r"missing in the checkpoint: blocks\.2\.conv"):
        build(tmp_path / "run", network)
    with pytest.raises(CheckpointError, match="it is of a Adam, not of a SGD"):
        build(tmp_path / "run", built(), optimizer_cls=keras.optimizers.SGD)


def test_save_and_load_a_network_by_the_places_of_its_variables(tmp_path):
    first, second = built(), built()
    save_checkpoint_tf(tmp_path / "net.zip", first, epoch=3, note="mine")
    tree = load_checkpoint_tf(tmp_path / "net.zip", second)
    assert (tree["epoch"], tree["note"]) == (3, "mine")
    same(BACKEND.checkpoints.state_tree(first, {}), BACKEND.checkpoints.state_tree(second, {}))
    damaged = bytearray((tmp_path / "net.zip").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "net.zip").write_bytes(damaged)
    with pytest.raises(CheckpointError):
        load_checkpoint_tf(tmp_path / "net.zip", second)


@pytest.mark.slow
def test_the_average_of_the_weights_is_what_a_checkpoint_holds(tmp_path):
    class Seen:
        weights = ()

        def at_iter_end(self, trainer, **facts):
            self.weights = [*self.weights, trainer.network.scale.numpy()]

    seen = Seen()
    trainer = build(tmp_path, built(), callbacks=[seen, ExponentialMovingAverage(0.5, warmup=False)])
    average = trainer.network.scale.numpy()
    trainer.train(1, data())
    for weight in seen.weights:
        average = average + 0.5 * (weight - average)
    np.testing.assert_allclose(trainer.network.scale.numpy(), average, rtol=1e-6)


def test_frozen_weights_are_frozen_again(tmp_path):
    network = built()
    names = BACKEND.weights.learned_names(network)
    network.blocks[0].trainable = False
    frozen = BACKEND.weights.learned_names(network)
    assert names - frozen == {name for name in names if name.startswith("blocks.0.")}
    other = built()
    BACKEND.weights.set_learned_names(other, frozen)
    assert BACKEND.weights.learned_names(other) == frozen
    assert not other.blocks[0].norm.trainable  # it predicts
    BACKEND.weights.set_learned_names(other, names)
    assert BACKEND.weights.learned_names(other) == names
    assert other.blocks[0].norm.trainable
