"""The folds of one trial at the same time, and trials one after the other: faster, and not a bit else."""

import contextlib
import os
import random
import signal
import threading
from pathlib import Path

import pytest
from executors import EXECUTORS, executor_called
from problems import linear_problem
from small_backends import toy_kit
from test_tuning import Fail, finished, rows, run_killed, tune

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, ExecutorError, WorkerLostError
from delira.execution import ProcessExecutor
from delira.experiments.tuning import Search
from delira.runs.folder import RunFolder
from delira.search import SearchResult
from delira.training.callbacks import AbstractCallback

optuna = pytest.importorskip("optuna")

FOLDS = {"parallel": "folds", "n_jobs": 2}


def told(path, event):
    return [each for each in RunFolder(path).events() if each["event"] == event]


def workers(path, event):
    return {each["worker"] for each in told(path, event)}


@pytest.mark.slow_cases("ray|slurm")
@pytest.mark.parametrize("name", EXECUTORS)
def test_folds_at_once_are_those_one_after_the_other(tmp_path, name):
    whole = tune(toy_kit(), tmp_path / "whole")
    with executor_called(name, tmp_path / "jobs") as executor:
        found = tune(toy_kit(), tmp_path / "there", asked={"parallel": "folds", "executor": executor})
    assert rows(found) == rows(whole)
    assert rows(SearchResult.load(found.path)) == rows(whole)
    for trial in found.trials:
        handed_out = told(trial.path, "handed_out")
        assert [each["executor"] for each in handed_out] == [type(executor).__name__]
        assert workers(trial.path, "fold_started").isdisjoint(workers(found.path, "trial_started"))
    assert not [*found.path.rglob("*.lease")]


def test_processes_are_started_once_for_all_trials_and_keep_the_data_of_one(tmp_path):
    with ProcessExecutor(2) as executor:
        tune(toy_kit(), tmp_path, asked={"parallel": "folds", "executor": executor})
        assert len(executor._workers) == 2
        assert len(executor._shared.made()) <= 1
        assert max(len(worker.has) for worker in executor._workers) <= 2


def test_a_fold_that_fails_is_a_trial_that_fails(tmp_path):
    callbacks = {"callbacks": [Fail(0.01, 0.05)]}
    alone = tune(toy_kit(), tmp_path / "alone", training=callbacks)
    found = tune(toy_kit(), tmp_path / "folds", training=callbacks, asked=FOLDS)
    assert {trial.state for trial in alone.trials} == {"finished", "failed"}
    assert [(trial.state, trial.scores, trial.values) for trial in found.trials] == [
        (trial.state, trial.scores, trial.values) for trial in alone.trials
    ]
    assert "no place left" in next(trial.error for trial in found.trials if trial.state == "failed")


class KillWorker(AbstractCallback):
    """Ends the process that trains, as the system does when memory runs out, while a file is there."""

    def __init__(self, file):
        self.file = str(file)

    def at_training_begin(self, trainer, **facts):
        if Path(self.file).exists() and trainer.save_path.parts[-2:] == ("trial_0002", "fold_01"):
            os.kill(os.getpid(), signal.SIGKILL)


class Locked:
    """A transform that cannot be sent."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, **sample):
        return sample

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize(
    ("transforms", "asked", "said"),
    [(None, {"resources": {"gpus": 1}}, "needs 1 GPUs"), (Locked(), {}, "cannot be pickled")],
)
def test_an_executor_that_cannot_take_folds_is_no_fault_of_a_trial(tmp_path, transforms, asked, said):
    def search(path, **asked):
        return tune(
            toy_kit(), path, data=BaseDataManager(linear_problem(24, 3, 7), 4, transforms=transforms), asked=asked
        )

    whole = search(tmp_path / "whole")
    run = search(tmp_path / "parts", n_trials=2).path
    with pytest.raises(ExecutorError, match=said):
        search(tmp_path / "parts", resume=run, **FOLDS, **asked)
    assert len([*run.glob("trials/*/trial.json")]) == 2
    assert rows(search(tmp_path / "parts", resume=run)) == rows(whole)


def test_an_executor_that_was_shut_down_ends_the_search_and_no_trial(tmp_path):
    executor = ProcessExecutor(2)

    def constraint(params, metrics):
        executor.shutdown()
        return 0.0

    asked = {"parallel": "folds", "executor": executor, "constraints": constraint}
    with pytest.raises(ExecutorError, match="shut down"):
        tune(toy_kit(), tmp_path, asked=asked)
    assert [path.parent.name for path in tmp_path.rglob("trial.json")] == ["trial_0000"]


def test_a_worker_that_is_lost_again_and_again_ends_the_search_and_no_trial(tmp_path):
    file = tmp_path / "no memory"
    callbacks = {"callbacks": [KillWorker(file)]}
    whole = tune(toy_kit(), tmp_path / "whole", training=callbacks)
    file.touch()
    with pytest.raises(WorkerLostError, match="SIGKILL") as caught:
        tune(toy_kit(), tmp_path / "parts", training=callbacks, asked=FOLDS)
    (run,) = tmp_path.glob("parts/*/*")
    assert f"resume={str(run)!r}" in caught.value.__notes__[-1]
    assert not any("trial_0002" in note and "resume=" in note for note in caught.value.__notes__)
    file.unlink()
    assert rows(tune(toy_kit(), tmp_path / "parts", training=callbacks, asked={"resume": run, **FOLDS})) == rows(whole)


class FailInFold(AbstractCallback):
    """Raises in one fold of some trials."""

    def __init__(self, number):
        self.number = number

    def at_training_begin(self, trainer, **facts):
        if trainer.save_path.name == f"fold_{self.number:02d}" and trainer.config.optimizer.params["lr"] > 0.03:
            raise ValueError("no place left")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_of_a_trial_that_fails_those_folds_count_that_are_before(tmp_path, number):
    callbacks = {"callbacks": [FailInFold(number)]}
    alone = tune(toy_kit(), tmp_path / "alone", training=callbacks)
    found = tune(toy_kit(), tmp_path / "folds", training=callbacks, asked=FOLDS)
    assert {trial.state for trial in alone.trials} == {"finished", "failed"}
    assert rows(found) == rows(alone)


class Broken(AbstractCallback):
    """Breaks the first training of a second fold off, and notes which folds are leased."""

    def __init__(self, notes):
        self.notes = str(notes)

    def at_training_begin(self, trainer, **facts):
        fold, notes = trainer.save_path, Path(self.notes)
        leased = sorted(path.name.partition(".")[0] for path in fold.parent.glob(".leases/fold_*"))
        notes.write_text((notes.read_text() if notes.exists() else "") + f"{fold.parent.name} {fold.name} {leased}\n")
        if notes.read_text().count("\n") == 2:
            raise KeyboardInterrupt


def test_who_goes_on_with_a_trial_leases_its_folds_as_others_may_be_at_work_on_them(tmp_path):
    callbacks = [Broken(tmp_path / "notes")]
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            tune(
                toy_kit(), tmp_path / "runs", training={"callbacks": callbacks}, asked={"n_trials": 1, "resume": "auto"}
            )
    assert (tmp_path / "notes").read_text().splitlines() == [
        "trial_0000 fold_00 []",
        "trial_0000 fold_01 []",
        "trial_0000 fold_01 ['fold_01']",
        "trial_0000 fold_02 ['fold_02']",
    ]


def test_a_search_goes_on_with_folds_at_once_and_without(tmp_path):
    whole = tune(toy_kit(), tmp_path / "whole")
    tune(toy_kit(), tmp_path / "parts", asked={"n_trials": 2})
    tune(toy_kit(), tmp_path / "parts", asked={"n_trials": 4, "resume": "auto", **FOLDS})
    assert rows(tune(toy_kit(), tmp_path / "parts", asked={"resume": "auto"})) == rows(whole)


def test_two_programs_share_such_a_search(tmp_path):
    data = BaseDataManager(linear_problem(24, 3, 7), 4)
    first = tune(toy_kit(), tmp_path, data=data, asked={"n_trials": 1, "sampler": "random"})
    asked = {"n_trials": 6, "sampler": "random", "resume": first.path}
    other = threading.Thread(target=tune, args=(toy_kit(), tmp_path), kwargs={"data": data, "asked": asked})
    other.start()
    found = tune(toy_kit(), tmp_path, data=data, asked={**asked, **FOLDS})
    other.join()
    whole = tune(toy_kit(), tmp_path / "whole", data=data, asked={"n_trials": 6, "sampler": "random"})
    assert rows(found) == rows(whole)
    (run,) = {found.path}
    assert sorted(each["trial"] for each in told(run, "trial_finished")) == [*range(6)]


def test_a_trial_that_another_program_tells_of_right_after_it_was_read_is_told_once(tmp_path, monkeypatch):
    whole = tune(toy_kit(), tmp_path, asked={"n_trials": 2})
    ledger = whole.path / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    (end,) = [line for line in lines if b'"trial_finished"' in line and b'"trial": 1' in line]
    ledger.write_bytes(b"".join(line for line in lines if line != end))
    read = Search.read_fold

    def read_before_it_is_told(self, path, number, split, **known):
        trial = read(self, path, number, split, **known)
        if number == 1:
            with open(ledger, "ab") as file:
                file.write(end)
        return trial

    monkeypatch.setattr(Search, "read_fold", read_before_it_is_told)
    found = tune(toy_kit(), tmp_path, asked={"n_trials": 2, "resume": whole.path})
    assert rows(found) == rows(whole)
    assert [each["trial"] for each in told(whole.path, "trial_finished")] == [0, 1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_whose_processes_are_killed_has_the_trials_of_one_after_the_other(tmp_path):
    quiet, _ = run_killed(tmp_path / "quiet", {"n_trials": 16}, random.Random(0), 0)
    found, killed = run_killed(tmp_path / "killed", {"n_trials": 16, **FOLDS}, random.Random(3), 15)
    assert killed == 15
    assert found == quiet
    assert finished(tmp_path / "killed") == [*range(16)]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"parallel": "folds"}, "say n_jobs=2 or more, or executor="),
        ({"parallel": "folds", "n_jobs": 1}, "say n_jobs=2 or more, or executor="),
        ({"parallel": "folds", "executor": "here"}, "say n_jobs=2 or more, or executor="),
        ({**FOLDS, "num_splits": None}, "needs folds"),
        ({**FOLDS, "pruner": "halving"}, "one after the other"),
        ({**FOLDS, "num_splits": 6, "pruner": "wilcoxon"}, "one after the other"),
        ({**FOLDS, "parallel": "fold"}, "did you mean 'folds'"),
    ],
)
def test_what_cannot_work_is_refused_before_a_folder_is_made(tmp_path, asked, said):
    with pytest.raises(ConfigError, match=said):
        tune(toy_kit(), tmp_path / "runs", asked=asked)
    assert not [*(tmp_path / "runs").glob("*/*")]


def test_the_cores_are_shared_out_among_folds(tmp_path):
    found = tune(toy_kit(), tmp_path, asked={**FOLDS, "resources": {"cpus": 1}, "n_trials": 1})
    (handed_out,) = told(found.trials[0].path, "handed_out")
    assert (handed_out["cpus"], handed_out["folds"]) == (1, [0, 1, 2])
