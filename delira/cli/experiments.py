"""The experiment of a file, made of what the modules of the command line have."""

import argparse
import dataclasses
import functools
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.cli.output import Answer
from delira.cli.vouching import package_of_import, vouched_for
from delira.errors import ConfigError
from delira.experiments.experiment import BaseExperiment
from delira.experiments.experiment_file import Plan, read
from delira.experiments.learning_curve import LearningCurve
from delira.experiments.result import KFoldResult
from delira.experiments.search_result import SearchResult
from delira.frameworks import NAMES
from delira.utils.frameworks import find_backend
from delira.utils.references import Unresolved, class_on_disk, module_today, record
from delira.utils.yaml_codec import find_unresolved


def read_experiment(
    file: str,
    imports: Sequence[str],
    data: str | None = None,
    data_arguments: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> tuple[BaseExperiment[Any], Plan, functools.partial[Any]]:
    """Return the experiment of a file, what else that says, and the function that gives the data.

    Parameters
    ----------
    file, imports
        Which one; modules and scripts that have what it names.
    data, data_arguments
        Instead of what the file says.
    folder
        Of the experiment, instead of the one that the file says.

    Raises
    ------
    ConfigError
        If the file is none of an experiment, or names what no imported module has.
    """
    objects = vouched_for(imports)
    arguments, plan = read(file, objects)
    _check_found(arguments, plan, objects)
    if data is not None:
        plan = dataclasses.replace(plan, data=data, data_arguments={})
    if data_arguments is not None:
        plan = dataclasses.replace(plan, data_arguments=data_arguments)
    load = _data_function(plan, objects, file, imports)
    if folder is not None:
        arguments |= _placed_in(folder.absolute(), str(arguments.get("name", "")))
    settings = arguments.pop("settings")
    return _class_of(plan, arguments["model_cls"], objects)(**settings, **arguments), plan, load


def told(result: KFoldResult | SearchResult | LearningCurve) -> Answer:
    """What a command says of a cross-validation, a search, or a learning curve."""
    if isinstance(result, LearningCurve):
        means = {
            size: {name: row["mean"] for name, row in each.summary().items()} for size, each in result.points.items()
        }
        return Answer({"path": str(result.path), "sizes": means}, f"{result}\n\nfolder  {result.path}")
    if isinstance(result, SearchResult):
        trials = [{name: value for name, value in row.items() if value == value} for row in result.table()]
        best = [trial.number for trial in result.best_trials]
        return Answer({"path": str(result.path), "best": best, "trials": trials}, str(result))
    content = {
        "path": str(result.path),
        "folds": [fold.fold for fold in result.folds],
        "metrics": _means(result),
    }
    return Answer(content, f"{result}\n\nfolder  {result.path}")


def _means(result: KFoldResult) -> dict[str, float]:
    return {name: row["mean"] for name, row in result.summary().items()}


def _unresolved(arguments: Mapping[str, Any], plan: Plan) -> dict[str, Unresolved]:
    given = {"model_cls": arguments["model_cls"], "settings": arguments["settings"], "params": arguments["params"]}
    return find_unresolved({**given, "asked": dict(plan.asked), "run": dict(plan.run or {})})


def nameless(arguments: Mapping[str, Any], plan: Plan) -> str:
    """Say what of a file nobody can find by its name; empty if there is nothing like that.

    Parameters
    ----------
    arguments, plan
        As :func:`delira.experiments.experiment_file.read` returns them.
    """
    found = [f"{place} ({entry})" for place, entry in _unresolved(arguments, plan).items() if "$repr" in record(entry)]
    if not found:
        return ""
    return (
        f"the file has only a text of {', '.join(found)}: what it can name is a class or a function at the top "
        "of a module, or an object that keeps the arguments of its constructor under their names"
    )


def _check_found(arguments: Mapping[str, Any], plan: Plan, objects: Mapping[str, Any]) -> None:
    """Refuse what the file names and no module has, before anything is built."""
    missing = _unresolved(arguments, plan)
    if told := nameless(arguments, plan):
        raise ConfigError(told)
    if not missing and (place := _unpickling(arguments, objects)):
        raise ConfigError(
            f"the file has {place}, a folder of which scikit-learn would unpickle what lies there, which runs code; "
            f"leave it out, or say that you know the folder by --import {arguments['model_cls'].__module__}"
        )
    names = sorted({_module_of(entry) for entry in missing.values()})
    if names:
        raise ConfigError(
            f"the file names what is in no module of the command line: {', '.join(missing)}; add "
            + " ".join(f"--import {name}" for name in names)
        )


def _unpickling(arguments: Mapping[str, Any], objects: Mapping[str, Any]) -> str:
    """Name of a parameter by which an estimator that nobody vouched for reads what lies in a folder; empty: none."""
    if arguments["model_cls"] in objects.values():
        return ""
    waiting: list[Any] = [arguments["params"], arguments["settings"]]
    for each in waiting:
        items = (
            each.items() if isinstance(each, Mapping) else enumerate(each) if isinstance(each, (list, tuple)) else ()
        )
        for name, value in items:
            if str(name).rpartition("__")[2] == "memory" and isinstance(value, (str, Path)):
                return f"{name}={str(value)!r}"
            waiting.append(value)
    return ""


def _module_of(entry: Unresolved) -> str:
    told = record(entry)
    name = next((told[key] for key in ("$object", "$call", "$partial") if isinstance(told.get(key), str)), "MODULE:")
    module, _, name = name.partition(":")
    return "SCRIPT.py" if module == "__main__" else module_today(module, name)


def _class_of(plan: Plan, model_cls: Any, objects: Mapping[str, Any]) -> type[BaseExperiment[Any]]:
    """The class of the experiment: delira's, or one that a module has."""
    shown = [each for own in NAMES.values() for each in own.get("training", ()) if each.endswith("Experiment")]
    module, _, name = plan.experiment_cls.partition(":")
    if not plan.experiment_cls:  # written by hand, or before files said it
        own = NAMES[find_backend(model_cls).name]["training"]
        name = next(each for each in own if each in shown)
    cls = objects.get(plan.experiment_cls)
    if cls is None and name in shown:
        known = getattr(importlib.import_module("delira.training"), name)
        cls = known if plan.experiment_cls in ("", class_on_disk(known)) else None
    if cls is None:
        raise ConfigError(
            f"the file is of a {plan.experiment_cls}, which no module of the command line has: add --import "
            f"{'SCRIPT.py' if module == '__main__' else module}"
        )
    if not (isinstance(cls, type) and issubclass(cls, BaseExperiment)):
        raise ConfigError(f"{plan.experiment_cls} is no class of experiments")
    return cls


def _placed_in(folder: Path, name: str) -> dict[str, Any]:
    """Arguments of an experiment whose folder this is; it keeps its name unless the folder was renamed."""
    parts = Path(name).parts
    if not parts or folder.parts[-len(parts) :] != parts:
        name, parts = folder.name, folder.parts[-1:]
    return {"name": name, "save_path": folder.parents[len(parts) - 1]}


def _data_function(plan: Plan, objects: Mapping[str, Any], file: str, imports: Sequence[str]) -> functools.partial[Any]:
    if not plan.data:
        raise ConfigError(
            f"{file} names no data; write it by experiment.save(data=function), add a line 'data: module:function', "
            "or, of 'delira work' and 'delira rerun', say --data module:function"
        )
    if plan.data not in objects:
        module, _, name = plan.data.partition(":")
        home = getattr(getattr(sys.modules.get(module), name, None), "__module__", None) or module
        if home != module and any(known.startswith(f"{module}:") for known in objects):  # the module was named
            raise ConfigError(
                f"{file} has its data from {plan.data}, which {module} has from {home}, and nothing of there is called "
                f"unless it is named: write 'data: {home}:{name}', and add --import {home}"
            )
        raise ConfigError(
            f"{file} has its data from {plan.data}, which is called only if its module is named: add --import "
            f"{'SCRIPT.py' if module == '__main__' else module}"
        )
    function = objects[plan.data]
    packages = {"delira", *map(package_of_import, imports)}
    if isinstance(function, type) and function.__module__.partition(".")[0] not in packages:
        raise ConfigError(
            f"{file} has its data from {plan.data}, a class of {function.__module__}, which is called only if its "
            f"module is named: add --import {function.__module__}"
        )
    return functools.partial(function, **plan.data_arguments)


def both(data: Any) -> tuple[Any, Any]:
    """Data of training and of validation, which a function gives together, or the first alone."""
    train, val = data if isinstance(data, tuple) else (data, None)
    return train, val


def placed(options: argparse.Namespace) -> dict[str, Any]:
    """Where folds run, and where else their files go, if the command line says so."""
    asked = {name: getattr(options, name, None) for name in ("executor", "n_jobs", "mirror")}
    return {name: value for name, value in asked.items() if value is not None}
