"""Training without a folder: nothing is written, nothing is continued, the rest is as with one."""

import os

import numpy as np
import pytest
from small_backends import build_kit

from delira.errors import ConfigError, FolderInUseError
from delira.models import named_weights
from delira.settings.config import read_settings
from delira.training.run import Ranks, Run
from delira.training.saving import RunFiles, check_score, lock


def test_it_learns_the_same_and_writes_nothing(kit, tmp_path, manager, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    with_files, without = kit.trainer(tmp_path / "run"), kit.trainer(None)
    for trainer in (with_files, without):
        trainer.train(2, manager(), manager(), verbose=True)
    assert with_files.state.history == without.state.history
    weights = named_weights(without.module)
    assert all(np.array_equal(array, weights[name]) for name, array in named_weights(with_files.module).items())
    assert not [*empty.iterdir()]


def test_it_goes_on_in_the_same_trainer(kit, tmp_path, manager):
    whole, steps = kit.trainer(None), kit.trainer(None)
    whole.train(3, manager())
    for n_epochs in (1, 3):
        steps.train(n_epochs, manager())
    assert whole.state.history == steps.state.history


def test_after_an_error_it_goes_on_with_the_weights_it_has(kit, manager):
    trainer = kit.trainer(None)
    trainer.train(1, manager())

    class Once:
        is_done = False

        def at_iter_end(self, trainer, *, iter_num, **facts):
            if iter_num == 1 and not self.is_done:
                self.is_done = True
                raise ValueError("mine")

    trainer.register_callback(Once())
    with pytest.raises(ValueError, match="mine"):
        trainer.train(3, manager())
    trainer.train(3, manager())
    assert [record["epoch"] for record in trainer.state.history] == [1, 2, 3]


def test_a_state_is_saved_where_the_user_says(kit, tmp_path, manager):
    trainer = kit.trainer(None)
    trainer.train(1, manager())
    path = trainer.save_state(tmp_path / "mine")
    other = kit.trainer(None).update_state(path)
    assert other.state.history == trainer.state.history


@pytest.mark.parametrize(
    "settings",
    [{"save_freq_steps": 1}, {"save_in_background": True}, {"nonfinite": "rollback"}, {"val_score_key": "mse"}],
)
def test_what_needs_files_is_refused(kit, settings):
    with pytest.raises(ConfigError, match="save_path=None keeps none; give a save_path"):
        kit.trainer(None, **settings)


def test_a_score_is_refused_when_it_is_asked_for(kit, manager):
    with pytest.raises(ConfigError, match="val_score_key='val_mse' needs checkpoints"):
        kit.trainer(None).train(1, manager(), manager(), "mse")


def test_parameters_of_a_schedule_that_is_not_there_are_refused(kit):
    with pytest.raises(ConfigError, match=r"lr_scheduler_params=.* has no effect without lr_scheduler_cls"):
        kit.trainer(None, lr_scheduler_params={"step_size": 1})
    assert kit.trainer(None, lr_scheduler_params={}) is not None


# ---- the files of a run alone, without a trainer


def run_of(folder, **more):
    settings = {key: more.pop(key) for key in [*more] if key != "ranks"}
    kit = build_kit("toy")
    run = Run(read_settings({"losses": {"mse": kit.loss}, **settings}), kit.backend, save_path=folder, **more)
    run.network, run.devices = kit.build(), kit.backend.devices.resolve((), "cpu")
    return run


def test_a_folder_has_a_history_and_checkpoints(tmp_path):
    run = run_of(tmp_path)
    files = RunFiles(run, {})
    assert files.saver.writes
    assert files.saver.folder.path("last").parent == tmp_path / "checkpoints"
    assert type(next(iter(run.callbacks))).__name__ == "HistoryWriter"


@pytest.mark.parametrize(("folder", "ranks"), [(None, None), ("here", Ranks(1, 2))])
def test_without_a_folder_or_a_right_to_write_nothing_is_saved(tmp_path, folder, ranks):
    run = run_of(None if folder is None else tmp_path / folder, ranks=ranks, logging_type=None)
    files = RunFiles(run, {})
    assert not files.saver.writes
    files.saver.begin(None)
    files.saver.save({}, ["last"])
    files.saver.check_alone()
    assert list(run.callbacks) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", [{"save_freq_steps": 1}, {"save_freq_minutes": 1}, {"nonfinite": "rollback"}])
def test_settings_that_need_files_are_refused_without_a_folder(setting):
    with pytest.raises(ConfigError, match="needs checkpoints, and save_path=None keeps none; give a save_path"):
        RunFiles(run_of(None, logging_type=None, **setting), {})


def test_a_score_needs_a_folder(tmp_path):
    check_score(None, None)
    check_score(tmp_path, "val_mse")
    with pytest.raises(ConfigError, match="val_score_key='val_mse' needs checkpoints"):
        check_score(None, "val_mse")


def test_the_folder_is_locked_by_the_first_of_several_processes_alone(tmp_path):
    first, second = run_of(tmp_path), run_of(tmp_path, ranks=Ranks(1, 2))
    with lock(first, alone=True), lock(second, alone=True), lock(run_of(None), alone=True):
        pass
    with lock(first, alone=True), pytest.raises(FolderInUseError):
        lock(first, alone=True).__enter__()


def test_a_folder_that_cannot_be_made_again_is_refused_before_the_training(tmp_path):
    run = run_of(tmp_path / "run")
    (tmp_path / "run").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be a folder: .* is a file"):
        lock(run).__enter__()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_any_more_is_refused_before_the_training(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(ConfigError, match="is not writable"):
            lock(run_of(tmp_path)).__enter__()
    finally:
        tmp_path.chmod(0o755)
