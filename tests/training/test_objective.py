"""Callbacks of an experiment do what those of a trial do: replace what is trained, see the steps, shape the test."""

import csv

import numpy as np
import pytest
from bare_parts import SHOWN, Parts
from small_backends import build_kit

from delira import state as keys
from delira.callbacks.decorators import (
    on_end_epoch,
    on_end_validation,
    on_sample,
    on_sample_validation,
    on_start_epoch,
    on_step_training,
    on_step_validation,
)
from delira.contract import Step
from delira.errors import ConfigError, NetworkError
from delira.state import CRITERION, DATA, EPOCH, METRICS, MODEL, OPTIMIZER, PHASE, TEST_DATA, X
from delira.training.callbacks import CSVLogger, EarlyStopping, UnpackState
from delira.training.objective import Objective, single

BACKENDS = ("torch", "tensorflow", "jax")


def descent(kit, network, rate):
    if kit.name == "torch":
        import torch

        return torch.optim.SGD(network.parameters(), rate)
    if kit.name == "tensorflow":
        import keras

        return keras.optimizers.SGD(rate)
    import optax

    return optax.sgd(rate)


# ---- what is trained


@pytest.mark.parametrize("backend_name", BACKENDS)
def test_another_network_optimizer_and_criterion_are_used_from_then_on(backend_name, tmp_path, manager):
    kit = build_kit(backend_name)
    other = kit.build()
    kit.write(other, np.zeros((3, 1)))

    @on_start_epoch
    def swap(state):
        if state[EPOCH] == 1:
            state[MODEL], state[OPTIMIZER] = other, descent(kit, other, 0.0)
        if state[EPOCH] == 2:
            state[OPTIMIZER] = descent(kit, other, 0.05)
            state[CRITERION] = lambda prediction, target: 4 * kit.loss(prediction, target)

    trainer = kit.trainer(tmp_path, callbacks=[swap])
    trainer.train(3, manager(), manager())
    first, second, third = trainer.state.history
    zero = float((np.concatenate([batch["label"] for batch in manager().epoch(0, 0, 1)]) ** 2).mean())
    assert [second["mse"], second["val_mse"]] == pytest.approx([zero] * 2, rel=1e-5)  # nothing was learned
    assert first["mse"] != second["mse"]
    assert third["val_mse"] < 4 * zero
    assert third["mse"] > zero  # four times a loss that has hardly fallen
    assert trainer.module is trainer.hook_state[MODEL] is other
    assert np.abs(kit.read(other)).max() > 0


@pytest.mark.parametrize("backend_name", BACKENDS[:2])
def test_another_network_without_an_optimizer_of_its_weights_is_refused(backend_name, tmp_path, manager):
    kit = build_kit(backend_name)

    @on_end_epoch
    def swap(state):
        state[MODEL] = kit.build()

    with pytest.raises(ConfigError, match=r"none of them is one of the"):
        kit.trainer(tmp_path, callbacks=[swap]).train(2, manager())


def test_of_several_losses_one_criterion_is_refused(tmp_path, manager):
    kit = build_kit("torch")

    @on_start_epoch
    def swap(state):
        state[CRITERION] = kit.loss

    losses = {"mse": kit.loss, "again": lambda prediction, target: kit.loss(prediction, target)}
    with pytest.raises(ConfigError, match=r"the trainer has the losses mse, again; set it to a dict of them"):
        kit.trainer(tmp_path, callbacks=[swap], losses=losses).train(2, manager())


# ---- what the steps show


def test_the_losses_and_metrics_of_a_step_are_its_metrics(kit, tmp_path, manager):
    seen = []

    @on_step_training
    @on_step_validation
    def look(state):
        seen.append({name: float(value) for name, value in state[METRICS].items()})

    metrics = {"twice": lambda target, prediction: 2 * kit.loss(prediction, target)}
    callbacks = [look, CSVLogger(tmp_path / "steps.csv", batch_granularity=True)]
    trainer = kit.trainer(tmp_path / "run", callbacks=callbacks, train_metrics=metrics)
    trainer.train(1, manager(), manager())
    assert [set(values) for values in seen] == [{"mse", "twice"}] * 3 + [{"val_mse"}] * 3
    sizes = np.array([4, 4, 2])
    for name, rows in (("mse", seen[:3]), ("twice", seen[:3]), ("val_mse", seen[3:])):
        mean = np.average([row[name] for row in rows], weights=sizes)
        assert trainer.state.history[0][name] == pytest.approx(mean, rel=1e-5)
    with (tmp_path / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mse"]) for row in rows[:3]] == pytest.approx([row["mse"] for row in seen[:3]], rel=1e-5)


def test_a_training_may_be_stopped_by_a_value_of_its_steps(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[EarlyStopping("mse", patience=1, min_delta=1e9, step_on_batch=True)])
    trainer.train(9, manager())
    assert trainer.state.epoch == 1  # an epoch of an experiment is always whole


# ---- what is tested


@on_sample
@on_sample_validation
def without_input(state):
    state[X] = state[X] * 0


def test_what_callbacks_make_of_batches_is_what_a_fold_is_tested_on(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, callbacks=[without_input])
    outputs, _ = experiment.kfold(manager(), num_splits=2)
    assert all((fold["pred"] == 0).all() for fold in outputs.values())


def test_callbacks_know_that_a_fold_is_tested(kit, tmp_path, manager):
    seen = []

    @on_end_validation
    @on_end_epoch
    def look(state):
        if state[PHASE] != "fit":
            seen.append((state[PHASE], state[DATA], state[keys.EPOCH], dict(state[METRICS])))

    metrics = {"mae": lambda target, prediction: abs(target - prediction).mean()}
    experiment = kit.experiment(tmp_path)
    _, found = experiment.kfold(manager(), metrics, num_splits=2, callbacks=[look])
    tested = [{"test_mae": pytest.approx(float(np.mean(fold["mae"])))} for fold in found.values()]
    assert [row[:3] for row in seen] == [("evaluate", TEST_DATA, 0)] * 4
    assert [row[3] for row in seen] == [values for values in tested for _ in range(2)]


@pytest.mark.parametrize("backend_name", BACKENDS)
def test_a_network_that_takes_entries_of_the_state_is_cross_validated(backend_name, tmp_path, manager):
    kit = build_kit(backend_name)
    method = {"torch": "forward", "tensorflow": "call", "jax": "__call__"}[backend_name]
    base = getattr(kit.network, method)
    cls = type("TakesEntries", (kit.network,), {method: lambda self, x: base(self, x["x"])})
    outputs = []
    for network, callbacks in ((cls, [UnpackState([X])]), (kit.network, [])):
        experiment = kit.experiment(tmp_path / network.__name__, cls=network, callbacks=callbacks)
        outputs.append(experiment.kfold(manager(), num_splits=2)[0])
    for one, other in zip(*(fold.values() for fold in outputs), strict=True):
        np.testing.assert_allclose(one["pred"], other["pred"], rtol=1e-5)


# ---- the objective alone, without a trainer


@pytest.fixture
def objective(kit):
    return Parts(kit).objective


def test_the_state_shows_what_the_run_works_with(kit):
    parts = Parts(kit)
    facts = parts.run.hook_state
    assert facts[keys.SELF] is SHOWN
    assert facts[keys.MODEL] is parts.run.network
    assert facts[keys.CRITERION] is parts.run.config.losses
    assert facts[keys.CALLBACK_LIST] is parts.run.callbacks
    assert not isinstance(facts[keys.OPTIMIZER], dict), "there is one"


INPUTS = {"one": {"x": "data"}, "two": {"x": "data", "mask": "area"}}
BATCHES = {
    "one": {"data": 1, "label": 2},
    "two": {"data": 1, "area": 3, "label": 2},
    "more": {"data": 1, "area": 3, "label": 2, "number": 4},
}


@pytest.mark.parametrize(
    ("mapping", "batch"), [("one", "one"), ("one", "two"), ("one", "more"), ("two", "two"), ("two", "more")]
)
def test_a_batch_that_is_divided_and_joined_is_the_same(objective, mapping, batch):
    objective.run.key_mapping, batch = INPUTS[mapping], BATCHES[batch]
    step = Step(None, dict(batch))
    objective.show_on_sample(step)
    assert (objective.run.hook_state[keys.X], objective.run.hook_state[keys.Y_TRUE]) == objective.divided(batch)
    objective.take_on_sample(step)
    assert step.batch == batch
    assert objective.batch_of(objective.divided(batch)[0]) == {key: batch[key] for key in INPUTS[mapping].values()}


def test_what_callbacks_make_of_the_parts_is_in_the_batch(objective):
    objective.run.key_mapping = INPUTS["one"]
    step = Step(None, {"data": 1, "label": 2})
    objective.show_on_sample(step)
    objective.run.hook_state[keys.X], objective.run.hook_state[keys.Y_TRUE] = 10, 20
    objective.take_on_sample(step)
    assert step.batch == {"data": 10, "label": 20}


@pytest.mark.parametrize("predictions", [{"pred": 1}, {"pred": 1, "wide": 2}])
def test_predictions_that_are_shown_and_taken_are_the_same(objective, predictions):
    step = Step(None, {}, dict(predictions))
    objective.show_on_forward(step)
    assert objective.run.hook_state[keys.Y_PRED] == single(predictions)
    objective.take_on_forward(step)
    assert step.predictions == predictions


def test_a_loss_that_callbacks_change_is_a_further_loss(objective):
    step = Step(None, {}, losses={"mse": 2.0, "other": 3.0})
    objective.show_on_criterion(step)
    assert objective.run.hook_state[keys.LOSS] == 5.0
    objective.take_on_criterion(step)
    assert step.losses == {"mse": 2.0, "other": 3.0}
    objective.run.hook_state[keys.LOSS] = objective.run.hook_state[keys.LOSS] + 0.5
    objective.take_on_criterion(step)
    assert step.losses == {"mse": 2.0, "other": 3.0, "added": 0.5}


def test_a_loss_that_is_added_to_in_place_is_a_further_loss_too():
    torch = pytest.importorskip("torch")
    objective = Parts(build_kit("torch")).objective
    step = Step(None, {}, losses={"mse": torch.tensor(2.0)})
    objective.show_on_criterion(step)
    objective.run.hook_state[keys.LOSS] += 1
    objective.take_on_criterion(step)
    assert float(step.losses["added"]) == 1.0
    assert float(step.losses["mse"]) == 2.0


def test_gradients_that_callbacks_leave_out_stay(objective):
    step = Step(None, {}, gradients={"a": 1, "b": 2})
    objective.show_on_backward(step)
    objective.run.hook_state[keys.GRADIENTS] = {"a": 5}
    objective.take_on_backward(step)
    assert step.gradients == {"a": 5, "b": 2}


def test_after_a_step_the_state_has_values_and_no_gradients(objective):
    facts = objective.run.hook_state
    facts[keys.GRADIENTS] = {}
    objective.after_step({"data": 1, "label": 2}, ({"mae": 3.0}, {"mse": 2.0}, {"pred": 4}), {"carried": 5})
    assert (facts[keys.X], facts[keys.Y_TRUE], facts[keys.Y_PRED], facts[keys.LOSS]) == (1, 2, 4, 2.0)
    assert facts[keys.METRICS] == {"mse": 2.0, "mae": 3.0}
    assert facts["carried"] == 5
    assert keys.GRADIENTS not in facts


def test_a_pass_begins_without_values_and_ends_with_those_that_callbacks_left(objective):
    objective.begin_pass(keys.TRAIN_DATA, [1, 2, 3])
    facts = objective.run.hook_state
    assert (facts[keys.DATA], facts[keys.STEPS], facts[keys.METRICS]) == (keys.TRAIN_DATA, 3, {})
    objective.end_pass({"mse": 1.0}, "on_end_training")
    facts[keys.METRICS] = {**facts[keys.METRICS], "mine": 2.0}
    assert objective.recorded() == {"mse": 1.0, "mine": 2.0}


def test_one_criterion_takes_the_name_of_the_one_loss(objective):
    objective.set_criterion(abs)
    assert objective.run.config.losses == {"mse": abs}
    objective.set_criterion({"a": abs, "b": max})
    assert objective.run.config.losses == {"a": abs, "b": max}
    with pytest.raises(ConfigError, match="the trainer has the losses a, b"):
        objective.set_criterion(abs)


def test_a_network_without_its_methods_is_refused(objective):
    with pytest.raises(NetworkError, match="object has no closure"):
        objective.methods_of(object())


def test_an_experiment_goes_through_all_of_its_data_and_takes_no_network_itself():
    objective = Objective()
    assert not objective.takes_network(object())
    assert not objective.is_enough()
    assert objective.may_look_ahead()
    assert (objective.arguments, objective.kept_values(), objective.kept_place()) == ({}, {}, {})
