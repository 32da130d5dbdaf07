"""Another score, or none, in a further training: what is the best then."""

import pytest
from bare_parts import plan_of
from small_backends import build_kit
from test_checkpoints import content, scored

from delira.errors import ConfigError
from delira.settings.config import read_settings
from delira.training.run import Run, update_best


def test_another_score_begins_without_the_best_of_the_old_one(kit, tmp_path, manager):
    scores = {"first": [9, 8, 7, 6], "second": [1, 1, 5, 4]}
    trainers = []
    metrics = {name: lambda t, p, each=each: each[trainers[0].state.epoch] for name, each in scores.items()}
    trainers.append(kit.trainer(tmp_path, val_metrics=metrics, save_freq=1))
    (trainer,) = trainers
    trainer.train(2, manager(), manager(7), "first", "highest")
    assert (trainer.state.best_epoch, trainer.state.best_score) == (1, 9)
    network = trainer.train(4, manager(), manager(7), "second", "highest")
    assert (trainer.state.best_epoch, trainer.state.best_score) == (3, 5)
    assert kit.same(content(trainer, "epoch_3")["model"], kit.backend.checkpoints.state_tree(network, {})["model"])


def test_the_other_direction_is_another_score(kit, tmp_path, manager):
    trainer = scored(kit, tmp_path, [5, 4, 7, 6])
    trainer.train(2, manager(), manager(7))
    trainer.train(4, manager(), manager(7), val_score_mode="lowest")
    assert (trainer.state.best_epoch, trainer.state.best_score) == (4, 6)


def test_training_without_validation_after_one_with_it_keeps_the_last_weights(kit, tmp_path, manager):
    trainer = scored(kit, tmp_path, [2, 1, 0], val_score_key=None)
    trainer.train(2, manager(), manager(7), "score")
    assert trainer.state.best_epoch == 1
    network = trainer.train(2, manager())  # nothing is left to do
    assert kit.same(content(trainer, "epoch_2")["model"], kit.backend.checkpoints.state_tree(network, {})["model"])
    network = trainer.train(3, manager())
    assert kit.same(content(trainer, "epoch_3")["model"], kit.backend.checkpoints.state_tree(network, {})["model"])
    unbroken = scored(kit, tmp_path / "unbroken", [2, 1, 0], val_score_key=None)
    assert kit.same(kit.read(network), kit.read(unbroken.train(3, manager())))


def lower(best, score, mode):
    return best is None or (score < best if mode == "lowest" else score > best)


@pytest.fixture
def run():
    return Run(read_settings({"losses": {"mse": abs}, "val_freq": 2}), build_kit("toy").backend)


def ended(run, epoch, value, **changes):
    run.state.epoch = epoch
    return update_best(run, plan_of([], [], **{"val_score_key": "val_mse", **changes}), {"val_mse": value}, lower)


def test_the_best_epoch_is_that_of_the_best_score(run):
    assert [ended(run, epoch, value) for epoch, value in ((2, 1.0), (4, 0.5), (6, 0.7))] == [True, True, False]
    assert (run.state.best_score, run.state.best_epoch) == (0.5, 4)


def test_an_epoch_that_is_not_validated_is_not_looked_at(run):
    assert not ended(run, 3, 0.1)
    assert run.state.best_epoch is None


def test_a_direction_that_is_turned_begins_anew_and_is_told(run, caplog):
    ended(run, 2, 0.5)
    assert ended(run, 4, 0.4, val_score_mode="highest")
    assert (run.state.best_score, run.state.best_epoch, run.state.score_mode) == (0.4, 4, "highest")
    assert "until now the lowest val_mse was the best; from now on it is the highest" in caplog.text


def test_without_a_score_nothing_is_the_best(run):
    ended(run, 2, 0.5)
    assert not ended(run, 4, 0.1, val_score_key=None)
    assert run.state.best_score is None


def test_a_score_that_was_not_computed_is_refused(run):
    with pytest.raises(ConfigError, match=r"val_score_key='val_auc' was not computed; the epoch has \['val_mse'\]"):
        ended(run, 2, 0.5, val_score_key="val_auc")
