"""Why a metric has no value in a fold: not a failure, if there is nothing that it could measure."""

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from delira.report.intervals import classes_of
from delira.report.parts import Part, arrays_of, target_of
from delira.utils.arrays import iterate_leaves

if TYPE_CHECKING:
    from delira.experiments.result import KFoldResult


def undefined_folds(result: "KFoldResult", name: str, parts: list[Part], values: np.ndarray) -> dict[int, str]:
    """Folds in which a metric is not defined, and why; a value that is NaN for another reason is not among them.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    name
        Of the metric.
    parts
        Its folds.
    values
        The value in each of them, shape ``(n_folds,)``.
    """
    if (result.metrics or {}).get(name) is None or result.is_per_case(name):
        return {}
    found = {}
    for part, value in zip(parts, values, strict=True):
        # entries that were not kept: then nobody knows
        with contextlib.suppress(Exception):
            if np.isnan(value) and (reason := _reason(result, name, part, parts)):
                found[part.folds[0].fold] = reason
    return found


def _reason(result: object, name: str, part: Part, parts: list[Part]) -> str:
    arrays = arrays_of(result, name, part)
    leaves = [leaf for array in arrays for _, leaf in iterate_leaves(array)]
    if any(leaf.dtype.kind in "fc" and not np.isfinite(leaf).all() for leaf in leaves):
        return ""  # the predictions are no numbers, and that is what the value says
    target = target_of(result, name, part)
    if not isinstance(target, np.ndarray) or target.dtype.hasobject:
        return ""
    if len(part.cases) < 2:
        return "only one case"
    rows = target.reshape(len(target), -1)
    if (rows == rows[0]).all():
        labels = classes_of(target, [array for array in arrays if array is not target])
        return "all targets are equal" if labels is None and rows.shape[1] == 1 else "only one class"
    everywhere = [np.unique(target_of(result, name, other)) for other in parts]
    lacking = sorted(set(np.concatenate(everywhere).tolist()) - set(np.unique(target).tolist()))
    return f"no case of class {lacking[0]}" if lacking and len(lacking) < 20 and rows.shape[1] == 1 else ""


def told(undefined: dict[int, str], n_folds: int) -> str:
    """One sentence about all folds in which a metric is not defined; empty if there is none."""
    if not undefined:
        return ""
    by_reason: dict[str, list[int]] = {}
    for fold, reason in undefined.items():
        by_reason.setdefault(reason, []).append(fold)
    where = "; ".join(
        f"fold{'s' if len(folds) > 1 else ''} {', '.join(map(str, folds))}: {reason}"
        for reason, folds in by_reason.items()
    )
    n_left = n_folds - len(undefined)
    rest = f"mean and SD are over {n_left} of {n_folds} folds" if n_left else "so there is no mean"
    return f"not defined in {where}; {rest}"
