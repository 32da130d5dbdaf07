"""Folds that run in other processes: the same bits, whatever happens on the way."""

import copy
import dataclasses
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import psutil
import pytest
from digests import digest
from problems import linear_problem
from small_backends import build_kit, toy_kit

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, ExecutorError, WorkerLostError
from delira.execution import Executor, Handle, ProcessExecutor, Resources
from delira.execution.executor import usable_cores
from delira.experiments.result import KFoldResult
from delira.runs import kept, results
from delira.runs.folder import RunFolder
from delira.runs.results import RESULT_FILE
from delira.training.callbacks import AbstractCallback

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memory of Linux that has no name")

SPLITS = {"num_splits": 4, "shuffle": True, "random_seed": 5, "val_split": 0.3}
ROOT = Path(__file__).parents[2]


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


class Seen(AbstractCallback):
    """A callback with a state, which comes back with its fold."""

    def __init__(self):
        self.epochs = []

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        self.epochs.append((trainer.fold, curr_epoch))

    def state_dict(self):
        return {"epochs": [list(epoch) for epoch in self.epochs]}

    def load_state_dict(self, state):
        self.epochs = [tuple(epoch) for epoch in state["epochs"]]


class DieOnce(AbstractCallback):
    """Ends the process of some folds after an epoch, as if the system had; once for each file that it can make."""

    def __init__(self, folder, folds, epoch, times=1):
        self.folder, self.folds, self.epoch, self.times = folder, folds, epoch, times

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if trainer.fold in self.folds and curr_epoch == self.epoch:
            for number in range(self.times):
                mark = self.folder / f"{trainer.fold}-{number}"
                if not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)


class Full(Exception):
    """An error of the user's own."""


class Fail(AbstractCallback):
    """Raises in some folds, as long as there is no file ``mended``."""

    def __init__(self, folder, *folds):
        self.folder, self.folds = folder, folds

    def at_iter_end(self, trainer, *, curr_epoch, **facts):
        if trainer.fold in self.folds and curr_epoch == 2 and not (self.folder / "mended").exists():
            raise Full(f"fold {trainer.fold} is full")


def kfold(kit, path, data, *callbacks, **options):
    training = {"val_metrics": {"rmse": rmse}, "num_epochs": 3, "save_freq": 1}
    experiment = kit.experiment(path, {"dropout": 0.3}, training=training, val_score_key="rmse", verbose=0)
    return experiment.kfold(data, callbacks=[Seen(), *callbacks], **{**SPLITS, **options})


def events(result_or_path):
    path = getattr(result_or_path, "path", result_or_path)
    return RunFolder(path).events()


def named(path, name):
    return [event for event in events(path) if event["event"] == name]


def only_folder(path):
    (folder,) = (path / "UnnamedExperiment").iterdir()
    return folder


# ---- the same bits


def test_two_processes_compute_what_one_does_bit_for_bit(kit, tmp_path, manager):
    here = kfold(kit, tmp_path / "here", manager(24), num_threads=kit.backend.devices.thread_count() and 1)
    there = kfold(kit, tmp_path / "there", manager(24), n_jobs=2, num_threads=kit.backend.devices.thread_count() and 1)
    assert digest(there) == digest(here)
    assert [fold.callbacks[0].epochs for fold in there.folds] == [[(n, e) for e in (1, 2, 3)] for n in range(4)]
    assert there.table() == here.table()
    assert [fold.fold for fold in there.folds] == [0, 1, 2, 3]
    stored = KFoldResult.load(there.path)
    assert digest(stored) == digest(KFoldResult.load(here.path))
    assert {event["fold"] for event in named(there, "fold_finished")} == {0, 1, 2, 3}
    (told,) = named(there, "handed_out")
    assert (told["folds"], told["executor"]) == ([0, 1, 2, 3], "ProcessExecutor")


def test_what_was_begun_here_goes_on_there_and_the_other_way_round(tmp_path, manager):
    kit = toy_kit()
    expected = digest(kfold(kit, tmp_path / "whole", manager(24)))
    some = kfold(kit, tmp_path / "some", manager(24), n_jobs=2, folds=[2])
    assert [fold.fold for fold in some.folds] == [2]
    rest = kfold(kit, tmp_path / "some", manager(24), resume=some.path, folds=[0, 2])
    assert [fold.fold for fold in rest.folds] == [0, 2]
    whole = kfold(kit, tmp_path / "some", manager(24), resume="auto", executor="processes", n_jobs=3)
    assert whole.path == some.path
    assert digest(whole) == expected
    assert len(named(whole, "fold_started")) == 4
    again = kfold(kit, tmp_path / "some", manager(24), resume="auto", n_jobs=2)  # nothing is left to do
    assert digest(again) == expected
    assert len(named(again, "fold_started")) == 4


def test_a_lambda_is_no_reason_to_test_again(tmp_path, manager):
    options = {
        "metrics": {"worst": lambda t, p: float(np.abs(t - p).max())},
        "metric_keys": {"worst": ("label", "pred")},
    }
    here = kfold(toy_kit(), tmp_path / "here", manager(24), **options)
    there = kfold(toy_kit(), tmp_path / "there", manager(24), n_jobs=2, **options)
    assert [fold.means() for fold in there.folds] == [fold.means() for fold in here.folds]


class Noisy:
    """A metric with a state: its generator of random numbers."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, y_true, y_pred):
        return float(self.rng.normal())


def test_a_metric_with_a_state_begins_each_test_as_it_was_given(tmp_path, manager):
    options = {"metrics": {"noisy": Noisy()}, "metric_keys": {"noisy": ("label", "pred")}}
    here = kfold(toy_kit(), tmp_path / "here", manager(24), **options)
    first = np.random.default_rng(0).normal()
    assert [fold.means() for fold in here.folds] == [{"noisy": first}] * 4
    there = kfold(toy_kit(), tmp_path / "there", manager(24), n_jobs=2, **options)
    assert [fold.means() for fold in there.folds] == [fold.means() for fold in here.folds]
    plain = kfold(toy_kit(), tmp_path / "again", manager(24))
    again = kfold(toy_kit(), tmp_path / "again", manager(24), resume=plain.path, **options)  # of what was predicted
    assert [fold.means() for fold in again.folds] == [fold.means() for fold in here.folds]


def test_a_metric_that_cannot_be_copied_is_refused_before_there_is_a_run(tmp_path, manager):
    class Locked(Noisy):
        def __init__(self):
            self.lock = threading.Lock()

    with pytest.raises(ConfigError, match=r"metrics or callbacks cannot be copied .*no open files or locks"):
        kfold(toy_kit(), tmp_path, manager(24), metrics={"m": Locked()}, metric_keys={"m": ("label", "pred")})
    assert not [*(tmp_path / "UnnamedExperiment").iterdir()]


def drawn_by_algebra(torch, network, told):
    """Return a network whose weights have other bits with another number of threads, and which says how many."""

    class Orthogonal(network):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            with open(told, "a") as file:
                file.write(f"{torch.get_num_threads()}\n")
            self.wide = torch.nn.Linear(256, 256)
            torch.nn.init.orthogonal_(self.wide.weight)

        def forward(self, x):
            padded = torch.nn.functional.pad(x, (0, 256 - x.shape[1]))
            return super().forward(self.wide(padded)[:, : x.shape[1]])

    return Orthogonal


def test_networks_are_built_with_the_threads_of_the_run_wherever_that_is(tmp_path, manager):
    torch = pytest.importorskip("torch", reason="is about threads of PyTorch")
    told, before = tmp_path / "told", torch.get_num_threads()
    kit = build_kit("torch")
    kit = dataclasses.replace(kit, network=drawn_by_algebra(torch, kit.network, told))
    torch.set_num_threads(2)  # as in a program on a machine of two cores
    try:
        here = kfold(kit, tmp_path / "here", manager(24), num_threads=1, num_splits=2)
        there = kfold(kit, tmp_path / "there", manager(24), num_threads=1, num_splits=2, n_jobs=2)
        alone = kit.experiment(tmp_path / "alone", {"dropout": 0.3}, training={"num_epochs": 1}, verbose=0)
        alone.run(manager(24), num_threads=1)
        assert told.read_text().split() == ["1"] * 5
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert digest(here) == digest(there)


# ---- what goes wrong


def test_the_fold_of_a_lost_process_goes_on_from_its_checkpoint(tmp_path, manager):
    kit = toy_kit()
    (tmp_path / "marks").mkdir()
    die = DieOnce(tmp_path / "marks", (0, 3), 3)
    lossy = kfold(kit, tmp_path / "lossy", manager(24), die, n_jobs=2)
    (tmp_path / "none").mkdir()
    quiet = kfold(kit, tmp_path / "quiet", manager(24), DieOnce(tmp_path / "none", (), 3))
    assert digest(lossy) == digest(quiet)
    assert sorted(event["fold"] for event in named(lossy, "fold_lost")) == [0, 3]
    assert "ended by SIGKILL" in named(lossy, "fold_lost")[0]["error"]
    # two epochs were not done again
    assert [fold.callbacks[0].epochs for fold in lossy.folds] == [[(n, e) for e in (1, 2, 3)] for n in range(4)]


@pytest.mark.slow
def test_a_fold_that_is_lost_again_and_again_has_failed(tmp_path, manager):
    (tmp_path / "marks").mkdir()
    die = DieOnce(tmp_path / "marks", (1,), 2, times=9)
    with pytest.raises(WorkerLostError, match="ended by SIGKILL") as caught:
        kfold(toy_kit(), tmp_path, manager(24), die, n_jobs=2)
    assert "fold 1 was lost 3 times without a further epoch" in caught.value.__notes__
    assert [event["fold"] for event in named(only_folder(tmp_path), "fold_failed")] == [1]
    assert len({event["fold"] for event in named(only_folder(tmp_path), "fold_finished")}) == 3


def test_the_others_finish_when_one_fails_and_a_second_call_runs_what_is_missing(tmp_path, manager, caplog):
    kit, fail = toy_kit(), Fail(tmp_path, 1, 3)
    with pytest.raises(Full, match="fold 1 is full") as caught:
        kfold(kit, tmp_path, manager(24), fail, n_jobs=2)
    assert any("Fold 1 failed, as did [3]; finished are [0, 2]" in note for note in caught.value.__notes__)
    assert any("in the training of fold 1, epoch 2" in note for note in caught.value.__notes__)
    assert "at_iter_end" in str(caught.value.__cause__)
    assert "fold 1 failed: Full: fold 1 is full" in caplog.text
    folder = only_folder(tmp_path)
    failed = {event["fold"]: event["error"] for event in named(folder, "fold_failed")}
    assert failed == {1: "Full: fold 1 is full", 3: "Full: fold 3 is full"}
    assert events(folder)[-1]["event"] == "broken_off"
    (tmp_path / "mended").touch()
    result = kfold(kit, tmp_path, manager(24), fail, n_jobs=2, resume="auto")
    assert result.path == folder
    assert sorted(event["fold"] for event in named(folder, "fold_started")) == [0, 1, 1, 2, 3, 3]
    assert [fold.callbacks[0].epochs for fold in result.folds] == [[(n, e) for e in (1, 2, 3)] for n in range(4)]


def test_a_warning_that_is_an_error_here_fails_its_fold_and_the_others_finish(tmp_path, manager):
    class Warns(AbstractCallback):
        def at_epoch_end(self, trainer, **facts):
            if trainer.fold == 1:
                warnings.warn("the shelf is nearly full", UserWarning, stacklevel=1)
                time.sleep(20)

    is_error = warnings.catch_warnings(action="error", category=UserWarning)
    with is_error, pytest.raises(UserWarning, match="nearly full"):
        kfold(toy_kit(), tmp_path, manager(24), Warns(), n_jobs=2)
    folder = only_folder(tmp_path)
    assert sorted(event["fold"] for event in named(folder, "fold_finished")) == [0, 2, 3]
    assert [event["error"] for event in named(folder, "fold_failed")] == ["UserWarning: the shelf is nearly full"]
    again = kfold(toy_kit(), tmp_path, manager(24), resume=folder)
    assert digest(again) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24)))


def test_where_nothing_works_nothing_more_is_begun(tmp_path, manager):
    with pytest.raises(Full, match="is full"):
        kfold(toy_kit(), tmp_path, manager(24), Fail(tmp_path, *range(12)), n_jobs=2, num_splits=12)
    # a process takes its next fold before it is known that the other's failed, too
    assert 2 <= len(named(only_folder(tmp_path), "fold_failed")) <= 4


def test_a_metric_that_cannot_be_computed_is_refused_before_any_fold_is_trained(tmp_path, manager):
    pytest.importorskip("torch", reason="needs a backend whose networks have their shapes from the first")
    with pytest.raises(KeyError, match="nowhere"):
        kfold(build_kit("torch"), tmp_path, manager(24), n_jobs=2, metric_keys={"rmse": ("label", "nowhere")})
    assert not [*tmp_path.rglob("history.jsonl")]


def test_what_cannot_be_sent_is_named_with_its_cure(tmp_path, manager):
    class Opened(AbstractCallback):
        def __init__(self):
            self.log = threading.Lock()

        def __deepcopy__(self, memo):
            return self

    with pytest.raises(ConfigError, match=r"callbacks.* cannot be pickled: .*leave executor, n_jobs and devices out"):
        kfold(toy_kit(), tmp_path, manager(24), Opened(), n_jobs=2)
    assert not [*tmp_path.rglob("history.jsonl")]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_jobs": 0}, "n_jobs must be a number of folds from 1"),
        ({"n_jobs": 2.5}, "n_jobs"),
        ({"executor": "threads"}, "executor must be 'here', 'processes', 'ray', 'slurm' or"),
        ({"executor": ProcessExecutor}, "executor must be 'here', 'processes', 'ray', 'slurm' or"),
        ({"executor": "here", "n_jobs": 2}, "one fold after the other; for n_jobs=2 say 'processes'"),
        ({"resources": 3}, "resources must be"),
        ({"resources": {"cpu": 3}}, "resources has no 'cpu'; did you mean 'cpus'"),
        ({"resources": {"cpus": 0}}, "cpus must be"),
    ],
)
def test_places_that_are_none_are_refused_before_there_is_a_run(tmp_path, manager, options, match):
    with pytest.raises(ConfigError, match=match):
        kfold(toy_kit(), tmp_path, manager(24), **options)
    assert not [*(tmp_path / "UnnamedExperiment").iterdir()]


def test_where_folds_run_in_parallel_is_said_where_somebody_looks_for_it(tmp_path):
    with pytest.raises(ConfigError, match=r"'n_jobs'; kfold\(…, n_jobs=2\) runs folds in parallel"):
        toy_kit().experiment(tmp_path, n_jobs=2)


# ---- threads


def test_threads_are_shared_out_once_and_stay_what_they_were(tmp_path, manager, caplog):
    pytest.importorskip("torch", reason="needs a backend that can choose its threads")
    kit = build_kit("torch")

    class Threads(AbstractCallback):
        def __init__(self):
            self.numbers = []

        def at_epoch_end(self, trainer, **facts):
            self.numbers.append(trainer.backend.devices.thread_count())

        def state_dict(self):
            return {"numbers": self.numbers}

        def load_state_dict(self, state):
            self.numbers = state["numbers"]

    with kit.backend.devices.threads(6):
        some = kfold(kit, tmp_path, manager(24), Threads(), n_jobs=2, folds=[1])
        assert RunFolder(some.path).read_manifest()["num_threads"] == 3
        assert [*some.folds[0].callbacks[1].numbers] == [3, 3, 3]
        with caplog.at_level("WARNING"):
            whole = kfold(kit, tmp_path, manager(24), Threads(), resume=some.path)  # here, which has six
        is_more = usable_cores() < 3
        assert ("the 3 threads that the run was made for" in caplog.text) == is_more
        assert [[*fold.callbacks[1].numbers] for fold in whole.folds] == [[3, 3, 3]] * 4
        assert kit.backend.devices.thread_count() == 6


def test_who_cannot_have_the_threads_says_so_in_the_ledger(tmp_path, manager):
    result = kfold(toy_kit(), tmp_path, manager(24), n_jobs=2, resources={"cpus": 3})
    assert RunFolder(result.path).read_manifest()["num_threads"] == 3
    told = named(result, "other_threads")
    assert sorted(event["fold"] for event in told) == [0, 1, 2, 3]
    assert "does not compute with the 3 threads that the run was made for" in told[0]["text"]


# ---- an executor of somebody's own


class Later(Handle):
    """A task that is done when it is asked for."""

    def __init__(self, task):
        self.task, self.found, self.is_off = task, None, False

    def done(self):
        if self.found is None and not self.is_off:
            try:
                self.found = (self.task(), None)
            except Exception as error:
                self.found = (None, error)
        return True

    def result(self):
        self.done()
        if self.is_off:
            raise CancelledError
        value, error = self.found
        if error is not None:
            raise error
        return value

    def cancel(self):
        self.is_off = self.found is None


class Inline(Executor):
    """Runs everything in this process."""

    n_jobs = 1

    def __init__(self):
        self.needs, self.is_shut_down = [], False

    def submit(self, task, resources):
        self.needs.append(resources)
        return Later(copy.copy(task))

    def shutdown(self):
        self.is_shut_down = True


def test_an_executor_of_ones_own_runs_the_folds_and_stays_open(tmp_path, manager):
    own, needs = Inline(), Resources(cpus=1, gpus=0)
    expected = digest(kfold(toy_kit(), tmp_path / "here", manager(24)))
    result = kfold(toy_kit(), tmp_path / "own", manager(24), executor=own, resources=needs)
    assert digest(result) == expected
    assert own.needs == [needs] * 4
    assert not own.is_shut_down
    with pytest.raises(ConfigError, match="knows how many it runs at once; leave n_jobs out"):
        kfold(toy_kit(), tmp_path / "own", manager(24), executor=own, n_jobs=2)


def test_a_fold_that_cannot_be_written_comes_back_all_the_same(tmp_path, manager):
    class Blocks(AbstractCallback):
        def at_training_begin(self, trainer, **facts):
            (trainer.save_path / RESULT_FILE / "in the way").mkdir(parents=True)

    expected = [fold.means() for fold in kfold(toy_kit(), tmp_path / "here", manager(24)).folds]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = kfold(toy_kit(), tmp_path, manager(24), Blocks(), n_jobs=2)
    told = [str(each.message) for each in caught]
    assert {n for n in range(4) if any(f"the result of fold {n} could not be written" in text for text in told)} == {
        *range(4)
    }
    assert [fold.means() for fold in result.folds] == expected


def scaled(y_true, y_pred, factor):
    return factor * rmse(y_true, y_pred)


BY_ONE, BY_TWO = ({"f": functools.partial(scaled, factor=factor)} for factor in (1.0, 2.0))


class Meanwhile(Inline):
    """Lets somebody else work at the run before its first fold."""

    def __init__(self, work):
        super().__init__()
        self.work = work

    def submit(self, task, resources):
        if not self.needs:
            self.work()
        return super().submit(task, resources)


def test_what_a_session_with_other_metrics_finished_meanwhile_has_the_metrics_of_this_one(tmp_path, manager):
    first = kfold(toy_kit(), tmp_path, manager(24), metrics=BY_ONE, folds=[0])
    own = Meanwhile(lambda: kfold(toy_kit(), tmp_path, manager(24), metrics=BY_ONE, folds=[1, 2], resume=first.path))
    joined = kfold(toy_kit(), tmp_path, manager(24), metrics=BY_TWO, executor=own, resume=first.path)
    expected = kfold(toy_kit(), tmp_path / "alone", manager(24), metrics=BY_TWO)
    assert [fold.means() for fold in joined.folds] == [fold.means() for fold in expected.folds]
    assert [fold.means() for fold in KFoldResult.load(first.path).folds] == [fold.means() for fold in expected.folds]
    assert [fold.callbacks[0].epochs for fold in joined.folds] == [[(n, e) for e in (1, 2, 3)] for n in range(4)]
    assert len(named(joined, "fold_started")) == 4


@pytest.mark.parametrize(
    ("before", "change"),
    [({"metrics": BY_ONE, "keep_predictions": False}, {"metrics": BY_TWO}), ({"metrics": BY_ONE}, {"num_epochs": 4})],
    ids=["other metrics", "more epochs"],
)
def test_what_is_run_again_and_cannot_be_written_is_not_that_of_before(tmp_path, manager, monkeypatch, before, change):
    expected = kfold(toy_kit(), tmp_path / "alone", manager(24), **{**before, **change})
    first = kfold(toy_kit(), tmp_path, manager(24), **before)

    def refused(*arguments):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(results, "write_fold", refused)
    monkeypatch.setattr(kept, "write_predictions", refused)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = {**before, **change, "executor": Inline(), "resume": first.path}
        again = kfold(toy_kit(), tmp_path, manager(24), **options)
    assert any("the result of fold 3 could not be written" in str(each.message) for each in caught)
    assert [fold.means() for fold in again.folds] == [fold.means() for fold in expected.folds]
    assert [len(fold.history) for fold in again.folds] == [len(fold.history) for fold in expected.folds]


class Stubborn(Later):
    """A task that does not end, and raises where it is cancelled."""

    def __init__(self, task, cancelled):
        super().__init__(task)
        self.cancelled = cancelled

    def done(self):
        return False

    def cancel(self):
        self.cancelled.append(self.task.number)
        raise RuntimeError("the queue is closed")


class Refuses(Inline):
    """Takes two tasks, and no third one."""

    def __init__(self):
        super().__init__()
        self.cancelled = []

    def submit(self, task, resources):
        if len(self.needs) == 2:
            raise BlockingIOError("the queue is full")
        self.needs.append(resources)
        return Stubborn(task, self.cancelled)


def test_what_cannot_be_cancelled_hides_no_error_and_the_others_are_cancelled(tmp_path, manager, caplog):
    own = Refuses()
    with pytest.raises(ExecutorError, match="Refuses did not take fold 2: BlockingIOError: the queue is full"):
        kfold(toy_kit(), tmp_path, manager(24), executor=own)
    assert own.cancelled == [0, 1]
    assert "fold 1 may go on, as it cannot be cancelled: RuntimeError: the queue is closed" in caplog.text


class Interrupted(Stubborn):
    """A task that goes on when its program gets a signal."""

    def done(self):
        if not self.cancelled:
            signal.raise_signal(signal.SIGINT)
        return False

    def result(self):
        self.cancelled.append("waited for")
        raise CancelledError


class GoesOn(Refuses):
    def submit(self, task, resources):
        return Interrupted(task, self.cancelled)


def test_a_signal_waits_for_no_fold_that_cannot_be_cancelled(tmp_path, manager):
    own = GoesOn()
    with pytest.raises(KeyboardInterrupt):
        kfold(toy_kit(), tmp_path, manager(24), executor=own)
    assert own.cancelled == [0, 1, 2, 3]


class Gone(Later):
    """A task whose worker is lost."""

    def result(self):
        raise WorkerLostError("the machine is gone")


class LosesOne(Inline):
    """Loses the second task, and takes none a second time."""

    def submit(self, task, resources):
        if len(self.needs) == 4:
            raise BlockingIOError("the queue is closed")
        self.needs.append(resources)
        return (Gone if len(self.needs) == 2 else Later)(copy.copy(task))


def test_a_lost_fold_that_is_not_taken_again_has_failed_and_the_others_finish(tmp_path, manager):
    with pytest.raises(ExecutorError, match="LosesOne did not take fold 1: BlockingIOError") as caught:
        kfold(toy_kit(), tmp_path, manager(24), executor=LosesOne())
    assert any("Fold 1 failed; finished are [0, 2, 3]" in note for note in caught.value.__notes__)
    assert [event["fold"] for event in named(only_folder(tmp_path), "fold_failed")] == [1]
    again = kfold(toy_kit(), tmp_path, manager(24), resume="auto")
    assert digest(again) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24)))


# ---- signals

SCRIPT = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
import numpy as np
from small_backends import toy_kit
from test_folds import kfold
from delira.data_loading import BaseDataManager
from delira.training.callbacks import AbstractCallback
from problems import linear_problem

class Slow(AbstractCallback):
    only_watches = True
    def at_iter_end(self, trainer, **facts):
        (Path({folder!r}) / f"began-{{trainer.fold}}").touch()
        time.sleep({pause})

kfold(toy_kit(), {folder!r}, BaseDataManager(linear_problem(24, 3, 7), 4), Slow(), n_jobs=2, resume="auto")
print("done")
"""


def started(folder, pause):
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "experiments")]
    code = SCRIPT.format(paths=paths, folder=str(folder), pause=pause)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.02)


@pytest.mark.parametrize(
    "number",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGTERM)), signal.SIGKILL],
)
def test_after_a_signal_no_process_is_left_and_the_run_goes_on(tmp_path, number):
    process = started(tmp_path, 0.3)
    wait_for(lambda: len([*tmp_path.glob("began-*")]) == 2, process)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) == 2
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (-number if number != signal.SIGTERM else 143), said
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    folder = only_folder_of(tmp_path)
    if number != signal.SIGKILL:
        assert "folds [0, 1, 2, 3] stopped" in said
        assert len([*folder.glob("fold_*/checkpoints/*last*")]) == 2  # each wrote one
        assert events(folder)[-1]["event"] == "broken_off"
    process = started(tmp_path, 0)
    said, complained = process.communicate(timeout=90)
    assert said == "done\n", complained
    assert [*only_folder_of(tmp_path).parent.iterdir()] == [folder]
    expected = kfold(toy_kit(), tmp_path / "quiet", BaseDataManager(linear_problem(24, 3, 7), 4))
    found = KFoldResult.load(folder)
    assert json.dumps([fold.history for fold in found.folds]) == json.dumps([fold.history for fold in expected.folds])


def only_folder_of(path):
    (folder,) = [each for each in (path / "UnnamedExperiment").iterdir() if each.is_dir()]
    return folder
