"""The metrics over samples of a cross-validation, case by case, as a table for other programs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.errors import ConfigError, check_paths, did_you_mean, import_optional
from delira.report.table import Table, aligned_columns
from delira.utils.files import publish, publish_text

if TYPE_CHECKING:
    import pandas

SHOWN = 10
"""Rows that are printed."""


class CaseTable:
    """Values of the metrics over samples, each by a network that did not see the case: one row for each test of a case.

    Parameters
    ----------
    columns
        Name to an array of shape ``(n,)``: ``index`` in the data set, ``name`` where it tells one, ``fold``, ``group``
        where there are groups, then the metrics, float64, NaN where a case has no value.

    Raises
    ------
    ConfigError
        If columns are not of one length.

    Examples
    --------
    >>> import numpy as np
    >>> cases = CaseTable({"index": np.array([0, 1]), "fold": np.array([1, 0]), "dice": np.array([0.5, np.nan])})
    >>> print(cases)
    index   fold   dice
    -------------------
        0      1    0.5
        1      0    nan
    >>> len(cases), cases["dice"].tolist()
    (2, [0.5, nan])
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        lengths = {name: np.shape(column) for name, column in columns.items()} if isinstance(columns, Mapping) else {}
        if not lengths or any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
            raise ConfigError(f"CaseTable: columns are arrays of one length by name, got {lengths or columns!r:.200}")
        self.columns = {name: np.asarray(column) for name, column in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise ConfigError(f"the cases have no column {name!r}{did_you_mean(str(name), self.columns)}")
        return self.columns[name]

    @property
    def table(self) -> Table:
        """The rows as a table of the report; ``cases`` is the name of its files."""
        cells = (column.tolist() for column in self.columns.values())
        return Table("cases", list(self.columns), [list(map(_cell, row)) for row in zip(*cells, strict=True)])

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return the table with one row for each test of a case.

        Raises
        ------
        MissingBackendError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "CaseTable.to_dataframe", "pandas")
        return pandas.DataFrame(self.columns)

    def to_csv(self, path: str | Path) -> Path:
        """Write the table as CSV with all digits; what a case has no value of is empty.

        Returns
        -------
        Path
            The file.
        """
        return publish_text(_made(path), self.table.csv(), durable=False)

    def to_parquet(self, path: str | Path) -> Path:
        """Write the table as a Parquet file.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        MissingBackendError
            If pyarrow is not installed.
        """
        arrow = import_optional("pyarrow", "CaseTable.to_parquet", "pyarrow")
        parquet = import_optional("pyarrow.parquet", "CaseTable.to_parquet", "pyarrow")
        columns = {name: arrow.array(column.tolist()) for name, column in self.columns.items()}
        return publish(_made(path), lambda file: parquet.write_table(arrow.table(columns), file), durable=False)

    def __str__(self) -> str:
        kinds = {name: column.dtype.kind for name, column in self.columns.items()}
        texts = [
            [name, *(f"{cell:.4g}" if kinds[name] == "f" else str(cell) for cell in column[:SHOWN].tolist())]
            for name, column in self.columns.items()
        ]
        more = f"\n… and {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return aligned_columns(texts, "".join("<" if kind in "OSU" else ">" for kind in kinds.values())) + more

    def __repr__(self) -> str:
        return f"CaseTable({len(self)} rows, {list(self.columns)})"


def _made(path: str | Path) -> Path:
    check_paths("CaseTable", path=path)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return Path(path)


def _cell(value: object) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def case_table(result: Any) -> CaseTable:
    """Return the table of a result: ordered by case, one tested in several folds once for each.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    names = [name for name in (result.folds[0].metrics if result.folds else ()) if result.is_per_case(name)]
    index = _joined([fold.test_indices for fold in result.folds], np.int64)
    fold = _joined([np.full(len(fold.test_indices), fold.fold) for fold in result.folds], np.int64)
    order = np.lexsort((fold, index))
    columns = {"index": index[order], "fold": fold[order]}
    if result.case_names is not None:
        columns = {"index": index[order], "name": np.asarray(result.case_names)[index[order]], "fold": fold[order]}
    if result.groups is not None:
        columns["group"] = np.asarray(result.groups)[index[order]]
    for name in names:
        values = _joined([one.metrics[name] for one in result.folds], np.float64)
        columns[f"{name} (metric)" if name in columns else name] = values[order]
    return CaseTable(columns)


def _joined(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype)
