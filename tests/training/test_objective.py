"""Callbacks of an experiment do what those of a trial do: replace what is trained, see the steps, shape the test."""

import csv

import numpy as np
import pytest
from small_rooms import build_room

from delira import state as keys
from delira.errors import ConfigError
from delira.state import CRITERION, DATA, EPOCH, METRICS, MODEL, OPTIMIZER, PHASE, TEST_DATA, X
from delira.training.callbacks import CSVLogger, EarlyStopping, UnpackState
from delira.training.callbacks.decorators import (
    on_end_epoch,
    on_end_validation,
    on_sample,
    on_sample_validation,
    on_start_epoch,
    on_step_training,
    on_step_validation,
)

ROOMS = ("torch", "tensorflow", "jax")


def descent(room, network, rate):
    if room.name == "torch":
        import torch

        return torch.optim.SGD(network.parameters(), rate)
    if room.name == "tensorflow":
        import keras

        return keras.optimizers.SGD(rate)
    import optax

    return optax.sgd(rate)


# ---- what is trained


@pytest.mark.parametrize("name", ROOMS)
def test_another_network_optimizer_and_criterion_are_used_from_then_on(name, tmp_path, manager):
    room = build_room(name)
    other = room.build()
    room.write(other, np.zeros((3, 1)))

    @on_start_epoch
    def swap(state):
        if state[EPOCH] == 1:
            state[MODEL], state[OPTIMIZER] = other, descent(room, other, 0.0)
        if state[EPOCH] == 2:
            state[OPTIMIZER] = descent(room, other, 0.05)
            state[CRITERION] = lambda prediction, target: 4 * room.loss(prediction, target)

    trainer = room.trainer(tmp_path, callbacks=[swap])
    trainer.train(3, manager(), manager())
    first, second, third = trainer.state.history
    zero = float((np.concatenate([batch["label"] for batch in manager().epoch(0, 0, 1)]) ** 2).mean())
    assert [second["mse"], second["val_mse"]] == pytest.approx([zero] * 2, rel=1e-5)  # nothing was learned
    assert first["mse"] != second["mse"]
    assert third["val_mse"] < 4 * zero
    assert third["mse"] > zero  # four times a loss that has hardly fallen
    assert trainer.module is trainer.facts[MODEL] is other
    assert np.abs(room.read(other)).max() > 0


@pytest.mark.parametrize("name", ROOMS[:2])
def test_another_network_without_an_optimizer_of_its_weights_is_refused(name, tmp_path, manager):
    room = build_room(name)

    @on_end_epoch
    def swap(state):
        state[MODEL] = room.build()

    with pytest.raises(ConfigError, match=r"none of them is one of the"):
        room.trainer(tmp_path, callbacks=[swap]).train(2, manager())


def test_of_several_losses_one_criterion_is_refused(tmp_path, manager):
    room = build_room("torch")

    @on_start_epoch
    def swap(state):
        state[CRITERION] = room.loss

    losses = {"mse": room.loss, "again": lambda prediction, target: room.loss(prediction, target)}
    with pytest.raises(ConfigError, match=r"the trainer has the losses mse, again; set it to a dict of them"):
        room.trainer(tmp_path, callbacks=[swap], losses=losses).train(2, manager())


# ---- what the steps show


def test_the_losses_and_metrics_of_a_step_are_its_metrics(room, tmp_path, manager):
    seen = []

    @on_step_training
    @on_step_validation
    def look(state):
        seen.append({name: float(value) for name, value in state[METRICS].items()})

    metrics = {"twice": lambda target, prediction: 2 * room.loss(prediction, target)}
    callbacks = [look, CSVLogger(tmp_path / "steps.csv", batch_granularity=True)]
    trainer = room.trainer(tmp_path / "run", callbacks=callbacks, train_metrics=metrics)
    trainer.train(1, manager(), manager())
    assert [set(values) for values in seen] == [{"mse", "twice"}] * 3 + [{"val_mse"}] * 3
    sizes = np.array([4, 4, 2])
    for name, rows in (("mse", seen[:3]), ("twice", seen[:3]), ("val_mse", seen[3:])):
        mean = np.average([row[name] for row in rows], weights=sizes)
        assert trainer.state.history[0][name] == pytest.approx(mean, rel=1e-5)
    with (tmp_path / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mse"]) for row in rows[:3]] == pytest.approx([row["mse"] for row in seen[:3]], rel=1e-5)


def test_a_training_may_be_stopped_by_a_value_of_its_steps(room, tmp_path, manager):
    trainer = room.trainer(tmp_path, callbacks=[EarlyStopping("mse", patience=1, min_delta=1e9, step_on_batch=True)])
    trainer.train(9, manager())
    assert trainer.state.epoch == 1  # an epoch of an experiment is always whole


# ---- what is tested


@on_sample
@on_sample_validation
def without_input(state):
    state[X] = state[X] * 0


def test_what_callbacks_make_of_batches_is_what_a_fold_is_tested_on(room, tmp_path, manager):
    experiment = room.experiment(tmp_path, callbacks=[without_input])
    outputs, _ = experiment.kfold(manager(), num_splits=2)
    assert all((fold["pred"] == 0).all() for fold in outputs.values())


def test_callbacks_know_that_a_fold_is_tested(room, tmp_path, manager):
    seen = []

    @on_end_validation
    @on_end_epoch
    def look(state):
        if state[PHASE] != "fit":
            seen.append((state[PHASE], state[DATA], state[keys.EPOCH], dict(state[METRICS])))

    metrics = {"mae": lambda target, prediction: abs(target - prediction).mean()}
    experiment = room.experiment(tmp_path)
    _, found = experiment.kfold(manager(), metrics, num_splits=2, callbacks=[look])
    tested = [{"test_mae": pytest.approx(float(np.mean(fold["mae"])))} for fold in found.values()]
    assert [row[:3] for row in seen] == [("evaluate", TEST_DATA, 0)] * 4
    assert [row[3] for row in seen] == [values for values in tested for _ in range(2)]


@pytest.mark.parametrize("name", ROOMS)
def test_a_network_that_takes_entries_of_the_state_is_cross_validated(name, tmp_path, manager):
    room = build_room(name)
    method = {"torch": "forward", "tensorflow": "call", "jax": "__call__"}[name]
    base = getattr(room.network, method)
    cls = type("TakesEntries", (room.network,), {method: lambda self, x: base(self, x["x"])})
    outputs = []
    for network, callbacks in ((cls, [UnpackState([X])]), (room.network, [])):
        experiment = room.experiment(tmp_path / network.__name__, cls=network, callbacks=callbacks)
        outputs.append(experiment.kfold(manager(), num_splits=2)[0])
    for one, other in zip(*(fold.values() for fold in outputs), strict=True):
        np.testing.assert_allclose(one["pred"], other["pred"], rtol=1e-5)
