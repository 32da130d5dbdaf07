"""Some folds of a cross-validation alone: those that are asked for, as they are among all of them."""

import argparse
import json

import numpy as np
import pytest
from small_backends import build_kit

from delira.callbacks.live_view import FoldTable
from delira.errors import ConfigError
from delira.experiments.parameters import fold_numbers
from delira.report.page import facts_of
from delira.runs.folder import RunFolder
from delira.runs.stored_run import read_run
from delira.training import KFoldResult
from delira.training.callbacks import AbstractCallback


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


SPLITS = {"num_splits": 4, "shuffle": True, "random_seed": 3, "val_split": 0.3}


def experiment_of(kit, path):
    training = {"val_metrics": {"rmse": rmse}, "num_epochs": 2}
    return kit.experiment(path, {"dropout": 0.3}, training=training, val_score_key="rmse", val_score_mode="min")


def content(fold):
    """What a fold has come to, but for times and places."""
    return (
        fold.fold, fold.test_indices.tolist(), fold.metrics["rmse"].tobytes(), fold.predictions["pred"].tobytes(),
        fold.history, fold.best_epoch, fold.best_score,
    )  # fmt: skip


def test_a_fold_alone_is_that_fold_of_the_whole_bit_for_bit(kit, tmp_path, manager):
    whole = experiment_of(kit, tmp_path / "whole").kfold(manager(24), **SPLITS)
    alone = experiment_of(kit, tmp_path / "alone").kfold(manager(24), folds=[1], **SPLITS)
    assert [content(fold) for fold in alone.folds] == [content(whole.folds[1])]
    assert alone.folds[0].path == alone.path / "fold_01"
    assert [path.name for path in sorted(alone.path.glob("fold_*"))] == ["fold_01"]


def test_a_result_that_lacks_folds_says_so_and_so_does_its_folder(tmp_path, manager):
    result = experiment_of(build_kit("toy"), tmp_path).kfold(manager(24), folds=np.array([3, 1]), **SPLITS)
    (told,) = result.warnings
    assert told == (
        f"2 of 4 folds: folds 0, 2 are missing, since the run was asked for others (folds=). Go on with "
        f"resume={str(result.path)!r}."
    )
    assert told in str(result)
    assert KFoldResult.load(result.path).warnings == [told]
    assert ("Splits", "2 of 4, random") in facts_of(result)
    run = read_run(result.path)
    assert (run.state, run.n_folds, [*run.finished_folds]) == ("finished", 4, [1, 3])


def test_the_other_folds_follow_and_those_that_finished_are_read(tmp_path, manager):
    kit = build_kit("toy")
    whole = experiment_of(kit, tmp_path / "whole").kfold(manager(24), **SPLITS)
    experiment = experiment_of(kit, tmp_path / "parts")
    first = experiment.kfold(manager(24), folds=[1], **SPLITS)
    second = experiment.kfold(manager(24), folds=[3, 1], resume=first.path, **SPLITS)
    assert [fold.fold for fold in second.folds] == [1, 3]
    third = experiment.kfold(manager(24), resume="auto", **SPLITS)
    assert third.path == first.path
    assert [content(fold) for fold in third.folds] == [content(fold) for fold in whole.folds]
    assert not third.warnings
    assert third.summary() == whole.summary()
    started = [json.loads(line) for line in (first.path / "ledger.jsonl").read_text().splitlines()]
    assert [line["fold"] for line in started if line["event"] == "fold_started"] == [1, 3, 0, 2]
    assert not read_run(first.path).missing_folds


def test_a_run_of_some_folds_is_unfinished_and_goes_on_before_a_newer_one_that_finished(tmp_path, manager):
    experiment = experiment_of(build_kit("toy"), tmp_path)
    some = experiment.kfold(manager(24), folds=[1], **SPLITS)
    whole = experiment.kfold(manager(24), **SPLITS)
    assert whole.path != some.path
    assert experiment.kfold(manager(24), resume="auto", **SPLITS).path == some.path
    assert not read_run(some.path).missing_folds


class Beside(AbstractCallback):
    """Has another session run the other folds while the first one is trained."""

    def __init__(self, results, run):
        self.results, self.run = results, run

    def at_training_begin(self, trainer, **facts):
        if not self.results:
            self.results.append(None)
            self.results[0] = self.run(trainer.save_path.parent)

    def __deepcopy__(self, memo):
        return self


def test_sessions_of_some_folds_beside_each_other_have_all_of_them_in_the_end(tmp_path, manager):
    def kfold(folds, **options):
        return experiment_of(build_kit("toy"), tmp_path).kfold(
            manager(24), folds=folds, callbacks=[beside], **SPLITS, **options
        )

    others: list = []
    beside = Beside(others, lambda path: kfold([2, 3], resume=path))
    result = kfold([0, 1])
    assert [fold.fold for fold in others[0].folds] == [2, 3]
    assert "folds 0, 1 are missing" in others[0].warnings[0]  # they were not finished by then
    assert [fold.fold for fold in result.folds] == [0, 1, 2, 3]
    assert not result.warnings
    assert not read_run(result.path).missing_folds
    folder = RunFolder(result.path)
    assert not folder.is_unfinished()
    assert "missing_folds" not in folder.events()[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": 1}, r"kfold takes no fold=1: .*; folds=\[1\] runs that fold alone"),
        ({"fold": 0}, r"kfold takes no fold=0"),
        ({"params": {"training": {"fold": 2}}}, r"kfold takes no fold=2"),
        ({"folds": 3}, r"folds must be a list of the numbers .* got 3; num_splits says how many"),
        ({"folds": []}, r"folds must be a list .* got \[\]"),
        ({"folds": "1,3"}, r"folds must be a list .* got '1,3'"),
        ({"folds": [True]}, r"folds must be a list"),
        ({"folds": [1.0]}, r"folds must be a list"),
        ({"folds": [1, 1]}, r"folds must be different numbers from 0, got \[1, 1\]"),
        ({"folds": [-1]}, r"folds must be different numbers from 0, got \[-1\]"),
        ({"folds": [0, 4]}, r"folds=\[0, 4\] names fold 4, but there are 4 folds, with the numbers 0 to 3"),
    ],
)
def test_what_names_no_folds_is_refused_before_there_is_a_folder(tmp_path, manager, options, message):
    with pytest.raises(ConfigError, match=message):
        experiment_of(build_kit("toy"), tmp_path).kfold(manager(24), **SPLITS, **options)
    assert not [*(tmp_path / "UnnamedExperiment").iterdir()]


def test_the_table_of_folds_does_not_wait_for_those_that_were_not_asked_for():
    table = FoldTable(3, lambda table, is_last: None)
    table.leave_out(0)
    assert table.rows[0].cells[2] == "not run"
    assert sum(not row.state for row in table.rows) == 2


def test_numbers_of_folds_are_read_from_a_command_line(capsys):
    parser = argparse.ArgumentParser("train.py")
    parser.add_argument("--only-folds", type=fold_numbers)
    assert parser.parse_args(["--only-folds", "1, 3"]).only_folds == [1, 3]
    for text in ("one", "1;3", "", "-1", "1,"):
        with pytest.raises(SystemExit):
            parser.parse_args([f"--only-folds={text}"])
        assert f"{text!r} are no numbers of folds; write them from 0, as in 1,3" in capsys.readouterr().err
