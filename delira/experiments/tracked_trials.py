"""The trials of a search as runs of a tracker: parameters, the scores of each fold, and the score of the trial."""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from delira.errors import ConfigError


def log_trials(result: Any, handler_of: Callable[[Any], logging.Handler]) -> None:
    """Write each trial as a run of its own, and end that.

    Parameters
    ----------
    result
        A ``SearchResult``.
    handler_of
        Called with each trial; returns the handler that is its run, e.g. ``lambda trial:
        MLflowHandler(experiment="digits", run_name=f"trial {trial.number}")``. It is closed here.

    Raises
    ------
    ConfigError
        If that is no function, or gives no handler; trials before it are written.
    """
    if not callable(handler_of):
        raise ConfigError(f"log_to needs a function that makes a handler for a trial, got {handler_of!r:.100}")
    given: list[logging.Handler] = []
    for trial in result.trials:
        handler = handler_of(trial)
        if not isinstance(handler, logging.Handler):
            raise ConfigError(f"log_to needs a handler of delira.logging for each trial, got {handler!r:.100}")
        if any(handler is each for each in given):
            raise ConfigError("log_to was given one handler for two trials; each is a run of its own")
        given.append(handler)
        try:
            _write(result, trial, handler)
        finally:
            handler.close()


def _write(result: Any, trial: Any, handler: logging.Handler) -> None:
    def send(message: Mapping[str, Any]) -> None:
        handler.handle(logging.LogRecord("delira", logging.INFO, "", 0, message, None, None))  # type: ignore[arg-type]

    facts = {"search": result.name, "trial": trial.number, "state": trial.state, **trial.values}
    if callable(describe := getattr(handler, "describe_run", None)):
        describe(facts)
    if hasattr(handler, "has_failed"):
        handler.has_failed = trial.state == "failed"
    if trial.error:
        send({"text": {"text": trial.error, "name": "error"}})
    scores = {name: value for name, value in zip(result.metrics, trial.scores, strict=False) if math.isfinite(value)}
    for number, of_fold in enumerate(trial.fold_scores):
        known = zip(result.metrics, of_fold, strict=True)
        for name, value in ((name, value) for name, value in known if math.isfinite(value)):
            send({"scalar": {"value": value, "name": f"fold/{name}", "global_step": number}})
    for name, value in scores.items():
        send({"scalar": {"value": value, "name": name, "global_step": 0}})
    # TensorBoard has a page for what others take as parameters; it draws nothing for a run without a metric
    send({"hparams": {"hparam_dict": dict(trial.values), "metric_dict": scores, "name": "hparams"}})
