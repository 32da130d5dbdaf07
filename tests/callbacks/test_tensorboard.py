"""Event files of an experiment: the values of every epoch, read back by TensorBoard's own reader."""

from types import SimpleNamespace

import pytest

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX', which is not installed")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which is not installed")

from written_events import scalars

from delira.callbacks.tensorboard import TensorBoardWriter


def train(folder, *, begin, epochs):
    """Write epochs from one on, as a trainer calls the callback."""
    writer = TensorBoardWriter(folder)
    state = SimpleNamespace(epoch=begin, global_step=3 * begin)
    trainer = SimpleNamespace(state=state)
    writer.at_training_begin(trainer, num_epochs=epochs)
    for epoch in range(begin + 1, epochs + 1):
        writer.at_epoch_end(trainer, metrics={"loss": 1 / epoch}, curr_epoch=epoch)
    writer.at_training_end(trainer)


def test_epochs_are_scalars_and_a_continued_run_hides_what_it_writes_again(tmp_path):
    train(tmp_path, begin=0, epochs=3)
    train(tmp_path, begin=1, epochs=2)
    assert scalars(tmp_path) == {"loss": {1: 1.0, 2: 0.5}}


def test_a_training_that_has_nothing_to_do_writes_no_file(tmp_path):
    train(tmp_path / "events", begin=2, epochs=2)
    assert not (tmp_path / "events").exists()
