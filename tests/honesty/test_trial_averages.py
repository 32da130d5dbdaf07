"""A trial whose weights are averaged: what it goes on from, and what its state and its files hold."""

import numpy as np
import pytest
from trial_makers import DIFFERENTIABLE, INPUTS, TARGETS, line, line_trial, need, weights

from delira.training.callbacks import SWA, ExponentialMovingAverage

BACKENDS = pytest.mark.parametrize("framework", DIFFERENTIABLE)
AVERAGES = pytest.mark.parametrize("average", [lambda: ExponentialMovingAverage(0.9), SWA], ids=["ema", "swa"])


def descent(n_steps, rate=0.05, start=0.1):
    """Weights after each step of full-batch gradient descent on the mean squared error, in float64."""
    x, y, weight, found = INPUTS.astype("f8"), TARGETS.astype("f8"), np.full((3, 1), start), []
    for _ in range(n_steps):
        weight = weight - rate * 2 / len(x) * x.T @ (x @ weight - y)
        found.append(weight.ravel())
    return found


@pytest.mark.sampled("values")
@BACKENDS
@AVERAGES
def test_a_trial_without_a_folder_goes_on_from_the_weights_that_were_trained(framework, average):
    need(framework)
    ends = []
    for stops in ((4,), (2, 4)):
        trial = line_trial(framework, [average()], seed=0)
        for stop in stops:
            history = trial.run(stop)
        ends.append((history, weights(framework, trial.state["model"])))
    assert [record["loss"] for record in ends[0][0]] == [record["loss"] for record in ends[1][0]]
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


def test_the_mean_over_two_runs_is_that_of_a_loop_by_hand():
    need("torch")
    trial = line_trial("torch", [SWA()], seed=0, how="sgd", batch_size=24)
    trial.run(3)
    np.testing.assert_allclose(weights("torch", trial.state["model"]), np.mean(descent(3), axis=0), rtol=1e-5)
    trial.run(5)
    np.testing.assert_allclose(weights("torch", trial.state["model"]), np.mean(descent(5), axis=0), rtol=1e-5)


@pytest.mark.sampled("values")
@BACKENDS
@AVERAGES
def test_the_state_of_such_a_trial_holds_average_and_trained_weights(framework, average):
    need(framework)
    trial = line_trial(framework, [average()], seed=0)
    trial.run(2)
    kept = trial.state_dict()
    assert any(
        not np.array_equal(np.asarray(kept["model"][name]), np.asarray(kept["training_model"][name]))
        for name in kept["model"]
    )
    twin = line_trial(framework, [average()], seed=0)
    twin.load_state_dict(kept)
    assert twin.run(4) == trial.run(4)
    np.testing.assert_array_equal(weights(framework, twin.state["model"]), weights(framework, trial.state["model"]))


@BACKENDS
def test_a_file_of_such_a_trial_holds_everything(framework, tmp_path):
    need(framework)
    trial = line_trial(framework, [SWA()], seed=0)
    trial.run(2)
    path = trial.save(tmp_path / "kept")
    twin = line_trial(framework, [SWA()], seed=0)
    twin.load(path)
    assert twin.history == trial.history
    assert twin.run(4) == trial.run(4)


def test_the_state_of_a_trial_with_a_folder_holds_the_trained_weights_too(tmp_path):
    need("torch")
    trial = line_trial("torch", [SWA()], seed=0, save_path=tmp_path)
    trial.run(2)
    twin = line_trial("torch", [SWA()], seed=0)
    twin.load_state_dict(trial.state_dict())
    assert twin.run(4) == trial.run(4)


def test_weights_that_are_given_afterwards_are_trained_from_then_on():
    torch = pytest.importorskip("torch")
    trial = line_trial("torch", [SWA()], seed=0, how="sgd", batch_size=24)
    trial.run(1)
    trial.load_state_dict({"weight": torch.full((1, 3), 0.7)}, resume=False)
    trial.run(2)
    second = descent(1, start=0.7)[0]
    np.testing.assert_allclose(
        weights("torch", trial.state["model"]), np.mean([descent(1)[0], second], axis=0), rtol=1e-5
    )


def test_another_network_in_the_state_is_trained_as_it_is():
    torch = pytest.importorskip("torch")
    trial = line_trial("torch", [ExponentialMovingAverage(0.5, warmup=False)], seed=0, how="sgd", batch_size=24)
    trial.run(1)
    other = line("torch")
    other.weight.data = torch.full((1, 3), 0.7)
    trial.state["model"], trial.state["optimizer"] = other, torch.optim.SGD(other.parameters(), 0.05)
    seen = []
    trial.trainer.register_callback(_at_step(seen, other))
    trial.run(2)
    np.testing.assert_allclose(seen[0], descent(1, start=0.7)[0], rtol=1e-5)


def _at_step(seen, net):
    from delira.training.callbacks import on_step_training

    return on_step_training(lambda state: seen.append(weights("torch", net)))
