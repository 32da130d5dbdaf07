"""A search: trials as parts of one run, each a cross-validation of its own with the values that were proposed."""

import contextlib
import copy
import dataclasses
import errno
import functools
import itertools
import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager
from delira.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    ExecutorError,
    LeaseLostError,
    TrialPruned,
    UnreadableError,
    WorkerLostError,
    check_known,
    expect,
)
from delira.experiments import experiment_file, kfold_call, splits
from delira.experiments.cross_validation import CrossValidation
from delira.experiments.division import Division
from delira.experiments.fold_task import Work
from delira.experiments.folds import run_folds, tell_of_callbacks
from delira.experiments.leakage import find_leaks
from delira.experiments.parameters import Parameters
from delira.experiments.placement import Placement
from delira.experiments.search_result import FILE_NAME, SPACES, SearchResult, Trial
from delira.experiments.tracked_trials import Tracker, log_once
from delira.experiments.trial_reports import PruningCallback, Reports
from delira.experiments.variable import Variable
from delira.metrics.direction import AUTO, MODES, higher_is_better
from delira.runs.code_of import code_of_functions
from delira.runs.environment import environment
from delira.runs.folder import At, RunFolder, said_by
from delira.runs.leases import Leases
from delira.search.tune import Tune
from delira.utils import files, yaml_codec
from delira.utils.seeding import derive
from delira.utils.spaces import Space

_log = logging.getLogger("delira")

#: what no settings are to blame for: the same call runs the trial again
_NOT_OF_A_TRIAL = (LeaseLostError, UnreadableError, WorkerLostError, ExecutorError, CancelledError)
#: errors of a disk that has no place, or is away: the next trial could not be written, either
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

TUNE_NAMES = tuple(field.name for field in dataclasses.fields(Tune) if field.name != "split_type")
#: arguments of a call that another program needs to work at the search
PLANNED = ("metrics", "num_epochs", "train_kwargs", "test_kwargs", "metric_keys", "preprocessing")
#: trials that may fail before any has ended: then there is nothing to go on for
_MOST_FAILED = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """One search, as the experiment was asked for it; its trials are run by the engine that runs folds."""

    experiment: Any
    tune: Tune
    call: Mapping[str, Any]
    """Arguments of the cross-validation of a trial, by name."""
    keep: str = "best"
    """Checkpoints of which trials that have ended."""
    parallel: str = "trials"
    """What runs at the same time: ``"trials"``, or the ``"folds"`` of one trial after the other."""
    placement: Placement = dataclasses.field(default_factory=Placement)
    """Where the folds of a trial run."""
    log_to: Callable[[Trial], logging.Handler] | None = None
    """Gives the run of a tracker for a trial; it stays with who asked for the search."""
    divided: Division | None = None
    """How the data are divided, for all trials alike."""
    run_folder: Path | None = None
    order: None = None
    is_trial: bool = False

    # ------------------------------------------------------------------ what is asked for

    @functools.cached_property
    def variable(self) -> Variable:
        """The parameters with their spaces."""
        params = self.experiment.params
        return Variable({"model": params.model_kwargs(), "training": params.training_settings()})

    @functools.cached_property
    def validation(self) -> CrossValidation:
        """That of a trial with defaults, or the first corner, for each space: what all trials have in common."""
        return self.validation_with(self._common_values)

    @property
    def common_params(self) -> Parameters:
        """The parameters with defaults, or the first corner, for each space."""
        return self.experiment.params.with_values(self._common_values)  # type: ignore[no-any-return]

    @property
    def _common_values(self) -> dict[str, Any]:
        return {name: space.default if space.has_default else space.corners()[0] for name, space in self._spaces()}

    def validation_with(self, values: Mapping[str, Any], **settings: Any) -> CrossValidation:
        """Return the cross-validation of a trial with these values for the spaces, and further settings."""
        experiment = copy.copy(self.experiment)
        experiment.params = self.experiment.params.with_values(values)
        call = {**self.call, "options": {**self.call["options"], **settings}}
        made = kfold_call.validation_of(experiment, call)
        return dataclasses.replace(made, placement=self.placement, divided=self.divided, is_trial=True)

    def settled(self) -> Tune:
        """Return what is asked for with the metrics and directions that the experiment says.

        Raises
        ------
        ConfigError
            If nobody computes a metric, or knows which of its values are good.
        """
        known = {**self.validation.bound_metrics}
        config = self.validation.request.config
        names = self.tune.metrics
        if not names:
            key = config.val_score_key
            names = (key.removeprefix("val_"),) if key is not None else tuple(known)[:2]
            if len(names) != 1:
                raise ConfigError(
                    f"metric is not given: say which one is looked at: {', '.join(known) or 'there is none'}"
                )
        check_known(names, known, "tune cannot look at")
        stated = [self.tune.direction] * len(names) if isinstance(self.tune.direction, str) else self.tune.direction
        directions = [self._direction(name, each) for name, each in zip(names, stated, strict=True)]
        if self.tune.prunes == "epoch":
            check_known(names, config.epoch_metrics, "a pruner needs a metric of each validation (val_metrics), not")
            frequencies = [space.corners() for path, space in self._spaces() if path == "training.val_freq"]
            self.tune.check_epochs(self.most_epochs, min([config.val_freq, *itertools.chain(*frequencies)]))
        n_trials = self.tune.n_trials
        if self.tune.sampler == "grid":
            n_trials = min(n_trials or len(self._grid), len(self._grid))
        return dataclasses.replace(self.tune, metric=[*names], direction=directions, n_trials=n_trials)

    def _direction(self, name: str, stated: str) -> str:
        config = self.validation.request.config
        is_own = config.val_score_key is not None and config.val_score_key.removeprefix("val_") == name
        if stated == AUTO and is_own:
            stated = config.score(None, None)[1]
        elif is_own and config.val_score_mode not in (AUTO, MODES[stated]):
            own = "max" if config.val_score_mode == "highest" else "min"
            raise ConfigError(
                f"tune: direction={stated!r} for {name!r} contradicts val_score_mode={own!r} of the experiment, by "
                "which each trial chooses its best epoch: leave direction out, or mend the one that is wrong"
            )
        if stated != AUTO:
            return "max" if MODES[stated] == "highest" else "min"
        found = higher_is_better(self.validation.bound_metrics[name], name)
        if found is None:
            raise ConfigError(f"nobody knows whether large values of {name!r} are good: say direction='max' or 'min'")
        return "max" if found else "min"

    @property
    def are_maximised(self) -> list[bool]:
        """Of each metric whether large values are good."""
        return [each == "max" for each in self.tune.direction]

    @functools.cached_property
    def _grid(self) -> list[dict[str, Any]]:
        return [*self.variable.assignments()]

    @functools.cached_property
    def most_epochs(self) -> int:
        """Epochs of the longest trainings there may be: so far the steps of two folds are apart."""
        known = [self.request.num_epochs]
        for name, space in self._spaces():
            if name.rpartition(".")[2] in ("num_epochs", "n_epochs"):
                known += map(int, space.corners())
        return max(known)

    def _spaces(self) -> Sequence[tuple[str, Space]]:
        return [*self.variable.spaces.items()]

    # ------------------------------------------------------------------ what the engine of folds asks for

    @property
    def request(self) -> Any:
        """Settings that all trials have in common."""
        return self.validation.request

    @property
    def n_processes(self) -> int:
        """How many processes train a network together."""
        return self.validation.n_processes

    def is_chosen(self, number: int) -> bool:
        """Return True: all trials are run."""
        return True

    def alone(self) -> "Search":
        """Return the same without what belongs to this process, to be sent to another one."""
        experiment = copy.copy(self.experiment)
        experiment.last_trainer = None
        call = {**self.call, "data": self.validation.data, "executor": None, "n_jobs": None, "mirror": None}
        return dataclasses.replace(self, experiment=experiment, call=call, log_to=None)

    @property
    def after_fold(self) -> Callable[[Trial], None] | None:
        """What is done with each trial that has ended, or was read: a tracker is told of it."""
        if self.log_to is None or self.run_folder is None:
            return None
        tracker = Tracker(self.log_to, self.experiment.name, self.tune.metrics)
        leases = Leases(self.run_folder, self.call["takeover_after"])
        return functools.partial(log_once, tracker=tracker, leases=leases)

    def folder_of(self, run: Path, number: int) -> Path:
        """Folder of a trial."""
        return run / "trials" / f"trial_{number:04d}"

    def histories(self, trial: Path) -> Sequence[Path]:
        """Return the files that its epochs come into."""
        return sorted(trial.glob("fold_*/history.jsonl"))

    def sent(self, trial: Trial) -> Trial:
        """Return what goes back to who asked for a trial: itself."""
        return trial

    def completed(self, number: int, trial: Trial) -> Trial:
        """Return a trial that came from another process."""
        return trial

    def is_success(self, trial: Trial) -> bool:
        """Return True if a trial shows that there is something to go on for."""
        return trial.state != "failed"

    def log_finished(self, folder: RunFolder, trial: Trial) -> None:
        """Tell the ledger of a trial that has ended; its folder says it, too."""
        seconds = round(trial.seconds, 3)
        with files.unsynced():
            folder.log("trial_finished", trial=trial.number, state=trial.state, scores=[*trial.scores], seconds=seconds)

    def read_fold(
        self, path: Path, number: int, split: Any, *, is_finished: bool, is_own: bool = False
    ) -> Trial | None:
        """Return a trial that has ended; ``None`` if it is to be run, or to go on."""
        try:
            trial = Trial.read(path)
        except FileNotFoundError:
            return None
        except CheckpointError as error:
            _log.warning("trial %d is scored again from its folder: %s", number, error)
            return None
        self.study.finish(number, trial.state, trial.scores, trial.constraints or None)
        return trial

    # ------------------------------------------------------------------ run

    def describe(self) -> dict[str, Any]:
        """Return what decides which trials there are, and their scores, as plain values."""
        common = self.validation
        searched = {name.rpartition(".")[2] for name, _ in self._spaces()} & {"num_epochs", "n_epochs"}
        scored = {"metrics": dict(common.metrics), "metric_keys": dict(common.metric_keys)}
        return {
            **self.tune.describe(),
            "spaces": yaml_codec.encode(dict(self._spaces())),
            "seed": common.request.seed,
            "num_epochs": None if searched else common.request.num_epochs,
            **yaml_codec.encode(scored),
            "code": code_of_functions([*common.metrics.values(), self.tune.constraints, self.tune.sampler]),
        }

    def run(self, resume: str | Path | At | None = None, allow_changes: bool = False) -> SearchResult:
        """Run all trials, or go on with those that are missing.

        Parameters
        ----------
        resume, allow_changes
            As of ``experiment.tune``.
        """
        common = self.validation
        if not isinstance(common.data, BaseDataManager):
            raise ConfigError(
                f"tune divides the data itself, so it needs a BaseDataManager, got {type(common.data).__name__}"
            )
        placement = kfold_call.placed(self.call)
        division, request = self.divide(), common.request
        n_trials = int(self.tune.n_trials or 0)
        n_parts = len(division.splits) if self.parallel == "folds" else n_trials
        threads = placement.threads(
            request.settings.get("num_threads"), self.experiment.backend, n_parts, common.n_processes
        )
        opened = self.experiment.open_folder(
            request,
            common.data,
            resume,
            kind="tune",
            allow_changes=allow_changes,
            mirror=placement.mirror,
            num_threads=threads,
            num_splits=len(division.splits),
            split_type=common.split.describe(),
            options=yaml_codec.encode({**vars(common.split), "num_splits": self.tune.num_splits}),
            n_trials=n_trials,
            splits=splits.fingerprint(division.splits),
            search=self.describe(),
            directions=[*self.tune.direction],
        )
        with opened as folder, self._placed(placement, n_parts, folder) as (trials, folds):
            self._write_plan(folder)
            call = {**self.call, "data": common.data, "allow_changes": allow_changes}
            search = dataclasses.replace(self, divided=division, run_folder=folder.path, call=call, placement=folds)
            ended = [event["trial"] for event in folder.events() if event["event"] == "trial_finished"]
            work = Work(
                validation=search,
                folder=folder.path,
                splits=range(max([n_trials, *(number + 1 for number in ended)])),
                threads=folder.read_manifest().get("num_threads"),
                allow_changes=allow_changes,
                takeover_after=placement.takeover_after,
                n_events=len(folder.events()),
                what="trial",
            )
            return search.result(run_folds(work, folder, trials))

    @contextlib.contextmanager
    def _placed(self, placement: Placement, n_parts: int, folder: RunFolder) -> Iterator[tuple[Placement, Placement]]:
        """Scope of where trials run, and the folds of each; processes for folds live as long as the search."""
        if self.parallel == "trials":
            yield placement, Placement()
            return
        threads = folder.read_manifest().get("num_threads")
        device, needs = self.request.settings.get("device"), placement.resources
        tell_of_callbacks(self.request.callbacks)
        with placement.opened(n_parts, folder.path) as executor:
            if executor is not None:
                needs = placement.needs(threads, device, self.n_processes, executor)
            folds = dataclasses.replace(placement, executor=executor, n_jobs=None, resources=needs, mirror=None)
            yield dataclasses.replace(placement, executor="here", n_jobs=None, resources=None), folds

    def _write_plan(self, folder: RunFolder) -> None:
        """Write the parameters with their spaces, and what another program needs to work at the search."""
        if not (folder.path / SPACES).exists():
            self.experiment.params.save(folder.path / SPACES)
        if (folder.path / experiment_file.FILE_NAME).exists():
            return
        call = {name: value for name, value in self.call.items() if name in PLANNED and value is not None}
        asked = {name: getattr(self.tune, name) for name in TUNE_NAMES}
        tune = {**call, **self.call["options"], **asked, "keep_checkpoints": self.keep}
        experiment_file.write_plan(self.experiment, folder.path, self.call["data"], tune=tune)

    def result(self, trials: Sequence[Trial]) -> SearchResult:
        """Return what all trials say together."""
        return SearchResult(
            trials=trials,
            metrics=self.tune.metrics,
            are_maximised=self.are_maximised,
            path=self.run_folder or Path(),
            name=self.experiment.name,
            searched=self.experiment.params,
        )

    def divide(self) -> Division:
        """Divide the data as all trials have them: into folds, or one part that is held out for validation."""
        if self.tune.num_splits is not None or kfold_call.says_folds(self.call["options"]):
            return self.validation.divide()
        common = self.validation
        seed = common.request.seed if common.split.random_seed is None else common.split.random_seed
        splitter = splits.Splitter(common.cases.dataset, common.split, seed)
        held_out = splitter.held_out()
        seen = [splits.Split(held_out.train, None, held_out.test)]
        leaks = find_leaks(common.cases, common.split, seen, common.request.key_mapping, stacklevel=5)
        return Division(splits=[held_out], groups=splitter.groups, leaks=leaks)

    @functools.cached_property
    def study(self) -> Any:
        """Proposals and values, on disk."""
        from delira.search.study import Study

        folder = self.run_folder or Path()
        made = Study(folder, self.experiment.name, self.tune, self.are_maximised, self.request.seed)
        made.check(self.variable.spaces)
        return made

    def run_fold(
        self, folder: RunFolder, number: int, split: Any, table: Any, first: Any, settings: Mapping[str, Any]
    ) -> Trial:
        """Run a trial, or go on with it.

        Parameters
        ----------
        folder
            Of the run.
        number
            Of the trial.
        split, table, first
            What folds have.
        settings
            Of the trainer, that hold where it runs.
        """
        values = self._proposed(number)
        spaces = self.variable.spaces
        path = self.folder_of(folder.path, number)
        known = {name: spaces[name].valued(shown) for name, shown in values.items()}
        reports = Reports(self, number)
        try:
            validation = self.validation_with(known, **{**settings, "verbose": 0})
            place = At(path, number + 1, False, self._made_with)
            self._watched(validation, reports, number).run(place, self.call["allow_changes"])
            trial = self._judged(reports.trial("finished", "", values, path), known, reports)
        except TrialPruned as pruned:
            trial = reports.trial("pruned", str(pruned), values, path)
        except _NOT_OF_A_TRIAL:
            raise
        except Exception as failure:
            if isinstance(failure, OSError) and failure.errno in _OF_THE_DISK:
                raise
            self._tell_failed(number, failure)
            trial = reports.trial("failed", said_by(failure), values, path)
        files.publish_text(path / FILE_NAME, trial.to_json(), durable=False)
        self.study.finish(number, trial.state, trial.scores, trial.constraints or None)
        self._sweep(folder.path)
        return trial

    def _sweep(self, run: Path) -> None:
        """Remove checkpoints of trials that have ended and are not kept; each is looked at until it is not the best."""
        if self.keep == "all":
            return
        for number, trial in enumerate(self.study.trials()):
            if number not in self._ended and trial.state.is_finished():
                with contextlib.suppress(CheckpointError, OSError):  # whoever ran it writes it first
                    self._ended[number] = Trial.read(self.folder_of(run, number))
        kept = {best.number for best in self.result([*self._ended.values()]).best_trials} if self.keep == "best" else {}
        for number in [number for number in self._ended if number not in {*kept, *self._swept}]:
            for folder in self.folder_of(run, number).glob("fold_*/checkpoints"):
                shutil.rmtree(folder, ignore_errors=True)
            self._swept.add(number)

    @functools.cached_property
    def _ended(self) -> dict[int, Trial]:
        """Trials that are known to have ended, by number."""
        return {}

    @functools.cached_property
    def _swept(self) -> set[int]:
        """Numbers of those without checkpoints."""
        return set()

    @functools.cached_property
    def _made_with(self) -> Mapping[str, Any]:
        """Versions, machine and commit, which do not change between trials of a process."""
        return environment()

    def _proposed(self, number: int) -> dict[str, Any]:
        spaces = self.variable.spaces
        if self.tune.sampler == "grid":
            for place in range(len(self.study.trials()), number + 1):
                shown = {name: spaces[name].shown(value) for name, value in self._grid[place].items()}
                self.study.record(place, shown, spaces)
            return self.study.record(number, {}, spaces)  # type: ignore[no-any-return]

        def ask(place: int, pick: Callable[[str, Space], Any]) -> None:
            self.variable.chosen(pick)

        return self.study.proposed(number, ask)  # type: ignore[no-any-return]

    def _watched(self, validation: CrossValidation, reports: Reports, number: int) -> CrossValidation:
        """Return the cross-validation of a trial with what follows it."""
        order = None
        if self.tune.prunes == "fold":  # the same folds first in each trial would decide all of them
            n_folds = len(self.divided.splits) if self.divided is not None else 0
            seed = derive(self.request.seed, number, stream="order of folds")
            order = tuple(np.random.default_rng(seed).permutation(n_folds).tolist())
        request = validation.request
        if self.tune.prunes == "epoch":
            watcher = PruningCallback(reports)
            request = dataclasses.replace(request, callbacks=[*request.callbacks, watcher])
        return dataclasses.replace(validation, request=request, after_fold=reports.end_fold, order=order)

    def _judged(self, trial: Trial, values: Mapping[str, Any], reports: Reports) -> Trial:
        """Return a trial with its constraints.

        Raises
        ------
        DataError
            If a score, or a constraint, is no number: the trial has failed.
        """
        if not all(map(math.isfinite, trial.scores)):
            told = ", ".join(f"{name} {value}" for name, value in zip(self.tune.metrics, trial.scores, strict=True))
            raise DataError(f"its score is not finite: {told}")
        if self.tune.constraints is None:
            return trial
        found = self.tune.constraints(self.experiment.params.with_values(values), reports.means())
        constraints = np.atleast_1d(np.asarray(found, dtype=float))
        if np.isnan(constraints).any():
            raise DataError(f"its constraints are not numbers: {found!r}")
        expect(("constraints", found, constraints.ndim == 1, "a number, or several: above 0 where they are broken"))
        return dataclasses.replace(trial, constraints=tuple(constraints.tolist()))

    def _tell_failed(self, number: int, failure: Exception) -> None:
        """Say that a trial failed; where all do, there is nothing to go on for."""
        if not self.study.n_in("finished", "pruned") and self.study.n_in("failed") + 1 >= _MOST_FAILED:
            failure.add_note(f"{_MOST_FAILED} trials failed before any had ended, so the search ends with this error")
            raise failure
        _log.error("trial %d failed, and the search goes on: %s", number, said_by(failure), exc_info=failure)
