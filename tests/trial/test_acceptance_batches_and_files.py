"""Acceptance cases 25 to 30 of the Trial: adversarial examples, batches, records, processes and files."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kits import case, quiet

from delira.callbacks.abstract_callback import HOOKS, Callback
from delira.callbacks.decorators import on_backward, on_sample
from delira.state import BATCH, ITERATOR, METRICS, MODEL, PHASE, Y_PRED, Y_TRUE, X
from delira.training.callbacks import MostRecent

WEIGHT = np.array([[1.0, -1.0], [0.5, -2.0]], "f4")


@case(25)
def test_ac_25_adversarial_examples_are_wrong_where_they_should_be(kit, blobs):
    x, y = blobs
    size, net = 1.0, kit.linear(-WEIGHT)

    @on_sample
    def mark(state):
        state[X] = kit.needs_gradient(state[X])

    @on_backward
    def perturb(state):
        gradient = kit.input_gradient(state, kit.cross_entropy)
        state[Y_PRED] = state[MODEL](kit.detached(state[X]) + size * kit.sign(gradient))

    records = []
    for callbacks in ([], [mark, perturb]):
        trial = quiet(net, kit.sgd(net, 0.0), kit.cross_entropy, ["acc"], callbacks)
        records.append(trial.with_train_data(x, y, batch_size=20).run(1)[0])
    scores = x @ -WEIGHT
    probability = np.exp(scores - scores.max(1, keepdims=True))
    probability /= probability.sum(1, keepdims=True)
    attacked = x + size * np.sign((probability - np.eye(2)[y]) @ -WEIGHT.T)
    expected = [(inputs @ -WEIGHT).argmax(1) == y for inputs in (x, attacked)]
    np.testing.assert_allclose([record["acc"] for record in records], np.mean(expected, axis=1), rtol=1e-6)
    assert records[1]["acc"] < records[0]["acc"] - 0.2
    np.testing.assert_array_equal(kit.weight(net), -WEIGHT)


@case(26)
def test_ac_26_a_function_of_the_state_makes_the_batches(kit, line):
    x, y = line
    pairs = [((x[start : start + 2], y[start : start + 2]), (x[start + 6 : start + 8], y[start + 6 : start + 8]))
             for start in (0, 2, 4)]  # fmt: skip

    def load(state):
        (one, one_target), (other, other_target) = next(state[ITERATOR])
        state[X] = np.concatenate([one, other], axis=1)
        state[Y_TRUE] = one_target + other_target

    net = kit.linear(np.concatenate([WEIGHT, WEIGHT, WEIGHT]))
    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, ["loss"]).with_train_generator(pairs).with_val_generator(pairs)
    record = trial.with_loader(load).run(2)[1]
    error = np.concatenate([x[:6], x[6:]], axis=1) @ np.concatenate([WEIGHT, WEIGHT, WEIGHT]) - (y[:6] + y[6:])
    np.testing.assert_allclose([record["loss"], record["val_loss"]], (error**2).mean(), rtol=1e-5)
    assert record["train_steps"] == 3


@case(27)
def test_ac_27_several_inputs_and_outputs(kit, line):
    x, y = line
    batches = [((x[part], 2 * x[part]), (y[part], y[part] - 1)) for part in (slice(0, 5), slice(5, 12))]
    start = np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]])
    net = kit.module({"p": start}, lambda net, a, b: (a @ net.p, (a + b) @ net.p))

    def criterion(one, other, one_target, other_target):
        return kit.mse(one, one_target) + kit.mse(other, other_target)

    trial = quiet(net, kit.sgd(net, 0.01), criterion, ["loss"]).with_train_generator(batches)
    trial.with_test_generator(batches).run(1)
    weight, losses = start.copy(), []
    for (a, b), (one_target, other_target) in batches:
        errors = [(a, a @ weight - one_target), (a + b, (a + b) @ weight - other_target)]
        losses.append(sum((error**2).mean() for _, error in errors))
        weight -= 0.01 * sum(2 * inputs.T @ error / error.size for inputs, error in errors)
    np.testing.assert_allclose(trial.history[0]["loss"], np.dot(losses, [5, 7]) / 12, rtol=1e-5)
    np.testing.assert_allclose(next(iter(kit.weights(net).values())), weight, rtol=1e-4)
    one, other = trial.predict()
    np.testing.assert_allclose(kit.numpy(one), x @ weight, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(kit.numpy(other), 3 * x @ weight, rtol=1e-3, atol=1e-5)


class Log(Callback):
    """Notes each hook, and the metrics there."""

    def __init__(self):
        self.seen = []
        for hook in HOOKS:
            setattr(self, hook, lambda state, hook=hook: self.note(hook, state))

    def note(self, hook, state):
        assert hook == "on_init" or state[PHASE] in ("fit", "replay")
        values = {name: float(value) for name, value in state.get(METRICS, {}).items()} if "end_" in hook else None
        self.seen.append((hook, state.get(BATCH) if "step" in hook else None, values))


#: order of one epoch with three steps and two batches of validation (contract, 1.4)
STEP = ["on_sample", "on_forward", "on_criterion", "on_backward", "on_step_training"]
LOOK = [f"{name}_validation" for name in ("on_sample", "on_forward", "on_criterion", "on_step")]
EPOCH_HOOKS = [
    "on_start_epoch", "on_start_training", *STEP * 3, "on_end_training", "on_start_validation", *LOOK * 2,
    "on_end_validation", "on_end_epoch",
]  # fmt: skip


@case(28)
def test_ac_28_the_history_is_a_table_and_is_replayed(kit, line):
    pandas = pytest.importorskip("pandas", reason="the history as a table needs pandas")
    net, during, after, short = kit.linear(np.ones((3, 2))), Log(), Log(), Log()
    trial = quiet(net, kit.sgd(net, 0.01), kit.mse, ["loss"], [during]).with_train_data(*line, batch_size=4)
    trial.with_val_data(*line, batch_size=6).run(2)
    frame = pandas.DataFrame(trial.history)
    assert len(frame) == 2
    assert (frame["train_steps"] == 3).all()
    assert (frame["validation_steps"] == 2).all()
    np.testing.assert_array_equal(frame["val_loss"], [record["val_loss"] for record in trial.history])
    assert trial.replay([after], verbose=0) is trial
    trial.replay([short], verbose=0, one_batch=True)
    live = [hook for hook, *_ in during.seen]
    assert live == ["on_init", "on_start", *[*EPOCH_HOOKS, "on_checkpoint"] * 2, "on_end"]
    assert [hook for hook, *_ in after.seen] == ["on_start", *EPOCH_HOOKS * 2, "on_end"]
    assert [hook for hook, *_ in short.seen].count("on_step_training") == 2
    ends = [[values["val_loss"] for hook, _, values in log.seen if hook == "on_end_epoch"] for log in (during, after)]
    assert ends[0] == ends[1]
    training = [values for hook, _, values in after.seen if hook == "on_end_training"]
    assert [values["loss"] for values in training] == [record["loss"] for record in trial.history]
    assert not any(name.startswith("val_") for values in training for name in values)


@pytest.mark.slow
@case(29, "torch", only="")
def test_ac_29_two_processes_train_together_by_torch_distributed(kit, tmp_path):
    """The mean of the halves' gradients is that of the whole batch; two interpreters start, so it takes seconds."""
    import two_processes
    from two_processes_data import data

    script, results = Path(two_processes.__file__), [tmp_path / f"{rank}.npz" for rank in (0, 1)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    running = [
        subprocess.Popen([sys.executable, script, str(rank), tmp_path / "store", results[rank]], env=environment)
        for rank in (0, 1)
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    first, second = map(np.load, results)
    x, y = data()
    weight, bias = first["weight"].astype("f8"), first["bias"].astype("f8")
    for step in range(6):
        part = slice(8 * (step % 2), 8 * (step % 2) + 8)
        error = x[part] @ weight.T + bias - y[part]
        weight, bias = weight - 0.2 * error.T @ x[part] / error.size, bias - 0.2 * error.sum(0) / error.size
    assert np.abs(first["weight"] - second["weight"]).max() > 0.01, "both began at the same weights"
    for end in (first, second):
        np.testing.assert_allclose(end["end_weight"], weight, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(end["end_bias"], bias, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(first["end_weight"], second["end_weight"])


@pytest.mark.slow
@case(29)
def test_ac_29_two_processes_train_together_by_callbacks_alone(kit, tmp_path):
    """The same in any backend, over a socket; interpreters and frameworks start, so it takes seconds."""
    import two_backends
    from two_processes_data import data

    results = [tmp_path / f"{rank}.npz" for rank in (0, 1)]
    command = [sys.executable, two_backends.__file__, kit.name]
    running = [subprocess.Popen([*command, str(rank), tmp_path / "socket", results[rank]]) for rank in (0, 1)]
    assert [process.wait(timeout=110) for process in running] == [0, 0]
    first, second = map(np.load, results)
    x, y = data()
    weight = first["start"].astype("f8")
    for step in range(6):
        part = slice(8 * (step % 2), 8 * (step % 2) + 8)
        error = x[part] @ weight - y[part]
        weight -= 0.2 * x[part].T @ error / error.size
    assert np.abs(first["start"] - second["start"]).max() > 0.01, "both began at the same weights"
    np.testing.assert_allclose(first["end"], weight, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(first["end"], second["end"])


@case(30)
def test_ac_30_a_whole_trial_is_read_from_its_folder(kit, blobs, tmp_path):
    def make(path):
        net = kit.mlp()
        trial = quiet(net, kit.adam(net, 0.05), kit.cross_entropy, ["acc", "loss"], save_path=path)
        return net, trial.with_train_data(*blobs, batch_size=7).with_val_data(*blobs, batch_size=8)

    whole_net, whole = make(tmp_path / "whole")
    whole.run(4)
    make(tmp_path / "parts")[1].run(2)
    net, trial = make(tmp_path / "parts")
    assert len(trial.run(4)) == 4
    assert trial.history == whole.history
    for one, other in zip(kit.weights(whole_net).values(), kit.weights(net).values(), strict=True):
        np.testing.assert_array_equal(one, other)


@case(30)
def test_ac_30_the_state_is_stored_with_means_that_run_no_code(kit, blobs, tmp_path):
    net = kit.mlp()
    trial = quiet(net, kit.adam(net, 0.05), kit.cross_entropy, ["loss"], [Log()]).with_train_data(*blobs, batch_size=8)
    trial.run(2)
    loaded = kit.stored(trial.state_dict(), tmp_path / "trial")
    second = kit.mlp(seed=1)
    again = quiet(second, kit.adam(second, 0.05), kit.cross_entropy, ["loss"], [Log()])
    again.with_train_data(*blobs, batch_size=8).load_state_dict(loaded)
    assert again.run(3) == trial.run(3)
    for one, other in zip(kit.weights(net).values(), kit.weights(second).values(), strict=True):
        np.testing.assert_array_equal(one, other)


@case(30)
def test_ac_30_weights_alone_are_read_without_delira(kit, blobs, tmp_path):
    if type(kit).__name__ != "TorchKit":
        pytest.importorskip("safetensors", reason="the weights are written by safetensors")
    net = kit.mlp()
    trial = quiet(net, kit.adam(net, 0.05), kit.cross_entropy, [], [MostRecent(tmp_path / "weights", True)])
    trial.with_train_data(*blobs, batch_size=8).run(2)
    [file] = tmp_path.iterdir()
    found = kit.plain_weights(file)
    expected = kit.weights(net)
    assert len(found) == len(expected) == 4
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name.rpartition("/")[2]], value)


@case(30)
def test_ac_30_weights_alone_are_plain_tensors(kit, blobs):
    net, second = kit.mlp(), kit.mlp(seed=1)
    trial = quiet(net, kit.adam(net, 0.05), kit.cross_entropy).with_train_data(*blobs, batch_size=8)
    trial.run(1)
    weights = trial.state_dict()["model"]
    assert {type(name) for name in weights} == {str}
    again = quiet(second, kit.adam(second, 0.05), kit.cross_entropy).with_train_data(*blobs, batch_size=8)
    again.load_state_dict(weights, resume=False)
    assert again.history == []
    values = list(kit.weights(net).values())
    assert sorted(np.shape(value) for value in values) == sorted(kit.numpy(value).shape for value in weights.values())
    for one, other in zip(values, kit.weights(second).values(), strict=True):
        np.testing.assert_array_equal(one, other)
