"""k-fold cross-validation: one fresh training for each fold, tested on what it never saw."""

import contextlib
import copy
import dataclasses
import functools
import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.callbacks.abstract_callback import CallbackList
from delira.callbacks.live_view import FoldTable, NoTable
from delira.data_loading import BaseDataManager, SequentialSampler
from delira.data_loading._describe import case_names_of, class_names_of
from delira.errors import CheckpointError, ConfigError, UnreadableError, noting
from delira.experiments import experiment_file
from delira.experiments.chosen_before import with_searches
from delira.experiments.division import Division, divided, keep_left_out
from delira.experiments.fold_task import Work, log_finished
from delira.experiments.folds import run_folds
from delira.experiments.given_splits import planned
from delira.experiments.leakage import check_label_key
from delira.experiments.placement import Placement
from delira.experiments.result import KFoldResult
from delira.experiments.run_request import copied
from delira.experiments.selection import selection_of
from delira.experiments.splits import Split, SplitConfig, Splitter, check_in_range, fingerprint, tell_missing
from delira.experiments.stored_metrics import are_equal, compute_metrics, correct_files, entries_of, is_asked_alike
from delira.experiments.stored_result import describe, stated, without_secrets
from delira.metrics import MetricSet
from delira.metrics.per_class import lacking
from delira.metrics.scoring import keys_of
from delira.runs import code_of, kept, results
from delira.runs.folder import At, RunFolder, loss_tolerated
from delira.runs.inner_searches import facts_of_searches
from delira.training import checks, predictor
from delira.training.epoch import batch_length
from delira.training.keeping import Keeper, Keeping, tell_size
from delira.training.outputs import computed_anew, settle
from delira.training.ranks import number_of_processes
from delira.training.run import own_generators, seed_generators, warn_of_score
from delira.training.trainer import BaseNetworkTrainer
from delira.utils import yaml_codec
from delira.utils.arrays import iterate_leaves

_log = logging.getLogger("delira")

#: settings of a data manager that decide which samples come when
_ORDERING = ("sampler", "sampler_cls", "sampler_kwargs", "sampling_kwargs", "drop_last")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CrossValidation:
    """One cross-validation, as the experiment was asked for it."""

    experiment: Any
    given: Any
    """The data manager, or a function that gives it."""
    request: Any
    """The experiment's resolved settings, and the changes of the manager for training, and for testing."""
    split: SplitConfig
    metrics: Mapping[str, Any]
    """Test metrics by name, as they were given."""
    metric_keys: Mapping[str, Any]
    chosen: tuple[int, ...] | None
    """Numbers of the folds to run; ``None``: all."""
    keeping: Keeping = dataclasses.field(default_factory=Keeping)
    """What is kept of the predictions."""
    placement: Placement = dataclasses.field(default_factory=Placement)
    """Where the folds run."""
    divided: Division | None = None
    """How, if that is known already."""
    nested: Any = None
    """The search in the training part of each fold; ``None``: all have the same settings."""
    sizes: tuple[float, ...] = ()
    """Of a learning curve: cases, or shares of them, that each fold may learn from, one after the other."""
    is_trial: bool = False
    """Whether it is one of many of a search, which keeps only what its numbers need."""
    order: tuple[int, ...] | None = None
    """In which the folds are run; ``None``: of their numbers."""
    after_fold: Callable[[results.FoldResult], None] | None = None
    """Called with each fold that has ended, or was read; it may raise :class:`TrialPruned`."""

    @property
    def kind(self) -> str:
        """What the run is, as its manifest and the file of its plan say it."""
        return "learning_curve" if self.sizes else "kfold"

    @functools.cached_property
    def data(self) -> BaseDataManager:
        """What is divided."""
        is_function = callable(self.given) and not isinstance(self.given, BaseDataManager)
        return self.given() if is_function else self.given  # type: ignore[no-any-return]

    @functools.cached_property
    def cases(self) -> BaseDataManager:
        """The data that are divided, and what is held out of them: whole cases where the training gets patches."""
        return self.data.whole_cases()

    @property
    def n_processes(self) -> int:
        """How many processes train a fold together."""
        return number_of_processes(self.request.config, self.experiment.backend.devices)

    @functools.cached_property
    def bound_metrics(self) -> dict[str, Any]:
        """The test metrics, with what the losses say about the predictions that they read."""
        return self.request.config.bound(self.metrics, self.metric_keys, self.experiment.backend)

    def own_metrics(self) -> dict[str, Any]:
        """Copies of them: what one remembers, as its generator of random numbers, is of one test, wherever that is."""
        return copied(self.bound_metrics, self.request.callbacks)  # type: ignore[no-any-return]

    @functools.cached_property
    def outputs(self) -> dict[str, Any]:
        """What is known of the outputs of the networks before any has computed one."""
        keys = keys_of(self.bound_metrics, self.metric_keys)
        return self.request.config.known_outputs(self.bound_metrics, keys, self.experiment.backend)

    def run(self, resume: str | Path | At | None = None, allow_changes: bool = False) -> KFoldResult:
        """Train and test every fold.

        Parameters
        ----------
        resume
            ``None``, ``"auto"`` or a run folder.
        allow_changes
            Whether a run that is continued may differ, but for its splits.
        """
        if not isinstance(self.data, BaseDataManager):
            raise ConfigError(
                f"kfold divides the data itself, so it needs a BaseDataManager, got {type(self.data).__name__}"
            )
        division = self.divide() if self.divided is None else self.divided
        splits = division.splits
        if (
            all(split.val is None for split in splits)
            and (key := self.request.settings.get("val_score_key")) is not None
        ):
            warn_of_score(key, stacklevel=3)
        own = self.request.settings.get("num_threads")
        threads = self.placement.threads(own, self.experiment.backend, len(splits), self.n_processes)
        with self.experiment.open_folder(
            self.request,
            self.data,
            resume,
            kind=self.kind,
            allow_changes=allow_changes,
            mirror=self.placement.mirror,
            num_threads=threads,
            num_splits=len(splits),
            split_type=self.split.describe(),
            splits=fingerprint(splits),
            options=yaml_codec.encode(self._options()),
            **({"train_sizes": [*division.sizes]} if self.sizes else {}),
            **({} if self.nested is None else {"search": self.nested.describe()}),
            **({"is_trial": True} if self.is_trial else {"seen_cases": True}),
        ) as folder:
            facts = self._facts(folder, division)
            self._write_summary(folder, facts)
            if not self.is_trial:
                with loss_tolerated("what a report needs of the whole run"):
                    self._write_plan(folder)
            work = Work(
                validation=self,
                folder=folder.path,
                splits=splits,
                threads=folder.read_manifest().get("num_threads"),
                allow_changes=allow_changes,
                takeover_after=self.placement.takeover_after,
                n_events=len(folder.events()),
                # of a trial that was begun before, other processes may go on with folds: who began it was stopped
                is_leased=not self.is_trial or not self.placement.is_here or len(folder.events()) > 1,
            )
            folds = run_folds(work, folder, self.placement)
            end = functools.partial(self._result, folder, folds, facts, len(splits))
            # several sessions may be at its end
            return end() if self.is_trial else work.leases.call_alone("result", folder.path, end)

    def divide(self) -> Division:
        """Divide the data; refused where that cannot work, with warnings of what may be wrong."""
        seed = self.request.seed if self.split.random_seed is None else self.split.random_seed
        if not (self.data.transforms or any("transforms" in changes for changes in self.request.changes.values())):
            check_label_key(self.cases, self.split.label_key)  # a transform may make the entry
        splitter = Splitter(self.cases.dataset, self.split, seed)
        MetricSet(self.own_metrics(), self.metric_keys)  # what is wrong fails here, not after the first fold
        check_in_range(self.chosen, splitter.num_splits)
        return divided(self.cases, splitter, self.sizes, self.request.key_mapping)

    def _result(
        self, folder: RunFolder, folds: Sequence[results.FoldResult], facts: Mapping[str, Any], n_folds: int
    ) -> KFoldResult:
        """Return what all folds say together."""
        self._settle(folds)
        self._write_summary(folder, facts)  # a session that joined may have been asked for other metrics
        correct_files(folder, folds, self._asked(), is_trial=self.is_trial)
        facts = {**facts, **self._facts_at_end(folder, facts["info"], n_folds)}
        stated = code_of.describe_metrics(self.metrics)
        result = KFoldResult(folds, metrics=self.bound_metrics, path=folder.path, stated_metrics=stated, **facts)
        if not self.is_trial and not self.sizes:
            self._keep_examples(result)
        return result

    def _facts(self, folder: RunFolder, division: Division) -> dict[str, Any]:
        """Return what a result says besides its folds."""
        dataset, leaks = self.cases.dataset, division.leaks
        if not self.is_trial and self.nested is None:
            leaks = with_searches(leaks, folder, self.request, stacklevel=5)
        return {
            "n_samples": len(dataset),
            "metric_keys": self.metric_keys,
            "groups": division.groups,
            "case_names": case_names_of(dataset),
            "seed": self.request.seed,
            "name": self.experiment.name,
            "info": {} if self.is_trial else {**self._describe(folder), **class_names_of(dataset), **leaks},
            "outputs": self.outputs,
        }

    def _facts_at_end(self, folder: RunFolder, info: Mapping[str, Any], n_folds: int) -> dict[str, Any]:
        """Return what is known once the folds have been run."""
        missing = folder.missing_folds
        searched = {} if self.nested is None else facts_of_searches(folder.read_manifest(), folder.events())
        return {
            "info": {**info, "num_splits": n_folds, **searched},
            **({"problems": [tell_missing(missing, n_folds, folder.path)]} if missing else {}),
        }

    def alone(self) -> "CrossValidation":
        """Return the same without what belongs to this process, to be sent to another one."""
        experiment = copy.copy(self.experiment)
        experiment.last_trainer = None
        nested = None if self.nested is None else self.nested.alone()
        return dataclasses.replace(
            self, experiment=experiment, given=self.data, placement=Placement(), nested=nested, after_fold=None
        )

    def _write_summary(self, folder: RunFolder, facts: Mapping[str, Any]) -> None:
        """Write what a report needs of the whole run."""
        if not self.is_trial:
            with loss_tolerated("what a report needs of the whole run"):
                results.write_summary(folder.path, facts, self.metrics, self.bound_metrics)

    def _write_plan(self, folder: RunFolder) -> None:
        """Write what another program needs to work at the run, as far as a file can say it."""
        if (folder.path / experiment_file.FILE_NAME).exists():
            return
        experiment = experiment_file.settled(self.experiment, self.request)
        searched = {} if self.nested is None else self.nested.planned(experiment)
        keeping = {name: value for name, value in vars(self.keeping).items() if value is not None}
        kfold = {
            **({"sizes": [*self.sizes]} if self.sizes else {}),
            **vars(self.split),
            "splits": planned(self.split.splits, self.cases.dataset),
            **self.request.changes,
            "metrics": dict(self.metrics),
            "metric_keys": dict(self.metric_keys),
            "preprocessing": self.request.preprocessing,
            **keeping,
            **searched,
        }
        experiment_file.write_plan(experiment, folder.path, self.given, **{self.kind: kfold})

    def _settle(self, folds: Sequence[results.FoldResult]) -> None:
        """Compute metrics again of folds whose values alone say something else of the outputs than those of all."""
        outputs = settle(self.outputs, folds)
        for fold in folds:
            again = computed_anew(self.own_metrics(), self.metric_keys, outputs, fold)
            keys = {name: self.metric_keys[name] for name in again if name in self.metric_keys}
            with own_generators(self.experiment.backend):
                found = compute_metrics(MetricSet(again, keys), vars(fold), max(1, len(fold.test_indices))) or {}
            if any(not np.array_equal(each, fold.metrics[name], equal_nan=True) for name, each in found.items()):
                fold.metrics = fold.metrics | found
                if fold.path is not None:
                    self._store(fold.path, fold)

    def _keep_examples(self, result: KFoldResult) -> None:
        """Keep pictures of the samples that were predicted best and worst: the data set is not at hand later."""
        from delira.report.examples import choose_examples, write_examples

        try:
            with own_generators(self.experiment.backend):
                keys = list((self.request.key_mapping or {}).values())
                examples = choose_examples(result, self.cases.dataset, keys)
        except Exception as error:  # predictions of any kind; the result does not depend on them
            _log.warning("no samples are kept for the report: %s: %s", type(error).__name__, error)
            return
        if examples is not None and result.path is not None:
            with loss_tolerated("the pictures of samples for the report"):
                write_examples(Path(result.path), examples)

    def folder_of(self, run: Path, number: int) -> Path:
        """Folder of a fold."""
        return RunFolder(run).fold(number)

    def histories(self, fold: Path) -> Sequence[Path]:
        """Return the files that its epochs come into."""
        return [fold / "history.jsonl"]

    def is_success(self, fold: results.FoldResult) -> bool:
        """Return True: a fold that has ended shows that there is something to go on for."""
        return True

    def log_finished(self, folder: RunFolder, fold: results.FoldResult) -> None:
        """Tell the ledger of a fold that has ended."""
        log_finished(folder, fold)

    def sent(self, fold: results.FoldResult) -> results.FoldResult | bool:
        """Return what goes back to who asked for a fold: True if it is in its folder, else itself."""
        with contextlib.suppress(CheckpointError, OSError):
            stored = None if fold.path is None else results.read_fold(fold.path)
            # what is there may be of before, as the disk was full, or another session's, of other metrics
            is_own = stored is not None and stored.outputs is not None and stored.asked == self._asked()
            if stored is not None and is_own and are_equal(stored.fields["metrics"], fold.metrics):
                return True
        return dataclasses.replace(fold, parameters=None, callbacks=())

    def completed(self, number: int, fold: results.FoldResult) -> results.FoldResult:
        """Return a fold that came from another process, with what was left there."""
        request = self._request_of(fold.path, number)
        with contextlib.suppress(CheckpointError, OSError):
            stored = None if fold.path is None else results.read_fold(fold.path)
            if stored is not None and len(stored.fields["history"]) == len(fold.history):
                _load_states(request.callbacks, stored)
        return dataclasses.replace(fold, parameters=request.params, callbacks=request.callbacks)

    def is_chosen(self, number: int) -> bool:
        """Return True if a fold is to be run, unless it is finished."""
        return self.chosen is None or number in self.chosen

    def _options(self) -> dict[str, Any]:
        """Return what was asked for besides the settings of the trainer, for the manifest."""
        sizes = {"sizes": [*self.sizes]} if self.sizes else {}
        return {**sizes, **vars(self.split), **self.request.changes, "metrics": dict(self.metrics)}

    def _describe(self, folder: RunFolder) -> dict[str, Any]:
        """Return what the report says about the run: the manifest, with the settings as they are written in YAML."""
        searched = {} if self.nested is None else self.nested.searched_parameters()
        settings = {
            "model": searched.get("model", self.request.model_kwargs),
            "training": {**self.request.settings, **searched.get("training", {})},
            "data": stated(self.request.describe_batches(self.data)),
            "kfold": stated(self._options()),
        }
        return {**describe(folder.read_manifest()), "settings": yaml_codec.dumps(without_secrets(settings)).rstrip()}

    def read_fold(
        self, path: Path, number: int, split: Split, *, is_finished: bool, is_own: bool = False
    ) -> results.FoldResult | None:
        """Return a fold that an earlier session finished; ``None`` if it is to be trained or tested.

        Parameters
        ----------
        path, number, split
            Its folder, and which it is.
        is_finished
            Whether the ledger says so.
        is_own
            Whether a process of this session ran it: it has what was asked for.
        """
        if not is_finished and not (path / results.RESULT_FILE).exists():
            return None
        try:
            stored = results.read_fold(path)
            if not np.array_equal(stored.fields["train_indices"], split.train):
                raise CheckpointError(f"{path / results.RESULT_FILE} is of another fold")
        except UnreadableError:
            raise
        except (CheckpointError, OSError) as error:  # damaged, or a link to somewhere else
            what = "tested again from its checkpoint" if self.is_chosen(number) else "left out"
            warnings.warn(f"fold {number} is {what}: {error}", stacklevel=7)
            return None
        self._check_epochs(number, max((int(values.get("epoch", 0)) for values in stored.fields["history"]), default=0))
        if stored.outputs is None or stored.asked["num_epochs"] != self.request.num_epochs:
            return None
        outputs, metrics = dict(stored.outputs), stored.fields["metrics"]
        asked = self._asked()
        if stored.asked.get("keep") != asked.get("keep"):
            return None
        if set(asked["targets"]) - {*stored.asked["targets"], *outputs["predictions"]}:
            return None
        kept_as = stored.fields.get("kept_as", "")
        outputs["targets"] = entries_of(outputs["targets"], asked["targets"])
        # of a lambda nobody knows whether it is the same
        is_same = is_asked_alike(stored.asked, asked) and '"$repr"' not in json.dumps(asked["metrics"])
        if not (is_same or is_own):
            metrics = None if kept_as else self._compute_metrics(outputs, stored, split)
        if metrics is None:
            return None
        request = self._request_of(path, number)
        _load_states(request.callbacks, stored)
        notes = {"timings": results.read_timings(path), "guards": results.read_guards(path)}
        found = {**stored.fields, **outputs, "metrics": metrics, "partial": lacking(self.bound_metrics), **notes}
        return results.FoldResult(**found, path=path, parameters=request.params, callbacks=request.callbacks)

    def _request_of(self, fold: Path | None, number: int) -> Any:
        """Return what a fold that has ended was trained with."""
        is_own = self.nested is not None and fold is not None
        return (self.nested.stored_request(self, fold) if is_own else self.request).for_fold(number)

    def _compute_metrics(
        self, outputs: Mapping[str, Any], stored: results.StoredFold, split: Split
    ) -> dict[str, np.ndarray] | None:
        """Return the metrics of what was predicted; ``None`` if they need the batches."""
        if len(stored.fields["test_indices"]) != len(split.test):
            return None  # with samples left out nobody knows where a batch began
        with own_generators(self.experiment.backend):
            batch_size = self._test_manager(split).batch_size
            return compute_metrics(MetricSet(self.own_metrics(), self.metric_keys), outputs, batch_size)

    def _asked(self) -> dict[str, Any]:
        """Return what a finished fold depends on and the fingerprint of the run does not say."""
        return {
            "num_epochs": self.request.num_epochs,
            "metrics": yaml_codec.encode({"metrics": dict(self.metrics), "keys": dict(self.metric_keys)}),
            "code": code_of.code_of_functions(self.metrics.values()),
            "targets": sorted(self._targets()),
            **({} if self.keeping.is_plain else {"keep": str(self.keeping)}),
        }

    def _targets(self) -> frozenset[str]:
        """Entries of the batches that are kept."""
        return MetricSet(self.bound_metrics, self.metric_keys).entries | {self.split.label_key}

    def _check_epochs(self, number: int, epochs: int) -> None:
        if self.nested is None and epochs > self.request.num_epochs:
            raise ConfigError(
                f"fold {number} was trained for {epochs} epochs already, more than num_epochs="
                f"{self.request.num_epochs}; begin a new cross-validation"
            )

    def run_fold(
        self,
        folder: RunFolder,
        number: int,
        split: Split,
        table: FoldTable | NoTable,
        first: Callable[[BaseNetworkTrainer], None] | None,
        settings: Mapping[str, Any],
    ) -> results.FoldResult:
        """Train and test one.

        Parameters
        ----------
        folder
            Of the run.
        number, split
            Which it is.
        table
            Shows how far it is.
        first
            What is done before it is trained, after the metrics of the test were tried on a batch; ``None``: neither.
        settings
            Of the trainer, that hold where it runs.
        """
        own = self.request if self.nested is None else self.nested.request_for(self, folder, number, split, settings)
        started = time.perf_counter()
        request = own.for_fold(number).with_settings(**settings)
        if split.val is None:
            request = request.with_settings(val_score_key=None)
        trainer = self.experiment.build_trainer(request, folder.fold(number))
        if self.is_trial:  # of hundreds nobody compares the weights
            trainer.saving.saver.hashes = None
        self._check_epochs(number, trainer.state.epoch)
        table.begin(number, trainer)
        with trainer.times.phase("other", since=started):
            changes = request.changes
            val = None if split.val is None else self._manager(split.val, changes["test_kwargs"], held_out=True)
            train, test = self._manager(split.train, changes["train_kwargs"]), self._test_manager(split)
            if request.preprocessing is not None:
                fitted = request.preprocessing.of_fold(trainer, train)
                train, test = train.with_preprocessing(fitted), test.with_preprocessing(fitted)
                val = None if val is None else val.with_preprocessing(fitted)
            if first is not None:
                self._check_test(trainer, test)
                first(trainer)
            trainer.train(request.num_epochs, train, val)
            done, kept_as = self._test(trainer, test)
        trainer.times.write()
        timings = trainer.times.to_dict()  # with earlier sessions
        parts = ((train, split.train), (val, split.val), (test, split.test))
        fold = results.FoldResult(
            fold=number,
            train_indices=split.train,
            val_indices=split.val,
            test_indices=np.delete(split.test, [*test.left_out]),
            left_out=keep_left_out(trainer.save_path / "left_out.json", *parts),
            metrics=done.metrics,
            partial=lacking(self.bound_metrics),
            is_apparent=split.is_apparent,
            predictions=done.predictions,
            targets=done.targets,
            kept_as=kept_as,
            history=trainer.state.history,
            **selection_of(trainer),
            path=trainer.save_path,
            parameters=request.params,
            callbacks=request.callbacks,
            seconds=sum(timings["seconds"].values()),
            timings=timings,
            guards=trainer.guard_log.to_dict(),
        )
        self._store(trainer.save_path, fold)
        return fold

    def _store(self, folder: Path, fold: results.FoldResult) -> None:
        """Write a finished fold; it is tested again from its checkpoint, if the run is continued, where that fails."""
        outputs = fold.predictions
        if outputs or not self.is_trial:  # of hundreds of trials each file counts
            with loss_tolerated(f"the predictions of fold {fold.fold}"):
                outputs = kept.write_predictions(folder / kept.PREDICTIONS, fold.test_indices, fold.predictions)
        try:
            with loss_tolerated(f"the result of fold {fold.fold}"):
                stored = dataclasses.replace(fold, predictions=outputs)
                results.write_fold(stored, self._asked(), CallbackList(fold.callbacks).state_dict())
                self._hold_once(folder, fold)
        except CheckpointError as error:
            _log.warning(
                "fold %d is tested again if the run is continued, since it cannot be stored: %s", fold.fold, error
            )

    def _hold_once(self, folder: Path, fold: results.FoldResult) -> None:
        """Hold what lies in files without a name as maps of the files that were written, which frees those."""
        if any(isinstance(leaf, np.memmap) for _, leaf in iterate_leaves([fold.predictions, fold.targets])):
            written = results.read_fold(folder).outputs
            if written is not None:
                fold.predictions, fold.targets = written["predictions"], written["targets"]

    def _manager(self, indices: np.ndarray, changes: Mapping[str, Any], *, held_out: bool = False) -> BaseDataManager:
        if held_out:  # each sample once and in order, however the training samples
            changes = {"sampler_cls": SequentialSampler, "sampler_kwargs": None, "drop_last": False, **changes}
        manager = (self.cases if held_out else self.data).with_own_transforms()
        if changes:
            manager.update_state_from_dict(copy.deepcopy(dict(changes)))
        return manager.get_subset(indices)

    def _check_test(self, trainer: BaseNetworkTrainer, test: BaseDataManager) -> None:
        """Try the test metrics, and what is kept, on one batch, before a fold is trained."""
        self._keeper(trainer).check_unseen(getattr(trainer.module, "output_kind", None))
        if not trainer.backend.calls.is_ready(trainer.module) or trainer.callbacks.hears("on_sample_validation"):
            return
        with trainer.backend.devices.threads(trainer.config.num_threads), own_generators(trainer.backend):
            batch = test.first_batch(trainer.seed) or {}
            with trainer.backend.calls.evaluating(trainer.module):
                outputs = trainer.outputs_of(batch, trainer.feed.prepare(batch))
            checks.check_metrics(trainer, self.own_metrics(), self.metric_keys, batch, outputs, test)
            self._tell_size(trainer, trainer.to_numpy(outputs), batch)

    def _tell_size(self, trainer: BaseNetworkTrainer, outputs: Mapping[str, Any], batch: Mapping[str, Any]) -> None:
        """Say what the predictions of all cases are going to take, by those of one batch."""
        n_bytes = self._keeper(trainer).size_of(outputs, batch, entries_of(batch, self._targets()))
        n_cases = len(self.cases.dataset)
        tell_size(n_bytes * n_cases // max(1, batch_length(batch)), n_cases, trainer.save_path)

    def _test_manager(self, split: Split) -> BaseDataManager:
        # every sample once and in order: a sampler in test_kwargs holds for validation only
        changes = {name: value for name, value in self.request.changes["test_kwargs"].items() if name not in _ORDERING}
        return self._manager(split.test, changes, held_out=True)

    def _keeper(self, trainer: BaseNetworkTrainer) -> Keeper:
        """Return what keeps the predictions of the test of a trained network."""
        told = trainer.state.outputs
        kind = getattr(trainer.module, "output_kind", None)  # of an estimator
        by_itself = kind if kind == "probabilities" else None
        known = {
            name: known if known.output else known._replace(output=told.get(name, {}).get("output") or by_itself)
            for name, (_, known) in self.outputs.items()
        }
        return self.keeping.keeper(trainer.save_path, known, next(iter(trainer.key_mapping.values()), None))

    def _test(self, trainer: BaseNetworkTrainer, manager: BaseDataManager) -> tuple[predictor.Evaluation, str]:
        scopes = trainer.backend.devices.threads(trainer.config.num_threads), own_generators(trainer.backend)
        with trainer.times.phase("test"), scopes[0], scopes[1], noting(f"in the test of fold {trainer.fold}"):
            # networks may draw random numbers in evaluation mode, too
            seed_generators(trainer.backend, trainer.seed, trainer.fold, stream="test")
            keeper = self._keeper(trainer)
            done = trainer.evaluator.test(
                manager,
                metrics=self.own_metrics(),
                metric_keys=self.metric_keys,
                targets=self._targets() if keeper else (),
                keep_predictions=keeper,
            )
        return done, str(self.keeping) if keeper.is_changed else ""


def _load_states(callbacks: Sequence[Any], stored: results.StoredFold) -> None:
    """Give callbacks the states that they ended a fold with."""
    for name, state in stored.callbacks.items():
        # whatever their code raises: they are shown, nothing depends on them; some need their trainer for it
        with contextlib.suppress(Exception):
            CallbackList(callbacks).load_state_dict({name: state})
