"""The defects B1 to B34 and T1 to T8 of the contract: each is a test that fails where the defect is."""

import ast
import builtins
import contextlib
import csv
import functools
import importlib.util
import io
import itertools
import json
import random
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from event_files import read_events
from kits import DIFFERENTIABLE, WEIGHT, descend, quiet

from delira import state as keys
from delira.errors import DataError, MissingBackendError
from delira.metrics import lambda_metric, mean, std, var
from delira.state import BATCH, LOSS, MODEL, STOP_TRAINING, Y_PRED, Y_TRUE, X, state_key
from delira.training.callbacks import (
    Best,
    CSVLogger,
    CutMix,
    Cutout,
    CyclicLR,
    EarlyStopping,
    GradientNormClipping,
    Interval,
    L1WeightDecay,
    L2WeightDecay,
    LiveLossPlot,
    ManifoldMixup,
    Mixup,
    MostRecent,
    RandomErase,
    ReduceLROnPlateau,
    StepLR,
    TensorBoard,
    TensorBoardImages,
    TensorBoardText,
    TerminateOnNaN,
    WeightDecay,
    ZeroBias,
    close_writer,
    get_writer,
    mixup_loss,
)
from delira.training.callbacks.decorators import (
    on_criterion,
    on_end_epoch,
    on_start_epoch,
    on_start_training,
    on_step_training,
    on_step_validation,
    traceable,
)
from delira.training.callbacks.hooks import Callback
from delira.training.callbacks.imaging import ImagingCallback, MakeGrid

ROOMS = pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)
TORCH = pytest.mark.parametrize("kit", ["torch"], indirect=True)


def batches_of(x, y, size):
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


def rates_of(trial, seen):
    """A callback that keeps the learning rate of each epoch; ``trial`` is a function, as there is none yet."""

    @on_start_training
    def note(state):
        seen.append(trial().learning_rates()[0])

    return note


class Unsized:
    """Batches that can be gone through again and again, but not counted."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


# ---- B1 ... B3: gradients and decay


@ROOMS
def test_b01_gradient_norm_clipping_clips_every_batch(kit, line):
    x, y = line
    net, rate = kit.linear(WEIGHT), 1e-3
    path = [kit.weight(net)]

    @on_step_training
    def note(state):
        path.append(kit.weight(net))

    trial = quiet(net, kit.sgd(net, rate), kit.mse, callbacks=[GradientNormClipping(1.0), note])
    trial.with_train_data(1e3 * x, y, batch_size=3, shuffle=False).run(2)
    norms = [np.linalg.norm(after - before) / rate for before, after in itertools.pairwise(path)]
    np.testing.assert_allclose(norms, np.ones(8), rtol=1e-3)


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize(("decay", "p"), [(WeightDecay, 2), (L1WeightDecay, 1), (L2WeightDecay, 2)])
def test_b02_weight_decay_decays_on_every_batch(kit, line, decay, p):
    net = kit.linear(WEIGHT)
    weight, wanted, seen = WEIGHT.astype("f8"), [], []

    @on_step_training
    def note(state):
        seen.append(float(state[LOSS]))

    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, callbacks=[decay(0.1), note])
    trial.with_train_data(*line, batch_size=5, shuffle=False).run(2)
    for x, y in batches_of(*line, 5) * 2:
        (loss,), after = descend(weight, [(x, y)], 0.05)
        norm = np.linalg.norm(weight.ravel(), p)
        wanted.append(loss + 0.1 * norm)
        weight = after - 0.05 * 0.1 * (np.sign(weight) if p == 1 else weight / norm)
    np.testing.assert_allclose(seen, wanted, rtol=1e-5)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("is_built_in", [True, False])
def test_b03_weight_decay_works_without_a_criterion(kit, line, is_built_in):
    @traceable
    @on_criterion
    def listing_1(state):
        for parameter in kit.parameters(state[MODEL]):
            state[LOSS] += kit.norm(parameter)

    net = kit.linear(WEIGHT)
    decay = WeightDecay(1.0) if is_built_in else listing_1
    history = quiet(net, kit.sgd(net, 0.05), None, ["loss"], [decay]).with_train_data(*line, batch_size=12).run(3)
    start = np.linalg.norm(WEIGHT)
    norms = [start - 0.05 * step for step in range(4)]
    np.testing.assert_allclose([record["loss"] for record in history], norms[:3], rtol=1e-5)
    np.testing.assert_allclose(kit.weight(net), WEIGHT * norms[3] / start, rtol=1e-5)


# ---- B4 ... B6: data without an end or a length


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("kind", ["list", "arrays", "unsized"])
def test_b04_an_infinite_loader_goes_on_over_the_epochs(kit, kind):
    x, y = np.repeat(np.arange(5.0, dtype="f4")[:, None], 3, axis=1), np.zeros((5, 2), "f4")
    net, seen = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        seen.append(int(kit.numpy(state[X])[0, 0]))

    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, callbacks=[note])
    if kind == "arrays":
        trial.with_train_data(x, y, batch_size=1, shuffle=False, steps=2)
    else:
        batches = batches_of(x, y, 1)
        trial.with_train_generator(batches if kind == "list" else Unsized(batches), steps=2)
    history = trial.with_inf_train_loader().run(4)
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2]
    assert [record["train_steps"] for record in history] == [2] * 4


@ROOMS
def test_b05_endless_evaluations_and_predictions_go_on_until_they_are_stopped(kit, line):
    x, y = line
    net, seen = kit.linear(WEIGHT), []

    @on_step_validation
    def stop(state):
        seen.append(state[BATCH])
        state[STOP_TRAINING] = len(seen) == 7

    trial = quiet(net, None, kit.mse, ["loss"], [stop]).with_val_data(x, y, batch_size=4).with_test_data(x, 4)
    trial.for_inf_val_steps().for_inf_test_steps()
    losses = [((a @ WEIGHT - b) ** 2).mean() for a, b in batches_of(x, y, 4)]
    assert trial.evaluate()["val_loss"] == pytest.approx(np.mean((losses * 3)[:7]), rel=1e-5)
    assert seen == list(range(7))
    seen.clear()
    np.testing.assert_allclose(kit.numpy(trial.predict()), (np.concatenate([x] * 3) @ WEIGHT)[:28], rtol=1e-5)


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("steps", [None, 2, 5])
def test_b06_a_loader_without_a_length_is_trained_validated_and_predicted(kit, line, steps):
    x, y = line
    net, n = kit.linear(WEIGHT), steps or 3
    order = (batches_of(x, y, 4) * 2)[:n]
    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, ["loss"]).with_train_generator(Unsized(batches_of(x, y, 4)), steps)
    trial.with_val_generator(Unsized(batches_of(x, y, 4)), steps)
    trial.with_test_generator(Unsized([part for part, _ in batches_of(x, y, 4)]), steps)
    (record,) = trial.run(1)
    wanted = np.mean([((a @ WEIGHT - b) ** 2).mean() for a, b in order])
    assert (record["train_steps"], record["validation_steps"]) == (n, n)
    assert [record["loss"], record["val_loss"]] == pytest.approx([wanted, wanted], rel=1e-5)
    np.testing.assert_allclose(kit.numpy(trial.predict()), np.concatenate([a for a, _ in order]) @ WEIGHT, rtol=1e-5)


# ---- B7 ... B9: how models and criteria are called


@TORCH
@pytest.mark.parametrize("takes_state", [True, False])
def test_b07_an_error_of_the_model_arrives_as_it_is_and_nothing_is_called_again(kit, line, takes_state):
    calls = []

    def compute(net, x, state=None):
        calls.append(state is not None)
        if len(calls) == 3:
            raise TypeError("of the model")
        return x @ net.w

    net = (kit.state_module if takes_state else kit.module)({"w": WEIGHT}, compute)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse).with_train_data(*line, batch_size=3)
    with pytest.raises(TypeError, match=r"^of the model(\n|$)"):
        trial.run(1)
    assert calls == [takes_state] * 3


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
def test_b09_an_error_of_a_criterion_of_the_state_arrives_as_it_is(kit, line):
    calls = []

    def fail(state):
        calls.append(state[Y_PRED].shape)
        return len(5)

    net = kit.linear(WEIGHT)
    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        quiet(net, kit.sgd(net, 0.05), fail).with_train_data(*line, batch_size=12).run(1)
    assert calls == [(12, 2)]


@ROOMS
def test_b09_a_criterion_with_an_optional_target_is_given_the_prediction(kit, line):
    def size(y_pred, y_true=None):
        return kit.mse(y_pred, 0 * y_pred) if y_true is None else kit.mse(y_pred, y_true)

    x, y = line
    net = kit.linear(WEIGHT)
    assert quiet(net, None, size, ["loss"]).with_val_data(x, y, 12).evaluate() == pytest.approx(
        {"val_loss": ((x @ WEIGHT - y) ** 2).mean()}, rel=1e-5
    )


# ---- B10, B11: schedules


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("how", ["one run", "two runs", "two trials"])
def test_b10_a_schedule_goes_on_in_the_next_run_and_after_a_resume(kit, line, how):
    seen = []

    def make():
        net = kit.linear(WEIGHT)
        callbacks = [StepLR(2, 0.1), rates_of(lambda: trial, seen)]
        trial = quiet(net, kit.tunable_sgd(net, 1.0), kit.mse, [], callbacks)
        return trial.with_train_data(*line, batch_size=12)

    trial = make()
    if how != "one run":
        trial.run(3)
    if how == "two trials":
        trial = make().load_state_dict(trial.state_dict())
    trial.run(6)
    np.testing.assert_allclose(seen, [1, 1, 0.1, 0.1, 0.01, 0.01], rtol=1e-5)


@ROOMS
def test_b11_a_cycle_counts_epochs_and_looks_at_no_loss(kit, line):
    seen = []
    net = kit.linear(WEIGHT)
    callbacks = [CyclicLR(0.1, 1.0, step_size_up=2), rates_of(lambda: trial, seen)]
    trial = quiet(net, kit.tunable_sgd(net, 0.1), kit.mse, ["loss"], callbacks)
    trial.with_train_data(*line, batch_size=12).with_val_data(*line, batch_size=12).run(5)
    np.testing.assert_allclose(seen, [0.1, 0.55, 1.0, 0.55, 0.1], rtol=1e-5)


# ---- B12 ... B15: what is left behind


@ROOMS
def test_b12_evaluations_and_predictions_do_nothing_of_training(kit, line, tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    net, steps = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        steps.append(state[BATCH])

    stopping, best = EarlyStopping(patience=3), Best(str(tmp_path / "best.{epoch}"))
    newest, every = MostRecent(str(tmp_path / "newest.{epoch}")), Interval(str(tmp_path / "every.{epoch}"))
    logger, clipping = CSVLogger(tmp_path / "log.csv"), GradientNormClipping(1.0)
    board = TensorBoard(tmp_path / "board", write_graph=False, write_batch_metrics=True, batch_step_size=1)
    callbacks = [stopping, best, newest, every, logger, clipping, StepLR(1), note, board]
    trial = quiet(net, kit.tunable_sgd(net, 0.05), kit.mse, ["loss"], callbacks)
    trial.with_train_data(*line, batch_size=6).with_val_data(*line, batch_size=6).with_test_data(line[0], 6).run(2)

    def left():
        files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        states = [one.state_dict() for one in (stopping, best, newest, every, logger)]
        return files, states, trial.learning_rates(), list(steps), len(trial.history)

    before = left()
    assert before[0][tmp_path / "log.csv"].startswith(b"epoch,")
    assert len(before[0]) == 7, "four checkpoints, the table, and two files of events"
    trial.evaluate()
    trial.evaluate(data_key=keys.TRAIN_DATA)
    trial.predict()
    assert left() == before


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


@ROOMS
def test_b14_a_failed_prediction_leaves_nothing_to_the_next(kit):
    x = np.random.default_rng(5).normal(size=(40, 3)).astype("f4")
    broken = []

    @on_step_validation
    def fail(state):
        if broken and state[BATCH] == 3:
            raise RuntimeError("no more")

    net, other = kit.linear(WEIGHT), kit.linear(-WEIGHT)
    first = quiet(net, callbacks=[fail]).with_test_data(x, batch_size=8)
    broken.append(True)
    with pytest.raises(RuntimeError, match="no more"):
        first.predict()
    broken.clear()
    np.testing.assert_allclose(kit.numpy(quiet(other).with_test_data(x, 8).predict()), -x @ WEIGHT, rtol=1e-4)
    np.testing.assert_allclose(kit.numpy(first.predict()), x @ WEIGHT, rtol=1e-4)


@TORCH
def test_b15_failed_passes_leave_no_printer(kit, line, capsys):
    @on_start_epoch
    def fail(state):
        if broken:
            raise RuntimeError("no more")

    net, broken = kit.linear(WEIGHT), []
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, callbacks=[fail]).with_train_data(*line, batch_size=6)
    trial.with_val_data(*line, batch_size=6).with_test_data(line[0], batch_size=6).run(1)
    broken.append(True)
    replay = functools.partial(trial.replay, [fail])
    for attempt in (lambda **shown: trial.run(2, **shown), trial.evaluate, trial.predict, replay):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no more"):
                attempt(verbose=2)
            assert list(trial.callbacks) == list(trial.state[keys.CALLBACK_LIST]) == [fail]
            assert list(trial.trainer.callbacks) == [fail]


# ---- B16 ... B19: metrics


@ROOMS
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
@ROOMS
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


@ROOMS
@pytest.mark.parametrize(("aggregate", "ending", "power"), [(std, "std", 1), (var, "var", 2)])
def test_b18_spreads_are_exact_far_from_zero(kit, aggregate, ending, power):
    values = (np.random.default_rng(0).normal(size=200) + 1e4).astype("f4")
    wanted = np.std(values.astype("f8"), ddof=1) ** power
    assert wanted == pytest.approx(1.0, abs=0.1)
    net = kit.module({"w": 1.0}, lambda net, x: net.w * x)
    metric = aggregate(lambda_metric("value")(lambda y_pred, y_true: y_pred))
    trial = quiet(net, None, None, [metric]).with_val_data(values, values, batch_size=64)
    assert trial.evaluate()[f"val_value_{ending}"] == pytest.approx(wanted, rel=1e-6)


@ROOMS
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


# ---- B20: optimizers with a closure


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


# ---- B21 ... B23: mixed samples


@ROOMS
def test_b21_a_loss_of_mixed_samples_evaluates_the_training_data_too(kit, blobs):
    net = kit.mlp()
    criterion = mixup_loss(kit.cross_entropy)
    trial = quiet(net, kit.sgd(net, 0.05), criterion, ["loss", "acc"], [Mixup(lam=0.3)])
    trial.with_train_data(*blobs, 10).with_val_data(*blobs, 10).run(1)
    plain = quiet(net, None, kit.cross_entropy, ["loss", "cat_acc"]).with_val_data(*blobs, 10).evaluate()
    for key, name in ((keys.TRAIN_DATA, "train"), (keys.VALIDATION_DATA, "val")):
        found = trial.evaluate(data_key=key)
        assert found[f"{name}_loss"] == pytest.approx(plain["val_loss"], rel=1e-5)
        assert found[f"{name}_mixup_acc"] == pytest.approx(plain["val_acc"])


def numbered_images(kit, n=6, size=9):
    """Images whose pixels are the number of the image, which is its label: of shape (n, 1, h, w), or (n, h, w, 1)."""
    images = np.arange(n, dtype="f4")[:, None, None, None] * np.ones((1, size, size, 1), "f4")
    images = np.moveaxis(images, 3, 1) if kit.name == "torch" else images
    return np.ascontiguousarray(images), np.arange(n).astype(kit.label_type)


@ROOMS
def test_b22_the_weight_of_a_label_is_the_area_that_is_really_there(kit):
    images, labels = numbered_images(kit)
    net, shares = kit.module({"w": 1.0}, lambda net, x: net.w * x), []

    @on_step_training
    def look(state):
        pixels = np.rint(kit.numpy(state[X])).reshape(6, -1)
        there = (pixels[:, :, None] == np.arange(6)).mean(axis=1)
        np.testing.assert_allclose(kit.numpy(state[Y_TRUE]), there, atol=1e-6)
        shares.extend(there[np.arange(6), np.arange(6)])

    trial = quiet(net, kit.sgd(net, 0.0), lambda y_pred, y_true: kit.sum(y_pred), [], [CutMix(1.0, classes=6), look])
    trial.with_train_data(images, labels, batch_size=6, shuffle=False).run(8)
    assert len(shares) == 48
    assert len({round(share, 3) for share in shares}) > 10, "there are no boxes to speak of"


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("is_numpy", [True, False])
def test_b23_the_users_images_are_not_written_into(kit, is_numpy):
    images, labels = numbered_images(kit)
    before = images.copy()
    given = (images, labels) if is_numpy else (kit.array(images), kit.array(labels))
    for callback in (Cutout(2, 5, constant=9.0), RandomErase(2, 5), CutMix(1.0, classes=6)):
        net, seen = kit.module({"w": 1.0}, lambda net, x: net.w * x), []

        @on_step_training
        def look(state, seen=seen):
            seen.append(kit.numpy(state[X]))

        trial = quiet(net, kit.sgd(net, 0.0), lambda y_pred, y_true: kit.sum(y_pred), [], [callback, look])
        trial.with_train_generator([given]).run(2)
        assert all((one != before).any() for one in seen), "there was nothing to show"
        np.testing.assert_array_equal(kit.numpy(given[0]), before)


# ---- B24, B25: more metrics


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("name", ["roc_auc_score", "f1"])
def test_b24_auto_knows_that_scores_are_better_the_larger(kit, line, tmp_path, name):
    def fit(sign):
        metric = mean(lambda_metric(name)(lambda y_pred, y_true: sign * float(scores[0])))
        net = kit.linear(WEIGHT)
        best = Best(str(tmp_path / f"{sign}.{{epoch}}"), monitor=f"val_{name}")

        @on_end_epoch
        def next_score(state):
            scores[0] += 1

        scores = [0]
        callbacks = [best, EarlyStopping(f"val_{name}", patience=2), next_score]
        trial = quiet(net, kit.sgd(net, 0.0), kit.mse, [metric], callbacks)
        history = trial.with_train_data(*line, batch_size=12).with_val_data(*line, batch_size=12).run(5)
        return len(history), [path.stem for path in tmp_path.glob(f"{sign}.*")]

    assert fit(1) == (5, ["1.4"]), "the last epoch is the best, and none too many"
    assert fit(-1) == (3, ["-1.0"])


@ROOMS
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


# ---- B26 ... B28: callbacks


class First(Callback):
    number = 0

    def on_step_training(self, state):
        self.number += 1

    def state_dict(self):
        return {"first": self.number}

    def load_state_dict(self, state):
        self.number = state["first"]


class Second(First):
    def state_dict(self):
        return {"second": self.number}

    def load_state_dict(self, state):
        self.number = state["second"]


@ROOMS
def test_b26_states_find_their_callbacks_whatever_the_order_and_number(kit, line):
    def make(*callbacks):
        net = kit.linear(WEIGHT)
        return quiet(net, kit.sgd(net, 0.05), kit.mse, [], callbacks).with_train_data(*line, batch_size=4)

    first, second = First(), Second()
    trial = make(first, second)
    first.number, second.number = 10, 20
    trial.run(2)
    state = trial.state_dict()
    for kinds, wanted in (
        ([Second, First], [26, 16]),
        ([Second, First, Second, EarlyStopping], [26, 16, 0]),
        ([Second], [26]),
    ):
        callbacks = [kind() for kind in kinds]
        make(*callbacks).load_state_dict(state)
        assert [one.number for one in callbacks if isinstance(one, First)] == wanted


@ROOMS
def test_b27_a_callback_of_a_local_class_is_in_the_checkpoint(kit, line, tmp_path):
    class Local(First):
        pass

    def make():
        net, local = kit.linear(WEIGHT), Local()
        trial = quiet(net, kit.sgd(net, 0.05), kit.mse, [], [local, MostRecent(str(tmp_path / "newest"))])
        return trial.with_train_data(*line, batch_size=4), local

    make()[0].run(2)
    (path,) = tmp_path.glob("newest*")
    trial, local = make()
    trial.load(path)
    assert (local.number, len(trial.history)) == (6, 2)


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("metrics", [["loss"], []])
def test_b28_a_loss_that_is_no_number_stops_the_fit_at_its_batch(kit, metrics):
    x, y = np.ones((20, 3), "f4"), np.ones((20, 2), "f4")
    y[3] = np.nan
    net, seen = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        seen.append(state[BATCH])

    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, metrics, [TerminateOnNaN(), note])
    assert trial.with_train_data(x, y, batch_size=1, shuffle=False).run(3) == []
    assert seen == [0, 1, 2, 3]


# ---- B29, B30: what callbacks add up


@TORCH
def test_b29_manifold_mixup_leaves_no_layer_wrapped(kit, blobs):
    torch = pytest.importorskip("torch")
    net, wrapped = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)), []
    calls = [type(layer).forward for layer in net]

    def count():
        is_own = [vars(layer).get("forward") is None for layer in net]
        assert is_own == [True] * 3
        assert [type(layer).forward for layer in net] == calls
        return [len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in net]

    @on_step_training
    @on_step_validation
    def note(state):
        wrapped.append(count())

    criterion = mixup_loss(kit.cross_entropy)
    trial = quiet(net, kit.sgd(net, 0.05), criterion, [], [ManifoldMixup(1.0), note])
    trial.with_train_data(*blobs, 20).with_val_data(*blobs, 20).with_test_data(blobs[0], 20)
    for epochs in (1, 2, 3):
        trial.run(epochs)
        assert count() == [0, 0, 0]
        trial.evaluate()
        trial.predict()
    assert max(map(max, wrapped)) == 1
    assert count() == [0, 0, 0]


@TORCH
def test_b30_the_folder_of_tensorboard_is_the_same_at_each_start(kit, line, tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    net = kit.linear(WEIGHT)
    boards = [TensorBoard(tmp_path, write_graph=False), TensorBoardText(tmp_path)]
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], boards)
    trial.with_train_data(*line, batch_size=6).with_val_data(*line, batch_size=6)
    for epochs in (1, 2, 3):
        trial.run(epochs)
        trial.evaluate()
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    scalars = read_events(folder).Scalars("val_loss")
    assert [event.step for event in scalars] == [1, 2, 3]
    assert [event.value for event in scalars] == pytest.approx([record["val_loss"] for record in trial.history])


def test_b30_who_closes_a_shared_writer_first_leaves_it_to_the_others(tmp_path):
    pytest.importorskip("tensorboardX", reason="the writer is of the package tensorboardX")
    one, other = object(), object()
    writer = get_writer(tmp_path, one)
    assert get_writer(tmp_path, other) is writer
    writer.add_scalar("value", 1.0, 1)
    close_writer(tmp_path, one)
    assert get_writer(tmp_path, other) is writer
    writer.add_scalar("value", 2.0, 2)
    close_writer(tmp_path, other)
    assert [(event.step, event.value) for event in read_events(tmp_path).Scalars("value")] == [(1, 1.0), (2, 2.0)]
    fresh = get_writer(tmp_path, one)
    assert fresh is not writer
    close_writer(tmp_path, one)


# ---- B31 ... B33: side effects


@pytest.mark.parametrize(
    "name",
    ["delira", "delira.metrics", "delira.training.metrics", "delira.state", "delira.training",
     "delira.training.callbacks", "delira.training.callbacks.decorators"],
)  # fmt: skip
def test_b31_to_import_everything_replaces_no_builtin(name):
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [key for key in vars(module) if not key.startswith("_")])
    assert not {key for key in names if hasattr(builtins, key)}


@TORCH
def test_b32_a_replay_leaves_the_list_of_its_caller_alone(kit, line, capsys):
    net, callbacks = kit.linear(WEIGHT), []
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse).with_train_data(*line, batch_size=12)
    trial.run(2)
    trial.replay(callbacks, verbose=2)
    assert callbacks == []
    assert list(trial.callbacks) == []


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("kind", [MostRecent, Interval])
def test_b32_names_of_checkpoints_need_no_validation(kit, line, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    net = kit.linear(WEIGHT)
    quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [kind()]).with_train_data(*line, batch_size=12).run(1)
    assert [path.stem for path in tmp_path.iterdir()] == ["model.00"]


@ROOMS
def test_b32_zero_bias_leaves_layers_without_a_bias_alone(kit):
    """Of two layers one has a bias."""
    if kit.name == "torch":
        nn = importlib.import_module("torch").nn
        net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, bias=False))
    elif kit.name == "tensorflow":
        keras = importlib.import_module("keras")
        layers = [keras.layers.Dense(4, bias_initializer="ones"), keras.layers.Dense(2, use_bias=False)]
        net = keras.Sequential([keras.layers.Input((3,)), *layers])
    else:
        nnx = importlib.import_module("flax.nnx")
        rngs = nnx.Rngs(0)
        first = nnx.Linear(3, 4, rngs=rngs, bias_init=nnx.initializers.ones)
        net = nnx.Sequential(first, nnx.Linear(4, 2, rngs=rngs, use_bias=False))
    before = kit.weights(net)
    quiet(net, None, kit.mse, [], [ZeroBias()])
    changed = {name for name, value in kit.weights(net).items() if (value != before[name]).any()}
    (name,) = changed
    np.testing.assert_array_equal(kit.weights(net)[name], np.zeros(4))


@ROOMS
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


# ---- B34: the graph of a network of integers


@pytest.mark.parametrize("kit", ["torch", "tensorflow"], indirect=True)
def test_b34_the_graph_is_that_of_the_real_input(kit, tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    x = np.array([[0, 1], [2, 3], [4, 0], [1, 1]])
    if kit.name == "torch":
        nn = importlib.import_module("torch").nn
        net = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    else:
        layers = importlib.import_module("keras").layers
        net = importlib.import_module("keras").Sequential([
            layers.Input((2,), dtype="int64"), layers.Embedding(5, 3), layers.Flatten(), layers.Dense(2),
        ])  # fmt: skip
    board = TensorBoard(tmp_path, write_graph=True)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [board])
    trial.with_train_data(x, np.zeros((4, 2), "f4"), batch_size=2).run(1)
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    operations = " ".join(node.name + node.op for node in read_events(folder).Graph().node).lower()
    assert "embedding" in operations or "gather" in operations
    assert "linear" in operations or "matmul" in operations


# ---- T1 ... T8: packages of today


KL = state_key("kl_of_defects")


class Noted(Callback):
    """Has a state under a key of the state."""

    def state_dict(self):
        return {KL: 2.5}


@ROOMS
def test_t01_checkpoints_hold_no_code(kit, line, tmp_path):
    @traceable
    @on_criterion
    def note(state):
        state[KL] = 2 * state[LOSS]

    def make():
        net = kit.linear(WEIGHT)
        callbacks = [note, Noted(), StepLR(1), EarlyStopping(), MostRecent(str(tmp_path / "newest"))]
        trial = quiet(net, kit.tunable_sgd(net, 0.05), kit.mse, ["loss", KL], callbacks)
        return trial.with_train_data(*line, batch_size=4).with_val_data(*line, batch_size=4)

    trial = make()
    trial.run(2)
    (path,) = tmp_path.glob("newest*")
    if kit.name == "torch":
        importlib.import_module("torch").load(path, weights_only=True)
    else:
        assert b"delira." not in path.read_bytes(), "a class of delira is named"
    again = make().load(path)
    assert again.history == trial.history
    assert again.history[-1][KL] == pytest.approx(2 * again.history[-1]["loss"], rel=1e-5)
    assert kit.stored(trial.state_dict(), tmp_path / "tree")["history"] == trial.history


@ROOMS
def test_t02_the_rate_falls_on_a_plateau_with_the_torch_of_today(kit, line):
    x, seen = line[0], []
    net = kit.linear(WEIGHT)
    callbacks = [ReduceLROnPlateau(patience=0, factor=0.1), rates_of(lambda: trial, seen)]
    trial = quiet(net, kit.tunable_sgd(net, 1.0), kit.mse, ["loss"], callbacks)
    y = np.zeros((12, 2), "f4")
    trial.with_train_data(0 * x, y, batch_size=12).with_val_data(0 * x, y, batch_size=12).run(4)
    np.testing.assert_allclose(seen, [1.0, 1.0, 0.1, 0.01], rtol=1e-5)


@ROOMS
def test_t03_grids_of_images_are_made_in_a_real_run(kit, tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    images, labels = numbered_images(kit, 4, 3)
    net, found = kit.module({"w": 1.0}, lambda net, x: net.w * x), state_key("found")

    class Half(ImagingCallback):
        def on_batch(self, state):
            return state[X][0] / 2

    layout = {"nrow": 2, "padding": 1, "normalize": True, "norm_range": (0.0, 4.0), "pad_value": 1.0}
    grid = MakeGrid(num_images=4, **layout).on_val().to_state(found)
    other = Half().on_val().make_grid(num_images=2, nrow=2, padding=0).to_file(tmp_path / "half_{epoch}.png")
    board = TensorBoardImages(tmp_path, key=X, num_images=4, **layout)
    trial = quiet(net, kit.sgd(net, 0.0), lambda y_pred, y_true: kit.sum(y_pred), [], [grid, other, board])
    trial.with_train_data(images, labels, 2).with_val_data(images, labels, 2).run(1)
    wanted = np.ones((1, 9, 9))
    for number, (row, column) in enumerate(itertools.product((1, 5), (1, 5))):
        wanted[0, row : row + 3, column : column + 3] = number / 4
    np.testing.assert_allclose(trial.state[found], wanted, atol=1e-6)
    image = importlib.import_module("matplotlib.image")
    np.testing.assert_allclose(image.imread(tmp_path / "half_0.png")[:, ::3][0, :2], [0.0, 1.0], atol=0.01)
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    (event,) = read_events(folder).Images("Image")
    shown = image.imread(io.BytesIO(event.encoded_image_string))
    shown = shown if shown.ndim == 2 else shown[..., 0]
    np.testing.assert_allclose(shown, wanted[0], atol=0.01)


@TORCH
def test_t03b_live_plots_draw_with_the_packages_of_today(kit, line):
    """What a notebook shows of it is looked at by tests/training/callbacks/test_live_plot.py, which is slow."""
    pytest.importorskip("matplotlib", reason="the plots are of the package matplotlib")
    net, plot = kit.linear(WEIGHT), LiveLossPlot()
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [plot])
    history = trial.with_train_data(*line, batch_size=6).with_val_data(*line, batch_size=6).run(3)
    figure = plot.figure()
    (axes,) = (axes for axes in figure.axes if axes.get_title() == "loss")
    drawn = {curve.get_label(): list(curve.get_ydata()) for curve in axes.lines}
    assert drawn["training"] == pytest.approx([record["loss"] for record in history])
    assert drawn["validation"] == pytest.approx([record["val_loss"] for record in history])
    figure.savefig(buffer := io.BytesIO(), format="png")
    assert len(buffer.getvalue()) > 5000


@ROOMS
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


@pytest.mark.parametrize("kit", ["torch", "tensorflow"], indirect=True)
def test_t05_scalars_are_written_without_the_package_tensorboard(kit, line, tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [TensorBoard(tmp_path)])
    with monkeypatch.context() as hidden:
        for name in [*sys.modules]:
            if name.partition(".")[0] == "tensorboard":
                hidden.delitem(sys.modules, name)
        hidden.setitem(sys.modules, "tensorboard", None)
        history = trial.with_train_data(*line, batch_size=6).run(2)
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    scalars = read_events(folder).Scalars("loss")
    assert [event.value for event in scalars] == pytest.approx([record["loss"] for record in history])


def test_t06_python_without_docstrings_imports_all_of_delira():
    program = """
import importlib, pathlib, sys, delira
source = pathlib.Path(delira.__file__).parent
for path in source.rglob("*.py"):
    parts = path.relative_to(source).with_suffix("").parts
    if parts[0] not in ("backends", "__main__"):
        importlib.import_module(".".join(("delira", *parts)))
sys.exit("there are docstrings" if delira.Trial.__doc__ else len(delira.training.settings_help()) < 1000)
"""
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]


ROOT = Path(__file__).parents[2]


def python_of(path):
    """The Python that a page, a notebook or a script shows."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [text]
    if path.suffix == ".md":
        return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def imports_of(code):
    """The names that code imports, as (module, name or None)."""
    lines = [line for line in code.splitlines() if not line.lstrip().startswith(("%", "!"))]
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


PAGES = sorted(
    path
    for folder, pattern in ((".", "*.md"), ("docs", "*.md"), ("notebooks", "*.ipynb"), ("examples", "**/*.py"))
    for path in (ROOT / folder).glob(pattern)
)


def test_t07_what_the_documents_import_is_there():
    missing, found = [], set()
    for path in PAGES:
        for module, name in itertools.chain.from_iterable(map(imports_of, python_of(path))):
            if module.partition(".")[0] not in ("sklearn", "delira") or importlib.util.find_spec("sklearn") is None:
                continue
            found.add(module)
            try:
                imported = importlib.import_module(module)
                if name is not None and not hasattr(imported, name):
                    importlib.import_module(f"{module}.{name}")
            except MissingBackendError:
                continue  # it is there, for those who have the package
            except ImportError as error:
                missing.append(f"{path.relative_to(ROOT)}: {module} {name}: {error}")
    assert not missing, "\n".join(missing)
    assert {"delira", "sklearn.metrics"} <= found, "the documents were not read"


def test_t08_the_wheel_installs_delira_and_nothing_else(monkeypatch):
    """The wheel itself is looked into by tests/test_packaging.py, which is slow."""
    setuptools = pytest.importorskip("setuptools")
    given = {}
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: given.update(arguments))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"), run_name="__main__")
    assert {name.partition(".")[0] for name in given["packages"]} == {"delira"}
    assert not given.keys() & {"py_modules", "scripts", "data_files"}
    assert given["package_dir"] == {"": "."}  # the folder of setup.py itself, for editable installs


def test_every_defect_of_the_contract_has_a_test():
    wanted = {*(f"b{number:02d}" for number in range(1, 35)), *(f"t{number:02d}" for number in range(1, 9)), "t03b"}
    assert {name.split("_")[1] for name in globals() if re.match(r"test_[bt]\d", name)} == wanted
