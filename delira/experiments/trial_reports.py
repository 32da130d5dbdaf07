"""What is known of a trial while it runs: scores of its folds, epochs on the way, and whether it is to be given up."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.callbacks.abstract_callback import AbstractCallback
from delira.errors import TrialPruned
from delira.experiments.search_result import Trial
from delira.runs import results


class Reports:
    """What is known of a trial while it runs: the scores of its folds, and the epochs of the one that is trained.

    Parameters
    ----------
    search, number
        Whose it is, and which trial.
    """

    def __init__(self, search: Any, number: int):
        self._search, self._number = search, number
        self._began_at = time.perf_counter()
        self._folds: list[results.FoldResult] = []
        self._last: float | None = None
        self._n_epochs = 0

    @property
    def _metrics(self) -> Sequence[str]:
        return self._search.tune.metrics

    def end_fold(self, fold: results.FoldResult) -> None:
        """Take the result of a fold; raises if the trial is to be given up."""
        self._folds.append(fold)
        self._n_epochs, self._began_at = 0, time.perf_counter()
        if self._search.tune.prunes != "fold":
            return
        score = fold.means()[self._metrics[0]]
        is_last = self._search.divided is not None and len(self._folds) == len(self._search.divided.splits)
        if self._search.study.report(self._number, fold.fold, score) and not is_last:
            raise TrialPruned(f"after {len(self._folds)} folds: {self._metrics[0]} {score:.4g} in the last")

    def end_epoch(self, history: Sequence[Mapping[str, float]], *, is_again: bool = False) -> str | None:
        """Take an epoch of the fold that is trained; returns why the trial is to be given up, if it is.

        Parameters
        ----------
        history
            Of the fold by now.
        is_again
            Whether it goes on after a break, so that nobody knows what was reported of its epochs.
        """
        self._n_epochs = len(history)
        first = 0 if is_again else len(history) - 1
        is_over = False
        for position in range(first, len(history)):
            if (value := self._mean_so_far(position, history[position])) is not None:
                self._last = value
                since = len(self._folds) * self._search.most_epochs
                is_over = self._search.study.report(self._number, since + position + 1, value, since)
        return f"after epoch {len(history)} of fold {len(self._folds) + 1}: {self._last:.4g}" if is_over else None

    def __reduce__(self) -> Any:
        return type(None), ()  # another process that trains the network hears what this one says

    def _mean_so_far(self, position: int, record: Mapping[str, float]) -> float | None:
        """Mean over the folds so far of the validation at an epoch; of one that had stopped before, its last."""
        key = f"val_{self._metrics[0]}"
        if key not in record:
            return None
        earlier = [[each[key] for each in fold.history if key in each] for fold in self._folds]
        values = [known[min(position, len(known) - 1)] for known in earlier if known]
        return float(np.mean([*values, record[key]]))

    def means(self) -> dict[str, float]:
        """Each metric of the trial: its mean over the folds."""
        found = [fold.means() for fold in self._counted()]
        return {name: float(np.mean([each[name] for each in found])) for name in (found[0] if found else ())}

    def _counted(self) -> list[results.FoldResult]:
        """Return the folds in the order of their numbers, as sums have one; after one that failed none counts."""
        folds = sorted(self._folds, key=lambda fold: fold.fold)
        if self._search.tune.prunes == "fold":  # they are run in another order
            return folds
        return [fold for place, fold in enumerate(folds) if fold.fold == place]

    def trial(self, state: str, error: str, values: Mapping[str, Any], path: Path) -> Trial:
        """Return the trial as it has ended."""
        folds = self._counted()
        left = time.perf_counter() - self._began_at if self._n_epochs else 0.0  # of the fold that it was given up in
        means = self.means()
        scores = tuple(means[name] for name in self._metrics) if folds else ()
        if state == "pruned" and not scores and self._last is not None:
            scores = (self._last,)
        return Trial(
            number=self._number,
            state=state,
            values=dict(values),
            scores=scores,
            fold_scores=tuple(tuple(fold.means()[name] for name in self._metrics) for fold in folds),
            epochs=sum(len(fold.history) for fold in folds) + self._n_epochs,
            seconds=float(sum(fold.seconds for fold in folds)) + left,
            error=error,
            path=path,
        )


class PruningCallback(AbstractCallback):
    """Tells a study each validation of a trial, and ends the trial when it is to be given up, in all processes alike.

    Parameters
    ----------
    reports
        Of the trial; ``None`` where another process has them.
    """

    only_watches = True
    shared = ("reports",)

    def __init__(self, reports: Reports | None):
        self.reports = reports

    def at_training_begin(self, trainer: Any, **facts: Any) -> None:
        """Tell what was before a break."""
        if trainer.state.history:
            self._tell(trainer, is_again=True)

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Tell the epoch."""
        self._tell(trainer, is_again=False)

    def _tell(self, trainer: Any, *, is_again: bool) -> None:
        ranks = trainer.run.ranks
        told = self.reports.end_epoch(trainer.state.history, is_again=is_again) if self.reports is not None else None
        if (reason := ranks.agree(told)) is not None:
            raise TrialPruned(reason)
