"""The weights that are tested are those that are named, and how they were chosen is told."""

import errno
import os
import time
import warnings

import numpy as np
import pytest
from scripted import scripted
from small_backends import build_kit

import delira.io.container
from delira.cli.verify import verify
from delira.errors import UnreadableError
from delira.training import KFoldResult
from delira.training.callbacks import AbstractCallback

SCORES = (0.9, 0.1, 0.5)


def mean_of(y_true, y_pred):
    return float(np.mean(y_pred))


def cross_validated(path, manager, *scores, callbacks=(), num_splits=2, resume=None, **settings):
    """A toy cross-validation whose score in epoch n is ``scores[n - 1]``; tested by the mean of what is predicted."""
    training = {"num_epochs": len(scores), "val_metrics": {"score": scripted(*scores)}, "save_freq": None, **settings}
    experiment = build_kit("toy").experiment(path, training=training, val_score_key="score", val_score_mode="min")
    data = manager(20)
    return experiment.kfold(data, {"mean": mean_of}, num_splits=num_splits, callbacks=[*callbacks], resume=resume)


def means(result):
    return [float(fold.metrics["mean"][0]) for fold in result.folds]


class Unreadable:
    """What opens checkpoints meets an error of the system for some calls on one name."""

    def __init__(self, monkeypatch, times):
        self.times, self.real = times, delira.io.container.open_regular
        monkeypatch.setattr(delira.io.container, "open_regular", self)

    def __call__(self, path):
        if "checkpoint_best" in str(path) and self.times > 0:
            self.times -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return self.real(path)


def test_the_best_weights_are_tested_though_their_file_could_not_be_read_once(tmp_path, manager, monkeypatch):
    expected = cross_validated(tmp_path / "a", manager, *SCORES)
    assert len({*means(expected)}) == 2
    fault = Unreadable(monkeypatch, 1)
    result = cross_validated(tmp_path / "b", manager, *SCORES)
    assert fault.times == 0
    assert means(result) == means(expected)
    assert [fold.weights_epoch for fold in result.folds] == [fold.best_epoch for fold in result.folds] == [2, 2]


def test_a_best_checkpoint_that_cannot_be_read_ends_the_run_and_a_resume_tests_it(tmp_path, manager, monkeypatch):
    expected = cross_validated(tmp_path / "a", manager, *SCORES)
    fault = Unreadable(monkeypatch, 99)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(UnreadableError, match=r"Input/output error.*checkpoint_best"):
        cross_validated(tmp_path / "b", manager, *SCORES)
    fault.times = 0
    (folder,) = (tmp_path / "b").glob("*/*")
    assert means(cross_validated(tmp_path / "b", manager, *SCORES, resume=folder)) == means(expected)


class Lost(AbstractCallback):
    """Takes the checkpoint of the best epoch away."""

    def __init__(self, fold):
        self.fold = fold

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == 3 and trainer.fold == self.fold:
            trainer.checkpoints.path("best").unlink()


TOLD = "the weights of epoch 3, not of the best one, 2, whose checkpoint was not there"


def test_result_ledger_page_and_verify_say_which_weights_were_tested(tmp_path, manager):
    result = cross_validated(tmp_path, manager, *SCORES, callbacks=[Lost(1)])
    told = f"fold 1 was tested with {TOLD}"
    stored = KFoldResult.load(result.path)
    for each in (result, stored):
        assert [fold.weights_epoch for fold in each.folds] == [2, 3]
        assert told in each.warnings
        assert f"Warning: {told}" in str(each)
        assert told in each.to_html()
    ledger = (result.path / "ledger.jsonl").read_text()
    assert ledger.count('"weights_epoch": 3, "best_epoch": 2') == 1
    answer = verify([result.path])
    assert answer.is_broken
    assert f"its numbers are those of {TOLD}" in " ".join(answer.text.split())


def test_a_single_training_says_it_too(tmp_path, manager):
    training = {"num_epochs": 3, "val_metrics": {"score": scripted(*SCORES)}, "save_freq": None}
    experiment = build_kit("toy").experiment(
        tmp_path, training=training, val_score_key="score", val_score_mode="min", callbacks=[Lost(0)]
    )
    experiment.run(manager(20), manager(7))
    folder = experiment.last_trainer.save_path.parent
    assert f"the network has {TOLD}" in KFoldResult.load(folder).warnings
    assert f"the training ended with {TOLD}" in " ".join(verify([folder]).text.split())


# ---- how they were chosen


@pytest.mark.sampled("half")
@pytest.mark.slow_cases("^scores[23]")
@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ((0.5, 0.5, 0.5), "val_score never changed in folds 0 (0.5 in all 3 epochs), 1 (0.5 in all 3 epochs)"),
        ((0.5, 0.2, 0.2), "several epochs share the best val_score in 2 of 2 folds; the first of them was selected"),
        ((0.1, 0.2, 0.3), "the best epoch by val_score is the first in all 2 folds"),
        ((0.3, 0.2, 0.1), "the best epoch by val_score is the last in all 2 folds"),
        ((np.nan,) * 3, "val_score was never a number in folds 0, 1, so no epoch could be selected: the last weights"),
    ],
)
def test_what_speaks_against_a_selection_is_a_caveat(scores, told, tmp_path, manager):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = cross_validated(tmp_path, manager, *scores)
    stored = KFoldResult.load(result.path)
    for each in (result, stored):
        (warning,) = each.warnings
        assert warning.startswith(told)
        assert f"Warning: {told}" in str(each)
        assert told in each.to_html()


@pytest.mark.parametrize("scores", [(0.9, 0.1, 0.5), (0.1, 0.5), (0.5, 0.1), (0.5,)])
def test_an_ordinary_selection_has_no_caveat(scores, tmp_path, manager):
    assert cross_validated(tmp_path, manager, *scores).warnings == []


def test_one_fold_that_ends_elsewhere_is_enough_for_no_caveat():
    from delira.experiments.selection import FoldResult, caveats_of_selection

    def fold(number, best):
        history = [{"epoch": epoch, "val_s": float(abs(epoch - best))} for epoch in (1, 2, 3)]
        parts = {"train_indices": [0], "val_indices": None, "test_indices": [1]}
        return FoldResult(number, **parts, history=history, best_epoch=best, score_key="val_s", weights_epoch=best)

    assert caveats_of_selection([fold(0, 3), fold(1, 2)], False) == []
    assert len(caveats_of_selection([fold(0, 3), fold(1, 3)], False)) == 1


# ---- how long it took


class Interrupt(AbstractCallback):
    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        time.sleep(0.1)
        if curr_epoch == 3:
            raise RuntimeError("the power is gone")


class Slow(AbstractCallback):
    def at_epoch_begin(self, trainer, **facts):
        time.sleep(0.1)


def test_the_duration_of_a_fold_is_that_of_all_its_sessions(tmp_path, manager):
    with pytest.raises(RuntimeError, match="the power is gone"):
        cross_validated(tmp_path, manager, *SCORES, callbacks=[Interrupt()])
    (folder,) = tmp_path.glob("*/*")
    result = cross_validated(tmp_path, manager, *SCORES, callbacks=[Slow()], resume=folder)
    assert result.folds[0].seconds >= 0.4, "of both sessions"
    assert result.folds[0].seconds == pytest.approx(sum(result.folds[0].timings["seconds"].values()))
    assert KFoldResult.load(folder).folds[0].seconds == result.folds[0].seconds
