"""What the parts of a trainer share, and who of several processes writes and prints."""

import numpy as np
import pytest

from delira.settings.config import read_settings
from delira.training.run import Ranks, Run


@pytest.fixture
def run(kit):
    return Run(read_settings({"losses": {"mse": abs}}), kit.backend, fold=1)


def test_a_run_stands_alone(run):
    assert (run.fold, run.state.fold, run.seed, run.state.epoch) == (1, 1, 0, 0)
    assert not run.is_unfinished
    assert run.train_data is None
    assert run.score_key is None
    assert not run.skips_validation
    assert run.ranks == Ranks(0, 1, run.ranks.gather)


def test_a_fold_and_a_seed_are_those_of_the_state(run):
    run.fold = 3
    run.set_seed(7)
    assert (run.state.fold, run.state.seed, run.config.seed) == (3, 7, 7)


def test_a_closure_that_is_set_later_is_no_default(run, kit):
    run.closure = kit.network.closure
    assert run.has_default_closure
    run.closure = lambda model, data_dict, optimizers, **kwargs: ({}, {}, {})
    assert not run.has_default_closure


def test_a_warning_is_logged_once(run, caplog):
    run.warn_once("look here")
    run.warn_once("look here")
    assert [record.message for record in caplog.records] == ["look here"]


def test_steps_of_an_epoch_that_was_broken_off_are_forgotten(run):
    run.state.step_in_epoch, run.is_whole = 3, False
    run.leave_epoch()
    assert (run.state.step_in_epoch, run.is_whole) == (0, True)


def test_the_second_of_two_processes_writes_nothing_and_prints_nothing(kit, tmp_path, manager, capfd):
    other = kit.trainer(
        tmp_path / "second", ranks=Ranks(1, 2), logging_type="tensorboardx", logging_frequencies=1, save_freq_steps=1
    )
    other.train(2, manager(), manager(), verbose=1)
    assert [path.name for path in (tmp_path / "second").rglob("*") if path.is_file()] == []
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    first = kit.trainer(tmp_path / "first", ranks=Ranks(0, 2))
    first.train(2, manager(), manager(), verbose=0)
    assert (tmp_path / "first" / "history.csv").exists()
    for one, two in zip(kit.read(first.module), kit.read(other.module), strict=True):
        assert np.array_equal(one, two)
    assert first.state.history == other.state.history
