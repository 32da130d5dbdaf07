"""Metrics of a trial: means over samples, spreads, accuracies, and where they are written."""

import contextlib
import csv
import importlib.util

import numpy as np
import pytest
from kits import BACKENDS, TORCH, WEIGHT, linear_trial, quiet

from delira import state as keys
from delira.callbacks.decorators import (
    on_end_epoch,
    on_end_training,
    on_end_validation,
    on_step_training,
    on_step_validation,
)
from delira.errors import ConfigError, DataError
from delira.metrics import CategoricalAccuracy, lambda_metric, mean, std, var
from delira.state import LOSS, METRICS, Y_PRED, Y_TRUE, state_key
from delira.training.callbacks import (
    CSVLogger,
)


@BACKENDS
def test_290_the_spread_of_equal_values_is_zero_and_real(kit):
    values = np.full((50,), 0.1, "f4")
    net = kit.module({"w": 1.0}, lambda net, x: net.w * x)
    metric = std(lambda_metric("value")(lambda y_pred, y_true: y_pred))
    (found,) = quiet(net, None, None, [metric]).with_val_data(values, values, 7).evaluate().values()
    assert isinstance(found, float)
    assert found == pytest.approx(0.0, abs=1e-7)


@BACKENDS
def test_306_the_accuracy_of_sequences_is_a_share(kit):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(6, 5, 9)).astype("f4"), rng.integers(0, 5, (6, 9)).astype(kit.label_type)
    right = (scores.argmax(1) == labels).mean()
    scores = scores if kit.name == "torch" else np.moveaxis(scores, 1, 2)
    net = kit.module({"w": 1.0}, lambda net, x: net.w * x)
    trial = quiet(net, kit.sgd(net, 0.0), kit.cross_entropy, ["acc"])
    (record,) = trial.with_train_data(scores, labels, 3).with_val_data(scores, labels, 3).run(1)
    assert [record["acc"], record["val_acc"]] == pytest.approx([right] * 2)
    assert 0 <= record["running_acc"] <= 1


@BACKENDS
def test_453_accuracy_may_be_of_other_entries(kit, blobs):
    x, labels = blobs
    scores, wanted = state_key("scores"), state_key("wanted")

    @on_step_validation
    def look(state):
        assert kit.numpy(state[scores]).shape[1] == 2

    def compute(net, x, state):
        state[scores] = net.w * x
        state[wanted] = 1 - state[Y_TRUE]
        return x

    net = kit.state_module({"w": -1.0}, compute)
    metric = CategoricalAccuracy(pred_key=scores, target_key=wanted)
    trial = quiet(net, None, None, ["loss", metric], [look]).with_val_data(np.stack([-x[:, 0], x[:, 0]], 1), labels, 8)
    found = trial.evaluate()["val_acc"]
    assert found == pytest.approx(((x[:, 0] < 0) == (1 - labels)).mean())


@TORCH
def test_513_loss_and_acc_report_no_spread(kit, blobs):
    net = kit.mlp()
    trial = quiet(net, kit.sgd(net, 0.05), kit.cross_entropy, ["acc", "loss"])
    (record,) = trial.with_train_data(*blobs, 8).with_val_data(*blobs, 8).run(1)
    assert record.keys() == {
        "epoch", "lr", "running_acc", "acc", "running_loss", "loss", "val_acc", "val_loss", "train_steps",
        "validation_steps",
    }  # fmt: skip


@TORCH
def test_424_metrics_see_values_without_their_graph(kit, blobs):
    seen = []

    @mean
    @lambda_metric("look")
    def look(y_pred, y_true):
        seen.append(y_pred.requires_grad)
        return y_pred[:, 0]

    net = kit.mlp()
    trial = quiet(net, kit.sgd(net, 0.05), kit.cross_entropy, ["roc_auc", look, Y_PRED, LOSS])
    (record,) = trial.with_train_data(*blobs, 8).with_val_data(*blobs, 8).run(1)
    assert seen == [False] * 10
    assert 0 <= record["roc_auc_score"] <= 1


@TORCH
def test_b13_rows_of_batches_and_of_epochs_have_their_values_under_the_same_header(kit, line, tmp_path):
    net, running = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        running.append(float(state[keys.METRICS]["running_loss"]))

    callbacks = [CSVLogger(tmp_path / "log.csv", batch_granularity=True), note]
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss", "mae"], callbacks)
    history = trial.with_train_data(*line, batch_size=4).with_val_data(*line, batch_size=4).run(2)
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(None not in row and None not in row.values() for row in rows), "a row is not as wide as the header"
    of_epochs = [row for row in rows if row["batch"] == ""]
    for name in ("loss", "val_loss", "mae", "val_mae"):
        assert [float(row[name]) for row in of_epochs] == pytest.approx([record[name] for record in history])
    of_batches = [row for row in rows if row["batch"] != ""]
    assert [float(row["running_loss"]) for row in of_batches] == pytest.approx(running)
    assert {row["loss"] + row["val_loss"] for row in of_batches} == {""}


@BACKENDS
def test_b16_the_loss_is_the_mean_over_samples_not_batches(kit):
    """Four samples with the loss 0.5 and one with 9949.5: 1990.3, and not the mean of the batches, 4975."""
    x, y = np.zeros((5, 3), "f4"), np.repeat(np.sqrt(np.array([[0.5]] * 4 + [[9949.5]], "f4")), 2, axis=1)
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, ["loss"]).with_train_data(x, y, batch_size=4, shuffle=False)
    (record,) = trial.with_val_data(x, y, batch_size=4).run(1)
    assert [record["loss"], record["val_loss"]] == pytest.approx([1990.3, 1990.3], rel=1e-5)


def logits_criterion(kit):
    """The binary cross entropy of logits, as users of each framework have it."""
    if kit.name == "torch":
        return importlib.import_module("torch").nn.BCEWithLogitsLoss()
    if kit.name == "tensorflow":
        return importlib.import_module("keras").losses.BinaryCrossentropy(from_logits=True)
    return importlib.import_module("optax").sigmoid_binary_cross_entropy


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("metric", ["acc", "binary_acc"])
def test_b17_logits_are_not_compared_with_one_half(kit, metric):
    logits = np.array([[0.1], [0.2], [0.4], [-1.0]], "f4")  # at 0.5, one of four would be right
    net = kit.module({"w": 1.0}, lambda net, x: net.w * x)
    trial = quiet(net, None, logits_criterion(kit), [metric])
    trial.with_val_data(logits, np.array([[1.0], [1.0], [1.0], [0.0]], "f4"), batch_size=3)
    if kit.name == "jax":  # the function of optax gives the loss of each sample
        criterion = trial.state[keys.CRITERION]
        assert criterion(logits, logits).shape == (4, 1)
    assert trial.evaluate()["val_binary_acc"] == 1.0


@BACKENDS
@pytest.mark.parametrize(("aggregate", "ending", "power"), [(std, "std", 1), (var, "var", 2)])
def test_b18_spreads_are_exact_far_from_zero(kit, aggregate, ending, power):
    values = (np.random.default_rng(0).normal(size=200) + 1e4).astype("f4")
    wanted = np.std(values.astype("f8"), ddof=1) ** power
    assert wanted == pytest.approx(1.0, abs=0.1)
    net = kit.module({"w": 1.0}, lambda net, x: net.w * x)
    metric = aggregate(lambda_metric("value")(lambda y_pred, y_true: y_pred))
    trial = quiet(net, None, None, [metric]).with_val_data(values, values, batch_size=64)
    assert trial.evaluate()[f"val_value_{ending}"] == pytest.approx(wanted, rel=1e-6)


@BACKENDS
def test_b19_one_value_and_none_are_no_error_of_arithmetic(kit, line):
    x, y = line
    net = kit.linear(WEIGHT)

    @mean
    @std
    @var
    @lambda_metric("pred")
    def pred(y_pred, y_true):
        return y_pred[:, 0]

    trial = quiet(net, None, kit.mse, ["loss", pred]).with_val_data(x[:1], y[:1])
    values = trial.evaluate()
    assert values["val_pred"] == pytest.approx((x[:1] @ WEIGHT)[0, 0], rel=1e-5)
    assert np.isnan(values["val_pred_std"])
    assert np.isnan(values["val_pred_var"])
    with contextlib.suppress(DataError):  # ... which says that there was nothing
        empty = trial.with_val_generator([]).evaluate()
        assert all(map(np.isnan, empty.values()))


@BACKENDS
def test_b25_the_top_5_of_fewer_classes_and_the_accuracy_of_sequences(kit):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(6, 3)).astype("f4"), rng.integers(0, 3, 6).astype(kit.label_type)
    net = kit.module({"w": 1.0}, lambda net, x: net.w * x)
    trial = quiet(net, None, None, ["top_5_acc"]).with_val_data(scores, labels, 3)
    assert trial.evaluate() == {"val_top_5_acc": 1.0}
    scores, labels = rng.normal(size=(6, 3, 7)).astype("f4"), rng.integers(0, 3, (6, 7)).astype(kit.label_type)
    right = (scores.argmax(1) == labels).mean()
    scores = scores if kit.name == "torch" else np.moveaxis(scores, 1, 2)
    trial = quiet(net, None, kit.cross_entropy, ["acc"]).with_val_data(scores, labels, 3)
    assert trial.evaluate() == {"val_acc": pytest.approx(right)}


@pytest.mark.parametrize("kit", ["jax"], indirect=True)
def test_a_learning_rate_that_nobody_tells_is_no_metric(kit, line):
    import optax

    for optimizer, is_told in ((optax.sgd(0.1), False), (optax.inject_hyperparams(optax.sgd)(learning_rate=0.1), True)):
        trial = quiet(kit.linear(WEIGHT), optimizer, kit.mse, ["lr"]).with_train_data(*line, 6)
        if is_told:
            assert trial.run(1)[0]["lr"] == pytest.approx(0.1)
            continue
        with pytest.raises(ConfigError, match=r"does not know the learning rate of .*optax\.inject_hyperparams"):
            trial.run(1)


@BACKENDS
def test_a_metric_that_a_callback_sets_is_recorded_as_a_number(kit, line, tmp_path):
    @on_end_training
    @on_end_validation
    @on_end_epoch
    def set_mine(state):
        state[METRICS]["mine"] = kit.array(np.float32(2.5))
        state[METRICS]["one"] = kit.array(np.full(1, 1.5, "f4"))
        state[METRICS]["two"] = kit.array(np.arange(2, dtype="f4"))

    trial = linear_trial(kit, set_mine, save_path=tmp_path).with_train_data(*line, 6).with_val_data(*line, 6)
    record = trial.run(1)[0]
    assert (record["mine"], record["one"], record["two"]) == (2.5, 1.5, [0.0, 1.0])
