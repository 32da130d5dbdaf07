"""What users asked of fitting libraries, and what hurt them: sections 4.3 and 4.5 of the contract."""

import copy
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
from kits import DIFFERENTIABLE, WEIGHT, descend, quiet

from delira import state as keys
from delira.errors import ConfigError, DataError
from delira.metrics import CategoricalAccuracy, lambda_metric, mean, std
from delira.state import BATCH, EPOCH, LOSS, PHASE, Y_PRED, Y_TRUE, X, state_key
from delira.training.callbacks import EarlyStopping, ExponentialMovingAverage, ReduceLROnPlateau
from delira.training.callbacks.decorators import (
    on_checkpoint,
    on_criterion,
    on_criterion_validation,
    on_end,
    on_end_epoch,
    on_end_training,
    on_start_training,
    on_start_validation,
    on_step_training,
    on_step_validation,
    once_per_epoch,
    traceable,
)

ROOMS = pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)
TORCH = pytest.mark.parametrize("kit", ["torch"], indirect=True)
KL = state_key("kl_of_asks")


def linear_trial(kit, *callbacks, metrics=("loss",), rate=0.05, **settings):
    net = kit.linear(WEIGHT)
    return quiet(net, kit.sgd(net, rate), kit.mse, metrics, callbacks, **settings)


# ---- data


@TORCH
def test_arrays_come_in_batches_of_one_and_start_no_process(kit, line):
    process = pytest.importorskip("psutil", reason="processes are counted by the package psutil").Process()
    sizes, before, after = [], set(process.children(recursive=True)), set()

    @on_step_training
    @on_step_validation
    def note(state):
        sizes.append(len(state[X]))
        after.update(process.children(recursive=True))

    trial = linear_trial(kit, note).with_train_data(*line).with_val_data(*line).with_test_data(line[0])
    trial.run(1)
    trial.predict()
    assert sizes == [1] * 36
    assert after <= before


@ROOMS
def test_a_batch_to_predict_may_be_two_inputs(kit, line):
    """A network that needs both of a tuple of two is given both; its target is not known (4.3)."""
    x = line[0]

    class Both(kit.module):
        pass

    def call(self, a, b):
        return a @ self.w - b @ self.w

    for name in ("forward", "call", "__call__"):
        if name in vars(kit.module):
            setattr(Both, name, call)
    net = Both({"w": WEIGHT}, None)
    wanted = (x - 2 * x[::-1]) @ WEIGHT
    pairs = [(x[start : start + 4], (2 * x[::-1])[start : start + 4]) for start in (0, 4, 8)]
    for batches in (pairs, [(pair,) for pair in pairs], [(pair, None) for pair in pairs], list(map(list, pairs))):
        found = kit.numpy(quiet(net).with_test_generator(batches).predict())
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    one = quiet(kit.linear(WEIGHT)).with_test_generator([(x, x)])  # ... and one that needs one is given one
    np.testing.assert_allclose(kit.numpy(one.predict()), x @ WEIGHT, rtol=1e-5)


@pytest.mark.parametrize("kit", ["tensorflow"], indirect=True)
def test_a_functional_model_of_keras_takes_several_inputs_and_targets(kit, line):
    keras = pytest.importorskip("keras")
    x, y = line
    a, b = keras.Input((3,)), keras.Input((3,))
    net = keras.Model([a, b], [keras.layers.Dense(2)(a + b), keras.layers.Dense(1)(a)])
    wanted = [value.numpy() for value in net([x, 2 * x])]

    def criterion(pa, pb, ta, tb):
        return kit.mse(pa, ta) + kit.mse(pb, tb)

    for test in (((x, 2 * x), None), (x, 2 * x)):
        found = quiet(net).with_test_generator([test]).predict()
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
    trial = quiet(net, kit.sgd(net, 0.01), criterion, ["loss"])
    history = trial.with_train_generator([((x, 2 * x), (y, y[:, :1]))]).run(20)
    assert history[-1]["loss"] < history[0]["loss"]
    first = ((wanted[0] - y) ** 2).mean() + ((wanted[1] - y[:, :1]) ** 2).mean()
    assert history[0]["loss"] == pytest.approx(first, rel=1e-5)


@TORCH
def test_a_tuple_of_arrays_is_not_stacked(kit, line):
    x, y = line
    with pytest.raises(ConfigError, match="are one array, got a tuple of 2; several inputs or targets come as batches"):
        linear_trial(kit).with_test_data((x, x))
    with pytest.raises(ConfigError, match="are one array, got a tuple of 2"):
        linear_trial(kit).with_train_data(x, (y, y))


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("is_first", [True, False])
def test_543_steps_hold_whether_they_are_said_before_the_data_or_after(kit, line, is_first):
    x, y = line
    trial = linear_trial(kit, rate=0.0)
    if is_first:
        trial.for_steps(2, 5, 1)
    trial.with_train_data(x, y, 4).with_val_data(x, y, 4).with_test_data(x, 4)
    if not is_first:
        trial.for_steps(2, 5, 1)
    (record,) = trial.run(1)
    assert (record["train_steps"], record["validation_steps"]) == (2, 5)
    assert len(trial.predict()) == 4
    trial.for_steps(train_steps=1)
    assert [record["train_steps"] for record in trial.run(2)] == [2, 1]


@TORCH
@pytest.mark.parametrize("steps", [0, -2, 2.5, True, "2", float("inf"), None])
def test_145_no_steps_and_no_data_are_refused_in_words(kit, steps):
    if steps is None:
        trial = linear_trial(kit)
        for attempt, words in (
            (trial.run, "there is nothing to fit to; give training data"),
            (trial.evaluate, "there are no validation data to evaluate"),
            (trial.predict, "there are no test data to predict"),
        ):
            with pytest.raises(ConfigError, match=words):
                attempt()
        return
    for method in ("for_train_steps", "for_val_steps", "for_test_steps"):
        with pytest.raises(ConfigError, match="steps must be a positive whole number, or -1 for no end, got"):
            getattr(linear_trial(kit), method)(steps)
    with pytest.raises(DataError, match="gave no batch"):
        linear_trial(kit).with_train_generator([]).run(1)


@ROOMS
def test_370_epochs_of_any_number_of_steps_never_run_out_of_data(kit, line):
    x, y = line
    batches = [(x[:4], y[:4]), (x[4:8], y[4:8]), (x[8:], y[8:])]
    for steps in (1, 2, 3, 5, 7):
        history = linear_trial(kit).with_train_generator(batches, steps).with_val_generator(batches, steps).run(4)
        assert [record["train_steps"] for record in history] == [steps] * 4
        assert [record["validation_steps"] for record in history] == [steps] * 4


@TORCH
def test_370_what_can_be_gone_through_once_says_so_and_stops_with_no_stop_iteration(kit, line):
    trial = linear_trial(kit).with_train_generator(iter([line, line]))
    with pytest.raises(DataError, match="the training data gave no batch in epoch 2"):
        trial.run(2)
    assert len(trial.history) == 1


@ROOMS
def test_525_a_loader_of_the_users_goes_on_over_the_epochs_too(kit, line):
    x, y = line
    batches, seen = [{"in": x[start : start + 4], "out": y[start : start + 4]} for start in (0, 4, 8)], []

    def load(state):
        batch = next(state[keys.ITERATOR])
        state[X], state[Y_TRUE] = batch["in"], batch["out"]

    @on_step_training
    def note(state):
        seen.append(float(kit.numpy(state[X])[0, 0]))

    linear_trial(kit, note).with_train_generator(batches, steps=2).with_loader(load).with_inf_train_loader().run(3)
    np.testing.assert_allclose(seen, x[[0, 4, 8, 0, 4, 8], 0])


# ---- which data were evaluated


@ROOMS
def test_374_any_data_set_can_be_evaluated_and_predicted_under_its_name(kit, line):
    x, y = line
    trial = linear_trial(kit, metrics=["loss", "mse"]).with_train_data(x[:6], y[:6], 4).with_val_data(x[6:], y[6:], 4)
    trial.with_test_generator([(2 * x, y)])
    for key, name, inputs, targets in (
        (keys.TRAIN_DATA, "train", x[:6], y[:6]),
        (keys.VALIDATION_DATA, "val", x[6:], y[6:]),
        (keys.TEST_DATA, "test", 2 * x, y),
    ):
        loss = pytest.approx(((inputs @ WEIGHT - targets) ** 2).mean(), rel=1e-5)
        assert trial.evaluate(data_key=key) == {f"{name}_loss": loss, f"{name}_mse": loss}
        found = kit.numpy(trial.predict(data_key=key))
        if key != keys.TRAIN_DATA:
            np.testing.assert_allclose(found, inputs @ WEIGHT, rtol=1e-4, atol=1e-5)
        assert found.shape == targets.shape


@ROOMS
def test_metrics_of_the_test_data_stay_out_of_the_history(kit, line):
    trial = linear_trial(kit).with_train_data(*line, 4).with_val_data(*line, 4).with_test_generator([line])
    trial.run(2)
    before = copy.deepcopy(trial.history)
    trial.evaluate(data_key=keys.TEST_DATA)
    trial.evaluate(data_key=keys.TRAIN_DATA)
    trial.predict()
    assert trial.history == before
    values = trial.evaluate()
    assert trial.history == [before[0], {**before[1], **values}]


@ROOMS
def test_650_callbacks_that_watch_the_validation_survive_an_evaluation_of_the_test_data(kit, line):
    net = kit.linear(WEIGHT)
    callbacks = [EarlyStopping(patience=2), ReduceLROnPlateau(patience=1)]
    trial = quiet(net, kit.tunable_sgd(net, 0.05), kit.mse, ["loss"], callbacks)
    trial.with_train_data(*line, 4).with_val_data(*line, 4).with_test_generator([line]).run(2)
    before = callbacks[0].state_dict(), trial.learning_rates()
    assert set(trial.evaluate(data_key=keys.TEST_DATA)) == {"test_loss"}
    assert (callbacks[0].state_dict(), trial.learning_rates()) == before


# ---- metrics


@ROOMS
def test_a_key_of_the_state_has_the_prefix_of_its_pass(kit, line):
    @traceable
    @on_criterion
    def train(state):
        state[KL] = 0 * state[LOSS] + 1.0

    @on_criterion_validation
    def validate(state):
        state[KL] = 0 * state[LOSS] + 2.0

    trial = linear_trial(kit, train, validate, metrics=[KL]).with_train_data(*line, 4).with_val_data(*line, 4)
    (record,) = trial.run(1)
    assert (record[KL], record[f"val_{KL}"]) == (1.0, 2.0)


@ROOMS
def test_290_the_spread_of_equal_values_is_zero_and_real(kit):
    values = np.full((50,), 0.1, "f4")
    net = kit.module({"w": 1.0}, lambda net, x: net.w * x)
    metric = std(lambda_metric("value")(lambda y_pred, y_true: y_pred))
    (found,) = quiet(net, None, None, [metric]).with_val_data(values, values, 7).evaluate().values()
    assert isinstance(found, float)
    assert found == pytest.approx(0.0, abs=1e-7)


@ROOMS
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


@ROOMS
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
def test_507_no_graph_is_kept_over_the_steps(kit, line):
    net, graphs, alive, kept = kit.linear(WEIGHT), [], [], []

    @mean
    def keep(state):
        kept.extend((state[Y_PRED], state[LOSS], state[KL]))
        return 0.0

    @on_criterion
    def note(state):
        state[KL] = 2 * state[LOSS]
        graphs.extend(map(weakref.ref, (state[Y_PRED], state[LOSS], state[KL])))

    @on_step_training
    def count(state):
        alive.append(sum(graph() is not None for graph in graphs))

    whole = lambda_metric("whole", on_epoch=True)(lambda y_pred, y_true: float(y_pred.sum()))
    metrics = ["loss", "mse", "mae", "r2", Y_PRED, LOSS, KL, whole, keep]
    quiet(net, kit.sgd(net, 0.05), kit.mse, metrics, [note, count]).with_train_data(*line).run(1)
    assert len(graphs) == len(kept) == 36
    assert alive == alive[:1] * 12, "values are kept with their graphs"


# ---- state


@ROOMS
def test_what_a_callback_keeps_in_the_state_stays(kit, line):
    """There is one state: nothing is copied over it between passes and calls (4.3)."""
    note, seen = state_key("note"), []

    @on_start_training
    def write(state):
        state.setdefault(note, []).append(state[EPOCH])

    @on_start_validation
    @on_end_epoch
    def read(state):
        seen.append(list(state[note]))

    trial = linear_trial(kit, write, read).with_train_data(*line, 6).with_val_data(*line, 6)
    trial.run(1)
    trial.run(2)
    trial.evaluate()
    assert seen == [[0]] * 2 + [[0, 1]] * 4
    assert trial.state[note] == [0, 1]


def test_390_keys_are_equal_where_they_were_stored_and_read_again():
    for one in (pickle.loads(pickle.dumps(KL)), copy.deepcopy(KL), str(KL)):
        assert one == KL
        assert hash(one) == hash(KL)
        assert {one: 1}[KL] == 1
    program = "from delira.state import LOSS, state_key; print(state_key('kl_of_asks'), LOSS, state_key('loss'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=True)
    assert done.stdout.split() == [KL, LOSS, "loss_1"]


# ---- steps


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("number", [2, 3])
def test_gradients_of_several_batches_make_one_update(kit, line, number):
    x, y = line
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], gradient_accumulation_steps=number)
    trial.with_train_data(x, y, 2, shuffle=False).run(2)
    updates = [(x[start : start + 2 * number], y[start : start + 2 * number]) for start in range(0, 12, 2 * number)]
    _, weight = descend(WEIGHT, updates * 2, 0.05)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)


@ROOMS
def test_validation_may_be_every_few_epochs_and_is_replayed_where_it_was(kit, line):
    seen = []

    @on_step_validation
    def note(state):
        seen.append((state[EPOCH], state[BATCH]))

    trial = linear_trial(kit, note, val_freq=2).with_train_data(*line, 6).with_val_data(*line, 6)
    history = trial.run(4)
    assert [record["validation_steps"] for record in history] == [0, 2, 0, 2]
    assert ["val_loss" in record for record in history] == [False, True, False, True]
    assert seen == [(1, 0), (1, 1), (3, 0), (3, 1)]
    seen.clear()
    trial.replay([note], verbose=0)
    assert seen == [(1, 0), (1, 1), (3, 0), (3, 1)]


@ROOMS
def test_weights_may_be_averaged_and_the_average_is_validated_and_left(kit, line):
    x, y = line
    net, trained = kit.linear(WEIGHT), []

    @on_step_training
    def note(state):
        trained.append(kit.weight(net))

    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [ExponentialMovingAverage(decay=0.5), note])
    (record,) = trial.with_train_data(x, y, 4, shuffle=False).with_val_data(x, y, 12).run(1)
    _, weight = descend(WEIGHT, [(x[start : start + 4], y[start : start + 4]) for start in (0, 4, 8)], 0.05)
    np.testing.assert_allclose(trained[-1], weight, rtol=1e-4, atol=1e-6)
    average = kit.weight(net)
    assert np.abs(average - weight).max() > 1e-3
    assert record["val_loss"] == pytest.approx(((x @ average - y) ** 2).mean(), rel=1e-5)


@ROOMS
def test_a_replay_that_fails_is_ended(kit, line):
    ended = []

    @on_end
    def end(state):
        ended.append(state[keys.PHASE])

    @on_end_epoch
    def fail(state):
        raise RuntimeError("no more")

    trial = linear_trial(kit).with_train_data(*line, 6)
    trial.run(2)
    with pytest.raises(RuntimeError, match="no more"):
        trial.replay([fail, end], verbose=0)
    assert ended == ["replay"]


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("moment", [on_step_training, on_end_training, on_step_validation, on_end_epoch])
def test_a_fit_goes_on_after_an_evaluation_in_its_midst_as_if_there_was_none(kit, line, moment):
    def fit(looks_aside):
        net, epochs, values = kit.linear(WEIGHT), [], []

        @moment
        def look(state):
            if looks_aside and state[keys.PHASE] == "fit":
                values.append(trial.evaluate(data_key=keys.TEST_DATA))
                values.append(trial.evaluate())
                trial.predict()

        @on_checkpoint
        def note(state):
            epochs.append((state[EPOCH], state[keys.MAX_EPOCHS], state[keys.PHASE], dict(state[keys.METRICS])))

        trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss", "mae"], [look, note], seed=3)
        trial.with_train_data(*line, 5).with_val_data(*line, 5).with_test_generator([line]).run(3)
        return trial.history, epochs, kit.weight(net), values

    history, epochs, weight, values = fit(True)
    plain = fit(False)
    assert values
    assert all(one.keys() == {"test_loss", "test_mae"} for one in values[::2])
    assert history == plain[0]
    assert epochs == plain[1]
    np.testing.assert_array_equal(weight, plain[2])


@ROOMS
def test_once_per_epoch_runs_once_in_each_evaluation(kit, line):
    seen = []

    @once_per_epoch
    @on_step_validation
    def look(state):
        seen.append(state[PHASE])

    net = kit.linear(np.zeros((3, 2)))
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse, callbacks=[look]).with_train_data(*line, batch_size=6)
    trial.with_val_data(*line, batch_size=6).with_test_data(line[0], batch_size=6).run(2)
    trial.evaluate()
    trial.evaluate()
    trial.predict()
    trial.run(3)
    assert seen == ["fit", "fit", "evaluate", "evaluate", "predict", "fit"]
