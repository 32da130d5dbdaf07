"""Acceptance cases 1 to 4 of the Trial: training, resuming."""

import numpy as np
import pytest
from kits import WEIGHT, case, descend, needs_checkpoints, quiet

from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import (
    once,
)
from delira.state import EPOCH, Y_PRED
from delira.training.callbacks import Best, EarlyStopping, StepLR


@case(1, "torch", "tensorflow", "jax", "sklearn")
def test_ac_01_two_lines_train(kit, blobs):
    net = kit.mlp()
    trial = quiet(net, kit.adam(net, 0.05), kit.cross_entropy, ["acc", "loss"])
    history = trial.with_train_data(*blobs, batch_size=8).with_val_data(*blobs, batch_size=8).run(5)
    assert len(history) == 5
    for record in history:
        assert {"acc", "loss", "running_acc", "running_loss", "val_acc", "val_loss"} <= record.keys()
        assert (record["train_steps"], record["validation_steps"]) == (5, 5)
    assert history[-1]["val_acc"] == 1.0
    assert history[-1]["val_loss"] < history[0]["loss"]


@case(1)
def test_ac_01_training_equals_arithmetic_by_hand(kit, line):
    net = kit.linear(WEIGHT)
    x, y = line
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"]).with_train_data(x, y, batch_size=5, shuffle=False)
    history = trial.with_val_data(x, y, batch_size=5).run(2)
    batches = [(x[start : start + 5], y[start : start + 5]) for start in (0, 5, 10)]
    losses, weight = descend(WEIGHT, batches * 2, 0.05)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)
    counts = np.array([5, 5, 2])
    means = [float((losses[part] * counts).sum() / 12) for part in (slice(0, 3), slice(3, 6))]
    np.testing.assert_allclose([record["loss"] for record in history], means, rtol=1e-5)
    np.testing.assert_allclose(history[-1]["val_loss"], ((x @ weight - y) ** 2).mean(), rtol=1e-4)


@case(2)
def test_ac_02_a_function_is_minimised_without_data(kit):
    goal = np.array([5.0, 0.0, 1.0], "f4")
    net = kit.module({"p": [2.0, 1.0, 10.0]}, lambda net, *inputs: kit.sum((net.p - kit.array(goal)) ** 2))
    trial = quiet(net, kit.sgd(net, 0.01), Y_PRED, ["loss"])
    history = trial.for_train_steps(1000).run(1)
    np.testing.assert_allclose(kit.weights(net)[next(iter(kit.weights(net)))], goal, atol=1e-4)
    assert history[0]["train_steps"] == 1000


@case(2)
def test_ac_02_the_model_gets_no_input_and_the_state(kit):
    seen = []

    def compute(net, x, state):
        seen.append((x, state[keys.EPOCH]))
        return kit.sum(net.p**2)

    net = kit.state_module({"p": [1.0, 2.0]}, compute)
    quiet(net, kit.sgd(net, 0.1), lambda state: state[Y_PRED]).for_train_steps(3).run(2)
    assert seen
    assert all(x is None for x, _ in seen)
    np.testing.assert_allclose(next(iter(kit.weights(net).values())), np.array([1.0, 2.0]) * 0.8**6, rtol=1e-5)


@case(3, "torch", "tensorflow", "jax", "sklearn")
def test_ac_03_a_saved_model_evaluates_and_predicts_the_same(kit, blobs):
    needs_checkpoints(kit)
    x, y = blobs
    first = kit.mlp()
    trial = quiet(first, kit.adam(first, 0.05), kit.cross_entropy, ["acc", "loss"])
    trial.with_train_data(x, y, batch_size=8).with_val_data(x, y, batch_size=7).with_test_data(x, batch_size=9).run(2)
    second = kit.mlp(seed=1)
    again = quiet(second, kit.adam(second, 0.05), kit.cross_entropy, ["acc", "loss"])
    again.with_val_data(x, y, batch_size=7).with_test_data(x, batch_size=9).load_state_dict(trial.state_dict())
    before = kit.weights(second)
    assert again.evaluate() == trial.evaluate()
    np.testing.assert_array_equal(kit.numpy(again.predict()), kit.numpy(trial.predict()))
    assert kit.numpy(again.predict()).shape == (40, 2)
    for name, value in kit.weights(second).items():
        np.testing.assert_array_equal(value, before[name])


class Counter(Callback):
    """Counts the epochs, and halves the losses' weight in them."""

    n_epochs = 0

    def on_end_epoch(self, state):
        self.n_epochs += 1

    @once
    def on_start_epoch(self, state):
        self.first = state[EPOCH]

    def state_dict(self):
        return {"n_epochs": self.n_epochs}

    def load_state_dict(self, state):
        self.n_epochs = state["n_epochs"]


@case(4)
def test_ac_04_interrupted_and_resumed_equals_uninterrupted(kit, blobs):
    def make():
        net, counter = kit.mlp(), Counter()
        trial = quiet(net, kit.adam(net, 0.05), kit.cross_entropy, ["acc", "loss"], [counter], seed=3)
        return net, counter, trial.with_train_data(*blobs, batch_size=7).with_val_data(*blobs, batch_size=8)

    net, counter, trial = make()
    trial.run(5)
    _, _, first = make()
    first.run(2)
    state = first.state_dict()
    first.run(3)  # what happens after does not change the state that was taken
    resumed, resumed_counter, second = make()
    second.load_state_dict(state)
    assert len(second.history) == 2
    second.run(5)
    assert second.history == trial.history
    assert (counter.n_epochs, resumed_counter.n_epochs) == (5, 5)
    assert not hasattr(resumed_counter, "first"), "what ran once runs again after resuming"
    for (name, value), other in zip(kit.weights(net).items(), kit.weights(resumed).values(), strict=True):
        np.testing.assert_array_equal(value, other, err_msg=name)


@case(4)
def test_ac_04_schedule_early_stop_and_best_value_go_on(kit, line, tmp_path):
    def make(name):
        net = kit.linear(WEIGHT)
        callbacks = [StepLR(2, 0.5), EarlyStopping(patience=3, min_delta=10.0), Best(str(tmp_path / name / "best"))]
        trial = quiet(net, kit.tunable_sgd(net, 0.05), kit.mse, ["loss"], callbacks, seed=3)
        trial.with_train_data(*line, batch_size=5).with_val_data(*line, batch_size=12)
        return net, callbacks, trial

    net, callbacks, trial = make("whole")
    trial.run(9)
    _, _, first = make("first")
    first.run(2)
    other_net, other_callbacks, second = make("second")
    second.load_state_dict(first.state_dict()).run(9)
    assert 3 <= len(trial.history) < 9, "it stops early"
    assert second.history == trial.history
    np.testing.assert_array_equal(kit.weight(net), kit.weight(other_net))
    assert rates(trial) == rates(second)
    assert rates(trial)[0] == pytest.approx(0.05 * 0.5 ** (len(trial.history) // 2))
    assert callbacks[1].state_dict() == other_callbacks[1].state_dict()
    assert callbacks[2].best == other_callbacks[2].best == min(record["val_loss"] for record in trial.history)


def rates(trial):
    return list(trial.trainer.backend.optimizers.learning_rates(trial.trainer.optimizers).values())
