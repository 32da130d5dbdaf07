"""``delira rerun``: run a run again from what its folder says, and compare both bit for bit."""

import argparse
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.cli.experiments import both, placed, read_experiment
from delira.cli.imports import scripts
from delira.cli.output import DASH, Answer, say, table, wrapped
from delira.cli.repeatable import plan_of, why_not
from delira.cli.verify import DIFFERENT, compare_environment
from delira.errors import ConfigError
from delira.experiments import search_call
from delira.experiments.command_line import fold_numbers
from delira.experiments.experiment import BaseExperiment
from delira.experiments.experiment_file import Plan, name_data
from delira.experiments.search_result import Trial
from delira.runs.differences import find_differences, find_remarks
from delira.runs.folder import At, epochs_asked_for
from delira.runs.reruns import WEIGHTS, Comparison, Difference, compare_runs
from delira.runs.stored_run import RUNNING, StoredRun, read_run
from delira.training.launched import is_launched
from delira.utils import references, yaml_codec

#: what folders of reruns end with
_RERUNS = "-reruns"
#: what lines are called that tell of other data: a comparison would say nothing
_OF_DATA = ("dataset", "validation data")


class LoadedOnce(functools.partial[Any]):
    """A function that gives data, which are read once and kept: they are looked at before the training."""

    def __call__(self) -> Any:
        """Return the data."""
        if not hasattr(self, "loaded"):
            self.loaded = super().__call__()
        return self.loaded


def run(options: argparse.Namespace) -> Answer:
    """Run a run again in a new folder, and compare.

    Parameters
    ----------
    options
        ``run``, its folder; ``imports``, modules and scripts; ``data`` and ``data_arguments``, if the run does not say
        how to get its data; ``only_folds``; ``out``; ``executor``, ``n_jobs``.

    Raises
    ------
    ConfigError
        If it cannot be run again: saying what is missing, or that the data are others.
    """
    found = read_run(options.run)
    _check_can_begin(found)
    folds = _chosen(found, options.only_folds)
    arguments = None if options.data_arguments is None else yaml_codec.loads(options.data_arguments)
    was_script = str(found.manifest.get("model", "")).startswith("__main__:")
    with references.as_main(scripts(options.imports) if was_script else ()):
        file = plan_of(found).absolute()
        place = _beside(file.parents[1]) if options.out is None else Path(options.out) / found.name
        experiment, plan, load = read_experiment(str(file), options.imports, options.data, arguments, place)
        before = _Before(found)
        _settle(experiment, found, before, is_shared_out=bool(placed(options)))
        at = At.new(experiment.save_path)
        try:
            _begin(experiment, plan, load, found, folds, options, At(at.path, at.number, check=before.check))
        finally:
            if not any(at.path.iterdir()):  # it was refused before it began
                at.path.rmdir()
    again = read_run(at.path)
    return _answer(found, again, compare_runs(found, again, folds), before)


def _beside(folder: Path) -> Path:
    """The folder for reruns of what a folder has: there they would be taken for its newest run."""
    return folder if folder.name.endswith(_RERUNS) else folder.with_name(folder.name + _RERUNS)


def _check_can_begin(found: StoredRun) -> None:
    """Refuse what this command cannot run again, before anything is imported."""
    if is_launched():
        raise ConfigError("it begins as many processes as the run had by itself; call it without torchrun")
    if found.state == RUNNING:
        raise ConfigError(f"{found.owner} is at work on {found.path}; run it again when that has ended")
    if why := why_not(found):
        raise ConfigError(f"{found.path} cannot be run again: {why}")


def _chosen(found: StoredRun, text: str | None) -> list[int]:
    """Numbers of the folds that are run again: those that the run has, or those of them that are asked for."""
    there = [*found.fold_folders]
    if text is None:
        return there
    if found.kind != "kfold":
        what = "a learning curve" if found.kind == "learning_curve" else "one training"
        raise ConfigError(f"--only-folds is of a cross-validation, and {found.path} is {what}")
    try:
        asked = fold_numbers(text)
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"--only-folds: {error}") from None
    if missing := sorted({*asked} - {*there}):
        raise ConfigError(
            f"--only-folds {text}: there is nothing to compare fold {missing[0]} with; {found.path} has {there}"
        )
    return sorted({*asked})


def _settle(experiment: BaseExperiment[Any], found: StoredRun, before: "_Before", *, is_shared_out: bool) -> None:
    """Give an experiment the seed and the threads of the run, where its file, or processes, lead to others."""
    settings: dict[str, Any] = experiment.settings  # type: ignore[assignment]
    seed, threads = found.manifest["seed"], found.manifest.get("num_threads")
    stated = {**experiment.params.training_settings(), **settings}
    if stated.get("seed", seed if found.has_folds else 0) != seed:
        settings["seed"] = seed
    devices = experiment.backend.devices
    is_same = threads == devices.thread_count() and not is_shared_out
    if stated.get("num_threads") is not None or threads is None or is_same:
        return
    try:
        with devices.threads(threads):
            settings["num_threads"] = threads
        before.is_told.add("training.num_threads")
    except ConfigError as error:
        before.note(f"num_threads: {threads} in the run, {devices.thread_count()} here, which cannot change: {error}")


class _Before:
    """What differs from the run before anything is trained; told at once, since a training takes its time."""

    def __init__(self, found: StoredRun):
        self._found = found
        self.changes: list[str] = []
        #: settings that are given so that the rerun is the same
        self.is_told: set[str] = set()

    def note(self, line: str) -> None:
        """Remember a difference, and say it."""
        self.changes.append(line)
        say(f"delira rerun: {line}")

    def check(self, facts: Mapping[str, Any]) -> None:
        """Compare what the new run says of itself.

        Raises
        ------
        ConfigError
            If it would be trained on other data.
        """
        manifest = self._found.manifest
        lines = [line for part in find_differences(manifest, facts).values() for line in part]
        if others := [line for line in lines if line.partition(":")[0] in _OF_DATA]:
            raise ConfigError(
                f"these are not the data of {self._found.path}: {'; '.join(others)}; name those by --data "
                "module:function and --data-arguments"
            )
        for line in [*lines, *find_remarks(manifest, facts)]:
            if line.partition(":")[0] not in self.is_told:
                self.note(line)


def _begin(
    experiment: BaseExperiment[Any],
    plan: Plan,
    load: functools.partial[Any],
    found: StoredRun,
    folds: Sequence[int],
    options: argparse.Namespace,
    at: Any,
) -> None:
    more = _more_epochs(experiment, epochs_asked_for(found.manifest, found.events))
    load = LoadedOnce(load.func, **load.keywords)
    is_trial = bool(found.manifest.get("is_trial"))
    if placed(options) and (is_trial or found.kind == "run"):
        what = "a trial of a search" if is_trial else "one training"
        raise ConfigError(f"--n-jobs and --executor are of a cross-validation, and {found.path} is {what}")
    if is_trial:
        values = Trial.read(found.path).values
        search_call.trial_again(experiment, plan.tune or {}, load, values, folds).run(at)
    elif found.kind == "run":
        experiment.run(*both(load()), **{**(plan.run or {}), **more}, resume=at)
        name_data(at.path, load)
    elif found.kind == "learning_curve":
        experiment.learning_curve(load, **{**plan.asked, **placed(options), **more}, resume=at)
    else:
        experiment.kfold(load, **{**(plan.kfold or {}), **placed(options), **more}, folds=folds, resume=at)


def _more_epochs(experiment: BaseExperiment[Any], epochs: int | None) -> dict[str, Any]:
    """The number of epochs as an argument, if the experiment leads to another one: that it is given may count."""
    stated, settings = experiment.params.training_settings(), experiment.settings
    known = [settings.get("num_epochs"), stated.get("num_epochs"), experiment.n_epochs, stated.get("n_epochs")]
    own = next((number for number in known if number is not None), None)
    return {} if None in (own, epochs) or own == epochs else {"num_epochs": epochs}


# ------------------------------------------------------------------ what is told


def _answer(found: StoredRun, again: StoredRun, comparison: Comparison, before: _Before) -> Answer:
    environment = [] if comparison.is_equal else [*compare_environment(found)]
    others = [check for check in environment if check.state == DIFFERENT]
    content = {
        "run": str(found.path),
        "rerun": str(again.path),
        "is_equal": comparison.is_equal,
        "epochs": comparison.epochs,
        "hashes": comparison.hashes,
        "folds": comparison.folds,
        "tested": comparison.tested,
        "predicted": comparison.predicted,
        "first": _plain(comparison.firsts[0]) if comparison.firsts else None,
        "differences": [_plain(each) for each in comparison.firsts],
        "largest": _plain(comparison.largest),
        "changes": before.changes,
        "environment": [check._asdict() for check in others],
        "remarks": comparison.remarks,
    }
    causes = [*before.changes, *(f"{check.what}: {check.detail}" for check in others)]
    text = "\n".join([*_told(found, comparison, causes), f"{'rerun':<12} {again.path}"])
    return Answer(content, text, is_broken=not comparison.is_equal)


def _plain(difference: Difference | None) -> dict[str, Any] | None:
    return None if difference is None else {**difference._asdict(), "relative": difference.relative}


def _told(found: StoredRun, comparison: Comparison, causes: Sequence[str]) -> list[str]:
    n_folds = len(comparison.folds)
    of_folds = f" of {_counted(n_folds, 'fold')}" if found.has_folds else ""
    lines = []
    if comparison.is_equal:
        how = "bit for bit" if comparison.hashes else "number for number"  # weights are not kept of each run
        lines.append(f"equal, {how}: {_counted(comparison.epochs, 'epoch')}{of_folds}")
    elif not comparison.firsts:
        lines.append("nothing to compare: the run has no epoch")
    else:
        first = comparison.firsts[0]
        lines += [f"different: first in {_place(first, found.kind)}", "", *_values(first), ""]
        if (largest := comparison.largest) is not None:
            told = f"relative difference {largest.relative:.2g}: {largest.entry}, {_place(largest, found.kind)}"
            lines.append(wrapped(told, f"{'largest':<12} "))
        if (others := len(comparison.firsts)) < n_folds:
            lines.append(f"{'folds':<12} {n_folds - others} of {n_folds} are equal")
    if comparison.hashes:
        lines.append(f"{'weights':<12} compared after {_counted(comparison.hashes, 'epoch')}")
    if comparison.tested:
        n_tested, n_predicted = len(comparison.tested), len(comparison.predicted)
        what = "metrics and predictions" if n_predicted == n_tested else "metrics"
        more = f", and predictions of {n_predicted}" if 0 < n_predicted < n_tested else ""
        lines.append(f"{'tests':<12} {what} of {_counted(n_tested, 'fold')}{more}")
    lines += [wrapped(line, f"{'changed':<12} ") for line in causes]
    return [*lines, *(wrapped(line, f"{'note':<12} ") for line in comparison.remarks)]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _place(difference: Difference, kind: str) -> str:
    fold = "" if kind == "run" else f"fold {difference.fold}, "
    return f"{fold}the test" if difference.epoch is None else f"{fold}epoch {difference.epoch}"


def _values(first: Difference) -> list[str]:
    far = DASH if first.relative is None else f"{first.relative:.2g}"
    told = [str(each)[:12] if first.entry == WEIGHTS else f"{each!r:.30}" for each in (first.run, first.rerun)]
    return table(["entry", "run", "rerun", "relative"], [[first.entry, *told, far]], "<>>>").splitlines()
