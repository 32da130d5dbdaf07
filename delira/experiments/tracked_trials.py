"""The trials of a search as runs of a tracker: parameters, the scores of each fold, and the score of the trial."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delira.errors import CheckpointError, ConfigError
from delira.runs.folder import said_by
from delira.runs.leases import Leases
from delira.utils import files

_log = logging.getLogger("delira")

#: in the folder of a trial that a tracker has
MARK = "tracked.json"


def check_handler_of(handler_of: Any) -> None:
    """Refuse what makes no handlers, before there is any trial.

    Raises
    ------
    ConfigError
        If it is no function.
    """
    if not callable(handler_of):
        raise ConfigError(f"log_to needs a function that makes a handler for a trial, got {handler_of!r:.100}")


class Tracker:
    """Writes trials, each as a run of its own.

    Parameters
    ----------
    handler_of
        Called with each trial; returns the handler that is its run, which is closed here.
    name, metrics
        Of the search.

    Raises
    ------
    ConfigError
        If ``handler_of`` is no function.
    """

    def __init__(self, handler_of: Callable[[Any], logging.Handler], name: str, metrics: Sequence[str]):
        check_handler_of(handler_of)
        self._handler_of, self._name, self._metrics = handler_of, name, metrics
        self._given: list[logging.Handler] = []
        #: whether what makes handlers cannot, so that no further trial is tried
        self.is_given_up = False

    def write(self, trial: Any) -> bool:
        """Write a trial, and end its run; returns True if the tracker took all of it.

        Parameters
        ----------
        trial
            That has ended.

        Raises
        ------
        ConfigError
            If there is no handler of its own for it.
        """
        handler = self._handler_of(trial)
        if why := self._why_not(handler):
            self.is_given_up = True
            raise ConfigError(why)
        self._given.append(handler)
        is_whole = False
        try:
            self._send(trial, handler)
            is_whole = not getattr(handler, "has_missed", False)
        finally:
            if hasattr(handler, "has_failed"):
                handler.has_failed = trial.state == "failed" or not is_whole
            handler.close()
        return is_whole

    def _why_not(self, handler: Any) -> str:
        """Why something cannot be the run of a trial; empty if it can."""
        if not isinstance(handler, logging.Handler):
            return f"log_to needs a handler of delira.logging for each trial, got {handler!r:.100}"
        is_given = any(handler is each for each in self._given)
        return "log_to was given one handler for two trials; each is a run of its own" if is_given else ""

    def _send(self, trial: Any, handler: logging.Handler) -> None:
        def send(message: Mapping[str, Any]) -> None:
            handler.handle(logging.LogRecord("delira", logging.INFO, "", 0, message, None, None))  # type: ignore[arg-type]

        facts = {"search": self._name, "trial": trial.number, "state": trial.state, **trial.values}
        if callable(describe := getattr(handler, "describe_run", None)):
            describe(facts)
        if trial.error:
            send({"text": {"text": trial.error, "name": "error"}})
        scores = self._finite(trial.scores)
        for number, of_fold in enumerate(trial.fold_scores):
            for name, value in self._finite(of_fold).items():
                send({"scalar": {"value": value, "name": f"fold/{name}", "global_step": number}})
        for name, value in scores.items():
            send({"scalar": {"value": value, "name": name, "global_step": 0}})
        # TensorBoard has a page for what others take as parameters; it draws nothing for a run without a metric
        shown = {"state": trial.state, **trial.values}
        send({"hparams": {"hparam_dict": shown, "metric_dict": scores, "name": "hparams"}})

    def _finite(self, values: Sequence[float]) -> dict[str, float]:
        return {name: value for name, value in zip(self._metrics, values, strict=False) if math.isfinite(value)}


def log_trials(result: Any, handler_of: Callable[[Any], logging.Handler], only_missing: bool = False) -> None:
    """Write all trials of a search that has ended.

    Parameters
    ----------
    result
        A ``SearchResult``.
    handler_of
        See :class:`Tracker`.
    only_missing
        Leave out trials that have their mark, and mark those that were written.

    Raises
    ------
    ConfigError
        If ``handler_of`` is no function, or gives no handler for a trial; trials before it are written.
    """
    tracker = Tracker(handler_of, result.name, result.metrics)
    for trial in result.trials:
        if only_missing and is_marked(trial):
            continue
        if tracker.write(trial) and only_missing:
            _mark(trial)


def log_once(trial: Any, tracker: Tracker, leases: Leases) -> None:
    """Write a trial of a search that runs, unless it has its mark; whatever goes wrong is told, and ends nothing.

    Parameters
    ----------
    trial
        That has ended, in this session or an earlier one.
    tracker
        That writes it.
    leases
        Of the search, which several programs may share: one of them writes the trial.
    """
    if tracker.is_given_up or is_marked(trial):
        return
    why = "it missed a part of it, see the warning above"
    try:
        if (lease := leases.take(f"tracked_{trial.number:02d}")) is None:
            return
        with lease:
            if is_marked(trial):  # by who held the lease before
                return
            if tracker.write(trial):
                _mark(trial)
                return
    except Exception as error:
        why = said_by(error)
    if tracker.is_given_up:
        _log.warning(
            "no trial from %d on reaches its tracker, and the search goes on: %s. result.log_to(…, only_missing=True), "
            "with a function that makes a handler for each, writes them", trial.number, why,
        )  # fmt: skip
        return
    _log.warning(
        "trial %d has not reached its tracker, and the search goes on: %s. The same call with resume=, or "
        "result.log_to(…, only_missing=True), writes it again", trial.number, why,
    )  # fmt: skip


def is_marked(trial: Any) -> bool:
    """Return True if a tracker has a trial.

    Parameters
    ----------
    trial
        With its folder; without one nothing is known.
    """
    return trial.path is not None and (trial.path / MARK).is_file()


def _mark(trial: Any) -> None:
    """Note in its folder that a tracker has a trial."""
    if trial.path is None or not trial.path.is_dir():
        return
    try:
        files.publish_text(trial.path / MARK, json.dumps({"trial": trial.number}) + "\n", durable=False)
    except (OSError, CheckpointError) as error:
        _log.warning("trial %d is in its tracker, which could not be noted, so it may be written twice: %s",
                     trial.number, said_by(error))  # fmt: skip
