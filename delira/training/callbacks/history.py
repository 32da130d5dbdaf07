"""The history files of a run: one row for each epoch, as CSV and as JSON lines."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from delira.training.callbacks.abstract_callback import AbstractCallback
from delira.utils.files import publish_text


class HistoryWriter(AbstractCallback):
    """Keep ``history.csv`` and ``history.jsonl`` of a folder equal to ``trainer.state.history``.

    Rows are appended; the files are written anew where that is not enough: at the start (a resumed
    run cuts off what came after its checkpoint) and when an epoch brings a new column.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._columns: list[str] = []

    def at_training_begin(self, trainer: Any, **facts: Any) -> None:
        """Write what was there before."""
        self._rewrite(trainer.state.history)

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Append the epoch's row."""
        record = trainer.state.history[-1]
        if not set(record) <= set(self._columns):
            self._rewrite(trainer.state.history)
            return
        with open(self.folder / "history.csv", "a", newline="") as file:
            file.write(self._rows([record]))
        with open(self.folder / "history.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")

    def _rewrite(self, history: list[dict[str, float]]) -> None:
        self._columns = list(dict.fromkeys(name for record in history for name in record))
        header = ",".join(self._columns) + "\r\n" if self._columns else ""
        publish_text(self.folder / "history.csv", header + self._rows(history), durable=False)
        lines = "".join(json.dumps(record) + "\n" for record in history)
        publish_text(self.folder / "history.jsonl", lines, durable=False)

    def _rows(self, records: list[dict[str, float]]) -> str:
        text = io.StringIO(newline="")
        csv.DictWriter(text, self._columns, restval="").writerows(records)
        return text.getvalue()
