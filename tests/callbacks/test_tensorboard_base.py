"""One writer for all callbacks of a folder, and what every callback for TensorBoard has."""

import importlib.util
import sys

import pytest

from delira import state as keys
from delira.callbacks.decorators import on_end_epoch
from delira.training.callbacks import (
    AbstractTensorBoard,
    TensorBoard,
    TensorBoardText,
    TensorBoardWriter,
    close_writer,
    get_writer,
)

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")
from written_events import assert_epochs, scalars, texts


def test_the_folder_is_the_same_at_every_start(torch_fit, tmp_path):
    board = TensorBoard(tmp_path, write_graph=False, comment="mine")
    trial = torch_fit.trial(board)
    for epochs in (1, 2, 3):
        trial.run(epochs)
        trial.evaluate()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_dir()] == ["Linear_mine"]
    assert list(scalars(tmp_path / "Linear_mine")["loss"]) == [1, 2, 3]


def test_a_shared_writer_is_closed_by_its_last_user_only(tmp_path):
    first, second = get_writer(tmp_path, "first"), get_writer(tmp_path, "second")
    assert first is second
    close_writer(tmp_path, "first")
    close_writer(tmp_path, "first")  # a user that is done does not count twice
    close_writer(tmp_path, "stranger")
    second.add_scalar("kept", 1.0, 1)
    assert get_writer(tmp_path, "third") is second
    close_writer(tmp_path, "second")
    second.add_scalar("kept", 2.0, 2)
    assert second.all_writers
    close_writer(tmp_path, "third")
    assert not second.all_writers
    assert scalars(tmp_path) == {"kept": {1: 1.0, 2: 2.0}}
    assert get_writer(tmp_path, "fourth") is not second
    close_writer(tmp_path, "fourth")


def test_callbacks_of_one_folder_write_one_file(torch_fit, tmp_path):
    trial = torch_fit.trial(TensorBoard(tmp_path, write_graph=False), TensorBoardText(tmp_path))
    history = trial.run(2)
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert_epochs(scalars(file.parent), history)
    assert sorted(texts(file.parent, "epoch")) == [1, 2]


def test_a_fit_that_fails_leaves_a_closed_file(torch_fit, tmp_path):
    @on_end_epoch
    def fail(state):
        if state[keys.EPOCH] == 1:
            raise RuntimeError("on purpose")

    board = TensorBoard(tmp_path, write_graph=False)
    with pytest.raises(RuntimeError, match="on purpose"):
        torch_fit.trial(board, fail).run(3)
    (folder,) = tmp_path.iterdir()
    assert list(scalars(folder)["loss"]) == [1, 2]
    writer = get_writer(folder, "new")  # nobody is left who keeps the old one
    close_writer(folder, "new")
    assert not writer.all_writers


def test_a_callback_of_ones_own(torch_fit, tmp_path):
    class Answer(AbstractTensorBoard):
        def on_end_epoch(self, state):
            self.get_writer().add_scalar("answer", 42, state[keys.EPOCH] + 1)

    torch_fit.trial(Answer(tmp_path), TensorBoard(tmp_path, write_graph=False)).run(2)
    (folder,) = tmp_path.iterdir()
    assert scalars(folder)["answer"] == {1: 42.0, 2: 42.0}


def test_what_is_missing_is_told_with_what_to_install(torch_fit, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"TensorBoard needs the package 'tensorboardX'.*pip install 'delira\[log"):
        torch_fit.trial(TensorBoard(tmp_path)).run(1)
    with pytest.raises(ImportError, match=r"pip install 'delira\[logging\]'"):
        torch_fit.trial(TensorBoardWriter(tmp_path)).run(1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"visdom=True needs the package 'visdom'.*setuptools<81"):
        torch_fit.trial(TensorBoard(tmp_path, visdom=True)).run(1)
