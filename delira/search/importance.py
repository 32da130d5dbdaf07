"""How much of what differs between trials each parameter explains."""

from collections.abc import Mapping, Sequence
from typing import Any

from delira.search.engine import optuna
from delira.search.study import distribution_of, quiet
from delira.utils.spaces import Space

#: of fewer trials nothing can be said
LEAST = 8


def importances(
    trials: Sequence[tuple[Mapping[str, Any], float]], spaces: Mapping[str, Space], seed: int = 0
) -> dict[str, float]:
    """Share of the variance of the score that each parameter explains by itself, by functional analysis of variance.

    After Hutter, Hoos and Leyton-Brown, "An efficient approach for assessing hyperparameter importance" (2014), as
    Optuna computes it: a random forest is fitted to the trials. Parameters that only some trials have are left out.

    Parameters
    ----------
    trials
        Values by name, as a study has them, and the score of each.
    spaces
        Of the parameters.
    seed
        Of the forest.

    Returns
    -------
    dict
        Name -> share, the largest first, which sum to 1; empty where there are too few trials, or all score the same.
    """
    if len(trials) < LEAST or len({score for _, score in trials}) < 2:
        return {}
    with quiet():
        study = optuna.create_study()
        for params, score in trials:
            distributions = {name: distribution_of(spaces[name]) for name in params}
            study.add_trial(optuna.trial.create_trial(params=dict(params), distributions=distributions, value=score))
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items()}
