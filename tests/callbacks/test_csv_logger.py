"""The table of metrics: one shape for all rows, and nobody but a fit writes into it."""

import csv

import pytest

from delira.callbacks.decorators import on_step_training
from delira.errors import ConfigError
from delira.training.callbacks import CSVLogger


def table(path, separator=","):
    with path.open(newline="") as file:
        return list(csv.reader(file, delimiter=separator))


def test_epochs_are_rows_of_the_history(fit, tmp_path):
    history = fit.trial(CSVLogger(tmp_path / "log.csv"), metrics=["loss", "mae"]).run(3)
    header, *rows = table(tmp_path / "log.csv")
    assert header[0] == "epoch"
    assert [int(row[0]) for row in rows] == [1, 2, 3]
    for record, row in zip(history, rows, strict=True):
        found = dict(zip(header, row, strict=True))
        for name in ("loss", "val_loss", "mae", "val_mae"):
            assert float(found[name]) == pytest.approx(record[name], rel=1e-9)


def test_rows_of_batches_and_of_epochs_have_the_same_columns(fit, tmp_path):
    history = fit.trial(CSVLogger(tmp_path / "log.csv", batch_granularity=True)).run(2)
    header, *rows = table(tmp_path / "log.csv")
    assert {len(row) for row in rows} == {len(header)}
    assert [row[:2] for row in rows] == [
        ["1", "0"], ["1", "1"], ["1", "2"], ["1", ""], ["2", "0"], ["2", "1"], ["2", "2"], ["2", ""],
    ]  # fmt: skip
    found = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["val_loss"] != "" for row in found] == [False, False, False, True] * 2
    assert all(row["running_loss"] for row in found)
    assert float(found[3]["val_loss"]) == pytest.approx(history[0]["val_loss"])


def test_evaluations_and_predictions_leave_the_file_alone(torch_fit, tmp_path):
    trial = torch_fit.trial(CSVLogger(tmp_path / "log.csv")).with_test_data(torch_fit.x, 4)
    trial.run(2)
    before = (tmp_path / "log.csv").read_text()
    trial.evaluate()
    trial.predict()
    assert (tmp_path / "log.csv").read_text() == before


def test_a_second_run_continues_the_file(torch_fit, tmp_path):
    trial = torch_fit.trial(CSVLogger(tmp_path / "log.csv"))
    trial.run(2)
    first = (tmp_path / "log.csv").read_text()
    trial.run(4)
    text = (tmp_path / "log.csv").read_text()
    assert text.startswith(first)
    assert [row[0] for row in table(tmp_path / "log.csv")] == ["epoch", "1", "2", "3", "4"]


@pytest.mark.parametrize("header", [True, False])
def test_a_resumed_fit_takes_rows_back_that_it_writes_again(torch_fit, tmp_path, header):
    logger = lambda: CSVLogger(tmp_path / "log.csv", batch_granularity=True, write_header=header)  # noqa: E731
    trial = torch_fit.trial(logger())
    trial.run(2)
    kept = trial.save(tmp_path / "kept")
    trial.run(3)
    unbroken = (tmp_path / "log.csv").read_text()
    torch_fit.trial(logger()).load(kept).run(3)
    assert (tmp_path / "log.csv").read_text() == unbroken


def test_rows_of_batches_are_there_at_once(torch_fit, tmp_path):
    seen = []

    @on_step_training
    def look(state):
        seen.append(len(table(tmp_path / "log.csv")))

    torch_fit.trial(CSVLogger(tmp_path / "log.csv", batch_granularity=True), look).run(1)
    assert seen == [2, 3, 4]


def test_the_shape_of_the_file_can_be_chosen(torch_fit, tmp_path):
    path = tmp_path / "deep" / "log.csv"
    torch_fit.trial(CSVLogger(path, separator=";", write_header=False)).run(2)
    assert [row[0] for row in table(path, ";")] == ["1", "2"]
    torch_fit.trial(CSVLogger(path, separator=";", write_header=False)).run(1)
    assert [row[0] for row in table(path, ";")] == ["1"]


def test_append_keeps_what_was_there(torch_fit, tmp_path):
    for _ in range(2):
        torch_fit.trial(CSVLogger(tmp_path / "log.csv", append=True)).run(2)
    assert [row[0] for row in table(tmp_path / "log.csv")] == ["epoch", "1", "2", "1", "2"]


def test_a_replay_writes_the_table_anew(torch_fit, tmp_path):
    trial = torch_fit.trial(CSVLogger(tmp_path / "log.csv"))
    trial.run(3)
    trial.replay([CSVLogger(tmp_path / "again.csv")], verbose=0)
    first, again = table(tmp_path / "log.csv"), table(tmp_path / "again.csv")
    assert [sorted(zip(again[0], row, strict=True)) for row in again] == [
        sorted(zip(first[0], row, strict=True)) for row in first
    ]


def test_an_experiment_has_it_too(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path / "run", callbacks=[CSVLogger(tmp_path / "log.csv", batch_granularity=True)])
    trainer.train(2, manager(), manager())
    header, *rows = table(tmp_path / "log.csv")
    assert [row[:2] for row in rows] == [[str(e), b] for e in (1, 2) for b in ("0", "1", "2", "")]
    assert float(rows[-1][header.index("mse")]) == pytest.approx(trainer.state.history[-1]["mse"])


def test_what_cannot_be_is_refused(torch_fit, tmp_path):
    with pytest.raises(ConfigError, match="the separator is one character, got '::'"):
        CSVLogger(tmp_path / "log.csv", separator="::")
    (tmp_path / "other.csv").write_text("name,age\na,1\n")
    with pytest.raises(ConfigError, match=r"other.csv has the columns \['name', 'age'\]; it is a file of something"):
        torch_fit.trial(CSVLogger(tmp_path / "other.csv", append=True)).run(1)
