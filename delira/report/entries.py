"""Which entries of predictions and batches a result was measured by."""

from typing import TYPE_CHECKING, Any

from delira.errors import ConfigError
from delira.metrics.scoring import DEFAULT_KEYS, keys_of

if TYPE_CHECKING:
    from delira.experiments.result import KFoldResult


def entry_pairs(result: "KFoldResult") -> list[tuple[str, ...]]:
    """Entries that metrics read, each once: those that are known here, those that the run names, the usual ones.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    try:
        keys = keys_of(result.metrics or {}, result.metric_keys)
    except ConfigError:  # metrics of a stored run that are not known here
        keys = {}
    named = [tuple(pair) for pair in (result.metric_keys or {}).values()]
    return list(dict.fromkeys([*keys.values(), *named, DEFAULT_KEYS]))


def true_and_predicted(oof: Any, pair: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the entry of the batch and the one of the predictions; None if a pair is not one of each.

    Parameters
    ----------
    oof
        An ``OutOfFold``.
    pair
        Entries, in any order.
    """
    targets = [key for key in pair if key.split(".", 1)[0] in oof.targets]
    outputs = [key for key in pair if key not in targets]
    return (targets[0], outputs[0]) if len(targets) == len(outputs) == 1 else None


def tests_of(result: Any) -> str:
    """What is counted on a page: cases, or, where cases are tested several times, the predictions of single networks.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    rounds = result.rounds
    return "cases" if rounds.kind == "once" else f"predictions, of {len(rounds.folds)} {rounds.kind}"
