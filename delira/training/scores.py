"""Which epoch of a run is the best."""

import logging
from collections.abc import Callable, Mapping

from delira.errors import ConfigError
from delira.training.plan import TrainingPlan
from delira.training.run import Run

_log = logging.getLogger("delira")


def update_best(
    run: Run, plan: TrainingPlan, values: Mapping[str, float], is_better: Callable[[float | None, float, str], bool]
) -> bool:
    """Compare the score of the epoch that has ended with the best so far; returns whether it is better.

    Parameters
    ----------
    run
        The run, whose state has the best so far.
    plan
        Says which score is watched.
    values
        Values of the epoch by name.
    is_better
        Called with the best score so far, that of the epoch, and which score is good.

    Raises
    ------
    ConfigError
        If the score was not computed.
    """
    key, state = plan.val_score_key, run.state
    if (state.score_key, state.score_mode) != (key, plan.val_score_mode):  # another score: none of it yet
        if state.score_key == key is not None and state.best_epoch is not None:
            _log.warning(
                "until now the %s %s was the best; from now on it is the %s: the epochs before are not looked at",
                state.score_mode, key, plan.val_score_mode,
            )  # fmt: skip
        state.score_key, state.score_mode = key, plan.val_score_mode
        state.best_score = state.best_epoch = None
    if key is None or not plan.validates(state.epoch, run.config.val_freq):
        return False
    if key not in values:
        raise ConfigError(f"val_score_key={key!r} was not computed; the epoch has {sorted(values)}")
    if not is_better(state.best_score, values[key], plan.val_score_mode):
        return False
    state.best_score, state.best_epoch = values[key], state.epoch
    return True
