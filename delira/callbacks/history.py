"""Epochs as rows of files: the history of a run, as CSV and as JSON lines, and a table of the user's own."""

import csv
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.callbacks.abstract_callback import AbstractCallback, Callback, Trainer, trainer_of
from delira.callbacks.monitor import of_fold, plain_values
from delira.errors import ConfigError, check_flags, check_paths, check_that
from delira.state import BATCH, EPOCH, METRICS, PHASE, State
from delira.utils import cells, files
from delira.utils.owned import check_ours

_log = logging.getLogger("delira")


class _Table:
    """The rows of a CSV file with common columns, to which rows are added.

    Parameters
    ----------
    columns
        The first ones.
    separator, line_end
        What :func:`delira.utils.cells.csv_text` takes.
    """

    def __init__(self, columns: Iterable[str] = (), separator: str = ",", line_end: str = "\n"):
        self.columns, self._form = [*columns], (separator, line_end)

    def row(self, record: Mapping[str, Any]) -> list[Any]:
        """Return the cells of a record; what it does not have is empty."""
        return [record.get(name, "") for name in self.columns]

    def takes(self, record: Mapping[str, Any]) -> bool:
        """Return True if a record has no new column: else all is to be rewritten."""
        return record.keys() <= set(self.columns)

    def text(self, record: Mapping[str, Any]) -> str:
        """Return the line of a record."""
        return cells.csv_text([self.row(record)], *self._form)

    def rewrite(self, path: Path, rows: Iterable[Sequence[Any]], *, durable: bool = True) -> None:
        """Write the file anew, with rows that are filled up to the number of columns."""
        filled = ([*row, *[""] * (len(self.columns) - len(row))] for row in rows)
        files.publish_text(path, cells.csv_text(filled, *self._form), durable=durable)


class HistoryWriter(AbstractCallback):
    """Keep ``history.csv`` and ``history.jsonl`` of a folder equal to ``trainer.state.history``.

    Each line of ``history.jsonl`` has a ``"checksum"`` besides, which tells a changed value. Rows are appended; the
    files are written anew where that is not enough: at the start (a resumed run cuts off what came after its
    checkpoint), when an epoch brings a new column, and when the files are not as they were left. Checkpoints hold the
    history as well, so that a full disk is no reason to stop.
    """

    only_first = True

    def __init__(self, folder: str | Path):
        check_paths(self, folder=folder)
        self.folder = Path(folder)
        self._table = _Table(line_end="\r\n")
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
            if is_one_behind and is_there and self._table.takes(history[-1]):
                check_ours(self.folder)
                with open(self.folder / "history.csv", "a", newline="", encoding="utf-8") as file:
                    file.write(self._table.text(history[-1]))
                with open(self.folder / "history.jsonl", "a", encoding="utf-8") as file:
                    file.write(_line_of(history[-1]))
            else:
                self._rewrite(history)
            self._n_rows = len(history)
        except OSError as error:
            self._n_rows = None
            _log.warning("the history could not be written (%s); the next epoch tries again", error)

    def _rewrite(self, history: list[dict[str, float]], *, durable: bool = False) -> None:
        self._table.columns = list(dict.fromkeys(name for record in history for name in record))
        rows = [[cells.as_text(name) for name in self._table.columns], *map(self._table.row, history)]
        self._table.rewrite(self.folder / "history.csv", rows if history else [], durable=durable)
        files.publish_text(self.folder / "history.jsonl", "".join(map(_line_of, history)), durable=durable)


def _line_of(record: dict[str, float]) -> str:
    """Return a line of JSON with a checksum, unless a value of the user's own has that name."""
    return json.dumps(record if files.CHECKSUM in record else files.sealed(record, json.JSONEncoder().default)) + "\n"


class CSVLogger(Callback):
    """Write the metrics of every epoch, and of every batch if asked for, as rows of one table.

    All rows have the same columns: ``epoch`` (from 1, as in the history), ``batch`` (from 0; empty in the row of the
    epoch itself) where batches are written, then the metrics in the order in which they first appeared; what a
    row does not have is empty. A fit that is continued continues the file where its checkpoint was written. Evaluations
    and predictions leave the file alone; a replay writes it anew.

    Parameters
    ----------
    filename
        The file; ``_fold_1`` and so on is added to its name for the further folds of an experiment.
    separator
        One character between the values.
    batch_granularity
        Whether training steps get rows, too; each then waits for the values of its metrics.
    write_header
        Whether the first row names the columns.
    append
        Whether a fit that begins anew keeps what is in the file.

    Raises
    ------
    ConfigError
        If ``separator`` is not one character.
    """

    phases = ("fit", "replay")
    only_first = True

    def __init__(
        self,
        filename: str | Path,
        separator: str = ",",
        batch_granularity: bool = False,
        write_header: bool = True,
        append: bool = False,
    ):
        is_one = isinstance(separator, str) and len(separator) == 1
        check_that(is_one, "CSVLogger", "the separator is one character", separator)
        check_paths(self, filename=filename)
        check_flags(self, batch_granularity=batch_granularity, write_header=write_header, append=append)
        self.path = self._first_path = Path(filename).absolute()
        self.separator, self.append = separator, append
        self.batch_granularity, self.write_header = batch_granularity, write_header
        self._first = ["epoch", "batch"] if batch_granularity else ["epoch"]
        self._table = _Table(self._first, separator)
        self._file: Any = None

    def on_start(self, state: State) -> None:
        """Open the file, with the rows that stay."""
        self.path = of_fold(self._first_path, state)
        progress = None if state[PHASE] == "replay" else trainer_of(state).state
        is_continued = progress is not None and bool(progress.epoch or progress.step_in_epoch)
        rows = self._read() if self.append or is_continued else []
        if not rows:
            self._table.columns = self._first
        while is_continued and rows and not self._is_before(rows[-1], progress):
            rows.pop()
        self._rewrite(rows)

    def on_step_training(self, state: State) -> None:
        """Write a row for a batch, if asked for."""
        if self.batch_granularity:
            self._write(state, state[BATCH])

    def on_end_epoch(self, state: State) -> None:
        """Write a row for the epoch."""
        self._write(state, "")

    def on_end(self, state: State) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def state_dict(self) -> dict[str, Any]:
        """Return the columns."""
        return {"columns": self._table.columns}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the columns back."""
        self._table.columns = state["columns"]

    def _write(self, state: State, batch: object) -> None:
        values = {name: value for name, value in state[METRICS].items() if name not in self._first}
        row = {**dict(zip(self._first, (state[EPOCH] + 1, batch), strict=False)), **plain_values(values)}
        if not self._table.takes(row):
            self._file.close()
            rows = self._read()
            self._table.columns = list(dict.fromkeys([*self._table.columns, *row]))
            self._rewrite(rows)
        self._file.write(self._table.text(row))
        self._file.flush()

    def _read(self) -> list[list[str]]:
        """Return the rows of the file; the columns are those of its header, if it has one."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, delimiter=self.separator))
        if self.write_header and rows:
            self._table.columns = rows.pop(0)
        if (columns := self._table.columns)[: len(self._first)] != self._first:
            raise ConfigError(f"CSVLogger: {self.path} has the columns {columns}; it is a file of something else")
        return rows

    def _rewrite(self, rows: list[list[Any]]) -> None:
        self._table.rewrite(self.path, [*([self._table.columns] if self.write_header else []), *rows])
        self._file = self.path.open("a", newline="", encoding="utf-8")

    def _is_before(self, row: list[str], progress: Any) -> bool:
        """Return True if a row was written before a place in the fit: epochs that are done, and steps of the next."""
        begun, has_batch = int(row[0]) - progress.epoch, self.batch_granularity and row[1] != ""
        return begun < 1 or (begun == 1 and has_batch and int(row[1]) < progress.step_in_epoch)
