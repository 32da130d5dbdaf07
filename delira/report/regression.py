"""What the page says about a regression: predicted over true values, and what is left over."""

from typing import Any

import numpy as np

from delira.errors import MissingKeyError
from delira.metrics.scoring import lookup
from delira.report.parts import entry_pairs, tests_of, true_and_predicted
from delira.report.plots import agreement_panel, residual_panel
from delira.report.table import Section, Table


def regressed(result: Any, *, each_once: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """True values, predictions, both float64 of shape ``(n,)``, and which tested cases they are.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    each_once
        Take of a case that was tested several times the last prediction only, in the order of the data set.

    Returns
    -------
    tuple or None
        None if the entries that metrics read are no two numbers for each case.
    """
    oof = result.oof
    for pair in entry_pairs(result):
        found = true_and_predicted(oof, pair)
        if found is None or not oof.mask.any():
            continue
        try:
            true, pred = lookup(oof.targets, found[0]), lookup(oof.predictions, found[1])
        except MissingKeyError:
            continue
        if not (_is_number(true) and _is_number(pred) and pred.dtype.kind == "f"):
            continue
        if each_once or result.rounds.kind == "once":
            true, pred = true[oof.mask], pred[oof.mask]
        else:
            true = np.concatenate([np.ravel(lookup(fold.targets, found[0])) for fold in result.folds])
            pred = np.concatenate([np.ravel(lookup(fold.predictions, found[1])) for fold in result.folds])
        true, pred = (array.reshape(-1).astype(np.float64) for array in (true, pred))
        kept = np.isfinite(true) & np.isfinite(pred)
        if kept.any():
            return true[kept], pred[kept], kept
    return None


def regression_section(result: object) -> Section | None:
    """Return the section, or None if the task is no regression of one number.

    Parameters
    ----------
    result
        A ``KFoldResult`` whose task is no classification.
    """
    found = regressed(result)
    if found is None:
        return None
    true, pred, kept = found
    left_over = pred - true
    spread = np.sum((true - true.mean()) ** 2)
    rows: list[list[Any]] = [
        ["mean absolute error", float(np.mean(np.abs(left_over)))],
        ["root mean squared error", float(np.sqrt(np.mean(left_over**2)))],
        ["mean of the residuals", float(np.mean(left_over))],
        ["R²", float(1 - np.sum(left_over**2) / spread) if spread else np.nan],
    ]
    notes = [f"All {len(true):,} out-of-fold {tests_of(result)}; residuals are predicted minus true values."]
    if len(true) < len(kept):
        notes.append(f"{len(kept) - len(true):,} cases without a finite number are left out.")
    panels = {"agreement": agreement_panel(true, pred), "residuals": residual_panel(true, pred)}
    table = Table("regression", ["Over all cases", "Value"], rows, by_row=True)
    return Section("Predicted and true values", panels, [table], notes)


def _is_number(array: object) -> bool:
    """Return True if there is one number for each case."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype.kind in "iuf"
        and (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1))
    )
