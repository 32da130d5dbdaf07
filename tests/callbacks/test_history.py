"""The history files of a run: a row for each epoch, and none twice."""

import csv
import json
import subprocess
import sys


def test_both_files_have_every_epoch(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    trainer.train(2, manager(), manager())
    (table,), (lines,) = tmp_path.rglob("history.csv"), tmp_path.rglob("history.jsonl")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [int(row["epoch"]) for row in rows] == [1, 2]
    for row, record, epoch in zip(rows, records, trainer.state.history, strict=True):
        assert float(row["mse"]) == record["mse"] == epoch["mse"]
        assert float(row["val_mse"]) == record["val_mse"]


def test_a_run_that_goes_on_writes_its_epochs_once(kit, tmp_path, manager):
    kit.trainer(tmp_path).train(2, manager())
    kit.trainer(tmp_path).train(3, manager())
    (lines,) = tmp_path.rglob("history.jsonl")
    assert [json.loads(line)["epoch"] for line in lines.read_text().splitlines()] == [1, 2, 3]


_APPENDING = """
import sys
from types import SimpleNamespace
from delira.callbacks.history import HistoryWriter

state = SimpleNamespace(history=[{"epoch": 1, "note": "groß"}])
writer = HistoryWriter(sys.argv[1])
writer.at_training_begin(SimpleNamespace(state=state))
state.history.append({"epoch": 2, "note": "größer"})
writer.at_epoch_end(SimpleNamespace(state=state))
"""


def test_rows_are_appended_in_the_encoding_in_which_files_are_written_anew(tmp_path):
    strict = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning:delira.callbacks.history"]
    subprocess.run([sys.executable, *strict, "-c", _APPENDING, str(tmp_path)], check=True)
    assert (tmp_path / "history.csv").read_bytes() == "epoch,note\r\n1,groß\r\n2,größer\r\n".encode()
