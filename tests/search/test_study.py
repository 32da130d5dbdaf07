"""A study on disk: proposals that depend on the seed and the number, whole lines, and what readers of Optuna see."""

import json
import os
import subprocess
import sys

import pytest

from delira.runs.leases import Lease, Leases
from delira.search import Choice, Float, Int, Tune

optuna = pytest.importorskip("optuna")

from delira.search.study import FILE_NAME, Study  # noqa: E402 - where Optuna is

SPACES = {"lr": Float(1e-5, 0.1, log=True), "depth": Int(1, 9, step=2), "kind": Choice(["a", "b", dict, None])}


def study(folder, seed=0, **asked):
    return Study(folder, "it", Tune(**{"n_trials": 9, "metric": "score", **asked}), [True], seed)


def ask(number, pick):
    for name, space in SPACES.items():
        pick(name, space)


def trials(folder, n, seed=0, **asked):
    it = study(folder, seed, **asked)
    found = []
    for number in range(n):
        params = it.proposed(number, ask)
        it.finish(number, "finished", [params["depth"] - abs(params["lr"])])
        found.append(params)
    return found


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2"])
def test_the_same_seed_proposes_the_same(tmp_path, sampler):
    one, other = (trials(tmp_path / name, 15, sampler=sampler) for name in ("one", "other"))
    assert one == other
    assert one != trials(tmp_path / "third", 15, seed=1, sampler=sampler)
    assert len({json.dumps(each) for each in one}) > 10


def test_who_asks_again_is_told_the_same_and_a_new_process_goes_on(tmp_path):
    whole = trials(tmp_path / "whole", 15)
    trials(tmp_path / "broken", 12)
    again = study(tmp_path / "broken")
    assert [again.proposed(number, ask) for number in range(12)] == whole[:12]
    for number in range(12, 15):
        params = again.proposed(number, ask)
        again.finish(number, "finished", [params["depth"] - abs(params["lr"])])
        assert params == whole[number]


@pytest.mark.parametrize("sampler", ["tpe", "random", "gp", "nsga2"])
@pytest.mark.parametrize("beside", [0, 2])
def test_what_is_kept_in_memory_proposes_what_the_file_would(tmp_path, sampler, beside):
    """Trials end in every way, and, with others at work, some run while the next ones are proposed."""
    if sampler == "gp":
        pytest.importorskip("torch")
    asked = {"n_trials": 40, "sampler": sampler, "num_splits": 2, "pruner": None if sampler == "nsga2" else "median"}
    kept, running = study(tmp_path, **asked), []
    copy = tmp_path / "anew"
    copy.mkdir()
    for number in range(14 if sampler == "gp" else 40):
        copy.joinpath(FILE_NAME).write_bytes(tmp_path.joinpath(FILE_NAME).read_bytes())
        assert kept.proposed(number, ask) == study(copy, **asked).proposed(number, ask)
        running.append(number)
        if len(running) > beside:
            ended = running.pop(0)
            kept.report(ended, ended % 3, float(ended * 7 % 11))
            state = {3: "finished", 5: "failed", 25: "failed"}.get(ended, "pruned")
            kept.finish(ended, state, [float(ended % 5)], [float(ended % 4)])


def test_values_are_in_their_spaces(tmp_path):
    for params in trials(tmp_path, 20, sampler="random"):
        assert SPACES["lr"].has(params["lr"])
        assert SPACES["depth"].has(params["depth"])
        assert params["kind"] in ("a", "b", "dict", None)


@pytest.mark.parametrize("left", [b'{"op_code":4,"wor', b'{"op_code":6}', b"\x00\x00"])
def test_a_line_that_was_left_half_written_is_cut_off(tmp_path, left):
    whole = trials(tmp_path / "whole", 6)
    trials(tmp_path / "broken", 4)
    with open(tmp_path / "broken" / FILE_NAME, "ab") as file:
        file.write(left)
    again = study(tmp_path / "broken")
    for number in (4, 5):
        params = again.proposed(number, ask)
        again.finish(number, "finished", [params["depth"] - abs(params["lr"])])
        assert params == whole[number]
    for line in (tmp_path / "broken" / FILE_NAME).read_bytes().splitlines():
        json.loads(line)


def test_optuna_opens_the_file_by_itself(tmp_path):
    found = trials(tmp_path, 5)
    script = (
        "import optuna, json, sys\n"
        "from optuna.storages import JournalStorage\nfrom optuna.storages.journal import JournalFileBackend\n"
        "study = optuna.load_study(study_name='it', storage=JournalStorage(JournalFileBackend(sys.argv[1])))\n"
        "print(json.dumps([trial.params for trial in study.trials]))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / FILE_NAME)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert json.loads(told.stdout) == found


def test_a_proposal_is_one_line_so_that_a_kill_leaves_all_of_it_or_nothing(tmp_path):
    it = study(tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes().count(b"\n")
    it.proposed(0, ask)
    assert (tmp_path / FILE_NAME).read_bytes().count(b"\n") == before + 1


def taken_over(folder, then):
    """Another process takes the study over and works at it, as this one shows no sign of life."""
    leases = Leases(folder)
    lease = leases.take("study", over=leases.holder("study"))
    lease.release()
    then(study(folder, seed=1, pruner="median"))


def test_who_was_stopped_proposes_nothing_after_a_takeover(tmp_path, caplog):
    it, others = study(tmp_path, pruner="median"), []

    def stopped(number, pick):
        ask(number, pick)
        if not others:
            taken_over(tmp_path, lambda other: others.append(other.proposed(0, ask)))

    assert it.proposed(0, stopped) == others[0]
    assert len(study(tmp_path).trials()) == 1
    assert "study of" in caplog.text
    assert "it is done again" in caplog.text
    assert it.proposed(1, ask) != others[0]


def test_who_was_stopped_says_and_ends_nothing_twice_after_a_takeover(tmp_path, monkeypatch):
    it, left = study(tmp_path, pruner="median"), [0, 1]
    it.proposed(0, ask)

    def stopped(lease):
        if left and lease is it._lease:
            number = left.pop(0)
            taken_over(tmp_path, lambda other: other.finish(0, "pruned", None) if number else other.report(0, 1, 0.5))
        return check(lease)

    check = Lease.check
    monkeypatch.setattr(Lease, "check", stopped)
    it.report(0, 1, 0.5)
    it.finish(0, "finished", [1.0])
    assert left == []
    assert [it.n_in("pruned"), it.n_in("finished")] == [1, 0]
    lines = [json.loads(line) for line in (tmp_path / FILE_NAME).read_bytes().splitlines()]
    assert ["step" in line for line in lines].count(True) == 1
    assert [line["state"] for line in lines if line.get("trial_id") == 0 and "state" in line] == [2]


def test_a_trial_ends_once(tmp_path):
    it = study(tmp_path)
    it.proposed(0, ask)
    it.finish(0, "finished", [1.0])
    it.finish(0, "failed", None)
    assert it.n_in("finished") == 1
    assert it.n_in("failed") == 0


def test_a_median_pruner_looks_at_the_fold_that_runs(tmp_path):
    it = study(tmp_path, pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
    for number, values in enumerate([[0.5, 0.8], [0.6, 0.9]]):
        it.proposed(number, ask)
        for step, value in zip((1, 11), values, strict=True):
            assert not it.report(number, step, value, since=step - 1)
        it.finish(number, "finished", [values[1]])
    it.proposed(2, ask)
    assert not it.report(2, 1, 0.95)
    assert it.report(2, 11, 0.75, since=10)  # its 0.95 of the fold before, above the median there, does not count


def test_a_value_that_was_reported_before_a_break_is_not_reported_again(tmp_path):
    it = study(tmp_path, pruner="median")
    it.proposed(0, ask)
    it.report(0, 1, 0.5)
    size = (tmp_path / FILE_NAME).stat().st_size
    it.report(0, 1, 0.5)
    assert (tmp_path / FILE_NAME).stat().st_size == size


def test_optuna_is_left_as_talkative_as_it_was(tmp_path, capfd):
    before = optuna.logging.get_verbosity()
    trials(tmp_path, 2)
    assert optuna.logging.get_verbosity() == before
    assert not capfd.readouterr().err
