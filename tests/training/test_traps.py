"""Traps that a reviewer fell into: what went wrong silently, or late, and must not again."""

import contextlib
import copy
import json
import logging
import pathlib
import threading
import zipfile

import numpy as np
import pytest
from small_rooms import checkpoint_names

import delira.io.checkpoint
from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, DataError, MissingKeyError, NetworkError
from delira.experiments.splits import SplitConfig, Splitter
from delira.runs.folder import RunFolder
from delira.training.callbacks import AbstractCallback


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class InterruptOnce:
    """Ends a run in one step of one epoch, the first time that it comes by."""

    def __init__(self, epoch, iter_num=1, fold=0):
        self.place = (fold, epoch, iter_num)

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        if (trainer.fold, curr_epoch, iter_num) == self.place:
            self.place = None
            raise Interrupted(f"in epoch {curr_epoch}, step {iter_num}")


class Counting(AbstractCallback):
    """A callback with a state."""

    def __init__(self):
        self.epochs = []

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        self.epochs = [*self.epochs, curr_epoch]

    def state_dict(self):
        return {"epochs": self.epochs}

    def load_state_dict(self, state):
        self.epochs = list(state["epochs"])


def mae(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def apart(y_true, y_pred):
    """No number: one for each sample."""
    return np.abs(y_true - y_pred).ravel()


def content(trainer, name):
    return trainer.load_state(trainer.checkpoints.path(name))


def events(folder):
    return [json.loads(line)["event"] for line in (folder / "ledger.jsonl").read_text().splitlines()]


def scored(room, path, scores, dropout=0.4, **settings):
    """A trainer whose validation score in epoch n is ``scores[n - 1]``, however often it was broken off."""
    trainers = []

    def score(y_true, y_pred):
        return scores[trainers[0].state.epoch]

    settings = {"val_score_key": "score", "val_score_mode": "highest", "save_freq": 1, **settings}
    trainers.append(room.trainer(path, room.build(dropout=dropout), val_metrics={"score": score}, **settings))
    return trainers[0]


@contextlib.contextmanager
def crash_at_publication(number):
    """Scope in which the process dies before the file of this number, counted from 0, has its name."""
    published = []

    def dying(publish):
        def publish_or_die(*args, **kwargs):
            if len(published) == number:
                raise Interrupted(f"before publication {number}")
            published.append(args)
            return publish(*args, **kwargs)

        return publish_or_die

    with pytest.MonkeyPatch.context() as patch:
        for name in ("publish", "publish_link"):
            patch.setattr(delira.io.checkpoint, name, dying(getattr(delira.io.checkpoint, name)))
        yield


def returning(room, convert):
    """A network whose outputs went through ``convert``."""

    class Other(room.network):
        def __call__(self, x):
            return convert(super().__call__(x))

    return room.build(cls=Other)


# ---- a crash between two names of one checkpoint


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("save_freq", "number"), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (None, 0), (None, 1)])
def test_a_crash_between_the_names_of_the_best_checkpoint_loses_no_best_weights(
    room, tmp_path, manager, save_freq, number
):
    scores = [2, 1, 3, 0]
    unbroken = scored(room, tmp_path / "unbroken", scores, save_freq=save_freq)
    expected = room.read(unbroken.train(4, manager(), manager(7)))
    assert unbroken.state.best_epoch == 3
    scored(room, tmp_path / "broken", scores, save_freq=save_freq).train(2, manager(), manager(7))
    broken = scored(room, tmp_path / "broken", scores, save_freq=save_freq)
    number *= 1 + len(broken.checkpoints.beside)
    with crash_at_publication(number), pytest.raises(Interrupted, match=f"before publication {number}"):
        broken.train(4, manager(), manager(7))
    assert broken.state.epoch == 3
    resumed = scored(room, tmp_path / "broken", scores, save_freq=save_freq)
    assert resumed.state.epoch == (3 if number else 2)
    assert room.same(room.read(resumed.train(4, manager(), manager(7))), expected)
    assert room.same(content(resumed, "best"), content(unbroken, "best"))
    assert room.same(content(resumed, "last"), content(unbroken, "last"))


def test_no_checkpoint_says_that_its_epoch_is_the_best_before_best_is_that_epoch(room, tmp_path, manager):
    scores = [2, 1, 3]
    scored(room, tmp_path, scores).train(2, manager(), manager(7))
    with crash_at_publication(1), pytest.raises(Interrupted, match="before publication 1"):
        scored(room, tmp_path, scores).train(3, manager(), manager(7))
    folder = scored(room, tmp_path, scores).checkpoints
    for path in folder.folder.glob(f"*{folder.suffix}"):
        tree = folder.load(path)
        if tree["state"]["best_epoch"] == 3:
            assert folder.load(folder.best())["epoch"] == 3


def test_after_going_back_to_an_older_checkpoint_the_best_weights_are_of_its_own_past(room, tmp_path, manager, caplog):
    for save_freq in (1, 2):
        path = tmp_path / str(save_freq)
        trainer = scored(room, path, [2, 1, 3, 0], save_freq=save_freq)
        trainer.train(4, manager(), manager(7))
        trainer.update_state(trainer.checkpoints.path("epoch_2"))
        network = trainer.train(2, manager(), manager(7))
        kept = content(trainer, "epoch_1" if save_freq == 1 else "epoch_2")
        assert room.same(kept["model"], room.backend.checkpoints.state_tree(network, {})["model"])
    (record,) = caplog.records  # epoch 1 was kept once only
    assert "the checkpoint of the best epoch, 1, is not in" in record.getMessage()


# ---- going on after an exception


@pytest.mark.sampled("values")
@pytest.mark.parametrize("best", [1, 2])
def test_after_an_exception_inside_an_epoch_the_same_trainer_goes_on_as_if_unbroken(room, tmp_path, manager, best):
    scores = [0, 0, 0, 0]
    scores[best - 1] = 1
    unbroken = scored(room, tmp_path / "unbroken", scores, callbacks=[Counting()])
    expected = room.read(unbroken.train(4, manager(), manager(7)))
    broken = scored(room, tmp_path / "broken", scores, callbacks=[Counting(), InterruptOnce(3)])
    with pytest.raises(Interrupted, match="in epoch 3, step 1"):
        broken.train(4, manager(), manager(7))
    assert room.same(room.read(broken.train(4, manager(), manager(7))), expected)
    assert room.same(content(broken, "last"), content(unbroken, "last"))
    assert broken.state.history == unbroken.state.history


def test_a_broken_epoch_without_any_checkpoint_cannot_be_taken_back(room, tmp_path, manager):
    trainer = room.trainer(tmp_path, save_freq=1, callbacks=[InterruptOnce(1)])
    with pytest.raises(Interrupted, match="in epoch 1, step 1"):
        trainer.train(2, manager())
    steps = trainer.state.global_step
    with pytest.raises(CheckpointError, match="an epoch was broken off and there is no checkpoint to go back to"):
        trainer.train(2, manager())
    assert trainer.state.global_step == steps


# ---- what can be kept in a checkpoint


def test_a_callback_that_keeps_a_path_is_refused_at_the_first_checkpoint_and_nothing_is_half_written(
    room, tmp_path, manager
):
    class Remembers(Counting):
        def state_dict(self):
            return {"files": [pathlib.Path("somewhere")]}

    trainer = room.trainer(tmp_path, save_freq=1, callbacks=[Remembers()])
    match = r"entry /?state/callbacks/Remembers/files/0 is a \w*Path, which cannot be stored safely"
    with pytest.raises(CheckpointError, match=match):
        trainer.train(3, manager())
    assert trainer.state.epoch == 1
    assert checkpoint_names(trainer) == []


def test_a_damaged_checkpoint_is_left_out_and_a_complete_one_that_cannot_be_read_is_an_error(room, tmp_path, manager):
    trainer = room.trainer(tmp_path, save_freq=1)
    trainer.train(2, manager())
    last = trainer.checkpoints.path("last")
    last.unlink()
    last.write_bytes(b"half of a checkpoint")
    trainer.checkpoints.path("epoch_2").unlink()
    with pytest.warns(RuntimeWarning, match="is set aside as .* and an earlier checkpoint is looked for"):
        assert room.trainer(tmp_path).state.epoch == 1
    with zipfile.ZipFile(last, "w") as archive:
        archive.writestr("something else", "complete, but no checkpoint")
    with pytest.raises(CheckpointError, match=r"checkpoint_last.* is not a readable checkpoint"):
        room.trainer(tmp_path)


# ---- one object in two places


class Weighted:
    """A loss with a factor that somebody may change."""

    def __init__(self, loss):
        self.loss, self.factor = loss, 1.0

    def __call__(self, prediction, target):
        return self.factor * self.loss(prediction, target)


class Anneal:
    """Switches a loss off after the first epoch."""

    def __init__(self, loss):
        self.loss = loss

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch > 1:
            self.loss.factor = 0.0


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("place", ["call", "experiment", "parameters"])
@pytest.mark.parametrize("method", ["run", "kfold"])
def test_a_callback_that_holds_a_loss_changes_the_very_loss_that_is_trained(room, tmp_path, manager, place, method):
    loss = Weighted(room.loss)
    losses, callbacks = {"losses": {"ce": loss}}, {"callbacks": [Anneal(loss)]}
    plain = {"compiled": False}  # a compiled step keeps the factor it was traced with
    experiment = {
        "call": lambda: room.experiment(tmp_path, training=plain),
        "experiment": lambda: room.experiment(tmp_path, **losses, callbacks=callbacks["callbacks"], training=plain),
        "parameters": lambda: room.experiment(tmp_path, training={**losses, **plain}),
    }[place]()
    given = {"call": {**losses, **callbacks}, "experiment": {}, "parameters": callbacks}[place]
    if method == "run":
        experiment.run(manager(), **given)
        histories = [experiment.last_trainer.state.history]
    else:
        histories = [fold.history for fold in experiment.kfold(manager(), {"mae": mae}, num_splits=2, **given).folds]
    for history in histories:  # every fold begins with the loss switched on
        assert [record["ce"] > 0 for record in history] == [True, False]
    assert loss.factor == 1


@pytest.mark.parametrize("method", ["run", "kfold"])
def test_what_cannot_be_copied_for_a_run_of_its_own_is_refused(room, tmp_path, manager, method):
    class Writes(Counting):
        def __init__(self, file):
            super().__init__()
            self.file = file

    experiment = room.experiment(tmp_path / "runs")
    with open(tmp_path / "notes.txt", "w") as file:
        match = "callbacks cannot be copied for a run of their own: .*no open files or locks"
        with pytest.raises(ConfigError, match=match):
            getattr(experiment, method)(manager(), callbacks=[Writes(file)])
    assert list(experiment.save_path.iterdir()) == []


# ---- outputs and targets of one name


def test_an_output_with_the_name_of_a_target_is_refused_before_the_first_step(room, tmp_path, manager):
    network = returning(room, lambda outputs: {**outputs, "label": outputs["pred"]})
    trainer = room.trainer(tmp_path, network)
    match = "loss 'mse' reads 'label', which is both in the batch and in what the network returned"
    with pytest.raises(NetworkError, match=match):
        trainer.train(1, manager())
    assert trainer.state.global_step == 0
    room.trainer(tmp_path / "apart", network, loss_keys={"mse": ("pred", "target")}).train(
        1, manager(more={"target": np.ones((10, 1))})
    )  # nobody reads it


# ---- continuing something else


def test_a_cross_validation_cannot_be_continued_by_a_run(room, tmp_path, manager):
    experiment = room.experiment(tmp_path)
    folder = experiment.kfold(manager(), {"mae": mae}, num_splits=2).path
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in (folder, folder / "fold_00"):
        with pytest.raises(ConfigError, match="holds a kfold and cannot be continued by a run"):
            experiment.run(manager(), resume=path)
        with pytest.raises(ConfigError, match="holds a kfold and cannot be continued by a run"):
            experiment.resume(path, manager())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_run_cannot_be_continued_by_a_cross_validation(room, tmp_path, manager):
    experiment = room.experiment(tmp_path)
    experiment.run(manager())
    with pytest.raises(ConfigError, match="holds a run and cannot be continued by a kfold"):
        experiment.kfold(manager(), {"mae": mae}, num_splits=2, resume=experiment.last_trainer.save_path.parent)


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("what", "data", "settings"),
    [
        ("data", {"seed": 8}, {}),
        ("data", {"n": 11}, {}),
        ("batches", {"batch_size": 3}, {}),
        ("batches", {"transforms": copy.copy}, {}),
        ("parameters", {}, {"optimizer_params": {"lr": 0.2}}),
        ("parameters", {}, {"seed": 1}),
        ("fold", {}, {"fold": 1}),
        ("parameters and data", {"seed": 8}, {"val_freq": 2}),
    ],
)
def test_a_run_is_continued_only_with_what_it_began_with(room, tmp_path, manager, what, data, settings):
    experiment = room.experiment(tmp_path)
    experiment.run(manager())
    folder = experiment.last_trainer.save_path.parent
    before = (folder / "ledger.jsonl").read_bytes()
    with pytest.raises(ConfigError, match=f"the run in .* cannot be continued: its {what} differ from"):
        experiment.run(manager(**data), resume=folder, **settings)
    with pytest.raises(ConfigError, match=f"the run in .* cannot be continued: its {what} differ from"):
        experiment.resume(folder, manager(**data), **settings)
    assert (folder / "ledger.jsonl").read_bytes() == before
    experiment.resume(folder, manager(), num_epochs=3, verbose=False, save_freq=2)  # these change no number
    assert len(experiment.last_trainer.state.history) == 3


def shifted(batch):
    return {**batch, "data": batch["data"] + 1}


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("data", "settings", "match"),
    [
        ({"batch_size": 3}, {}, "its batches differ"),
        ({"transforms": shifted}, {}, "its batches differ"),
        ({}, {"train_kwargs": {"transforms": shifted}}, "its batches differ"),
        ({}, {"test_kwargs": {"batch_size": 3}}, "its batches differ"),
        ({}, {"random_seed": 3, "shuffle": True}, "its parameters and splits differ"),
        ({}, {"num_epochs": 1}, "fold 0 was trained for 2 epochs already, more than num_epochs=1"),
    ],
)
def test_a_cross_validation_is_continued_only_with_what_it_began_with(room, tmp_path, manager, data, settings, match):
    experiment = room.experiment(tmp_path, training={"save_freq": 1})
    with pytest.raises(Interrupted, match="in epoch 1, step 0"):
        experiment.kfold(manager(), {"mae": mae}, num_splits=2, callbacks=[InterruptOnce(1, 0, fold=1)])
    (folder,) = experiment.save_path.iterdir()
    weights = [path.read_bytes() for path in sorted(folder.glob("fold_*/checkpoints/*"))]
    with pytest.raises(ConfigError, match=match):
        experiment.kfold(manager(**data), {"mae": mae}, num_splits=2, resume=folder, **settings)
    assert [path.read_bytes() for path in sorted(folder.glob("fold_*/checkpoints/*"))] == weights
    assert experiment.kfold(manager(), {"mae": mae}, num_splits=2, resume=folder).path == folder


class Louder:
    """A transform that does more at each call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, batch):
        self.calls += 1
        return {**batch, "data": batch["data"] + 0.1 * self.calls}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("where", ["manager", "train_kwargs"])
def test_transforms_that_keep_a_state_begin_anew_in_each_cross_validation_and_run(room, tmp_path, manager, where):
    louder = Louder()
    data = manager(transforms=louder) if where == "manager" else manager()
    changes = {"train_kwargs": {"transforms": louder}} if where == "train_kwargs" else {}
    experiment = room.experiment(tmp_path)
    first, second = (experiment.kfold(data, {"mae": mae}, num_splits=2, **changes) for _ in range(2))
    assert room.same(first.oof.predictions, second.oof.predictions)
    assert [fold.history for fold in first.folds] == [fold.history for fold in second.folds]
    assert room.same(*(room.read(experiment.run(data)) for _ in range(2)))
    assert louder.calls == 0


# ---- another score, or none


def test_another_score_begins_without_the_best_of_the_old_one(room, tmp_path, manager):
    scores = {"first": [9, 8, 7, 6], "second": [1, 1, 5, 4]}
    trainers = []
    metrics = {name: lambda t, p, each=each: each[trainers[0].state.epoch] for name, each in scores.items()}
    trainers.append(room.trainer(tmp_path, val_metrics=metrics, save_freq=1))
    (trainer,) = trainers
    trainer.train(2, manager(), manager(7), "first", "highest")
    assert (trainer.state.best_epoch, trainer.state.best_score) == (1, 9)
    network = trainer.train(4, manager(), manager(7), "second", "highest")
    assert (trainer.state.best_epoch, trainer.state.best_score) == (3, 5)
    assert room.same(content(trainer, "epoch_3")["model"], room.backend.checkpoints.state_tree(network, {})["model"])


def test_the_other_direction_is_another_score(room, tmp_path, manager):
    trainer = scored(room, tmp_path, [5, 4, 7, 6])
    trainer.train(2, manager(), manager(7))
    trainer.train(4, manager(), manager(7), val_score_mode="lowest")
    assert (trainer.state.best_epoch, trainer.state.best_score) == (4, 6)


def test_training_without_validation_after_one_with_it_keeps_the_last_weights(room, tmp_path, manager):
    trainer = scored(room, tmp_path, [2, 1, 0], val_score_key=None)
    trainer.train(2, manager(), manager(7), "score")
    assert trainer.state.best_epoch == 1
    network = trainer.train(2, manager())  # nothing is left to do
    assert room.same(content(trainer, "epoch_2")["model"], room.backend.checkpoints.state_tree(network, {})["model"])
    network = trainer.train(3, manager())
    assert room.same(content(trainer, "epoch_3")["model"], room.backend.checkpoints.state_tree(network, {})["model"])
    unbroken = scored(room, tmp_path / "unbroken", [2, 1, 0], val_score_key=None)
    assert room.same(room.read(network), room.read(unbroken.train(3, manager())))


def test_a_stopped_training_that_is_asked_for_more_says_that_nothing_is_done(room, tmp_path, manager, caplog):
    class Stop:
        def at_epoch_end(self, trainer, **facts):
            trainer.stop_training = True

    room.trainer(tmp_path, callbacks=[Stop()]).train(3, manager())
    resumed = room.trainer(tmp_path)
    with caplog.at_level(logging.WARNING, logger="delira"):
        resumed.train(1, manager())
        assert not caplog.records
        resumed.train(3, manager())
    assert resumed.state.epoch == 1
    (record,) = caplog.records
    assert "training was stopped after epoch 1 of 3, so there is nothing to do" in record.getMessage()
    assert "trainer.stop_training = False" in record.getMessage()
    resumed.stop_training = False
    resumed.train(3, manager())
    assert resumed.state.epoch == 3


# ---- parameters of a call


def test_an_entry_of_a_call_replaces_one_that_the_experiment_has_as_variable(room, tmp_path, manager):
    params = {
        "fixed": {"training": {**room.settings, "save_freq": None}},
        "variable": {
            "model": {"n_features": 3},
            "training": {"num_epochs": 3, "optimizer_params": {"lr": 0.3}, "log_freq": 7},
        },
    }
    experiment = room.experiment_cls(params, room.network, save_path=tmp_path)
    before = copy.deepcopy(experiment.params)
    experiment.run(manager(), params={"training": {"num_epochs": 1}})
    assert experiment.last_trainer.state.epoch == 1
    assert experiment.last_trainer.config.logging.freq == 7
    experiment.run(manager(), params={"training": {"optimizer_params": {"lr": 0.2}}})
    assert experiment.last_trainer.config.optimizer.params["lr"] == 0.2
    network = experiment.run(manager(n_features=2), params={"model": {"n_features": 2}})
    assert room.read(network).shape == (2, 1)
    result = experiment.kfold(manager(), {"mae": mae}, num_splits=2, params={"training": {"num_epochs": 1}})
    assert [len(fold.history) for fold in result.folds] == [1, 1]
    assert experiment.params == before


# ---- splits


@pytest.mark.parametrize("part", [0.7, 0.4, 0.15, 0.05])
def test_a_grouped_and_stratified_validation_part_comes_close_to_the_share_that_was_asked_for(part):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(120), rng.integers(1, 4, size=120))
    classes = (rng.random(120) < 0.4).astype(np.int64)[groups]
    dataset = BaseDataManager({"data": np.zeros((len(groups), 1)), "label": classes, "patient": groups}).dataset
    config = SplitConfig(num_splits=3, split_type="stratified", groups_key="patient", val_split=part, shuffle=True)
    for split in Splitter(dataset, config, 0):
        sides = [set(groups[indices]) for indices in (split.train, split.val, split.test)]
        assert len(set.union(*sides)) == sum(map(len, sides)) == 120
        assert len(split.val) / (len(split.val) + len(split.train)) == pytest.approx(part, abs=0.05)
        assert classes[split.val].mean() == pytest.approx(classes.mean(), abs=0.15)


# ---- names that write over each other


@pytest.mark.parametrize("setting", ["losses", "train_metrics", "val_metrics", "metrics"])
def test_nothing_may_have_the_name_of_the_epoch_s_number(room, tmp_path, setting):
    with pytest.raises(ConfigError, match=f"{setting} names 'epoch', which is the number of the epoch"):
        room.trainer(tmp_path, **{setting: {"epoch": mae}})


def test_two_spellings_of_one_validation_metric_are_refused(room, tmp_path):
    for settings in (
        {"val_metrics": {"acc": mae, "val_acc": mae}},
        {"metrics": {"acc": mae}, "val_metrics": {"val_acc": mae}},
    ):
        with pytest.raises(ConfigError, match="val_metrics has 'acc' and 'val_acc', which mean the same"):
            room.trainer(tmp_path, **settings)


@pytest.mark.parametrize("name", ["losses", "model", "data_dict", "optimizers", "fold", "hooks"])
def test_an_extra_of_the_closure_may_not_replace_what_it_is_given_anyway(room, tmp_path, name):
    with pytest.raises(ConfigError, match=f"extra names '{name}', which a closure is given anyway"):
        room.trainer(tmp_path, extra={name: 1})


@pytest.mark.parametrize(
    ("metrics", "losses", "match"),
    [
        (["mse"], ["mse"], "closure returned 'mse' as a metric and as a loss"),
        (["epoch"], ["mse"], "closure returned a value called 'epoch'"),
        (["mae"], ["epoch"], "closure returned a value called 'epoch'"),
    ],
)
def test_values_of_a_closure_that_would_write_over_each_other_are_refused(
    room, tmp_path, manager, metrics, losses, match
):
    class Net(room.network):
        @staticmethod
        def closure(model, data_dict, **kwargs):
            return dict.fromkeys(metrics, 1.0), dict.fromkeys(losses, 1.0), {}

    trainer = room.trainer(tmp_path, room.build(cls=Net), save_freq=1)
    with pytest.raises(NetworkError, match=match):
        trainer.train(1, manager())
    assert not trainer.checkpoints.folder.exists()


# ---- losses and metrics that cannot work


def test_an_error_of_a_loss_names_the_loss_and_what_it_read(room, tmp_path, manager):
    def broken(prediction, target):
        raise ArithmeticError("by zero")

    trainer = room.trainer(tmp_path, losses={"mse": room.loss, "other": broken})
    with pytest.raises(ArithmeticError, match="by zero") as caught:
        trainer.train(1, manager())
    note = next(note for note in caught.value.__notes__ if note.startswith("while loss 'other' read "))
    assert note.count("of shape (4, 1) and dtype") == 2
    assert trainer.state.global_step == 0


@pytest.mark.parametrize("setting", ["losses", "train_metrics", "val_metrics", "metrics"])
def test_a_class_in_place_of_an_instance_is_refused(room, tmp_path, setting):
    match = rf"{setting}\['w'\] is the class Weighted; pass an instance, Weighted\(\)"
    with pytest.raises(ConfigError, match=match):
        room.trainer(tmp_path, **{setting: {"w": Weighted}})


@pytest.mark.parametrize("value", [None, "0.5", (0.5, 0.5), [0.5], {"a": 0.5}, 0.5j, slice(2)], ids=repr)
def test_a_loss_that_is_no_number_is_refused_by_name_before_the_first_step(room, tmp_path, manager, value):
    network = room.build()
    before = room.read(network)
    trainer = room.trainer(tmp_path, network, losses={"odd": lambda prediction, target: value})
    with pytest.raises(NetworkError, match=r"loss '?\(?odd'?\)?:? "):
        trainer.train(1, manager())
    assert room.same(room.read(network), before)


def test_a_loss_that_is_not_reduced_is_refused_before_the_first_step(room, tmp_path, manager):
    network = room.build()
    before = room.read(network)
    trainer = room.trainer(tmp_path, network, losses={"apart": lambda prediction, target: (prediction - target) ** 2})
    with pytest.raises(NetworkError, match=r"loss 'apart': a loss or training metric has the shape \(4, 1\)"):
        trainer.train(1, manager())
    assert room.same(room.read(network), before)


@pytest.mark.parametrize("setting", ["val_metrics", "metrics"])
def test_a_metric_that_returns_an_array_is_refused_before_the_first_step(room, tmp_path, manager, setting):
    trainer = room.trainer(tmp_path, **{setting: {"apart": apart}})
    with pytest.raises(DataError, match=r"metric 'apart' returned an array of shape \(\d+,\)"):
        trainer.train(1, manager(), manager(7))
    assert trainer.state.global_step == 0


def test_a_test_metric_that_returns_an_array_is_refused_before_the_first_fold(room, tmp_path, manager):
    experiment = room.experiment(tmp_path)
    with pytest.raises(DataError, match=r"metric 'apart' returned an array of shape \(\d+,\)"):
        experiment.kfold(manager(), {"apart": apart}, num_splits=2)
    assert not list(experiment.save_path.glob("*/fold_*/checkpoints/*"))
    assert not list(experiment.save_path.glob("*/fold_*/history.csv"))


def test_a_key_mapping_that_is_no_dict_is_refused(room, tmp_path, manager):
    match = r"key_mapping must be a dict \{argument of the network: entry of the batch\}, got 'data'"
    with pytest.raises(ConfigError, match=match):
        room.trainer(tmp_path, key_mapping="data")
    with pytest.raises(ConfigError, match=match):
        room.experiment(tmp_path, key_mapping="data").run(manager())


# ---- a run that ends before its time


@pytest.mark.sampled("values")
@pytest.mark.parametrize("method", ["run", "kfold"])
def test_an_interrupted_run_says_how_it_is_continued_and_its_trainer_is_at_hand(room, tmp_path, manager, method):
    experiment = room.experiment(tmp_path, training={"save_freq": 1})
    begin = getattr(experiment, method)
    given = {"callbacks": [Counting(), InterruptOnce(2, 0)], **({"num_splits": 2} if method == "kfold" else {})}
    with pytest.raises(Interrupted, match="in epoch 2, step 0") as caught:
        begin(manager(), **given)
    (folder,) = experiment.save_path.iterdir()
    assert caught.value.__notes__[1:] == [f"The run can be continued from its last checkpoint: resume={str(folder)!r}"]
    assert events(folder)[-1] == "broken_off"
    assert "finished" not in events(folder)
    if method == "run":
        trainer = experiment.last_trainer
        assert trainer.save_path.parent == folder
        (counting,) = (callback for callback in trainer.callbacks if isinstance(callback, Counting))
        assert counting.epochs == [1]
        assert counting is not given["callbacks"][0]
    begin(manager(), resume=folder, **{**given, "callbacks": [Counting()]})
    assert events(folder)[-1] == "finished"
    if method == "run":
        (counting,) = (callback for callback in experiment.last_trainer.callbacks if isinstance(callback, Counting))
        assert counting.epochs == [1, 2]


def test_a_run_that_failed_before_its_first_checkpoint_promises_nothing(room, tmp_path, manager):
    experiment = room.experiment(tmp_path, training={"save_freq": 1})
    with pytest.raises(Interrupted, match="in epoch 1, step 1") as caught:
        experiment.run(manager(), callbacks=[InterruptOnce(1)])
    assert not any("can be continued" in note for note in caught.value.__notes__)
    (folder,) = experiment.save_path.iterdir()
    assert events(folder)[-1] == "broken_off"


# ---- names of experiments


def test_an_experiment_whose_name_is_a_path_keeps_its_folder_when_it_is_saved_and_loaded(room, tmp_path, manager):
    experiment = room.experiment(tmp_path, name="a/b")
    assert experiment.save_path == tmp_path / "a" / "b"
    loaded = room.experiment_cls.load(experiment.save(), {room.network.__qualname__: room.network})
    assert (loaded.name, loaded.save_path) == ("a/b", tmp_path / "a" / "b")
    again = room.experiment_cls.load(loaded.save())
    assert again.save_path == tmp_path / "a" / "b"


# ---- seen in the last reading


def test_a_ledger_that_cannot_be_written_does_not_hide_what_broke_the_run(room, tmp_path, manager, monkeypatch):
    class Break:
        def at_epoch_begin(self, trainer, **facts):
            monkeypatch.setattr(RunFolder, "log", fail)
            raise LookupError("mine")

    def fail(self, event, **facts):
        raise OSError("no space left")

    with pytest.raises(LookupError, match="mine"):
        room.experiment(tmp_path).run(manager(), callbacks=[Break()])


def test_the_page_says_that_the_splits_were_seeded_with_zero(room, tmp_path, manager):
    result = room.experiment(tmp_path).kfold(manager(), num_splits=2, num_epochs=1, shuffle=True, random_seed=0)
    assert "random_seed: 0" in result.info["settings"]
    assert "groups_key" not in result.info["settings"]


def test_a_metric_that_cannot_be_copied_is_not_tried_and_works_all_the_same(room, tmp_path, manager):
    class Locked:
        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, y_true, y_pred):
            with self.lock:
                return 1.0

    trainer = room.trainer(tmp_path, val_metrics={"locked": Locked()})
    trainer.train(1, manager(), manager(7))
    assert trainer.state.history[0]["val_locked"] == 1.0


def test_a_metric_without_its_entry_still_says_all_there_is(room, tmp_path, manager):
    predictor = room.experiment(tmp_path).setup(training=False, model=room.build())
    with pytest.raises(MissingKeyError, match=r"'mask'.*'data'.*'pred'"):
        predictor.evaluate(manager(), metrics={"m": lambda a, b: 0.0}, metric_keys={"m": ("mask", "pred")})
