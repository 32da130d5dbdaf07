"""A call of ``kfold``, or of a search that runs many: what it asks for, checked and put together."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from delira.errors import expect, flag
from delira.experiments import cross_validation, run_request, splits
from delira.experiments.placement import Placement
from delira.experiments.preprocessing import as_preprocessing
from delira.settings.config import SETTINGS, check_names
from delira.settings.signatures import keyword, show_settings
from delira.training.keeping import Keeping

SPLIT_NAMES = tuple(field.name for field in dataclasses.fields(splits.SplitConfig))
_PLACEMENT_NAMES = tuple(field.name for field in dataclasses.fields(Placement) if field.name != "part")
_KEEPING_NAMES = tuple(field.name for field in dataclasses.fields(Keeping))


#: what ``kfold`` takes besides data, options and how it goes on, if it is not said
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("metrics", "num_epochs", "num_splits", "train_kwargs", "test_kwargs", "metric_keys", "params")),
    **dict.fromkeys(("preprocessing", "folds", *_KEEPING_NAMES)),
    **{field.name: field.default for field in dataclasses.fields(Placement) if field.name in _PLACEMENT_NAMES},
}


def show_signatures(cls: Any) -> None:
    """Let ``help()`` and notebooks see every keyword that the methods of experiments take.

    Parameters
    ----------
    cls
        The class of the experiments.
    """
    show_settings(cls.__init__)
    show_settings(cls.run)
    fields = [field for field in dataclasses.fields(splits.SplitConfig) if field.name != "num_splits"]
    split = [keyword(field.name, field.default, field.type) for field in fields]
    show_settings(cls.kfold, *split)
    show_settings(cls.tune, *split)
    own = [keyword(name, default) for name, default in _DEFAULTS.items() if name != "folds"]
    show_settings(cls.learning_curve, *own, *split)


def arguments_of(data: Any, asked: Mapping[str, Any], allow_changes: bool) -> dict[str, Any]:
    """Return the arguments of a call of ``kfold`` by name.

    Parameters
    ----------
    data, allow_changes
        As there.
    asked
        All others that were given.
    """
    own = {name: asked.get(name, default) for name, default in _DEFAULTS.items()}
    options = {name: value for name, value in asked.items() if name not in _DEFAULTS and name != "tune"}
    return {**own, "options": options, "data": data, "allow_changes": allow_changes}


def placed(arguments: Mapping[str, Any]) -> Placement:
    """Return where the parts of a run are to run; those of a call that has ``n_trials`` are trials."""
    part = "trial" if "n_trials" in arguments else "fold"
    return Placement(part=part, **{name: arguments[name] for name in _PLACEMENT_NAMES})


def says_folds(options: Mapping[str, Any]) -> bool:
    """Return True if options say by themselves which folds there are.

    Parameters
    ----------
    options
        Of a call, that it does not name.
    """
    return options.get("splits") is not None or not isinstance(options.get("split_type") or "", str)


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
        metrics=run_request.copied(dict(tested), request.callbacks),
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
