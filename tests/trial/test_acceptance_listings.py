"""Acceptance cases 9 to 13 of the Trial: the paper's listings 1 and 2."""

import numpy as np
import pytest
from kits import WEIGHT, case, quiet

from delira.callbacks.decorators import on_backward, on_criterion, on_step_training, traceable
from delira.metrics import Metric, MetricTree, default_for_key, mean, running_mean, std, var
from delira.metrics.tree import hanging
from delira.state import GRADIENTS, LOSS, MODEL, Y_PRED, Y_TRUE
from delira.training.callbacks import L1WeightDecay, L2WeightDecay


def decay_in(kit, in_place):
    @on_criterion
    def decay(state):
        for weight in kit.parameters(state[MODEL]):
            if in_place:
                state[LOSS] += kit.norm(weight)
            else:
                state[LOSS] = state[LOSS] + kit.norm(weight)

    return decay


def watch(kit, losses, gradients):
    @on_step_training
    def loss(state):
        losses.append(float(state[LOSS]))

    @on_backward
    def gradient(state):
        gradients.append(kit.numpy(next(iter(state[GRADIENTS].values()))))

    return [loss, gradient]


@case(9)
def test_ac_09_in_a_compiled_step_the_norms_are_in_the_gradients_too(kit, line):
    x, y = line
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [traceable(decay_in(kit, in_place=False))])
    history = trial.with_train_data(x, y, batch_size=12, shuffle=False).run(2)
    error, norm = x @ WEIGHT - y, np.linalg.norm(WEIGHT)
    weight = WEIGHT - 0.05 * (2 * x.T @ error / error.size + WEIGHT / norm)
    np.testing.assert_allclose(history[0]["loss"], (error**2).mean() + norm, rtol=1e-4)
    np.testing.assert_allclose(history[1]["loss"], ((x @ weight - y) ** 2).mean() + np.linalg.norm(weight), rtol=1e-4)


@pytest.mark.sampled("values")
@case(9)
@pytest.mark.parametrize("in_place", [True, False])
def test_ac_09_the_norms_are_in_every_loss_and_in_the_gradients(kit, line, in_place):
    x, y = line
    net, losses, gradients = kit.linear(WEIGHT), [], []
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, [], [decay_in(kit, in_place), *watch(kit, losses, gradients)])
    trial.with_train_data(x, y, batch_size=4, shuffle=False).run(2)
    weight = WEIGHT.astype("f8")
    for step in range(6):
        part = slice(step % 3 * 4, step % 3 * 4 + 4)
        error = x[part] @ weight - y[part]
        norm = np.linalg.norm(weight)
        expected = 2 * x[part].T @ error / error.size + weight / norm
        found = gradients[step].T if kit.name == "torch" else gradients[step]
        np.testing.assert_allclose(losses[step], (error**2).mean() + norm, rtol=1e-4)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
        weight -= 0.05 * expected
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)


@pytest.mark.sampled("values")
@case(10)
@pytest.mark.parametrize("in_place", [True, False])
def test_ac_10_weight_decay_works_without_a_criterion(kit, line, in_place):
    net, losses, gradients = kit.linear(WEIGHT), [], []
    trial = quiet(net, kit.sgd(net, 0.05), None, ["loss"], [decay_in(kit, in_place), *watch(kit, losses, gradients)])
    trial.with_train_data(*line, batch_size=4).run(2)
    norms = np.linalg.norm(WEIGHT) - 0.05 * np.arange(6)  # the gradient has length 1 and the weight's direction
    np.testing.assert_allclose(losses, norms, rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(kit.weight(net)), norms[-1] - 0.05, rtol=1e-4)


@case(11)
def test_ac_11_the_built_in_decay_is_in_every_training_loss_and_in_no_validation_loss(kit, line):
    x, y = line
    net, losses = kit.linear(WEIGHT), []
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [L2WeightDecay(0.5), *watch(kit, losses, [])])
    record = trial.with_train_data(x, y, 4, shuffle=False).with_val_data(x, y, 4).run(1)[0]
    weight = WEIGHT.astype("f8")
    for step in range(3):
        part = slice(step * 4, step * 4 + 4)
        error, norm = x[part] @ weight - y[part], np.linalg.norm(weight)
        np.testing.assert_allclose(losses[step], (error**2).mean() + 0.5 * norm, rtol=1e-4)
        weight -= 0.05 * (2 * x[part].T @ error / error.size + 0.5 * weight / norm)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(record["val_loss"], ((x @ weight - y) ** 2).mean(), rtol=1e-4)


@pytest.mark.sampled("values")
@case(11)
@pytest.mark.parametrize("cls", [L1WeightDecay, L2WeightDecay])
def test_ac_11_named_weights_alone_decay(kit, cls):
    net, losses = kit.module({"one": [3.0, -4.0], "other": [5.0, 12.0]}, lambda net, x: kit.sum(x)), []
    callbacks = [cls(0.1, params=lambda name: name.endswith("one")), *watch(kit, losses, [])]
    trial = quiet(net, kit.sgd(net, 1.0), None, [], callbacks).with_train_generator([(np.ones((1, 1), "f4"), None)])
    trial.run(2)
    one, other = (next(v for n, v in kit.weights(net).items() if n.endswith(name)) for name in ("one", "other"))
    np.testing.assert_array_equal(other, [5, 12])
    slope = np.array([1.0, -1.0]) if cls is L1WeightDecay else np.array([0.6, -0.8])
    np.testing.assert_allclose(one, np.array([3.0, -4.0]) - 2 * 0.1 * slope, rtol=1e-5)
    lengths = [7.0, 6.8] if cls is L1WeightDecay else [5.0, 4.9]
    np.testing.assert_allclose(losses, np.multiply(0.1, lengths), rtol=1e-5)


class Correct(Metric):
    """Whether each sample is right; counts how often it is computed."""

    n_calls = 0

    def __init__(self):
        super().__init__("acc")

    def process(self, state):
        type(self).n_calls += 1
        return (state[Y_PRED].argmax(1) == state[Y_TRUE]) * 1.0 if hasattr(state[Y_PRED], "argmax") else _right(state)


def _right(state):
    return (np.asarray(state[Y_PRED]).argmax(1) == np.asarray(state[Y_TRUE])) * 1.0


@pytest.fixture
def half_right(kit):
    """40 samples, predicted to be of class 0, of which 20 are; batches of 16, 16 and 8."""
    x = np.ones((40, 2), "f4")
    return kit.linear([[1.0, 0.0], [1.0, 0.0]]), x, (np.arange(40) % 2).astype(kit.label_type)


@case(12)
def test_ac_12_a_decorated_metric_stands_for_its_string(kit, half_right, monkeypatch):
    monkeypatch.setattr(hanging, "_DEFAULTS", dict(hanging._DEFAULTS))
    default_for_key("acc")(running_mean(std(Correct)))
    net, x, y = half_right
    trial = quiet(net, None, kit.cross_entropy, ["acc"])
    record = trial.with_train_data(x, y, batch_size=16).with_val_data(x, y, batch_size=16).run(1)[0]
    names = set(record) - {"epoch", "train_steps", "validation_steps", "lr"}
    assert names == {"running_acc", "acc_std", "val_acc_std"}
    np.testing.assert_allclose([record["acc_std"], record["val_acc_std"]], 0.506370, atol=1e-6)
    np.testing.assert_allclose(record["acc_std"], np.std(np.arange(40) % 2, ddof=1), rtol=1e-6)
    assert trial.evaluate() == {"val_acc_std": record["val_acc_std"]}


@case(13)
def test_ac_13_one_computation_serves_all_aggregates_in_any_order(kit, half_right):
    net, x, y = half_right
    first = type("First", (Correct,), {"n_calls": 0})
    second = type("Second", (Correct,), {"n_calls": 0})
    decorated = [mean(std(var(running_mean(first)))), running_mean(var(std(mean(second))))]
    records = []
    for metric in decorated:
        trial = quiet(net, None, kit.cross_entropy, [metric]).with_train_data(x, y, batch_size=16)
        records.append(trial.run(1)[0])
    assert (decorated[0].n_calls, decorated[1].n_calls) == (3, 3)
    right = (y == 0) * 1.0
    assert records[0] == records[1]
    np.testing.assert_allclose(
        [records[0][name] for name in ("acc", "acc_std", "acc_var")],
        [right.mean(), right.std(ddof=1), right.var(ddof=1)], rtol=1e-6,
    )  # fmt: skip


@case(13)
def test_ac_13_aggregates_hang_on_classes_instances_and_functions(kit, half_right):
    net, x, y = half_right
    n_calls = []

    def acc(y_pred, y_true):
        n_calls.append(True)
        return _right({Y_PRED: kit.numpy(y_pred), Y_TRUE: kit.numpy(y_true)})

    found = []
    for metric in (mean(std(Correct)), mean(std()(Correct())), mean()(std(acc))):
        trial = quiet(net, None, kit.cross_entropy, [metric]).with_val_data(x, y, batch_size=16)
        found.append(trial.evaluate())
    assert found[0] == found[1] == found[2]
    assert found[0].keys() == {"val_acc", "val_acc_std"}
    assert len(n_calls) == 3
    assert isinstance(mean(acc), MetricTree)
