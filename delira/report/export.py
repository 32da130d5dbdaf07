"""Tables and plots of a result as files for a paper."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.errors import ConfigError, check_paths, did_you_mean
from delira.report import plots
from delira.report.examples import Examples, outlined
from delira.report.plots import SALT
from delira.report.sections import drawn_folds, sections
from delira.report.summary import check_result, fold_values
from delira.report.table import Seconds, Table, fold_table
from delira.utils.files import publish, publish_text
from delira.utils.pictures import Figure, picture_class

if TYPE_CHECKING:
    from delira.experiments.result import KFoldResult

TABLES, PLOTS = ("csv", "tex"), ("png", "svg", "pdf")
DPI = 300
#: what would make files of the same result differ
_UNDATED: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def export(result: "KFoldResult", folder: str | Path, formats: Sequence[str] = (*TABLES, *PLOTS)) -> list[Path]:
    """Write each table and each plot of a result; the same result gives the same bytes.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    folder
        Where to; made if it does not exist. Files of the same names are replaced.
    formats
        Of tables ``"csv"`` (all digits) and ``"tex"`` (a tabular for the package booktabs); of plots ``"png"``
        (300 dpi), ``"svg"`` and ``"pdf"``.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ConfigError
        If a format is none of these.
    """
    check_result("export", result, "summary", "info")
    check_paths("export", folder=folder)
    if not isinstance(formats, (str, list, tuple, set)) or any(not isinstance(one, str) for one in formats):
        raise ConfigError(f"export: formats must be names of formats, got {formats!r}")
    formats = [formats] if isinstance(formats, str) else list(dict.fromkeys(formats))
    if unknown := [one for one in formats if one not in (*TABLES, *PLOTS)]:
        raise ConfigError(f"nothing is exported as {unknown[0]!r}{did_you_mean(str(unknown[0]), (*TABLES, *PLOTS))}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, str] = {}
    for table in _tables(result):
        texts |= {f"{table.name}.csv": table.csv(), f"{table.name}.tex": table.latex() + "\n"}
    if fold_values(result):
        texts["metrics.tex"] = fold_table(result, "latex") + "\n"
    if (history := _history(drawn_folds(result))).rows:
        texts["history.csv"] = history.csv()
    paths = [
        publish_text(folder / file, text, durable=False)
        for file, text in texts.items()
        if file.rpartition(".")[2] in formats
    ]
    plots_asked = [one for one in formats if one in PLOTS]
    for name, figure in _figures(result) if plots_asked else ():
        paths += [_save(figure, folder / f"{name}.{one}") for one in plots_asked]
    return paths


def _save(figure: "Figure", path: Path) -> Path:
    import matplotlib

    buffer, kind = io.BytesIO(), path.suffix[1:]
    with matplotlib.rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=_UNDATED[kind])
    return publish(path, lambda file: file.write(buffer.getvalue()), durable=False)


def _tables(result: "KFoldResult") -> Iterator[Table]:
    if summary := result.summary():
        yield summary_table(summary)
    if result.folds:
        per_fold = fold_values(result)
        header = ["Fold", "Train", "Validation", "Test", "Epochs", "Best epoch", *per_fold, "Duration"]
        rows: list[list[Any]] = [
            [
                str(fold.fold),
                len(fold.train_indices),
                None if fold.val_indices is None else len(fold.val_indices),
                len(fold.test_indices),
                len(fold.history),
                fold.best_epoch,
                *(float(values[position]) for values in per_fold.values()),
                Seconds(fold.seconds),
            ]
            for position, fold in enumerate(result.folds)
        ]
        yield Table("folds", header, rows)
    for section in sections(result):
        yield from section.tables


def summary_table(summary: dict[str, dict[str, Any]]) -> Table:
    """One row for each metric.

    Parameters
    ----------
    summary
        What ``KFoldResult.summary()`` gives.
    """
    rows = list(summary.values())
    has_pooled = any(row["pooled"] and np.isfinite(row["oof"]) for row in rows)
    columns: dict[str, list[Any]] = {
        "Metric": list(summary),
        "Mean": [row["mean"] for row in rows],
        "SD": [row["std"] for row in rows],
        "Out-of-fold": [np.nan if row["pooled"] else row["oof"] for row in rows],
        "Out-of-fold SD": [row["oof_std"] for row in rows],
        "Pooled": [row["oof"] if row["pooled"] else np.nan for row in rows],
        "CI low": [row["ci_low"] for row in rows],
        "CI high": [row["ci_high"] for row in rows],
        "CI of": [None if np.isnan(row["ci_low"]) else "mean" if row["pooled"] else "out-of-fold" for row in rows],
        "n": [row["n"] for row in rows],
        "Groups": [row["n_groups"] for row in rows],
    }
    shown = {
        "Out-of-fold SD": any(np.isfinite(row["oof_std"]) for row in rows),
        "Pooled": has_pooled,
        "CI of": has_pooled,
        "Groups": any(row["n_groups"] for row in rows),
    }
    header = [name for name in columns if shown.get(name, True)]
    cells = [list(row) for row in zip(*(columns[name] for name in header), strict=True)]
    return Table("summary", header, cells, by_row=True)


def _history(folds: Sequence[Any]) -> Table:
    """One row for each epoch of each fold: the numbers behind the learning curves."""
    keys = [
        key for key in dict.fromkeys(key for fold in folds for entry in fold.history for key in entry) if key != "epoch"
    ]
    rows = [
        [
            str(fold.fold),
            int(entry.get("epoch", position + 1)),
            *(None if entry.get(key) is None else float(np.mean(entry[key])) for key in keys),
        ]
        for fold in folds
        for position, entry in enumerate(fold.history)
    ]
    return Table("history", ["Fold", "Epoch", *keys], rows)


def _figures(result: "KFoldResult") -> Iterator[tuple[str, "Figure"]]:
    folds = drawn_folds(result)
    if plots.curves(folds):
        yield "learning_curves", plots.learning_curves(folds)
    for section in sections(result):
        yield from section.panels.items()
        yield from section.only_in_files.items()
    if result.examples is not None and result.examples.examples:
        yield "examples", examples_figure(result.examples)


def examples_figure(examples: Examples) -> "Figure":
    """The worst samples in a row, and the best in a row below; blue is the true outline, orange the predicted one."""
    sides = ([one for one in examples.examples if one.is_best == is_best] for is_best in (False, True))
    rows = [row for row in sides if row]
    n_columns = max(map(len, rows))
    figure = picture_class()(figsize=(1.3 * n_columns, 1.75 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), n_columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for row, line in zip(rows, grid, strict=True):
        for one, axes in zip(row, line, strict=False):
            axes.imshow(outlined(one.image, one.true_mask, one.predicted_mask))
            label = f"{one.score:.3g}" + (f"\n{one.true} → {one.predicted}" if one.true else "")
            axes.set_title(label, fontsize=7, color=plots.INK, parse_math=False)
    return figure
