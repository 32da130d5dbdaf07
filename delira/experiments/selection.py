"""Which epoch of a training counts, and what is to be said about how it was selected."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from delira.errors import listed
from delira.runs.folder import RunFolder
from delira.runs.results import FoldResult, count_guards
from delira.training.evaluation import caveats_of_averages
from delira.training.trainer import BaseNetworkTrainer

_LISTED = 10
#: validated epochs from which on it says something that the best is the first, or the last
_ENOUGH = 3


def selection_of(trainer: BaseNetworkTrainer) -> dict[str, Any]:
    """The fields of a :class:`~delira.runs.results.FoldResult` about the selection, and how outputs were read.

    Parameters
    ----------
    trainer
        After its training.
    """
    state = trainer.state
    return {
        "best_epoch": state.best_epoch,
        "best_score": state.best_score,
        "score_key": state.score_key,
        "weights_epoch": trainer.weights_epoch,
        "raw_statistics": trainer.raw_statistics,
        "output_readings": {name: dict(facts) for name, facts in state.outputs.items()},
    }


def tell_numbers(folder: RunFolder, trainer: BaseNetworkTrainer) -> None:
    """Tell the ledger of a single training what its numbers depend on: weights, guards, and averages.

    Parameters
    ----------
    folder
        Of the run.
    trainer
        After its training.
    """
    if told := other_weights(selection_of(trainer)):
        folder.log("other_weights", fold=trainer.fold, **told)
    if counted := count_guards(trainer.guard_log.to_dict()):
        folder.log("guarded", fold=trainer.fold, **counted)
    for text in [*trainer.caveats, *caveats_of_averages([trainer], is_training=True)]:
        folder.log("caveat", fold=trainer.fold, text=text)


def other_weights(selection: Mapping[str, Any]) -> dict[str, int]:
    """For the ledger: the epoch whose weights count, and the best one; empty if they are the same.

    Parameters
    ----------
    selection
        ``best_epoch`` and ``weights_epoch``.
    """
    best, weights = selection.get("best_epoch"), selection.get("weights_epoch")
    if best is None or weights is None or best == weights:
        return {}
    return {"weights_epoch": int(weights), "best_epoch": int(best)}


def caveats_of_selection(folds: Sequence[FoldResult], is_training: bool) -> list[str]:
    """Sentences about how the epochs of some folds were selected.

    Parameters
    ----------
    folds
        Finished ones.
    is_training
        Whether it is a single training, which has no folds to be named.
    """
    found = []
    for fold in folds:
        if other_weights(vars(fold)):
            who = "the network has" if is_training else f"fold {fold.fold} was tested with"
            found.append(
                f"{who} the weights of epoch {fold.weights_epoch}, not of the best one, {fold.best_epoch}, whose "
                "checkpoint was not there"
            )
    for key in sorted({str(fold.score_key) for fold in folds if fold.score_key is not None}):
        found += _of_score([_Scores(fold, key) for fold in folds if fold.score_key == key], key, is_training)
    return found


class _Scores:
    """The validated epochs of a fold: ``epochs``, in their order, and of those with a number their ``values``."""

    def __init__(self, fold: FoldResult, key: str) -> None:
        self.fold, self.best_epoch = fold.fold, fold.best_epoch
        records = [record for record in fold.history if record.get(key) is not None and "epoch" in record]
        self.epochs = [int(record["epoch"]) for record in records]
        self.values = {int(record["epoch"]): float(record[key]) for record in records if not math.isnan(record[key])}
        is_whole = len(self.values) == len(self.epochs) > 1
        self.is_constant = is_whole and len({*self.values.values()}) == 1
        best = self.values.get(fold.best_epoch or 0)
        equal = [epoch for epoch, value in self.values.items() if value == best]
        #: epochs that are as good as the best; none if there is but one
        self.ties = equal if len(equal) > 1 and not self.is_constant else []


def _of_score(folds: Sequence[_Scores], key: str, is_training: bool) -> list[str]:
    found = []
    if none := [each for each in folds if each.epochs and not each.values]:
        where = _in_folds(none, is_training)
        found.append(f"{key} was never a number{where}, so no epoch could be selected: the last weights count")
    if constant := [each for each in folds if each.is_constant]:
        told = [f"{next(iter(each.values.values())):.4g} in all {len(each.epochs)} epochs" for each in constant]
        found.append(
            f"{key} never changed{_in_folds(constant, is_training, told)}: the first epoch was selected, and nothing "
            "speaks for it"
        )
    if tied := [each for each in folds if each.ties]:
        ties = listed(tied[0].ties, _LISTED, ", and ")
        where = f": {ties}" if is_training else f" in {len(tied)} of {len(folds)} {_folds(folds)}"
        found.append(f"several epochs share the best {key}{where}; the first of them was selected")
    return found + _of_ends([each for each in folds if each.best_epoch is not None], key, is_training)


def _of_ends(folds: Sequence[_Scores], key: str, is_training: bool) -> list[str]:
    """Sentences about best epochs that are the first, or the last, in all folds."""
    if not folds or any(each.is_constant or len(each.epochs) < _ENOUGH for each in folds):
        return []
    where = "" if is_training else f" in {'all' if len(folds) > 1 else 'the'} {len(folds)} {_folds(folds)}"
    if all(each.best_epoch in each.epochs[:1] for each in folds):
        return [
            f"the best epoch by {key} is the first{where}: training made it no better; look at the learning rate, and "
            "at what the score measures"
        ]
    if all(each.best_epoch in each.epochs[-1:] for each in folds):
        return [f"the best epoch by {key} is the last{where}: more epochs may be better still"]
    return []


def _folds(folds: Sequence[_Scores]) -> str:
    return "fold" if len(folds) == 1 else "folds"


def _in_folds(folds: Sequence[_Scores], is_training: bool, told: Sequence[str] = ()) -> str:
    """Which folds, each with what is told of it in brackets."""
    if is_training:
        return f" ({told[0]})" if told else ""
    texts = [f"{each.fold} ({text})" for each, text in zip(folds, told, strict=True)] if told else []
    return f" in {_folds(folds)} {listed(texts or [each.fold for each in folds], _LISTED)}"
