"""Passes of a trial: validation, evaluation, prediction and replay, and what they leave alone."""

import copy
import functools
import sys

import numpy as np
import pytest
from kits import BACKENDS, TORCH, WEIGHT, build_kit, descend, linear_trial, quiet, tunable_trial
from own_networks import OWN_NETWORKS, regression

import delira
from delira import state as keys
from delira.callbacks.decorators import (
    on_checkpoint,
    on_criterion,
    on_criterion_validation,
    on_end,
    on_end_epoch,
    on_end_training,
    on_end_validation,
    on_start_epoch,
    on_step_training,
    on_step_validation,
    once_per_epoch,
    traceable,
)
from delira.errors import DataError
from delira.state import BATCH, EPOCH, LOSS, METRICS, PHASE, Y_PRED, Y_TRUE, state_key
from delira.training.callbacks import (
    Best,
    CSVLogger,
    EarlyStopping,
    ExponentialMovingAverage,
    GradientNormClipping,
    Interval,
    Mixup,
    MostRecent,
    ReduceLROnPlateau,
    StepLR,
    TensorBoard,
    mixup_loss,
)

KL = state_key("kl_of_passes")


@BACKENDS
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


@BACKENDS
def test_650_callbacks_that_watch_the_validation_survive_an_evaluation_of_the_test_data(kit, line):
    net = kit.linear(WEIGHT)
    callbacks = [EarlyStopping(patience=2), ReduceLROnPlateau(patience=1)]
    trial = quiet(net, kit.tunable_sgd(net, 0.05), kit.mse, ["loss"], callbacks)
    trial.with_train_data(*line, 4).with_val_data(*line, 4).with_test_generator([line]).run(2)
    before = callbacks[0].state_dict(), trial.learning_rates()
    assert set(trial.evaluate(data_key=keys.TEST_DATA)) == {"test_loss"}
    assert (callbacks[0].state_dict(), trial.learning_rates()) == before


@BACKENDS
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


@BACKENDS
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


@BACKENDS
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


@BACKENDS
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
@BACKENDS
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


@BACKENDS
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


@BACKENDS
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


@BACKENDS
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


@BACKENDS
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


@TORCH
def test_b32_a_replay_leaves_the_list_of_its_caller_alone(kit, line, capsys):
    net, callbacks = kit.linear(WEIGHT), []
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse).with_train_data(*line, batch_size=12)
    trial.run(2)
    trial.replay(callbacks, verbose=2)
    assert callbacks == []
    assert list(trial.callbacks) == []


@BACKENDS
def test_a_prediction_of_nothing_says_so(kit, line):
    _, trial = tunable_trial(kit)
    for empty in ([], iter(())):
        with pytest.raises(DataError, match="there was no batch to predict"):
            trial.with_test_generator(empty).predict()


@BACKENDS
def test_predictions_that_are_one_number_a_batch_come_as_a_list(kit, line):
    x = line[0]
    net = kit.module({"w": WEIGHT}, lambda net, x: kit.mean(x @ net.w))
    found = quiet(net).with_test_generator([x[:3], x[3:], x[4:]]).predict()
    wanted = [(part @ WEIGHT).mean() for part in (x[:3], x[3:], x[4:])]
    np.testing.assert_allclose([float(one) for one in found], wanted, rtol=1e-4, atol=1e-6)


@BACKENDS
def test_a_target_may_be_one_number(kit, line):
    x = line[0]
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.0), lambda p, t: kit.mean((p - t) ** 2), ["loss"])
    record = trial.with_train_generator([(x[:3], 3.0), (x[3:], 4.0)]).run(1)[0]
    losses = [((x[:3] @ WEIGHT - 3) ** 2).mean(), ((x[3:] @ WEIGHT - 4) ** 2).mean()]
    assert record["loss"] == pytest.approx(np.average(losses, weights=[3, 9]), rel=1e-5)


@BACKENDS
def test_a_replay_shows_the_metrics_of_the_fit_and_nothing_else(kit, line):
    seen = {"fit": [], "replay": []}

    @on_end_training
    @on_end_validation
    @on_end_epoch
    def look(state):
        seen[state[PHASE]].append(dict(state[METRICS]))

    trial = linear_trial(kit, look).with_train_data(*line, 6).with_val_data(*line, 6)
    trial.run(2)
    kept = {}
    trial.replay([look, on_step_training(kept.update)], verbose=0)
    assert not kept.keys() & {keys.X, Y_TRUE, Y_PRED, LOSS}
    for shown, there in zip(seen["replay"], seen["fit"], strict=True):
        assert {**shown, "lr": 0} == {**there, "lr": 0}  # which is recorded, and no metric


def test_the_history_of_an_experiment_is_replayed(tmp_path, capsys):
    kit = build_kit("torch")
    passes = []

    @on_end_training
    @on_end_validation
    def look(state):
        passes.append((state[EPOCH], sorted(state[METRICS].keys() - {"lr"})))

    torch, data = sys.modules["torch"], regression()
    net = OWN_NETWORKS["torch"]()
    experiment = delira.training.PyTorchExperiment(
        {"training": {"num_epochs": 2, "losses": {"loss": kit.mse}, "optimizer_cls": torch.optim.Adam}}, type(net),
        name="replayed", save_path=tmp_path,
    )  # fmt: skip
    experiment.run(data, data)
    [last] = tmp_path.rglob("checkpoint_last.*")
    trial = quiet(net, torch.optim.Adam(net.parameters()), kit.mse, ["loss"])
    trial.load(last)
    trial.replay([look], verbose=-1)
    assert passes == [(0, ["loss"]), (0, ["val_loss"]), (1, ["loss"]), (1, ["val_loss"])]
    assert capsys.readouterr().out == ""


def test_a_subclass_may_say_which_data_a_pass_has():
    pytest.importorskip("torch")

    class Asked(delira.Trial):
        asked = ()

        def data_of(self, data_key):
            self.asked = (*self.asked, data_key)
            return super().data_of(data_key)

    trial = Asked(None, metrics=[], verbose=0).for_val_steps(2)
    trial.evaluate()
    assert set(trial.asked) == {keys.VALIDATION_DATA}
