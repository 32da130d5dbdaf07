"""The HTML page of a cross-validation: one file that needs no other."""

import contextlib
import datetime
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import MissingKeyError
from delira.metrics.scoring import DEFAULT_KEYS, keys_of, lookup
from delira.report import plots
from delira.report.summary import fold_values
from delira.report.tables import DASH, footnotes, metric_columns, number_format

MAX_CLASSES = 30
"""A confusion matrix larger than that cannot be read."""
STRIP = (220, 26)
"""Width and height of the drawing beside a metric, in pixels."""
SCALE = 1.385
"""Pixels per point of the learning curves: three panels are as wide as the page."""
_SPECIAL = ("name", "seed", "date", "started", "versions", "class_names", "split_type", "warnings", "duplicates")
"""Entries of ``info`` that have a place of their own."""
_CSS_COLOURS = {
    plots.TRAINING: "var(--training)",
    plots.VALIDATION: "var(--validation)",
    plots.INK: "var(--ink)",
    plots.MUTED: "var(--muted)",
    plots.RULE: "var(--rule)",
    plots.PAPER: "var(--paper)",
}


def result_page(result: Any) -> str:
    """Render the page of a ``KFoldResult``; every text from outside is escaped.

    Returns
    -------
    str
        HTML without any link to another file; colours follow the reader's light or dark setting.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("delira.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    columns = metric_columns(result)
    drawn = result.folds or result.unfinished
    figure = learning_curves_svg(drawn) if plots.curves(drawn) else None
    return environment.get_template("kfold.html.j2").render(
        name=result.name or "cross-validation",
        facts=_facts(result),
        metrics=[(column, strip(result, column.name)) for column in columns],
        strip_size=STRIP,
        notes=footnotes(columns),
        warnings=result.warnings,
        folds=_fold_rows(result),
        metric_names=[column.name for column in columns],
        figure=figure and Markup(figure),  # made by matplotlib, which has escaped it
        uneven=len({len(fold.history) for fold in drawn}) > 1,
        confusion=confusion(result),
        settings=_flat({k: v for k, v in result.info.items() if k not in _SPECIAL}),
        versions=_flat(result.info.get("versions") or {}),
    )


def _facts(result: Any) -> list[tuple[str, str]]:
    """The line under the title."""
    date = result.info.get("date") or result.info.get("started") or datetime.datetime.now()
    with contextlib.suppress(TypeError, ValueError):  # a date in words stays as it is
        date = datetime.datetime.fromisoformat(str(date)).strftime("%d %B %Y, %H:%M")
    n_folds, n_cases = len(result.folds), int(result.oof.mask.sum())
    split_type = result.info.get("split_type")
    facts = [
        ("Date", str(date)),
        ("Splits", f"{n_folds}{f', {split_type}' if split_type else ''}"),
        ("Cases", f"{n_cases:,}" + (f" of {result.n_samples:,}" if n_cases < result.n_samples else "")),
    ]
    if result.groups is not None:
        facts.append(("Groups", f"{len(np.unique(np.asarray(result.groups)[result.oof.mask])):,}"))
    return [*facts, ("Seed", str(result.seed))]


def strip(result: Any, name: str) -> dict[str, Any] | None:
    """Where to draw a metric's folds (circles), interval (bar) and out-of-fold value (tick), in pixels."""
    row, values = result.summary()[name], fold_values(result)[name]
    shown = np.array([*values, row["oof"], row["ci_low"], row["ci_high"]])
    finite = shown[np.isfinite(shown)]
    if not len(finite):
        return None
    low, span = finite.min(), np.ptp(finite) or 1.0
    margin = 8

    def place(value: float) -> float | None:
        at = margin + (value - low) / span * (STRIP[0] - 2 * margin)
        return round(float(at), 1) if np.isfinite(value) else None

    return {
        "folds": [at for value in values if (at := place(value)) is not None],
        "oof": place(row["oof"]),
        "low": place(row["ci_low"]),
        "high": place(row["ci_high"]),
    }


def _fold_rows(result: Any) -> list[dict[str, Any]]:
    per_fold = fold_values(result)
    formats = {name: number_format(values.tolist()) for name, values in per_fold.items()}
    return [
        {
            "fold": fold.fold,
            "train": f"{len(fold.train_indices):,}",
            "val": DASH if fold.val_indices is None else f"{len(fold.val_indices):,}",
            "test": f"{len(fold.test_indices):,}",
            "epochs": len(fold.history) or DASH,
            "best_epoch": DASH if fold.best_epoch is None else fold.best_epoch,
            "seconds": duration(fold.seconds),
            "values": [formats[name](values[position]) for name, values in per_fold.items()],
        }
        for position, fold in enumerate(result.folds)
    ]


def duration(seconds: float) -> str:
    """Write a duration: ``"8.3 s"``, ``"2 min 05 s"``, ``"1 h 07 min"``."""
    if not np.isfinite(seconds):
        return DASH
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def learning_curves_svg(folds: Sequence[Any]) -> str:
    """Learning curves as inline SVG whose colours and font are those of the page."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "delira"}):
        plots.learning_curves(folds).savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    # HTML needs no name spaces; the size is in pixels.
    width, height = (float(number) for number in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)[0])
    size = f'width="{width * SCALE:.0f}" height="{height * SCALE:.0f}" viewBox="0 0 {width} {height}"'
    svg = f'<svg {size} role="img" aria-label="Learning curves">{body}'
    svg = re.sub(r"'DejaVu Sans'(?:[^;\"]*sans-serif)?", "var(--font)", svg.replace("xlink:href=", "href="))
    for colour, variable in _CSS_COLOURS.items():
        svg = svg.replace(colour, variable)
    return svg


def confusion(result: Any) -> dict[str, Any] | None:
    """Confusion matrix of the out-of-fold predictions, if the task is a classification.

    It is one if the two entries of a metric, else the default ones, are integer labels of shape ``(n,)``
    and class scores ``(n, C)`` or integer labels, with at most 30 classes.

    Returns
    -------
    dict or None
        ``classes``; ``rows``, one per true class, of ``(name, cells, recall)`` with cells of
        ``(count, share of the row)``.
    """
    keys = [*keys_of(result.metrics or {}, result.metric_keys).values(), DEFAULT_KEYS]
    for pair in keys:
        labels = _labels(result, pair) if len(pair) == 2 else None
        if labels is None:
            continue
        true, pred, n_scores = labels
        n_classes = max(n_scores, int(max(true.max(), pred.max())) + 1)
        if min(true.min(), pred.min()) < 0 or not 2 <= n_classes <= MAX_CLASSES:
            continue
        counts = np.bincount(true * n_classes + pred, minlength=n_classes**2).reshape(n_classes, n_classes)
        names = result.info.get("class_names") or ()
        names = list(map(str, names if len(names) == n_classes else range(n_classes)))
        return {"classes": names, "rows": _confusion_rows(counts, names)}
    return None


def _labels(result: Any, pair: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int] | None:
    """True and predicted labels of the tested cases, and the number of score columns (0: labels)."""
    oof = result.oof
    try:
        found = [(key, lookup({**oof.predictions, **oof.targets}, key)) for key in pair]
    except MissingKeyError:
        return None
    if not all(isinstance(array, np.ndarray) for _, array in found) or not oof.mask.any():
        return None
    columns = [(key not in oof.targets, _without_axis(array[oof.mask])) for key, array in found]
    # torchmetrics reads (pred, label): the entry with fewer axes, else that of the batch, is the true one
    (_, true), (_, pred) = sorted(columns, key=lambda column: (column[1].ndim, column[0]))
    if true.dtype.kind not in "iub" or true.ndim != 1:
        return None
    if pred.ndim == 2 and pred.shape[1] > 1 and pred.dtype.kind == "f" and np.isfinite(pred).all():
        return true.astype(int), pred.argmax(1), pred.shape[1]
    if pred.ndim == 1 and pred.dtype.kind in "iub":
        return true.astype(int), pred.astype(int), 0
    return None


def _without_axis(array: np.ndarray) -> np.ndarray:
    """One label per case, without an axis of length 1 behind it."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _confusion_rows(counts: np.ndarray, names: Sequence[str]) -> list[tuple[str, list[tuple[int, float]], str]]:
    rows = []
    for position, (name, row) in enumerate(zip(names, counts, strict=True)):
        total = int(row.sum())
        cells = [(int(count), round(count / total, 3) if total else 0.0) for count in row]
        rows.append((name, cells, f"{row[position] / total:.1%}" if total else DASH))
    return rows


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as rows of (dotted name, text)."""
    rows = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            rows.append((f"{prefix}{key}", ", ".join(map(str, value)) or DASH))
        else:
            rows.append((f"{prefix}{key}", DASH if value is None else str(value)))
    return rows
