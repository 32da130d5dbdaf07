"""Nested cross-validation: in each outer fold the settings are searched anew, in its training part alone."""

import copy
import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError, check_known, noting
from delira.experiments import kfold_call, search_call, tuning
from delira.experiments.cross_validation import CrossValidation
from delira.experiments.parameters import Parameters
from delira.experiments.splits import Split
from delira.runs.folder import At, RunFolder
from delira.runs.inner_searches import searched_in
from delira.search.tune import Tune
from delira.utils.seeding import derive_int

#: folder of the search of a fold, in that of the fold
FOLDER = "search"
#: arguments of an outer call that are not those of a search inside of it
_OUTER = ("self", "tune", "folds", "params", "keep_predictions", "predictions_dtype", "num_splits", "data")


def validation_of(experiment: Any, arguments: Mapping[str, Any]) -> CrossValidation:
    """Return the cross-validation that a call of ``kfold`` asks for, with a search in each fold if that is asked for.

    Parameters
    ----------
    experiment
        Whose method was called.
    arguments
        Of the method by name.

    Raises
    ------
    ConfigError
        If the search could not work, or nobody knows how its folds are divided.
    """
    if arguments["tune"] is None:
        return kfold_call.validation_of(experiment, arguments)
    tune = _as_tune(arguments["tune"])
    search_call.refuse_bootstrap(arguments["options"])
    if len(tune.metrics) > 1:
        raise ConfigError(f"each fold chooses by one metric, and tune looks at {len(tune.metrics)}: {tune.metrics}")
    if arguments["params"] is not None:
        raise ConfigError("params= are those of all folds, and tune= chooses them anew in each; leave one of them out")
    inner = {name: value for name, value in arguments.items() if name not in _OUTER}
    inner["options"] = {**arguments["options"], **_inner_split(tune, arguments["options"].get("split_type"))}
    fields = {field.name: getattr(tune, field.name) for field in dataclasses.fields(Tune) if field.name != "split_type"}
    alone = {"executor": None, "n_jobs": None, "resources": None, "mirror": None}
    search = search_call.search_of(experiment, {**inner, **fields, **alone, "data": arguments["data"]})
    common = copy.copy(experiment)
    common.params = search.common_params
    made = kfold_call.validation_of(common, {**arguments, "params": None})
    return dataclasses.replace(made, nested=Nested(search=search, experiment=experiment))


def _as_tune(given: Any) -> Tune:
    if isinstance(given, Mapping):
        check_known(given, [field.name for field in dataclasses.fields(Tune)], "tune has no")
        return Tune(**given)
    if not isinstance(given, Tune):
        raise ConfigError(f"tune must be a delira.search.Tune or its fields, got {given!r}")
    return given


def _inner_split(tune: Tune, outer: Any) -> dict[str, Any]:
    """Return how the training part of a fold is divided again."""
    from sklearn.model_selection import TimeSeriesSplit

    stated: dict[str, Any] = {"val_split": tune.val_split, "splits": None}  # those of the outer folds are of all data
    if tune.split_type is not None:
        return {**stated, "split_type": tune.split_type}
    if outer is None or isinstance(outer, str):
        return stated
    if isinstance(outer, TimeSeriesSplit) and tune.num_splits is not None:
        return {**stated, "split_type": TimeSeriesSplit(tune.num_splits, gap=outer.gap)}
    raise ConfigError(
        f"nobody knows how {outer!r} divides the training part of a fold again: say it by Tune(split_type=…), e.g. "
        "'stratified'"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nested:
    """The search inside of each fold."""

    search: tuning.Search
    """On all data; in a fold it is run on the training part."""
    experiment: Any
    """Whose parameters have the spaces."""

    def describe(self) -> dict[str, Any]:
        """Return what decides the trials of all folds, and how many: another choice is another training."""
        return {**self.search.describe(), "n_trials": self.search.tune.n_trials}

    def planned(self, experiment: Any) -> dict[str, Any]:
        """Give an experiment that is written its spaces back; returns the search as an argument of ``kfold``.

        Parameters
        ----------
        experiment
            A copy, with all settings of the run.
        """
        own = {*self.searched_parameters()["training"]}
        if "seed" not in {*own, *self.experiment.settings, *self.search.call["options"]}:
            own.add("seed")  # that of the splits, which a search derives its own from; one that is stated it takes
        experiment.params = self.experiment.params
        experiment.settings = {name: value for name, value in experiment.settings.items() if name not in own}
        asked = {field.name: getattr(self.search.tune, field.name) for field in dataclasses.fields(Tune)}
        return {"tune": {name: value for name, value in asked.items() if value is not None}}

    def searched_parameters(self) -> dict[str, Any]:
        """Return the parameters with their spaces, by part."""
        params = self.experiment.params
        return {"model": params.model_kwargs(), "training": params.training_settings()}

    def alone(self) -> "Nested":
        """Return the same without the data, which the cross-validation has."""
        experiment = copy.copy(self.experiment)
        experiment.last_trainer = None
        call = {**self.search.call, "data": None}
        return Nested(search=dataclasses.replace(self.search, call=call, experiment=experiment), experiment=experiment)

    def request_for(
        self, validation: CrossValidation, run: RunFolder, number: int, split: Split, settings: Mapping[str, Any]
    ) -> Any:
        """Search in the training part of a fold, or read what was chosen; returns what the fold is trained with.

        Parameters
        ----------
        validation
            The outer one.
        run
            Its folder.
        number, split
            Which fold.
        settings
            Of the trainer, that hold where it runs.
        """
        with noting(f"in the search of fold {number}"):
            parts = [split.train] if split.val is None else [split.train, split.val]
            data = validation.data.with_own_transforms().get_subset(np.sort(np.concatenate(parts)))
            seed = derive_int(validation.request.seed, number, stream="nested search") % 2**31
            options = {**self.search.call["options"], "random_seed": seed, "verbose": 0}
            call = {**self.search.call, "data": data, "options": options}
            if "num_threads" in settings:  # not as a setting of the search: where it runs is no part of what it is
                call["resources"] = {"cpus": settings["num_threads"] * validation.n_processes}
            search = dataclasses.replace(self.search, call=call)
            place = At(run.fold(number) / FOLDER, number + 1)
            result = search.run(place, allow_changes=bool(self.search.call["allow_changes"]))
        best = result.best
        shown = dict(best.values)
        if not _is_told(run, number, best.number):
            run.log("searched", fold=number, trial=best.number, scores=[*best.scores], values=shown)
        return self.request_with(validation, result.params)

    def request_with(self, validation: CrossValidation, params: Parameters) -> Any:
        """Return what a fold is trained with that has chosen these parameters."""
        experiment = copy.copy(self.experiment)
        experiment.params = params
        made = kfold_call.request_of(experiment, self.search.call)
        return dataclasses.replace(made, changes=validation.request.changes)

    def stored_request(self, validation: CrossValidation, fold: Path) -> Any:
        """Return what a fold that is finished was trained with, as the ledger says; that of all if it does not."""
        told = {each["fold"]: each["values"] for each in searched_in(RunFolder(fold.parent).events())}
        number = next((number for number in told if RunFolder(fold.parent).fold(number) == fold), None)
        if number is None:
            warnings.warn(f"nothing says what {fold} has chosen: its parameters are not known", stacklevel=8)
            return validation.request
        spaces = self.search.variable.spaces
        values = {name: spaces[name].valued(shown) for name, shown in told[number].items()}
        return self.request_with(validation, self.experiment.params.with_values(values))


def _is_told(run: RunFolder, number: int, trial: int) -> bool:
    told = [each for each in run.events() if each["event"] == "searched" and each.get("fold") == number]
    return bool(told) and told[-1].get("trial") == trial
