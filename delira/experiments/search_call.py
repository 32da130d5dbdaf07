"""A call of ``tune``: what it asks for, checked and put together."""

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from delira.errors import ConfigError, check_choice, import_optional
from delira.experiments import kfold_call
from delira.experiments.cross_validation import CrossValidation
from delira.experiments.parameters import Parameters
from delira.experiments.placement import Placement
from delira.experiments.tracked_trials import check_handler_of
from delira.experiments.tuning import PLANNED, TUNE_NAMES, Search
from delira.experiments.variable import Variable
from delira.runs.stored_run import BOOTSTRAP
from delira.search.tune import Tune

KEEPS = ("best", "all", "none")
#: what runs at the same time: trials, or the folds of one trial
PARALLELS = ("trials", "folds")
#: arguments of ``kfold`` that a search has not
_NOT_SEARCHED: Mapping[str, Any] = {
    "folds": None,
    "params": None,
    "keep_predictions": False,
    "predictions_dtype": None,
}


def search_of(experiment: Any, arguments: Mapping[str, Any]) -> "Search":
    """Return the search that a call of ``tune`` asks for.

    Parameters
    ----------
    experiment
        Whose method was called.
    arguments
        Of the method by name; ``options`` are those that it does not name.

    Raises
    ------
    ConfigError
        If it cannot work: nothing is variable, nobody computes the metric, a pruner could never act.
    """
    params: Parameters = experiment.params
    if not params.spaces():
        raise ConfigError(
            "nothing is to be searched: no variable parameter is a space; write e.g. Parameters(fixed, {'training': "
            "{'optimizer_params': {'lr': Float(1e-5, 1e-1, log=True)}}}), from delira.search import Float"
        )
    params.check_conditions()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm's, of notebooks without widgets
        import_optional("optuna", "tune", "delira[search]")
    options = dict(arguments["options"])
    refuse_bootstrap(options)
    stated = {name: {**arguments, **options}[name] for name in TUNE_NAMES if name in {**arguments, **options}}
    tune = Tune(**stated)
    if tune.num_splits is None and not kfold_call.says_folds(options) and tune.val_split is None:
        raise ConfigError("without folds a trial is scored by its validation, and val_split=None leaves none")
    # a part that is held out is cut off by whoever divides, for which two folds are as good as others
    number = tune.num_splits if kfold_call.says_folds(options) else tune.num_splits or 2
    call = {**arguments, **_NOT_SEARCHED, "options": options, "num_splits": number}
    call.pop("self", None)
    keep, parallel = call.pop("keep_checkpoints", "none"), call.pop("parallel", "trials")
    check_choice("tune", KEEPS, keep_checkpoints=keep)
    check_choice("tune", PARALLELS, parallel=parallel)
    if parallel == "folds":
        _check_folds_at_once(kfold_call.placed(call), tune, has_folds=kfold_call.says_folds(options))
    if (log_to := call.pop("log_to", None)) is not None:
        check_handler_of(log_to)
    search = Search(experiment=experiment, tune=tune, call=call, keep=keep, parallel=parallel, log_to=log_to)
    own = ["num_epochs"] if call.get("num_epochs") is not None else []
    _refuse_settings(experiment, search.variable, [*experiment.settings, *options, *own])
    return dataclasses.replace(search, tune=search.settled())


def _check_folds_at_once(placement: Placement, tune: Tune, *, has_folds: bool) -> None:
    """Refuse folds beside each other where nothing runs beside another, or their order decides something."""
    if placement.is_here:
        raise ConfigError(
            "parallel='folds' runs the folds of a trial at the same time: say n_jobs=2 or more, or executor=, too"
        )
    if tune.num_splits is None and not has_folds:
        raise ConfigError("parallel='folds' needs folds, and each trial is trained once: say num_splits=")
    if tune.pruner is not None:
        raise ConfigError(
            "a pruner looks at the folds of a trial one after the other: leave pruner= out, or parallel='folds', so "
            "that trials run at the same time"
        )


def refuse_bootstrap(options: Mapping[str, Any]) -> None:
    """Refuse to search on bootstrap samples: a trial is scored by all its folds, and inner ones would share cases."""
    if isinstance(options.get("split_type"), str) and options["split_type"] == BOOTSTRAP:
        raise ConfigError(
            f"split_type={BOOTSTRAP!r} says how good one setting is, and searches none: a case is drawn several "
            "times, and one of its folds tests what it learned from; search with 'random' or 'stratified'"
        )


def trial_again(
    experiment: Any, asked: Mapping[str, Any], data: Any, values: Mapping[str, Any], folds: Sequence[int]
) -> CrossValidation:
    """Return the cross-validation of one trial, apart from its search: it keeps what any other one keeps.

    Parameters
    ----------
    experiment
        Whose parameters have the spaces.
    asked
        Arguments of ``tune``, as the file of a search has them.
    data
        As of ``tune``.
    values
        As :attr:`Trial.values` has them.
    folds
        Numbers of those that are run.
    """
    own = {*PLANNED, *TUNE_NAMES, "keep_checkpoints"} - {"val_split"}
    unsaid: dict[str, Any] = dict.fromkeys((*PLANNED, "executor", "n_jobs", "resources", "mirror"))
    arguments = {**unsaid, "takeover_after": 60.0, "allow_changes": False, "data": data}
    arguments |= {name: value for name, value in asked.items() if name in own}
    options = {name: value for name, value in asked.items() if name not in own}
    search = search_of(experiment, {**arguments, "options": options})
    known = {name: search.variable.spaces[name].valued(shown) for name, shown in values.items()}
    validation = dataclasses.replace(search, divided=search.divide()).validation_with(known, verbose=0)
    return dataclasses.replace(validation, chosen=tuple(folds), is_trial=False)


def _refuse_settings(experiment: Any, variable: Variable, given: Iterable[str]) -> None:
    """Refuse settings that go before what is searched, which would then change nothing."""
    for name in given:
        hidden = [path for path in variable.spaces if path.split(".")[:2] == ["training", name]]
        if hidden:
            where = "of the experiment" if name in experiment.settings else "of the call"
            raise ConfigError(
                f"{name!r} is a setting {where}, which goes before {', '.join(hidden)}: nothing would be searched "
                "there; leave it out"
            )
