"""Settings that a search chose on the data on which they are now tested: then the tests had their say in them."""

import contextlib
import numbers
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.errors import DeliraError
from delira.experiments.search_result import SPACES, SearchResult
from delira.runs.folder import RunFolder
from delira.utils import files
from delira.utils.spaces import identity


def with_searches(leaks: Mapping[str, Any], run: RunFolder, request: Any, *, stacklevel: int) -> Mapping[str, Any]:
    """Warn if parameters are those that a search beside a run found best, on the same data.

    Parameters
    ----------
    leaks
        As of :func:`~delira.experiments.leakage.find_leaks`.
    run
        Folder of the cross-validation; searches of the same experiment lie beside it.
    request
        What its networks are trained with; settings of the call go before parameters.
    stacklevel
        Of the warning: that of who called the experiment.

    Returns
    -------
    dict
        ``leaks`` with the warning.
    """
    own = files.mapping(run.read_manifest().get("fingerprint")).get("data")
    if own is None:
        return leaks
    training = {**request.params.training_settings(), **request.settings, "num_epochs": request.num_epochs}
    stated = {"model": request.params.model_kwargs(), "training": training}
    for folder in sorted(run.path.parent.iterdir()):
        with contextlib.suppress(DeliraError, OSError):  # another run that cannot be read does not end this one
            if _is_search(folder, own) and _chose(SearchResult.load(folder), stated):
                text = (
                    f"the search {folder.name} found these settings best on the same data, so that what tests them "
                    "here was among what chose them: scores are too good; kfold(tune=Tune(…)) searches in the training "
                    "part of each fold alone"
                )
                warnings.warn(text, UserWarning, stacklevel=stacklevel)
                return {**leaks, "warnings": [*leaks.get("warnings", ()), text]}
    return leaks


def _is_search(folder: Path, data: object) -> bool:
    if not (folder / SPACES).exists():
        return False
    fingerprint = files.mapping(RunFolder(folder).read_manifest().get("fingerprint"))
    return fingerprint.get("kind") == "tune" and fingerprint.get("data") == data


def _chose(search: SearchResult, stated: Mapping[str, Any]) -> bool:
    """Return True if one of the best trials has the values that are stated."""
    if search.searched is None:
        return False
    spaces = search.searched.spaces()
    return any(
        all(
            path in spaces and _is(_at(stated, path), spaces[path].valued(shown))
            for path, shown in trial.values.items()
        )
        for trial in search.best_trials
    )


def _is(value: Any, option: Any) -> bool:
    """Return True if a value is an option; arrays are compared by what they show."""
    is_number = isinstance(value, numbers.Number) and isinstance(option, numbers.Number)
    return bool(value == option) if is_number else bool(identity(value) == identity(option))


def _at(stated: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of a space; None if there is none."""
    found: Any = stated
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
