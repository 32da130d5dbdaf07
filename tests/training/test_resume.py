"""The best epoch, the checkpoints, and going on from them: what was interrupted equals what was not."""

import csv
import json
import shutil
import warnings

import numpy as np
import pytest
from scripted import scripted
from small_backends import checkpoint_names

from delira.errors import CheckpointError, ConfigError
from delira.training.callbacks import AbstractCallback, EarlyStopping
from delira.utils.files import unsealed

pytestmark = pytest.mark.turns


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


class Weights:
    """Keeps the weight at the end of every epoch."""

    def __init__(self, kit):
        self.read, self.kept = kit.read, {}

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        self.kept[curr_epoch] = self.read(trainer.module)


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class Interrupt:
    """Ends the run inside an epoch, or at its end."""

    def __init__(self, epoch, event="at_iter_end"):
        self.epoch, self.event = epoch, event
        setattr(self, event, self.interrupt)

    def interrupt(self, trainer, *, curr_epoch, iter_num=1, **facts):
        if curr_epoch == self.epoch and iter_num == 1:
            raise Interrupted(f"in epoch {curr_epoch}")


def names(trainer):
    return checkpoint_names(trainer)


def content(trainer, name):
    return trainer.load_state(trainer.checkpoints.path(name))


# ---- the best epoch


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("key", ["score", "val_score"])
@pytest.mark.parametrize(
    ("mode", "scores", "best"),
    [
        ("lowest", (3, 1, 2), 2),
        ("min", (3, 1, 2), 2),
        ("highest", (3, 1, 2), 1),
        ("max", (3, 1, 4), 3),
        ("highest", (-3, -2, -5), 2),  # below zero
        ("highest", (0, 0, 0), 1),  # the first of equals
        ("lowest", (0, 0, 0), 1),
        ("lowest", (np.nan, 2, np.nan), 2),
        ("highest", (np.nan, -2, -1), 3),
    ],
)
def test_the_best_epoch_is_the_one_with_the_best_validation_score(kit, tmp_path, manager, key, mode, scores, best):
    weights = Weights(kit)
    trainer = kit.trainer(tmp_path, callbacks=[weights], val_metrics={"score": scripted(*scores)})
    network = trainer.train(3, manager(), manager(7), key, mode)
    assert (trainer.state.best_epoch, trainer.state.best_score) == (best, scores[best - 1])
    assert network is trainer.module
    assert kit.same(kit.read(network), weights.kept[best])
    assert content(trainer, "best")["epoch"] == best


def test_key_and_mode_may_be_settings_and_lowest_is_the_default(kit, tmp_path, manager):
    settings = {"val_metrics": {"score": scripted(2, 1, 3)}, "val_score_key": "score", "val_score_mode": "min"}
    trainer = kit.trainer(tmp_path / "a", **settings)
    trainer.train(3, manager(), manager(7))
    assert trainer.state.best_epoch == 2
    settings = {"val_metrics": {"score": scripted(2, 1, 3)}, "val_score_key": "score", "val_score_mode": "max"}
    trainer = kit.trainer(tmp_path / "b", **settings)
    trainer.train(3, manager(), manager(7))
    assert trainer.state.best_epoch == 3


@pytest.mark.parametrize("kind", ["loss", "metric"])
def test_the_score_is_never_a_training_value(kit, tmp_path, manager, regression, kind):
    held_out = regression(7)
    held_out["label"] = -held_out["label"]  # what is learned makes the validation worse
    trainer = kit.trainer(tmp_path, metrics={"rmse": rmse})
    trainer.train(4, manager(), [held_out], "mse" if kind == "loss" else "rmse", "min")
    name = "mse" if kind == "loss" else "rmse"
    trained, validated = ([record[key] for record in trainer.state.history] for key in (name, f"val_{name}"))
    assert np.argmin(trained) != np.argmin(validated)
    assert trainer.state.best_epoch == 1 + np.argmin(validated)
    assert trainer.state.best_score == min(validated)


def test_a_metric_of_the_training_alone_is_no_score(kit, tmp_path, manager):
    with pytest.raises(ConfigError, match="val_score_key='m' is neither a validation metric nor a loss"):
        kit.trainer(tmp_path, train_metrics={"m": rmse}, val_score_key="m")


def test_a_misspelt_score_is_refused_before_the_first_step(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, val_metrics={"accuracy": rmse})
    with pytest.raises(ConfigError, match=r"val_score_key='val_acuracy' is neither .*; did you mean '(val_)?accuracy'"):
        trainer.train(1, manager(), manager(7), "val_acuracy")
    with pytest.raises(ConfigError, match=r"val_score_mode must be one of .*, got 'upwards'"):
        trainer.train(1, manager(), manager(7), "accuracy", "upwards")
    assert trainer.state.global_step == 0


def test_a_loss_cannot_be_the_score_of_a_closure_written_by_hand(kit, tmp_path, manager):
    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {"mse": loss}, {"pred": pred}

    trainer = kit.trainer(tmp_path, kit.build(cls=Net), val_metrics={"rmse": rmse})
    with pytest.raises(ConfigError, match="val_score_key='mse' is a loss, but the network brings its own closure"):
        trainer.train(1, manager(), manager(7), "mse")
    trainer.train(1, manager(), manager(7), "rmse")
    assert trainer.state.best_epoch == 1


def test_only_validated_epochs_can_be_the_best(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, val_metrics={"score": scripted(2, 1)}, val_freq=2)
    trainer.train(5, manager(), manager(7), "score", "min")
    assert trainer.state.best_epoch == 4


def test_without_validation_data_the_score_is_ignored_with_one_warning(kit, tmp_path, manager):
    weights = Weights(kit)
    trainer = kit.trainer(tmp_path, callbacks=[weights], val_score_key="mse")
    with pytest.warns(UserWarning, match="val_score_key='mse' is ignored: there are no validation data") as caught:
        network = trainer.train(3, manager())
    assert len(caught) == 1
    assert trainer.state.best_epoch is None
    assert kit.same(kit.read(network), weights.kept[3])


def test_without_a_score_the_last_weights_are_kept(kit, tmp_path, manager):
    weights = Weights(kit)
    network = kit.trainer(tmp_path, callbacks=[weights]).train(2, manager(), manager(7))
    assert kit.same(kit.read(network), weights.kept[2])


def test_callbacks_are_told_which_epoch_is_the_best_so_far(kit, tmp_path, manager):
    seen = []

    class Look:
        def at_epoch_end(self, trainer, *, is_best, **facts):
            seen.append(is_best)

    trainer = kit.trainer(tmp_path, callbacks=[Look()], val_metrics={"score": scripted(3, 4, 2, 2, 1)})
    trainer.train(5, manager(), manager(7), "score", "min")
    assert seen == [True, False, True, False, True]


# ---- the files


@pytest.mark.parametrize(
    ("save_freq", "files"),
    [
        (1, ["best", "epoch_1", "epoch_2", "epoch_3", "epoch_4", "epoch_5", "last"]),
        (2, ["best", "epoch_2", "epoch_4", "last"]),
        (None, ["best", "last"]),
    ],
)
def test_save_freq_says_which_epochs_are_kept(kit, tmp_path, manager, save_freq, files):
    trainer = kit.trainer(tmp_path, save_freq=save_freq, val_metrics={"score": scripted(3, 1, 2, 2, 2)})
    trainer.train(5, manager(), manager(7), "score", "min")
    assert names(trainer) == files
    assert {name: content(trainer, name)["epoch"] for name in files} == {
        name: {"best": 2, "last": 5}.get(name) or int(name.removeprefix("epoch_")) for name in files
    }


def test_no_score_no_best_and_no_epoch_no_checkpoint(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=1)
    network = trainer.train(0, manager(), manager(7))
    assert kit.same(kit.read(network), kit.read(kit.build()))
    assert not trainer.checkpoints.folder.exists()
    trainer.train(1, manager(), manager(7))
    assert names(trainer) == ["epoch_1", "last"]


def test_best_and_last_are_the_bytes_of_their_epoch(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=1, val_metrics={"score": scripted(3, 1, 2)})
    trainer.train(3, manager(), manager(7), "score", "min")
    path = trainer.checkpoints.path
    assert path("best").read_bytes() == path("epoch_2").read_bytes()
    assert path("last").read_bytes() == path("epoch_3").read_bytes()
    assert path("best").read_bytes() != path("last").read_bytes()


def test_a_checkpoint_holds_model_optimizer_and_epoch(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    network = trainer.train(2, manager())
    tree = content(trainer, "last")
    assert tree["epoch"] == 2
    assert tree["optimizer"].keys() == {"default"}
    assert kit.same(kit.weight_in(tree["model"]), kit.read(network))
    if kit.name.startswith("torch"):
        torch = pytest.importorskip("torch")
        plain = torch.load(trainer.checkpoints.path("last"))
        assert {"model", "optimizer", "epoch"} <= plain.keys()
        network.load_state_dict(plain["model"])


def test_after_early_stopping_the_last_checkpoint_is_that_of_the_last_epoch(kit, tmp_path, manager):
    score = scripted(1, 2, 3, 4)
    trainer = kit.trainer(
        tmp_path, callbacks=[EarlyStopping("score", mode="min", patience=2)], val_metrics={"score": score}
    )
    trainer.train(9, manager(), manager(7), "score", "min")
    assert content(trainer, "last")["epoch"] == trainer.state.epoch == 3


# ---- going on with the same trainer


def test_num_epochs_is_the_total(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    trainer.train(2, manager())
    trainer.train(2, manager())
    trainer.train(1, manager())
    assert (trainer.state.epoch, trainer.state.global_step) == (2, 6)
    trainer.train(3, manager())
    assert (trainer.state.epoch, trainer.state.global_step) == (3, 9)


def test_a_further_train_goes_on_from_the_last_weights_and_not_from_the_best(kit, tmp_path, manager):
    def train(name, *epochs):
        score = scripted(1, 2, 3, 4, 5)  # the first epoch is the best
        trainer = kit.trainer(tmp_path / name, kit.build(dropout=0.4), val_metrics={"score": score}, **kit.halving())
        for number in epochs:
            network = trainer.train(number, manager(), manager(7), "score", "min")
        return kit.read(network), content(trainer, "last"), content(trainer, "best")

    unbroken = train("unbroken", 5)
    assert kit.same(unbroken, train("broken", 2, 3, 5))
    assert not kit.same(unbroken[1]["model"], unbroken[2]["model"])


@pytest.mark.sampled("values")
@pytest.mark.parametrize("event", ["at_iter_end", "at_epoch_begin", "at_epoch_end"])
def test_a_trainer_that_was_interrupted_goes_on_from_the_last_finished_epoch(kit, tmp_path, manager, event):
    def train(name, *callbacks):
        settings = kit.halving()
        settings["callbacks"] = [*settings.get("callbacks", ()), *callbacks]
        return kit.trainer(tmp_path / name, kit.build(dropout=0.4), save_freq=1, **settings)

    unbroken, broken = train("unbroken"), train("broken", Interrupt(3, event))
    unbroken.train(4, manager(), manager(7))
    with pytest.raises(Interrupted, match="in epoch 3"):
        broken.train(4, manager(), manager(7))
    for callback in broken.callbacks:
        if isinstance(callback, Interrupt):
            callback.epoch = None
    broken.train(4, manager(), manager(7))
    assert kit.same(content(unbroken, "last"), content(broken, "last"))


# ---- going on with another trainer


class Counting(AbstractCallback):
    """A callback with a state of numbers and arrays."""

    def __init__(self):
        self.values = np.zeros(0)

    def at_epoch_end(self, trainer, *, metrics, **facts):
        self.values = np.append(self.values, metrics["mse"])

    def state_dict(self):
        return {"values": self.values}

    def load_state_dict(self, state):
        self.values = state["values"]


def full_trainer(kit, path, *callbacks, **settings):
    """A trainer in which everything that can be lost on the way is used: dropout, momentum, schedule, callbacks."""
    halving = kit.halving()
    own = [*halving.pop("callbacks", ()), Counting(), EarlyStopping("val_mse", patience=50), *callbacks]
    settings = {"val_score_key": "mse", "save_freq": 1, **halving, **settings}
    return kit.trainer(path, kit.build(dropout=0.4), callbacks=own, **settings)


def read_history(folder):
    with open(folder / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = (folder / "history.jsonl").read_text().splitlines()
    records = [unsealed(json.loads(line)) for line in lines]
    return [{k: float(v) for k, v in row.items() if v != ""} for row in rows], records


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("broken_after", [1, 2, 4])
@pytest.mark.parametrize("how", ["finished", "interrupted in a step", "interrupted in an epoch's end"])
def test_a_resumed_run_equals_an_unbroken_one_bit_for_bit(kit, tmp_path, manager, how, broken_after):
    unbroken = full_trainer(kit, tmp_path / "unbroken")
    expected = kit.read(unbroken.train(5, manager(), manager(7)))
    if how == "finished":
        full_trainer(kit, tmp_path / "broken").train(broken_after, manager(), manager(7))
    else:
        event = "at_iter_end" if how == "interrupted in a step" else "at_epoch_end"
        broken = full_trainer(kit, tmp_path / "broken", Interrupt(broken_after + 1, event))
        with pytest.raises(Interrupted, match=f"in epoch {broken_after + 1}"):
            broken.train(5, manager(), manager(7))
    resumed = full_trainer(kit, tmp_path / "broken")
    assert resumed.state.epoch == broken_after
    assert kit.same(kit.read(resumed.train(5, manager(), manager(7))), expected)
    for name in ("best", "last", *(f"epoch_{number}" for number in range(1, 6))):
        assert kit.same(content(resumed, name), content(unbroken, name)), name
    assert kit.same(vars(resumed.state), vars(unbroken.state))
    schedules = {"tensorflow": "StepLRCallbackTf", "jax": "StepLRCallbackJax"}
    schedule = set() if kit.name == "toy" else {schedules.get(kit.name, "TorchSchedulerCallback")}
    assert resumed.state.callbacks.keys() >= {"Counting", "EarlyStopping"} | schedule
    assert read_history(tmp_path / "broken") == read_history(tmp_path / "unbroken")
    assert read_history(tmp_path / "broken") == (resumed.state.history, resumed.state.history)


def test_it_does_not_matter_what_the_new_network_was_initialised_with(kit, tmp_path, manager):
    kit.trainer(tmp_path / "a").train(1, manager())
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    other = kit.build()
    kit.write(other, np.full((3, 1), 9.0))
    first, second = kit.trainer(tmp_path / "a"), kit.trainer(tmp_path / "b", other)
    assert kit.same(kit.read(first.train(3, manager())), kit.read(second.train(3, manager())))


def test_the_best_score_survives_a_resume(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, val_metrics={"score": scripted(1, 5)})
    trainer.train(2, manager(), manager(7), "score", "min")
    best = trainer.checkpoints.path("best").read_bytes()
    resumed = kit.trainer(tmp_path, val_metrics={"score": scripted(4, 3)})
    network = resumed.train(4, manager(), manager(7), "score", "min")
    assert (resumed.state.best_epoch, resumed.state.best_score) == (1, 1)
    assert resumed.checkpoints.path("best").read_bytes() == best
    assert kit.same(content(resumed, "best")["model"], resumed.backend.checkpoints.state_tree(network, {})["model"])


def test_a_finished_run_that_is_resumed_does_no_step(kit, tmp_path, manager):
    trainer = full_trainer(kit, tmp_path)
    expected = kit.read(trainer.train(2, manager(), manager(7)))
    files = {path.name: path.read_bytes() for path in trainer.checkpoints.folder.iterdir()}

    class Forbidden:
        def at_epoch_begin(self, trainer, **facts):
            raise AssertionError("an epoch was begun")

    resumed = full_trainer(kit, tmp_path, Forbidden())
    assert kit.same(kit.read(resumed.train(2, manager(), manager(7))), expected)
    assert {path.name: path.read_bytes() for path in trainer.checkpoints.folder.iterdir()} == files
    assert read_history(tmp_path) == (trainer.state.history, trainer.state.history)


def test_the_history_is_cut_back_to_the_checkpoint(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=2, callbacks=[Interrupt(4)])
    with pytest.raises(Interrupted, match="in epoch 4"):
        trainer.train(6, manager())
    assert [record["epoch"] for record in read_history(tmp_path)[0]] == [1, 2, 3]
    seen = []

    class Look:
        def at_epoch_begin(self, trainer, **facts):
            seen.append([record["epoch"] for record in read_history(tmp_path)[1]])

    resumed = kit.trainer(tmp_path, save_freq=2, callbacks=[Look()])
    resumed.train(4, manager())
    assert seen == [[1, 2], [1, 2, 3]]
    assert read_history(tmp_path) == (resumed.state.history, resumed.state.history)


def damage(path, how):
    """Change a file in place: all of its names show the damage."""
    data = path.read_bytes()
    middle = len(data) // 2
    data = {
        "cut": data[:middle],
        "empty": b"",
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "text": b"not a checkpoint at all",
    }[how]
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(data)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("how", ["cut", "empty", "text", "flipped"])
def test_a_damaged_newest_checkpoint_is_left_out_with_a_warning(kit, tmp_path, manager, how):
    unbroken = full_trainer(kit, tmp_path / "unbroken")
    unbroken.train(4, manager(), manager(7))
    broken = full_trainer(kit, tmp_path / "broken")
    broken.train(3, manager(), manager(7))
    if how == "flipped":  # where the weights are
        data = broken.checkpoints.path("last").read_bytes()
        place = data.index(kit.weight_in(content(broken, "last")["model"]).tobytes())
        with open(broken.checkpoints.path("last"), "r+b") as file:
            file.seek(place)
            file.write(bytes([data[place] ^ 1]))
    else:
        damage(broken.checkpoints.path("last"), how)
    with pytest.warns(RuntimeWarning, match="it is (set aside as .*|left out) and an earlier checkpoint is looked for"):
        resumed = full_trainer(kit, tmp_path / "broken")
    assert resumed.state.epoch == 2
    resumed.train(4, manager(), manager(7))
    assert kit.same(content(resumed, "last"), content(unbroken, "last"))
    assert kit.same(content(resumed, "best"), content(unbroken, "best"))


def test_a_damaged_last_checkpoint_costs_nothing_where_its_epoch_is_kept_by_another_name(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=1)
    trainer.train(2, manager())
    trainer.checkpoints.path("last").unlink()
    trainer.checkpoints.path("last").write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match=r"checkpoint_last.* is not a complete checkpoint file"):
        assert kit.trainer(tmp_path).state.epoch == 2
    assert content(trainer, "last")["epoch"] == 2  # it has its name again


def test_files_that_are_no_checkpoints_do_not_disturb(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=1)
    trainer.train(1, manager())
    folder, suffix = trainer.checkpoints.folder, kit.backend.checkpoint_suffix
    for name in (f"checkpoint_epoch_x{suffix}", f"checkpoint_epoch_9{suffix}.bak", "notes.txt"):
        (folder / name).write_bytes(b"?")
    half = folder / f"checkpoint_epoch_2{suffix}.partial-0123abcd"
    half.write_bytes(b"half of it")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kit.trainer(tmp_path).state.epoch == 1
    assert not half.exists()


def test_a_checkpoint_of_another_network_is_refused_and_names_the_entries(kit, tmp_path, manager):
    kit.trainer(tmp_path).train(1, manager())
    other = kit.build(n_features=4)
    before = kit.read(other)
    message = rf"cannot continue from .*{kit.weight_name} has shape \(.*3.*\).* in the checkpoint"
    with pytest.raises(CheckpointError, match=message):
        kit.trainer(tmp_path, other)
    assert kit.same(kit.read(other), before)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("model", "{weight}"),
        ("optimizer", r"the checkpoint has no optimizer \['default'\]"),
        ("state", r"has the unknown entries \['telepathy'\]; it was written by a newer version of delira"),
    ],
)
def test_a_checkpoint_that_lacks_something_is_refused_and_nothing_changes(kit, tmp_path, manager, part, message):
    trainer = kit.trainer(tmp_path)
    trainer.train(1, manager())
    tree = content(trainer, "last")
    tree[part] = {**tree["state"], "telepathy": 1} if part == "state" else {}
    trainer.train(2, manager())
    before = kit.read(trainer.module)
    with open(trainer.checkpoints.path("odd"), "wb") as file:
        kit.backend.checkpoints.write(file, tree)
    with pytest.raises(CheckpointError, match=message.replace("{weight}", kit.weight_name)):
        trainer.update_state(trainer.checkpoints.path("odd"))
    assert kit.same(kit.read(trainer.module), before)
    assert trainer.state.epoch == 2


@pytest.mark.parametrize("other", [{"seed": 1}, {"fold": 1}])
def test_a_checkpoint_of_another_seed_or_fold_is_refused(kit, tmp_path, manager, other):
    kit.trainer(tmp_path).train(1, manager())
    with pytest.raises(CheckpointError, match="the checkpoint is of seed 0, fold 0, the trainer of seed"):
        kit.trainer(tmp_path, **other)


def test_start_epoch_numbers_the_first_epoch(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, start_epoch=3, save_freq=1)
    trainer.train(4, manager())
    assert [record["epoch"] for record in trainer.state.history] == [3, 4]
    assert names(trainer) == ["epoch_3", "epoch_4", "last"]


# ---- single files


def test_a_state_can_be_saved_loaded_and_taken_over(kit, tmp_path, manager):
    trainer = full_trainer(kit, tmp_path / "a")
    trainer.train(2, manager(), manager(7))
    trainer.update_state(trainer.checkpoints.path("last"))
    path = trainer.save_state(tmp_path / "mine")
    assert path == tmp_path / f"mine{kit.backend.checkpoint_suffix}"
    assert kit.same(trainer.load_state(tmp_path / "mine"), trainer.load_state(path))
    other = full_trainer(kit, tmp_path / "b")
    assert other.update_state(tmp_path / "mine") is other
    for each in (trainer, other):
        each.train(4, manager(), manager(7))
    assert kit.same(content(trainer, "last"), content(other, "last"))


def test_a_saved_state_may_be_given_another_epoch(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path / "a")
    trainer.train(2, manager())
    assert trainer.load_state(trainer.save_state(tmp_path / "mine", epoch=7))["epoch"] == 7


def test_a_file_of_model_optimizer_and_epoch_alone_can_be_continued(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path / "a")
    trainer.train(2, manager())
    tree = {name: value for name, value in content(trainer, "last").items() if name in ("model", "optimizer", "epoch")}
    with open(tmp_path / f"old{kit.backend.checkpoint_suffix}", "wb") as file:
        kit.backend.checkpoints.write(file, tree)
    other = kit.trainer(tmp_path / "b").update_state(tmp_path / "old")
    assert other.state.epoch == 2
    assert kit.same(kit.read(other.train(3, manager())), kit.read(trainer.train(3, manager())))


def test_a_file_that_cannot_be_loaded_is_named(kit, tmp_path):
    trainer = kit.trainer(tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"nothing.* is not a complete checkpoint file"):
        trainer.load_state(tmp_path / "nothing")
    path = trainer.save_state(tmp_path / "mine")
    damage(path, "cut")
    with pytest.raises(CheckpointError, match=r"mine.* is not a complete checkpoint file"):
        trainer.update_state(path)
