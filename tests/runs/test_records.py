"""What the guards did is kept with a fold, through ends of the process, and stands on the page of the result."""

import json

import numpy as np
import pytest
from broken_steps import At, Broken, break_off, spoil
from small_backends import build_kit, toy_kit

from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.report.summary import caveats
from delira.runs.results import GUARDS_FILE, GuardLog, read_guards
from delira.training import KFoldResult


class SpoilOnce:
    """Makes the weights bad in one fold, at a step counted over all epochs."""

    def __init__(self, kit, fold, step):
        self.kit, self.at = kit, (fold, step)

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if (trainer.fold, global_iter_num + 1) == self.at:
            self.at = None
            spoil(self.kit)(trainer)


def cross_validate(kit, path, data, **training):
    experiment = kit.experiment(path, training={"num_epochs": 3, "save_freq": 1, "log_freq": 1, **training})
    callbacks = [SpoilOnce(kit, 1, 4)] if training["nonfinite"] == "rollback" else []
    with np.errstate(all="ignore"):
        return experiment.kfold(data, num_splits=2, random_seed=0, val_split=None, callbacks=callbacks)


def skipping(regression, *bad):
    batches = [regression(4, seed=seed) for seed in range(4)]
    for number in bad:
        batches[number]["label"][0] = np.nan
    return batches


def test_rollbacks_of_a_fold_are_kept_and_shown(tmp_path, manager):
    result = cross_validate(toy_kit(), tmp_path, manager(16), nonfinite="rollback")
    told = (
        "Fold 1: the training went back to its last checkpoint once, with smaller learning rates, since numbers were "
        "not finite: from epoch 2"
    )
    assert [fold.guards for fold in result.folds] == [None, {"version": 1, "left_out": [], "rollbacks": [2]}]
    loaded = KFoldResult.load(result.path)
    assert [fold.guards for fold in loaded.folds] == [fold.guards for fold in result.folds]
    assert caveats(result) == caveats(loaded) == [told]
    assert told in loaded.to_html()
    assert not (result.path / "fold_00" / GUARDS_FILE).exists()


def test_updates_that_were_left_out_are_kept_and_shown(tmp_path, regression):
    arrays = regression(16)
    arrays["label"][3] = np.nan
    data = BaseDataManager(arrays, 4)
    result = cross_validate(build_kit("torch"), tmp_path, data, nonfinite="skip")
    (fold,) = [fold for fold in result.folds if 3 in fold.train_indices]
    assert fold.guards["left_out"] == [{"epoch": epoch, "updates": 1, "steps": 2} for epoch in (1, 2, 3)]
    told = (
        f"Fold {fold.fold}: 3 updates were left out, since their loss or gradients were not finite: 1 of 2 in epoch 1, "
        "1 of 2 in epoch 2, 1 of 2 in epoch 3"
    )
    assert told in caveats(KFoldResult.load(result.path))
    assert told in result.to_html()


def test_a_fold_that_is_read_when_its_run_goes_on_keeps_what_happened(tmp_path, manager):
    kit = toy_kit()
    result = cross_validate(kit, tmp_path, manager(16), nonfinite="rollback")
    (result.path / "fold_00" / "result.zip").unlink()  # this one is tested again
    experiment = kit.experiment(
        tmp_path, training={"num_epochs": 3, "save_freq": 1, "log_freq": 1, "nonfinite": "rollback"}
    )
    with pytest.warns(UserWarning, match="fold 0 is tested again"):
        again = experiment.kfold(manager(16), num_splits=2, random_seed=0, val_split=None, resume=result.path)
    assert [fold.guards for fold in again.folds] == [fold.guards for fold in result.folds]


def test_a_single_training_tells_it_too(tmp_path, manager):
    kit = toy_kit()
    experiment = kit.experiment(tmp_path, training={"save_freq": 1, "log_freq": 1, "nonfinite": "rollback"})
    with np.errstate(all="ignore"):
        experiment.run(manager(12), callbacks=[SpoilOnce(kit, 0, 5)])
    loaded = KFoldResult.load(tmp_path)
    assert loaded.folds[0].guards == {"version": 1, "left_out": [], "rollbacks": [2]}
    assert "went back to its last checkpoint once" in "".join(caveats(loaded))


@pytest.mark.parametrize("kind", ["kfold", "run"])
def test_a_file_that_is_gone_or_damaged_is_named(tmp_path, manager, kind):
    kit = toy_kit()
    if kind == "kfold":
        fold = cross_validate(kit, tmp_path, manager(16), nonfinite="rollback").path / "fold_01"
    else:
        settings = {"save_freq": 1, "log_freq": 1, "nonfinite": "rollback"}
        experiment = kit.experiment(tmp_path, training=settings)
        with np.errstate(all="ignore"):
            experiment.run(manager(12), callbacks=[SpoilOnce(kit, 0, 5)])
        fold = experiment.last_trainer.save_path
    what = f"{fold.name}/{GUARDS_FILE}"
    assert not wrong_files(fold.parent)
    (fold / GUARDS_FILE).write_text((fold / GUARDS_FILE).read_text().replace("2", "3"))
    assert [check["state"] for check in wrong_files(fold.parent)] == ["broken"]
    assert (
        f"{fold / GUARDS_FILE} cannot be read: what the guards did is not known" in KFoldResult.load(tmp_path).warnings
    )
    (fold / GUARDS_FILE).unlink()
    told = (
        "is missing, which says what the guards did and when; by the ledger, updates left out: 0, returns to a "
        "checkpoint: 1"
    )
    (check,) = wrong_files(fold.parent)
    assert (check["what"], check["state"], check["detail"]) == (what, "missing", f"it {told}")
    assert f"{fold / GUARDS_FILE} {told}" in KFoldResult.load(tmp_path).warnings


def wrong_files(run):
    return [check for check in verify([run]).content["files"] if check["state"] != "whole"]


@pytest.mark.parametrize("stop_at", [2, 6, 11])
def test_a_training_that_goes_on_counts_each_update_once(tmp_path, regression, stop_at):
    """Epoch 2 is broken off behind its bad batch, and trained anew."""
    kit, batches = build_kit("torch"), skipping(regression, 0, 3)
    settings = {"nonfinite": "skip", "save_freq": 1}
    with pytest.raises(Broken):
        kit.trainer(tmp_path, callbacks=[At(stop_at, break_off)], **settings).train(3, batches)
    kit.trainer(tmp_path, **settings).train(3, batches)
    expected = [{"epoch": epoch, "updates": 2, "steps": 4} for epoch in (1, 2, 3)]
    assert read_guards(tmp_path)["left_out"] == expected


def test_a_training_that_begins_anew_has_no_events_of_the_one_before(tmp_path, manager):
    kit = toy_kit()
    trainer = kit.trainer(tmp_path, callbacks=[At(5, spoil(kit))], nonfinite="rollback", log_freq=1, save_freq=1)
    with np.errstate(all="ignore"):
        trainer.train(2, manager())
    assert read_guards(tmp_path)["rollbacks"] == [2]
    for path in (tmp_path / "checkpoints").iterdir():
        path.unlink()
    kit.trainer(tmp_path, nonfinite="rollback").train(2, manager())
    assert read_guards(tmp_path) is None
    assert not (tmp_path / GUARDS_FILE).exists()


def test_a_rollback_of_a_version_without_the_file_has_no_epoch(tmp_path):
    log = GuardLog(tmp_path)
    log.go_on(4, rollbacks=1)
    log.note_rollback(6, 2)
    assert read_guards(tmp_path)["rollbacks"] == [None, 6]


def test_without_a_folder_it_is_kept_in_memory(regression):
    trainer = build_kit("torch").trainer(None, nonfinite="skip")
    trainer.train(1, skipping(regression, 2))
    assert trainer.guard_log.to_dict()["left_out"] == [{"epoch": 1, "updates": 1, "steps": 4}]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"left_out": [1], "rollbacks": []}', '{"left_out": 3}', "\xff"])
def test_a_file_that_cannot_be_read_is_told_and_stops_nothing(tmp_path, content, caplog):
    (tmp_path / GUARDS_FILE).write_bytes(content.encode("latin-1"))
    assert read_guards(tmp_path) is None
    assert "what the guards did is not known" in caplog.text
    log = GuardLog(tmp_path)
    log.note_left_out(1, 2, 8)
    assert json.loads((tmp_path / GUARDS_FILE).read_text())["left_out"] == [{"epoch": 1, "updates": 2, "steps": 8}]


def test_a_disk_that_refuses_stops_nothing(tmp_path, caplog):
    log = GuardLog(tmp_path)
    (tmp_path / GUARDS_FILE).mkdir()
    log.note_rollback(1, 1)
    assert "what the guards did could not be written" in caplog.text
    assert log.to_dict()["rollbacks"] == [1]
