"""A call of ``kfold``, or of a search that runs many: what it asks for, checked and put together."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from delira.errors import expect, flag
from delira.experiments import cross_validation, run_request, splits
from delira.experiments.placement import Placement
from delira.experiments.preprocessing import as_preprocessing
from delira.settings.config import SETTINGS, check_names
from delira.training.keeping import Keeping

SPLIT_NAMES = tuple(field.name for field in dataclasses.fields(splits.SplitConfig))
_PLACEMENT_NAMES = tuple(field.name for field in dataclasses.fields(Placement))
_KEEPING_NAMES = tuple(field.name for field in dataclasses.fields(Keeping))


def placed(arguments: Mapping[str, Any]) -> Placement:
    """Return where the parts of a run are to run."""
    return Placement(**{name: arguments[name] for name in _PLACEMENT_NAMES})


def validation_of(experiment: Any, arguments: Mapping[str, Any]) -> cross_validation.CrossValidation:
    """Return the cross-validation that a call asks for.

    Parameters
    ----------
    experiment
        Whose method was called.
    arguments
        Of the method by name; ``options`` are those that it does not name.

    Raises
    ------
    ConfigError
        If something is unknown or cannot work.
    """
    mappings = ("metrics", "train_kwargs", "test_kwargs", "metric_keys")
    run_request.check_mapping(**{name: arguments[name] for name in mappings})
    expect(flag("allow_changes", arguments["allow_changes"]))
    chosen = splits.check_chosen(arguments["folds"])
    placement = placed(arguments)
    keeping = Keeping(**{name: arguments[name] for name in _KEEPING_NAMES})
    request = request_of(experiment, arguments)
    metrics, metric_keys = arguments["metrics"], arguments["metric_keys"]
    tested = request.config.epoch_metrics if metrics is None else metrics
    return cross_validation.CrossValidation(
        experiment=experiment,
        given=arguments["data"],
        request=request,
        split=_split_of(arguments)[0],
        metrics=copy.deepcopy(dict(tested)),
        metric_keys=request.config.keys_of(tested) if metric_keys is None else metric_keys,
        chosen=chosen,
        keeping=keeping,
        placement=placement,
    )


def _split_of(arguments: Mapping[str, Any]) -> tuple[splits.SplitConfig, dict[str, Any]]:
    """Return how the data are divided, and the other options."""
    asked: dict[str, Any] = {**arguments["options"]}
    check_names(asked, (*SETTINGS, *run_request.RUN_NAMES, *SPLIT_NAMES))
    split = {name: asked.pop(name) for name in SPLIT_NAMES if name in asked}
    return splits.SplitConfig(num_splits=arguments["num_splits"], **split), asked


def request_of(experiment: Any, arguments: Mapping[str, Any]) -> run_request.RunRequest:
    """Return what each fold of a call is trained with.

    Parameters
    ----------
    experiment, arguments
        As of :func:`validation_of`.
    """
    config, asked = _split_of(arguments)
    if arguments["num_epochs"] is not None:
        asked["num_epochs"] = arguments["num_epochs"]
    request = experiment.resolve(arguments["params"], asked, seed=config.random_seed)
    splits.refuse_fold(asked, request.fold)
    changes = {name: dict(arguments[name] or {}) for name in ("train_kwargs", "test_kwargs")}
    fitted = as_preprocessing(arguments["preprocessing"])
    return dataclasses.replace(request, preprocessing=fitted, changes=changes)  # type: ignore[no-any-return]
