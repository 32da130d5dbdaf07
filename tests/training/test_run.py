"""What the parts of a trainer share, and who of several processes writes and prints."""

import hashlib

import numpy as np
import pytest

from delira import callbacks
from delira.errors import NonFiniteLossError
from delira.logging import log
from delira.settings.config import read_settings
from delira.training.checks import roll_back
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


# ---- one of several processes


class Pictures(callbacks.ImagingCallback):
    """A picture of each batch."""

    def on_batch(self, state):
        return np.ones((1, 4, 4))


class Told(callbacks.Callback):
    """A callback of a user, which also logs."""

    def __init__(self):
        self.events = []

    def on_step_training(self, state):
        log({"value": {"value": 1.0, "name": "seen"}})

    def on_end_epoch(self, state):
        self.events.append("on_end_epoch")

    def at_epoch_end(self, trainer, **facts):
        self.events.append("at_epoch_end")


def writers_in(folder):
    """Every callback of delira that writes or prints and needs no further package but Pillow."""
    pictures = Pictures().on_train().to_file(folder / "{epoch}_{index}.png")
    return [
        callbacks.CSVLogger(folder / "mine.csv", batch_granularity=True), callbacks.HistoryWriter(folder / "further"),
        callbacks.MostRecent(folder / "newest"), callbacks.ConsolePrinter(), callbacks.Tqdm(), callbacks.ProgressBar(),
        callbacks.LiveLossPlot(), callbacks.TimerMetric(), pictures,
    ]  # fmt: skip


def files_in(folder):
    """Every file with its content."""
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.rglob("*") if path.is_file()}


def process_of(kit, folder, rank, *more, **settings):
    """The trainer of one of two processes."""
    heard = [Told(), *writers_in(folder), *more]
    return kit.trainer(folder, ranks=Ranks(rank, 2), callbacks=heard, save_freq_steps=1, verbose=1, **settings)


def train(trainer, manager, epochs=3):
    """Train epochs of which the last is not the best."""
    trainer.train(epochs, manager(), manager(), "mse", "highest")
    assert trainer.callbacks[0].events == ["on_end_epoch", "at_epoch_end"] * epochs


def history_of(trainer):
    """The values of its epochs that are no times."""
    return [{name: one[name] for name in one if "seconds" not in name} for one in trainer.state.history]


def assert_same_weights(kit, first, other):
    assert np.array_equal(kit.read(first.module), kit.read(other.module))


def test_only_the_first_of_two_processes_writes_and_prints(kit, tmp_path, manager, capfd, caplog):
    pytest.importorskip("PIL", reason="needs the package 'Pillow'")
    first, other = (process_of(kit, tmp_path / str(rank), rank) for rank in range(2))
    train(other, manager)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert files_in(tmp_path / "1") == {}
    assert caplog.records == []
    assert other.weights_epoch == 3  # there is no checkpoint of the best
    train(first, manager)
    written = {path.name for path in files_in(tmp_path / "0")}
    assert written >= {"history.csv", "mine.csv", "messages.jsonl", "0_2.png"}
    assert "epoch 3/3" in capfd.readouterr().err
    assert history_of(first) == history_of(other)
    assert (first.state.best_score, first.state.best_epoch) == (other.state.best_score, other.state.best_epoch)
    first.saving.return_to_last()
    assert_same_weights(kit, first, other)


def test_another_process_takes_the_best_weights_from_the_folder_of_the_first(kit, tmp_path, manager):
    pytest.importorskip("PIL", reason="needs the package 'Pillow'")
    first, other = (process_of(kit, tmp_path, rank) for rank in range(2))
    train(first, manager)
    files = files_in(tmp_path)
    train(other, manager)
    assert files_in(tmp_path) == files
    assert first.weights_epoch == other.weights_epoch == first.state.best_epoch < 3
    assert_same_weights(kit, first, other)


def test_another_process_changes_no_file_of_a_run_that_it_continues(kit, tmp_path, manager):
    first = kit.trainer(tmp_path, ranks=Ranks(0, 2), save_freq=1)
    first.train(2, manager())
    path = first.checkpoints.path("epoch_1")
    first.checkpoints.path("last").unlink()
    path.with_name(f"{path.name}.partial-01234567").write_text("half")
    files = files_in(tmp_path)
    assert kit.trainer(tmp_path, ranks=Ranks(1, 2)).state.epoch == 2
    other = kit.trainer(tmp_path, ranks=Ranks(1, 2), resume_from=path)
    assert other.state.epoch == 1
    other.train(2, manager())
    other.update_state(path).train(2, manager())
    assert other.save_state(tmp_path / "mine").name.startswith("mine")
    assert files_in(tmp_path) == files
    assert_same_weights(kit, first, other)


def test_trackers_and_event_files_are_the_firsts(kit, tmp_path, manager, monkeypatch):
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    pytest.importorskip("PIL", reason="needs the package 'Pillow'")
    monkeypatch.chdir(tmp_path)
    boards = [callbacks.TensorBoard("boards"), callbacks.TensorBoardText("boards"), callbacks.TensorBoardWriter("more")]
    boards.append(Pictures().on_val().to_tensorboard("picture", "pictures"))
    kept = []
    boards.append(Pictures().on_val().with_handler(lambda picture, state: kept.append(picture.shape)))
    other = process_of(kit, tmp_path, 1, *boards, logging_type="tensorboardx", logging_frequencies=1)
    train(other, manager, epochs=1)
    assert files_in(tmp_path) == {}
    assert kept == [(1, 4, 4)] * 3  # what a user does with pictures is done by every process


def test_confusion_matrices_are_written_by_the_first(kit, tmp_path, capfd):
    pytest.importorskip("pycm", reason="needs the package 'pycm'")
    made = []
    matrices = (
        callbacks.PyCM().to_console().to_html_file(tmp_path / "matrix").with_handler(lambda *seen: made.append(seen))
    )
    trainer = kit.trainer(None, ranks=Ranks(1, 2))
    for handler in matrices._handlers:
        handler("the matrix", trainer.hook_state)
    assert files_in(tmp_path) == {}
    assert capfd.readouterr().err == ""
    assert len(made) == 1


class Stopping:
    """Ends a training after two epochs."""

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        trainer.stop_training = curr_epoch == 2


class Hasty:
    """Ends a training before it begins, and changes its mind."""

    def at_training_begin(self, trainer, **facts):
        trainer.stop_training = True

    def at_iter_begin(self, trainer, **facts):
        trainer.stop_training = False


def test_the_first_process_decides_which_epoch_is_best_and_when_a_training_ends(kit, tmp_path, manager):
    said = []
    first = kit.trainer(tmp_path / "first", ranks=Ranks(0, 2, agree=lambda own: said.append(own) or own))
    first.register_callback(Stopping())
    first.train(5, manager(), manager(), "mse", "lowest")
    answers = iter(said)
    other = kit.trainer(tmp_path / "other", ranks=Ranks(1, 2, agree=lambda own: next(answers)))
    other.register_callback(Hasty())
    other.train(5, manager(), manager(seed=3), "mse", "highest")
    assert list(answers) == []
    assert other.state.epoch == first.state.epoch == 2
    assert other.state.stop_training
    assert (other.state.best_epoch, other.state.best_score) == (first.state.best_epoch, first.state.best_score)
    assert other.state.history != first.state.history


@pytest.mark.parametrize("first_goes_back", [True, False])
def test_the_first_process_decides_whether_a_training_goes_back(kit, tmp_path, first_goes_back):
    ranks = Ranks(1, 2, agree=lambda is_in_data: not first_goes_back)
    trainer, error = kit.trainer(tmp_path, ranks=ranks, nonfinite="rollback"), NonFiniteLossError("no number")
    error.is_in_data = first_goes_back
    if first_goes_back:
        roll_back(trainer.run, trainer.guard_log, error, lambda: None)
    else:
        with pytest.raises(NonFiniteLossError, match="no number"):
            roll_back(trainer.run, trainer.guard_log, error, lambda: None)
    assert trainer.state.rollbacks == first_goes_back
