"""``delira train``: the experiment of a file, on the data that it names."""

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from delira.cli.imports import import_all
from delira.cli.output import Answer
from delira.errors import ConfigError
from delira.experiments.experiment import BaseExperiment
from delira.experiments.experiment_file import Plan, read
from delira.frameworks import NAMES, homes_in
from delira.utils.frameworks import find_backend
from delira.utils.references import Unresolved, class_on_disk, name_of, record
from delira.utils.yaml_codec import find_unresolved


def run(options: argparse.Namespace) -> Answer:
    """Cross-validate, or train once, as the file says.

    Parameters
    ----------
    options
        ``file``; ``imports``, modules and scripts; ``resume``, ``only_folds``, ``executor``, ``n_jobs``; ``words``, the
        other words of the command line, which replace parameters.

    Raises
    ------
    ConfigError
        If the file is none of an experiment, names what no imported module has, or a word is no parameter.
    """
    objects = _named(options.imports)
    arguments, plan = read(options.file, objects)
    _check_found(arguments, plan)
    load = _data_function(plan, objects, options.file)
    settings = arguments.pop("settings")
    experiment = _class_of(plan, arguments["model_cls"], objects)(**settings, **arguments)
    parser = argparse.ArgumentParser(prog="delira train", allow_abbrev=False)
    experiment.params.update_from_argparse(parser, arguments=options.words)
    resume = None if options.resume == "new" else options.resume
    data = load(**plan.data_arguments)
    if plan.kfold is None:
        return _run(experiment, data, resume, options)
    asked = {**plan.kfold, **_placed(options)}
    result = experiment.kfold(data, **asked, resume=resume, folds=_numbers(options.only_folds))
    content = {
        "path": str(result.path),
        "folds": [fold.fold for fold in result.folds],
        "metrics": {name: row["mean"] for name, row in result.summary().items()},
    }
    return Answer(content, f"{result}\n\nfolder  {result.path}")


def _run(experiment: BaseExperiment[Any], data: Any, resume: Any, options: argparse.Namespace) -> Answer:
    for name in ("only_folds", "executor", "n_jobs"):
        if getattr(options, name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is of a cross-validation, and {options.file} has one training; write it "
                "by experiment.save(data=…, kfold={…})"
            )
    train_data, val_data = data if isinstance(data, tuple) else (data, None)
    experiment.run(train_data, val_data, resume=resume)
    trainer = experiment.last_trainer
    history = trainer.state.history if trainer is not None else []
    values = {name: value for name, value in (history[-1] if history else {}).items() if name != "epoch"}
    folder = None if trainer is None or trainer.save_path is None else trainer.save_path.parent
    lines = [f"{name:<12} {value:.4g}" for name, value in values.items()]
    content = {"path": str(folder), "epochs": len(history), "metrics": values}
    return Answer(content, "\n".join([*lines, f"folder       {folder}"]))


def _named(imports: list[str]) -> dict[str, Any]:
    """Import what was named, and return all that it has, by the names that files use."""
    found = import_all(imports)
    for name in imports:
        is_script = name.endswith(".py") or Path(name).is_file()
        module = sys.modules[Path(name).stem if is_script else name]
        # as for a script that Python runs: processes that train folds find it there, too
        place = str(Path(name).absolute().parent if is_script else Path.cwd())
        if place not in sys.path:
            sys.path.insert(0, place)
        # names that delira shows are loaded when they are asked for
        lazy = getattr(module, "__all__", ()) if module.__name__.partition(".")[0] == "delira" else ()
        for key in {*vars(module), *lazy}:
            value = getattr(module, key, None)
            if callable(value) and not key.startswith("_"):
                found.setdefault(f"{module.__name__}:{key}", value)
                if isinstance(value, type):
                    found.setdefault(class_on_disk(value), value)
                elif (known_as := name_of(value)) is not None:
                    found.setdefault(known_as, value)
    return found


def _check_found(arguments: Mapping[str, Any], plan: Plan) -> None:
    """Refuse what the file names and no module has, before anything is built."""
    given = {"model_cls": arguments["model_cls"], "settings": arguments["settings"], "params": arguments["params"]}
    missing = find_unresolved({**given, "kfold": dict(plan.kfold or {})})
    names = sorted({_module_of(entry) for entry in missing.values()})
    if names:
        raise ConfigError(
            f"the file names what is in no module of the command line: {', '.join(missing)}; add "
            + " ".join(f"--import {name}" for name in names)
        )


def _module_of(entry: Unresolved) -> str:
    told = record(entry)
    name = next((told[key] for key in ("$object", "$call", "$partial") if isinstance(told.get(key), str)), "MODULE:")
    module = name.partition(":")[0]
    return "SCRIPT.py" if module == "__main__" else module


def _class_of(plan: Plan, model_cls: Any, objects: Mapping[str, Any]) -> type[BaseExperiment[Any]]:
    """The class of the experiment: delira's, or one that a module has."""
    shown = [each for each in homes_in("delira.training") if each.endswith("Experiment")]
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


def _data_function(plan: Plan, objects: Mapping[str, Any], file: str) -> Callable[..., Any]:
    if not plan.data:
        raise ConfigError(
            f"{file} names no data; write it by experiment.save(data=function), or add a line 'data: module:function'"
        )
    if plan.data not in objects:
        module = plan.data.partition(":")[0]
        raise ConfigError(
            f"{file} has its data from {plan.data}, which is called only if its module is named: add --import "
            f"{'SCRIPT.py' if module == '__main__' else module}"
        )
    found: Callable[..., Any] = objects[plan.data]
    return found


def _placed(options: argparse.Namespace) -> dict[str, Any]:
    """Where folds run, if the command line says so."""
    asked = {"executor": options.executor, "n_jobs": options.n_jobs}
    return {name: value for name, value in asked.items() if value is not None}


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(f"--only-folds {text}: it is numbers of folds, from 0: 1,3") from None
