"""``delira train``: the experiment of a file, on the data that it names."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from delira.cli.experiments import both, placed, read_experiment, told
from delira.cli.output import Answer
from delira.errors import ConfigError
from delira.experiments.experiment import BaseExperiment
from delira.experiments.experiment_file import gathered, name_data
from delira.training.launched import follows


def run(options: argparse.Namespace) -> Answer:
    """Search, cross-validate (once, or with several numbers of cases), or train once, as the file says.

    Parameters
    ----------
    options
        ``file``; ``imports``, modules and scripts; ``resume``, ``only_folds``, ``executor``, ``n_jobs``, ``mirror``;
        ``words``, the other words of the command line, which replace parameters.

    Raises
    ------
    ConfigError
        If the file is none of an experiment, names what no imported module has, or a word is no parameter.
    """
    experiment, plan, load = read_experiment(options.file, options.imports)
    if options.words:
        plan = gathered(experiment, plan)
    parser = argparse.ArgumentParser(prog="delira train", allow_abbrev=False)
    experiment.params.update_from_argparse(parser, arguments=options.words)
    resume = None if options.resume == "new" else options.resume
    others = {"a search": plan.tune, "a learning curve": plan.learning_curve}
    for what, found in others.items():
        if found is not None and options.only_folds is not None:
            raise ConfigError(f"--only-folds is of a cross-validation, and {options.file} has {what}")
    asked = {**plan.asked, **placed(options), "resume": resume}
    if plan.tune is not None:
        answer = told(experiment.tune(load, **asked))
    elif plan.learning_curve is not None:
        answer = told(experiment.learning_curve(load, **asked))
    elif plan.kfold is None:
        answer = _run(experiment, plan.run or {}, load, resume, options)
    else:
        answer = told(experiment.kfold(load, **asked, folds=_numbers(options.only_folds)))
    return Answer({}) if follows(experiment.backend) else answer  # of several processes one tells it


def _run(
    experiment: BaseExperiment[Any],
    asked: Mapping[str, Any],
    load: Callable[[], Any],
    resume: Any,
    options: argparse.Namespace,
) -> Answer:
    for name in ("only_folds", "executor", "n_jobs"):
        if getattr(options, name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is of a cross-validation, and {options.file} has one training; write it "
                "by experiment.save(data=…, kfold={…})"
            )
    experiment.run(*both(load()), **asked, resume=resume, mirror=options.mirror)
    trainer = experiment.last_trainer
    history = trainer.state.history if trainer is not None else []
    values = {name: value for name, value in (history[-1] if history else {}).items() if name != "epoch"}
    folder = None if trainer is None or trainer.save_path is None else trainer.save_path.parent
    if folder is not None and not follows(experiment.backend):
        name_data(folder, load)
    lines = [f"{name:<12} {value:.4g}" for name, value in values.items()]
    content = {"path": str(folder), "epochs": len(history), "metrics": values}
    return Answer(content, "\n".join([*lines, f"folder       {folder}"]))


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(f"--only-folds {text}: it is numbers of folds, from 0: 1,3") from None
