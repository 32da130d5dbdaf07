"""Some folds of a cross-validation alone: which are run, and what is said of those that are missing."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.errors import ConfigError


def check_chosen(folds: Any) -> tuple[int, ...] | None:
    """Numbers of folds in their order; ``None`` stands for all.

    Raises
    ------
    ConfigError
        If they are no different integers from 0.
    """
    if folds is None:
        return None
    is_list = isinstance(folds, Iterable) and not isinstance(folds, (str, bytes, Mapping))
    found = [*folds] if is_list else []
    if not found or any(isinstance(each, bool) or not isinstance(each, numbers.Integral) for each in found):
        raise ConfigError(
            f"folds must be a list of the numbers of those folds that are to be run, from 0, e.g. folds=[1], got "
            f"{folds!r}; num_splits says how many folds there are"
        )
    if len(set(found)) < len(found) or min(found) < 0:
        raise ConfigError(f"folds must be different numbers from 0, got {folds!r}")
    return tuple(sorted(map(int, found)))


def check_in_range(folds: Sequence[int] | None, num_splits: int) -> None:
    """Refuse numbers of folds that there are not."""
    if folds and folds[-1] >= num_splits:
        raise ConfigError(
            f"folds={[*folds]} names fold {folds[-1]}, but there are {num_splits} folds, with the numbers 0 to "
            f"{num_splits - 1}"
        )


def refuse_fold(options: Mapping[str, Any], fold: int) -> None:
    """Refuse ``fold=``, which says which one a single run is: it would change nothing.

    Parameters
    ----------
    options
        Keywords of the call.
    fold
        What settings and parameters say.
    """
    if "fold" in options or fold:
        number = options.get("fold", fold)
        raise ConfigError(
            f"kfold takes no fold={number!r}: it runs every fold, and fold= is the number of a single run; "
            f"folds=[{number!r}] runs that fold alone (numbers from 0), num_splits= says how many there are"
        )


def tell_missing(missing: Sequence[int], num_splits: int, path: Path | None) -> str:
    """One sentence about folds that were not asked for, and how to get them.

    Parameters
    ----------
    missing
        Their numbers.
    num_splits
        How many folds there are in all.
    path
        Folder of the run.
    """
    listed = ", ".join(map(str, missing))
    names = f"fold {listed} is" if len(missing) == 1 else f"folds {listed} are"
    return (
        f"{num_splits - len(missing)} of {num_splits} folds: {names} missing, since the run was asked for others "
        f"(folds=). Go on with resume={str(path)!r}."
    )
