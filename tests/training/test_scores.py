"""Another score, or none, in a further training: what is the best then."""

from test_checkpoints import content, scored


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
