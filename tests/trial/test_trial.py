"""A trial as a whole: what it is built of, what it refuses, and what is kept of it."""

import copy
import pickle
import random
import sys

import numpy as np
import pytest
from kits import BACKENDS, DIFFERENTIABLE, TORCH, WEIGHT, build_kit, descend, linear_trial, quiet, tunable_trial
from own_networks import OWN_NETWORKS, regression

from delira import state as keys
from delira.callbacks.decorators import (
    add_to_loss,
    on_start_epoch,
    on_step_training,
)
from delira.errors import ConfigError, NonFiniteLossError
from delira.state import EPOCH, MODEL, Y_PRED
from delira.training.callbacks import ExponentialLR, Profiler
from delira.trial import base_closure


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("number", [2, 3])
def test_gradients_of_several_batches_make_one_update(kit, line, number):
    x, y = line
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], gradient_accumulation_steps=number)
    trial.with_train_data(x, y, 2, shuffle=False).run(2)
    updates = [(x[start : start + 2 * number], y[start : start + 2 * number]) for start in range(0, 12, 2 * number)]
    _, weight = descend(WEIGHT, updates * 2, 0.05)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)


@TORCH
def test_b08_a_parameter_called_state_of_the_models_own_is_left_alone(kit, line):
    torch = pytest.importorskip("torch")
    seen = []

    class Recurrent(torch.nn.Linear):
        def forward(self, x, state=None):
            seen.append(type(state))
            return super().forward(x)

    x, y = line
    net = Recurrent(3, 2)
    quiet(net, kit.sgd(net, 0.05), kit.mse).with_train_data(x, y, batch_size=6).run(1)
    hidden = np.zeros((12, 1), "f4")
    pairs = [((x[start : start + 6], hidden[:6]), y[start : start + 6]) for start in (0, 6)]
    quiet(net, kit.sgd(net, 0.05), kit.mse).with_train_generator(pairs).run(1)
    assert seen == [type(None)] * 2 + [torch.Tensor] * 2


@TORCH
def test_b20_lbfgs_is_given_the_loss(kit, line):
    torch = pytest.importorskip("torch")
    x, y = line

    def make():
        net = kit.linear(WEIGHT)
        return net, torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=3)

    net, optimizer = make()
    history = quiet(net, optimizer, kit.mse, ["loss"]).with_train_data(x, y, batch_size=12, shuffle=False).run(3)
    other, optimizer = make()
    losses = []

    def evaluate():
        optimizer.zero_grad()
        loss = kit.mse(other(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        return loss

    for _ in range(3):
        losses.append(optimizer.step(evaluate).item())
    np.testing.assert_array_equal(kit.weight(net), kit.weight(other))
    assert [record["loss"] for record in history] == pytest.approx(losses)
    assert losses[-1] < losses[0]


@BACKENDS
def test_b33_splits_and_fits_leave_the_global_generators_alone(kit, line):
    from delira.data_loading import BaseDataManager

    x, y = line
    net = kit.linear(WEIGHT)  # layers of Keras draw their seeds of the generators of Python
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, seed=3)
    before = random.getstate(), np.random.get_state()
    first, second = BaseDataManager({"data": x, "label": y}, 4).train_test_split(test_size=0.25, random_state=3)
    trial.with_train_generator(first).with_val_generator(second).run(1)
    assert random.getstate() == before[0]
    for one, other in zip(np.random.get_state(), before[1], strict=True):
        np.testing.assert_array_equal(one, other)


@BACKENDS
def test_t04_mixed_precision_needs_no_other_package(kit, line):
    x, y = line
    net, seen = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        pred = state[Y_PRED]
        seen.append(kit.numpy(pred.float() if kit.name == "torch" else pred))

    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [note], mixed_precision="bf16")
    history = trial.with_train_data(x, y, batch_size=12, shuffle=False).run(3)
    error = np.abs(seen[0] - x @ WEIGHT).max()
    assert 1e-4 < error < 0.05, "of numbers with three digits"
    losses, weight = descend(WEIGHT, [(x, y)] * 3, 0.05)
    np.testing.assert_allclose([record["loss"] for record in history], losses, rtol=0.02)
    np.testing.assert_allclose(kit.weight(net), weight, atol=0.01)
    assert kit.weight(net).dtype == np.float32


@BACKENDS
def test_a_schedule_of_two_trials_is_refused(kit, line):
    schedule = ExponentialLR(0.5)
    first, second = (tunable_trial(kit, schedule)[1].with_train_data(*line, 4) for _ in range(2))
    first.run(1)
    second.run(1)
    with pytest.raises(ConfigError, match="ExponentialLR was given to another trial or trainer since"):
        first.run(2)


@TORCH
def test_a_trial_that_was_in_use_is_not_copied(kit, line):
    """A copy would go on with the state, and the network, of the original."""
    net, trial = tunable_trial(kit)
    twin = copy.deepcopy(trial.with_train_data(*line, 4))
    twin.run(1)
    np.testing.assert_array_equal(kit.weight(net), WEIGHT)
    trial.run(1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ConfigError, match="neither copied nor pickled; make a new one"):
            copied(trial)


@TORCH
def test_the_history_of_a_folder_is_there_before_and_in_a_run(kit, line, tmp_path):
    lengths = []

    @on_start_epoch
    def note(state):
        lengths.append(len(state[keys.HISTORY]))

    tunable_trial(kit, save_path=tmp_path)[1].with_train_data(*line, 4).run(2)
    trial = tunable_trial(kit, note, save_path=tmp_path)[1].with_train_data(*line, 4)
    assert len(trial.history) == 2
    trial.run(4)
    assert lengths == [2, 3]


@pytest.mark.parametrize("backend", DIFFERENTIABLE)
def test_a_network_of_ours_fits_in_a_trial(backend, line, tmp_path):
    kit, net = build_kit(backend), OWN_NETWORKS[backend]()
    trial = quiet(net, kit.adam(net, 0.1), kit.mse, ["loss", "mae"]).with_train_data(*line, 6).with_val_data(*line, 6)
    history = trial.run(8)
    assert history[-1]["loss"] < history[0]["loss"]
    assert trial.predict(data_key=keys.VALIDATION_DATA).shape == (12, 2)
    fresh = OWN_NETWORKS[backend]()
    again = quiet(fresh, kit.adam(fresh, 0.1), kit.mse)
    if backend == "tensorflow":
        with pytest.raises(ConfigError, match="it cannot be copied: Could not locate class 'Net'"):
            again.to_experiment()
        return
    outputs, _ = again.to_experiment(save_path=tmp_path, num_epochs=1).kfold(regression(), num_splits=2)
    assert sum(len(fold["pred"]) for fold in outputs.values()) == 12


def test_an_unknown_setting_is_refused_at_once(line):
    kit = build_kit("torch")
    with pytest.raises(ConfigError, match=r"unknown training setting 'sede'.*'seed'"):
        linear_trial(kit, sede=3)


@BACKENDS
def test_a_trial_that_learns_nothing_measures(kit, line):
    net = kit.linear(WEIGHT)
    trial = quiet(net, None, None, ["loss", "mae"]).with_train_data(*line, 6)
    assert trial.run(1)[0]["mae"] == pytest.approx(np.abs(line[0] @ WEIGHT - line[1]).mean(), rel=1e-5)
    np.testing.assert_allclose(kit.weight(net), WEIGHT, rtol=1e-6)


@pytest.mark.parametrize("what", ["two inputs", "the state", "float64"])
def test_what_no_experiment_can_do_is_refused(what):
    kit = build_kit("torch")
    two = sys.modules["torch"].nn.Bilinear(3, 3, 2)
    net = {"two inputs": two, "the state": kit.state_module({"w": 1.0}, lambda net, x, state: net.w * x)}.get(what)
    trial = linear_trial(kit) if net is None else quiet(net, kit.sgd(net, 0.1), kit.mse)
    if what == "float64":
        trial.to(sys.modules["torch"].float64)
    with pytest.raises(ConfigError, match=r"write a network of delira\.models"):
        trial.to_experiment()


@BACKENDS
def test_a_profiler_measures_a_trial_that_was_moved(kit, line):
    profiler = Profiler()
    trial = linear_trial(kit, profiler).with_train_data(*line, 6)
    trial.run(1)
    before = set(profiler.epochs[-1])
    trial.to("cpu")
    trial.run(2)
    assert set(profiler.epochs[-1]) == before
    assert "prepare" in before


@TORCH
def test_what_is_loaded_is_told_if_it_is_not_what_was_meant(kit, line):
    trial = linear_trial(kit).with_train_data(*line, 6)
    trial.run(1)
    state = trial.state_dict()
    with pytest.warns(UserWarning, match=r"written by delira 0\.1, and this is"):
        linear_trial(kit).load_state_dict({**state, "version": "0.1"})
    with pytest.warns(UserWarning, match="no state of a trial, so it is taken for weights"):
        other = linear_trial(kit).load_state_dict(trial.state[MODEL].state_dict())
    np.testing.assert_array_equal(kit.weight(other.state[MODEL]), kit.weight(trial.state[MODEL]))
    linear_trial(kit).load_state_dict(state).load_state_dict(state["model"], resume=False)


@BACKENDS
def test_weights_that_are_not_finite_at_the_end_are_told_without_a_folder_too(kit, line):
    @on_step_training
    def spoil(state):
        if state[keys.BATCH] == 1 and state[EPOCH] == 1:
            kit.set_linear(state[MODEL], np.full((3, 2), np.nan, "f4"))

    trial = linear_trial(kit, spoil).with_train_data(*line, 6)
    with pytest.raises(NonFiniteLossError, match="the weights are not finite any more after epoch 2"):
        trial.run(2)


@TORCH
def test_nothing_is_collected_for_checkpoints_that_nobody_writes(kit, line, monkeypatch):
    trial = linear_trial(kit).with_train_data(*line, 6)
    trial.run(1)
    checkpoints = trial.trainer.backend.checkpoints
    collected, collect = [], checkpoints.state_tree
    monkeypatch.setattr(checkpoints, "state_tree", lambda *args: (collected.append(args[1]), collect(*args))[1])
    trial.run(4)
    assert collected == [{}]  # of the weights alone, at the end


@BACKENDS
def test_classes_are_no_instances(kit, line):
    net = kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match=r"the optimizer Counter is a class, pass an instance: Counter\(\.\.\.\)"):
        quiet(net, type("Counter", (), {}))
    with pytest.raises(ConfigError, match="the criterion Loss is a class"):
        quiet(net, kit.sgd(net, 0.1), type("Loss", (), {}))


def test_an_optimizer_of_other_weights_is_refused(line):
    kit = build_kit("torch")
    net, other = kit.linear(np.zeros((3, 2))), kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="none of them is one of the Linear"):
        quiet(net, kit.sgd(other, 0.1), kit.mse).with_train_data(*line).run(1)
    trial = quiet(None, kit.sgd(other, 0.1), lambda state: (other.weight - 1).square().sum())
    trial.for_train_steps(50).run(1)
    np.testing.assert_allclose(kit.weight(other), 1, atol=1e-3)


@BACKENDS
def test_a_network_that_no_checkpoint_would_hold_is_refused(kit, line):
    net, other = kit.linear(np.zeros((3, 2))), kit.linear(np.zeros((3, 2)))
    closure = base_closure(model=other, criterion=kit.mse)
    trial = quiet(net, kit.sgd(net, 0.1)).with_closure(closure).with_train_data(*line)
    with pytest.raises(ConfigError, match="is no part of the trial's model"):
        trial.run(1)


@BACKENDS
def test_a_metric_may_be_one_string_and_the_epoch_counts_from_one(kit, line):
    net = kit.linear(np.zeros((3, 2)))
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse, "epoch").with_train_data(*line, 6)
    assert [record["epoch"] for record in trial.run(3)] == [1, 2, 3]
    assert "loss" in quiet(net, kit.sgd(net, 0.1), kit.mse, "loss").with_train_data(*line, 6).run(1)[0]


@BACKENDS
def test_add_to_loss_of_nothing_is_told_which_function(kit, line):
    @add_to_loss
    def forgetful(state):
        0.1 * kit.sum(state[Y_PRED])

    net = kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="forgetful returned None"):
        quiet(net, kit.sgd(net, 0.1), kit.mse, callbacks=[forgetful]).with_train_data(*line, 6).run(1)
