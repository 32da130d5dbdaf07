"""The history files of a run: one row for each epoch, as CSV and as JSON lines."""

import json
import logging
from pathlib import Path
from typing import Any

from delira.callbacks.abstract_callback import AbstractCallback, Trainer
from delira.utils.cells import as_text, csv_text
from delira.utils.checks import check_paths
from delira.utils.files import publish_text
from delira.utils.seal import KEY, sealed

_log = logging.getLogger("delira")


class HistoryWriter(AbstractCallback):
    """Keep ``history.csv`` and ``history.jsonl`` of a folder equal to ``trainer.state.history``.

    Each line of ``history.jsonl`` has a ``"checksum"`` besides, which tells a changed value. Rows are appended; the
    files are written anew where that is not enough: at the start (a resumed run cuts off what came after its
    checkpoint), when an epoch brings a new column, and when the files are not as they were left. Checkpoints hold the
    history as well, so that a full disk is no reason to stop.
    """

    def __init__(self, folder: str | Path):
        check_paths(self, folder=folder)
        self.folder = Path(folder)
        self._columns: list[str] = []
        self._n_rows: int | None = None  # in the files; None: not known

    def at_training_begin(self, trainer: Trainer, **facts: Any) -> None:
        """Write what was there before."""
        self._n_rows = None
        self._write(trainer.state.history)

    def at_epoch_end(self, trainer: Trainer, **facts: Any) -> None:
        """Append the epoch's row."""
        self._write(trainer.state.history)

    def at_training_end(self, trainer: Trainer, **facts: Any) -> None:
        """Make sure that the rows are on disk: nobody writes those of a finished fold again."""
        try:
            self._rewrite(trainer.state.history, durable=True)
        except OSError as error:
            _log.warning("the history could not be written (%s)", error)

    def _write(self, history: list[dict[str, float]]) -> None:
        is_one_behind = self._n_rows is not None and self._n_rows == len(history) - 1
        is_there = all((self.folder / name).exists() for name in ("history.csv", "history.jsonl"))
        try:
            if is_one_behind and is_there and set(history[-1]) <= set(self._columns):
                with open(self.folder / "history.csv", "a", newline="") as file:
                    file.write(self._rows([history[-1]]))
                with open(self.folder / "history.jsonl", "a") as file:
                    file.write(_line_of(history[-1]))
            else:
                self._rewrite(history)
            self._n_rows = len(history)
        except OSError as error:
            self._n_rows = None
            _log.warning("the history could not be written (%s); the next epoch tries again", error)

    def _rewrite(self, history: list[dict[str, float]], *, durable: bool = False) -> None:
        self._columns = list(dict.fromkeys(name for record in history for name in record))
        header = [{name: as_text(name) for name in self._columns}] if self._columns else []
        publish_text(self.folder / "history.csv", self._rows([*header, *history]), durable=durable)
        publish_text(self.folder / "history.jsonl", "".join(map(_line_of, history)), durable=durable)

    def _rows(self, records: list[dict[str, Any]]) -> str:
        return csv_text(([record.get(name, "") for name in self._columns] for record in records), line_end="\r\n")


def _line_of(record: dict[str, float]) -> str:
    """Return a line of JSON with a checksum, unless a value of the user's own has that name."""
    line = record if KEY in record else sealed(record, json.JSONEncoder().default)
    return json.dumps(line) + "\n"
