"""Scalars written for TensorBoard, read back by TensorBoard's own reader."""

import numpy as np
import pytest
from small_backends import build_kit

from delira import state as keys
from delira.callbacks.decorators import on_end_epoch, on_step_training
from delira.errors import ConfigError
from delira.training.callbacks import (
    TensorBoard,
    TensorBoardText,
)

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")
from written_events import assert_epochs, scalars, texts


def test_epochs_are_the_history(fit, tmp_path):
    trial = fit.trial(TensorBoard(tmp_path, write_graph=False), metrics=["loss", "mae"])
    history = trial.run(3)
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"{type(fit.module).__name__}_delira"
    assert {"loss", "val_loss", "mae", "val_mae"} <= set(scalars(folder))
    assert_epochs(scalars(folder), history)
    assert not (folder / "batch").exists()


def test_batches_have_the_number_of_their_update(fit, tmp_path):
    seen = {}

    @on_step_training
    def look(state):
        seen[len(seen) + 1] = float(state["loss"])

    board = TensorBoard(tmp_path, write_graph=False, write_batch_metrics=True, batch_step_size=2)
    fit.trial(look, board).run(2)
    (folder,) = tmp_path.iterdir()
    assert len(seen) == 6  # 3 in each epoch, of which the first and the third are written
    wanted = {step: pytest.approx(seen[step], rel=1e-6) for step in (1, 3, 4, 6)}
    assert scalars(folder / "batch")["batch/loss"] == wanted
    assert "batch/running_loss" in scalars(folder / "batch")


def test_values_that_are_lists_and_dictionaries_become_several_scalars(torch_fit, tmp_path):
    @on_end_epoch
    def add(state):
        state[keys.METRICS] |= {
            "list": [1.0, [2.0, 3.0]], "dict": {"a": 4, "b": [5.0]}, "array": np.array([[6.0, 7.0]]),
            "nan": float("nan"), "text": "no number", "complex": 1j, "yes": True,
        }  # fmt: skip

    board = TensorBoard(tmp_path, write_graph=False)
    torch_fit.trial(add, board, metrics=[]).run(1)
    (folder,) = tmp_path.iterdir()
    assert {name: steps[1] for name, steps in scalars(folder).items() if name != "lr"} == {
        "list/0": 1.0, "list/1/0": 2.0, "list/1/1": 3.0, "dict/a": 4.0, "dict/b/0": 5.0, "array/0/0": 6.0,
        "array/0/1": 7.0, "yes": 1.0,
    }  # fmt: skip


def test_a_continued_fit_hides_what_it_writes_again(torch_fit, tmp_path):
    board = lambda: TensorBoard(tmp_path / "logs", write_graph=False, write_batch_metrics=True, batch_step_size=1)  # noqa: E731
    trial = torch_fit.trial(board())
    trial.run(2)
    kept = trial.save(tmp_path / "kept")
    trial.run(3)
    again = torch_fit.trial(board()).load(kept)
    history = again.run(4)
    (folder,) = (tmp_path / "logs").iterdir()
    assert_epochs(scalars(folder), history)
    assert list(scalars(folder / "batch")["batch/loss"]) == list(range(1, 13))
    # of both fits that went on after the second epoch, if not within one second
    assert set(starts(folder)) == {3}
    assert set(starts(folder / "batch")) == {7}


def starts(folder):
    """Steps from which files of a folder hide what was written before, in their order."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(path for path in folder.iterdir() if path.is_file())
    events = [event for path in files for event in EventFileLoader(str(path)).Load()]
    return [event.step for event in events if event.HasField("session_log")]


def test_a_fit_that_is_continued_inside_an_epoch_equals_an_unbroken_one(torch_fit, tmp_path):
    def board(name):
        return TensorBoard(tmp_path / name, write_graph=False, write_batch_metrics=True, batch_step_size=1)

    @on_step_training
    def stop(state):
        if state[keys.EPOCH] == 1 and state[keys.BATCH] == 1:
            trainer = state[keys.SELF].trainer
            trainer.saving.save(["last"])
            raise RuntimeError("on purpose")

    whole = torch_fit.trial(board("whole"))
    before = {name: value.clone() for name, value in torch_fit.module.state_dict().items()}
    whole.run(3)
    torch_fit.module.load_state_dict(before)
    with pytest.raises(RuntimeError, match="on purpose"):
        torch_fit.trial(board("broken"), stop, save_path=tmp_path / "run").run(3)
    torch_fit.module.load_state_dict(before)
    torch_fit.trial(board("broken"), save_path=tmp_path / "run").run(3)
    for part in ("Linear_delira", "Linear_delira/batch"):
        assert scalars(tmp_path / "broken" / part) == scalars(tmp_path / "whole" / part)


def test_evaluations_and_predictions_leave_the_epochs_alone(torch_fit, tmp_path):
    trial = torch_fit.trial(TensorBoard(tmp_path), TensorBoardText(tmp_path)).with_test_data(torch_fit.x, 4)
    trial.run(2)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    trial.evaluate()
    trial.predict()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_a_replay_writes_everything_anew(torch_fit, tmp_path):
    trial = torch_fit.trial(TensorBoard(tmp_path, write_graph=False))
    history = trial.run(3)
    for _ in range(2):
        trial.replay([TensorBoard(tmp_path, write_batch_metrics=True, batch_step_size=1)], verbose=0)
    (folder,) = tmp_path.iterdir()
    assert_epochs(scalars(folder), history)
    assert list(scalars(folder / "batch")["batch/loss"]) == list(range(1, 10))


def test_a_fit_that_has_nothing_to_do_writes_nothing(torch_fit, tmp_path, manager):
    kit = build_kit("torch")
    kit.trainer(tmp_path / "run").train(2, manager())
    kit.trainer(tmp_path / "run", callbacks=[TensorBoard(tmp_path / "logs")]).train(2, manager())
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("kit", ["torch", "tensorflow", "jax"], indirect=True)
def test_an_experiment_has_it_too(kit, tmp_path, manager):
    board = TensorBoard(tmp_path / "logs", write_graph=False, write_batch_metrics=True, batch_step_size=1)
    trainer = kit.trainer(tmp_path / "run", callbacks=[board, TensorBoardText(tmp_path / "logs")])
    trainer.train(2, manager(), manager())
    (folder,) = (tmp_path / "logs").iterdir()
    assert_epochs(scalars(folder), trainer.state.history)
    assert list(scalars(folder / "batch")["batch/loss"]) == [1, 2, 3, 4, 5, 6]
    assert f"<td>{trainer.state.history[1]['mse']:.6g}</td>" in texts(folder, "epoch")[2]


@pytest.mark.parametrize("kit", ["torch"], indirect=True)
def test_folds_have_folders_of_their_own(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path / "runs", callbacks=[TensorBoard(tmp_path / "logs", write_graph=False)])
    experiment.kfold(manager(12), num_epochs=1, num_splits=3)
    name = kit.network.__name__
    found = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert found == [f"{name}_delira", f"{name}_delira_fold_1", f"{name}_delira_fold_2"]
    losses = [scalars(tmp_path / "logs" / folder)["mse"][1] for folder in found]
    assert len(set(losses)) == 3


def test_what_cannot_be_is_refused(tmp_path):
    for step_size in (0, 1.5, True):
        with pytest.raises(ConfigError, match="TensorBoard: batch_step_size is a whole number of at least 1, got"):
            TensorBoard(tmp_path, batch_step_size=step_size)
    with pytest.raises(ConfigError, match=r"visdom_params are VisdomParams\(...\), got \{'port': 1\}"):
        TensorBoardText(tmp_path, visdom_params={"port": 1})
