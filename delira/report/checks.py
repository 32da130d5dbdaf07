"""What reports are made of is looked at before they are."""

from collections.abc import Sequence
from typing import Any

from delira.errors import ConfigError


def check_result(owner: str, result: object, *names: str) -> None:
    """Refuse what is no result of a cross-validation, and offers nothing of one.

    Parameters
    ----------
    owner
        Whose argument it is.
    result
        What was given.
    *names
        What it must offer.
    """
    if isinstance(result, type) or any(not hasattr(result, name) for name in ("folds", *names)):
        raise ConfigError(f"{owner}: result must be a KFoldResult, got {result!r:.200}")


def check_results(owner: str, results: object) -> list[Any]:
    """Return the results as a list, each of which is one; see :func:`check_result`."""
    if hasattr(results, "folds") or isinstance(results, (str, bytes)) or not hasattr(results, "__iter__"):
        raise ConfigError(f"{owner}: results must be a list of KFoldResult, got {results!r:.200}")
    found = list(results)
    if wrong := [result for result in found if isinstance(result, type) or not hasattr(result, "folds")]:
        raise ConfigError(f"{owner}: results must be KFoldResult objects, got {wrong[0]!r:.200}")
    return found


def check_folds(owner: str, folds: object) -> Sequence[Any]:
    """Refuse what is no sequence of folds with their histories."""
    if not isinstance(folds, Sequence) or any(not hasattr(fold, "history") for fold in folds):
        raise ConfigError(f"{owner}: folds must be a list of FoldResult, got {folds!r:.200}")
    return folds
