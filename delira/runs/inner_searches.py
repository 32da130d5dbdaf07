"""What a run has recorded of the searches inside of its folds."""

from collections.abc import Iterable, Mapping
from typing import Any

from delira.utils.files import mapping

#: what a report says of a search, of all that decides it
_TOLD = ("n_trials", "sampler", "pruner", "num_splits", "val_split", "split_type", "metric", "direction", "spaces")


def searched_in(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each fold has chosen, by a ledger, in the order of their numbers; empty if they searched nothing.

    Parameters
    ----------
    events
        Lines of the ledger.

    Returns
    -------
    list of dict
        ``fold``, ``trial``, ``scores``: of the inner search, and ``values`` by the path of the parameter.
    """
    found: dict[int, dict[str, Any]] = {}
    for event in events:
        values, fold = event.get("values"), event.get("fold")
        if event.get("event") == "searched" and isinstance(fold, int) and isinstance(values, Mapping):
            scores = event.get("scores")
            found[fold] = {
                "fold": fold,
                "trial": event.get("trial"),
                "scores": scores if isinstance(scores, list) else [],
                "values": dict(values),
            }
    return [found[fold] for fold in sorted(found)]


def facts_of_searches(manifest: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a report says of the searches; empty if the folds searched nothing.

    Parameters
    ----------
    manifest
        Of the run.
    events
        Lines of its ledger.

    Returns
    -------
    dict
        ``searched``: as of :func:`searched_in`; ``search``: what all of them were asked for, as plain values.
    """
    found = searched_in(events)
    asked = mapping(manifest.get("search"))
    return {"searched": found, "search": {name: asked[name] for name in _TOLD if name in asked}} if found else {}
