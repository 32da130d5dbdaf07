"""Tables and summaries as texts for TensorBoard."""

import pytest
from event_files import read_events

from delira.training.callbacks import (
    TensorBoardText,
)

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")
from written_events import texts


def test_tables_have_the_values_of_epochs_and_batches(torch_fit, tmp_path):
    text = TensorBoardText(tmp_path, write_batch_metrics=True, batch_step_size=2)
    history = torch_fit.trial(text, metrics=["loss"]).run(2)
    (folder,) = tmp_path.iterdir()
    tables = texts(folder, "epoch")
    assert sorted(tables) == [1, 2]
    for step, record in enumerate(history, 1):
        assert f"<tr><th>val_loss</th><td>{record['val_loss']:.6g}</td></tr>" in tables[step]
    assert sorted(texts(folder / "batch", "batch")) == [1, 3, 4, 6]
    assert "running_loss" in texts(folder / "batch", "batch")[1]


def test_the_summary_is_written_once_and_escaped(torch_fit, tmp_path):
    class Odd(type(torch_fit.module)):
        def extra_repr(self):
            return "<b>bold</b>"

    torch_fit.module = Odd(3, 1)
    trial = torch_fit.trial(TensorBoardText(tmp_path), metrics=["loss"])
    trial.run(1)
    trial.run(2)
    (folder,) = tmp_path.iterdir()
    (summary,) = texts(folder, "trial").values()
    assert "&lt;b&gt;bold" in summary
    assert "<th>criterion</th><td>MSELoss()</td>" in summary
    assert "SGD" in summary
    assert "\n" not in summary  # it would end the table
    trial = torch_fit.trial(TensorBoardText(tmp_path / "none", log_trial_summary=False, write_epoch_metrics=False))
    trial.run(1)
    (folder,) = (tmp_path / "none").iterdir()
    assert read_events(folder).Tags()["tensors"] == []
