"""What a checkpoint holds, of one process or gathered from parts of several, and what a crash leaves of it."""

import contextlib
import logging
import pathlib
import zipfile

import pytest
from broken_off import Counting, Interrupted, InterruptOnce
from small_backends import build_kit, checkpoint_names

import delira.io.checkpoint
from delira.errors import CheckpointError
from delira.training.checkpoints import joined
from delira.training.run import Ranks


def halves(tree):
    """Two processes' parts of a checkpoint: each has some of the weights, the second no counters."""
    names = sorted(tree["model"])
    cut = (len(names) + 1) // 2
    first = {**tree, "model": {name: tree["model"][name] for name in names[:cut]}}
    second = {"model": {name: tree["model"][name] for name in names[cut:]}, "format": tree["format"]}
    return [first, second]


def test_a_checkpoint_that_is_gathered_from_parts_is_that_of_one_process(kit, tmp_path, manager):
    whole = kit.trainer(tmp_path / "whole")
    parts = kit.trainer(tmp_path / "parts", ranks=Ranks(0, 2, halves))
    for trainer in (whole, parts):
        trainer.train(2, manager(), manager())
    assert kit.same(parts.checkpoint_tree(), whole.checkpoint_tree())
    resumed = kit.trainer(tmp_path / "parts")
    assert resumed.state.epoch == 2
    assert kit.same(resumed.checkpoint_tree()["model"], whole.checkpoint_tree()["model"])


def test_parts_are_joined_entry_by_entry():
    assert joined([{"model": {"a": 1}, "epoch": 3}, {"model": {"b": 2}}, {"losses": {"x": {}}}]) == {
        "model": {"a": 1, "b": 2}, "epoch": 3, "losses": {"x": {}},
    }  # fmt: skip
    assert joined([{"a": 1}]) == {"a": 1}


@pytest.mark.parametrize("name", ["model", "epoch"])
def test_what_was_joined_leaves_the_parts_as_they_are(name):
    first, second = {"model": {"a": 1}, "epoch": 3}, {"model": {"b": 2}, "epoch": 3}
    joined([first, second])
    assert first == {"model": {"a": 1}, "epoch": 3}


def content(trainer, name):
    return trainer.load_state(trainer.checkpoints.path(name))


def scored(kit, path, scores, dropout=0.4, **settings):
    """A trainer whose validation score in epoch n is ``scores[n - 1]``, however often it was broken off."""
    trainers = []

    def score(y_true, y_pred):
        return scores[trainers[0].state.epoch]

    settings = {"val_score_key": "score", "val_score_mode": "highest", "save_freq": 1, **settings}
    trainers.append(kit.trainer(path, kit.build(dropout=dropout), val_metrics={"score": score}, **settings))
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


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("save_freq", "number"), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (None, 0), (None, 1)])
def test_a_crash_between_the_names_of_the_best_checkpoint_loses_no_best_weights(
    kit, tmp_path, manager, save_freq, number
):
    scores = [2, 1, 3, 0]
    unbroken = scored(kit, tmp_path / "unbroken", scores, save_freq=save_freq)
    expected = kit.read(unbroken.train(4, manager(), manager(7)))
    assert unbroken.state.best_epoch == 3
    scored(kit, tmp_path / "broken", scores, save_freq=save_freq).train(2, manager(), manager(7))
    broken = scored(kit, tmp_path / "broken", scores, save_freq=save_freq)
    number *= 1 + len(broken.checkpoints.beside)
    with crash_at_publication(number), pytest.raises(Interrupted, match=f"before publication {number}"):
        broken.train(4, manager(), manager(7))
    assert broken.state.epoch == 3
    resumed = scored(kit, tmp_path / "broken", scores, save_freq=save_freq)
    assert resumed.state.epoch == (3 if number else 2)
    assert kit.same(kit.read(resumed.train(4, manager(), manager(7))), expected)
    assert kit.same(content(resumed, "best"), content(unbroken, "best"))
    assert kit.same(content(resumed, "last"), content(unbroken, "last"))


def test_no_checkpoint_says_that_its_epoch_is_the_best_before_best_is_that_epoch(kit, tmp_path, manager):
    scores = [2, 1, 3]
    scored(kit, tmp_path, scores).train(2, manager(), manager(7))
    with crash_at_publication(1), pytest.raises(Interrupted, match="before publication 1"):
        scored(kit, tmp_path, scores).train(3, manager(), manager(7))
    folder = scored(kit, tmp_path, scores).checkpoints
    for path in folder.folder.glob(f"*{folder.suffix}"):
        tree = folder.load(path)
        if tree["state"]["best_epoch"] == 3:
            assert folder.load(folder.best())["epoch"] == 3


def test_after_going_back_to_an_older_checkpoint_the_best_weights_are_of_its_own_past(kit, tmp_path, manager, caplog):
    for save_freq in (1, 2):
        path = tmp_path / str(save_freq)
        trainer = scored(kit, path, [2, 1, 3, 0], save_freq=save_freq)
        trainer.train(4, manager(), manager(7))
        trainer.update_state(trainer.checkpoints.path("epoch_2"))
        network = trainer.train(2, manager(), manager(7))
        kept = content(trainer, "epoch_1" if save_freq == 1 else "epoch_2")
        assert kit.same(kept["model"], kit.backend.checkpoints.state_tree(network, {})["model"])
    (record,) = caplog.records  # epoch 1 was kept once only
    assert "the checkpoint of the best epoch, 1, is not in" in record.getMessage()


@pytest.mark.sampled("values")
@pytest.mark.parametrize("best", [1, 2])
def test_after_an_exception_inside_an_epoch_the_same_trainer_goes_on_as_if_unbroken(kit, tmp_path, manager, best):
    scores = [0, 0, 0, 0]
    scores[best - 1] = 1
    unbroken = scored(kit, tmp_path / "unbroken", scores, callbacks=[Counting()])
    expected = kit.read(unbroken.train(4, manager(), manager(7)))
    broken = scored(kit, tmp_path / "broken", scores, callbacks=[Counting(), InterruptOnce(3)])
    with pytest.raises(Interrupted, match="in epoch 3, step 1"):
        broken.train(4, manager(), manager(7))
    assert kit.same(kit.read(broken.train(4, manager(), manager(7))), expected)
    assert kit.same(content(broken, "last"), content(unbroken, "last"))
    assert broken.state.history == unbroken.state.history


def test_a_broken_epoch_without_any_checkpoint_cannot_be_taken_back(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=1, callbacks=[InterruptOnce(1)])
    with pytest.raises(Interrupted, match="in epoch 1, step 1"):
        trainer.train(2, manager())
    steps = trainer.state.global_step
    with pytest.raises(CheckpointError, match="an epoch was broken off and there is no checkpoint to go back to"):
        trainer.train(2, manager())
    assert trainer.state.global_step == steps


def test_a_callback_that_keeps_a_path_is_refused_at_the_first_checkpoint_and_nothing_is_half_written(
    kit, tmp_path, manager
):
    class Remembers(Counting):
        def state_dict(self):
            return {"files": [pathlib.Path("somewhere")]}

    trainer = kit.trainer(tmp_path, save_freq=1, callbacks=[Remembers()])
    match = r"entry /?state/callbacks/Remembers/files/0 is a \w*Path, which cannot be stored safely"
    with pytest.raises(CheckpointError, match=match):
        trainer.train(3, manager())
    assert trainer.state.epoch == 1
    assert checkpoint_names(trainer) == []


def test_a_damaged_checkpoint_is_left_out_and_a_complete_one_that_cannot_be_read_is_an_error(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=1)
    trainer.train(2, manager())
    last = trainer.checkpoints.path("last")
    last.unlink()
    last.write_bytes(b"half of a checkpoint")
    trainer.checkpoints.path("epoch_2").unlink()
    with pytest.warns(RuntimeWarning, match="is set aside as .* and an earlier checkpoint is looked for"):
        assert kit.trainer(tmp_path).state.epoch == 1
    with zipfile.ZipFile(last, "w") as archive:
        archive.writestr("something else", "complete, but no checkpoint")
    with pytest.raises(CheckpointError, match=r"checkpoint_last.* is not a readable checkpoint"):
        kit.trainer(tmp_path)


def test_a_stopped_training_that_is_asked_for_more_says_that_nothing_is_done(kit, tmp_path, manager, caplog):
    class Stop:
        def at_epoch_end(self, trainer, **facts):
            trainer.stop_training = True

    kit.trainer(tmp_path, callbacks=[Stop()]).train(3, manager())
    resumed = kit.trainer(tmp_path)
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


@pytest.mark.parametrize("name", ["checkpoint_epoch_2", "checkpoint_epoch_2.zip"])
def test_a_run_goes_back_to_a_checkpoint_by_its_name_with_or_without_the_ending(tmp_path, manager, name):
    kit = build_kit("toy")
    kit.trainer(tmp_path, save_freq=1).train(3, manager())
    trainer = kit.trainer(tmp_path, save_freq=1, resume_from=tmp_path / "checkpoints" / name)
    folder = tmp_path / "checkpoints"
    assert trainer.state.epoch == 2
    assert (folder / "checkpoint_last.zip").samefile(folder / "checkpoint_epoch_2.zip")
    assert (folder / "checkpoint_epoch_3.zip.superseded").exists()
