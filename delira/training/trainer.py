"""The training loop. It is written here and nowhere else.

``train`` → ``_train_epochs`` → ``_train_epoch`` → ``_train_single_epoch`` → ``step.train_on`` → the ``closure``.
"""

import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from delira import state as keys
from delira.contract import Step, StepHooks
from delira.errors import ConfigError, DataError, NonFiniteLossError
from delira.io.checkpoint import CheckpointFolder
from delira.metrics import MetricSet
from delira.runs.guard_log import GuardLog
from delira.settings.config import TrainerConfig, check_start, read_settings, score_mode
from delira.settings.keywords import TrainerKeywords
from delira.settings.parts import check_verbose
from delira.settings.signatures import show_settings
from delira.state import State
from delira.training import checks, guards
from delira.training.averages import AveragedWeights
from delira.training.callbacks import CallbackList
from delira.training.callbacks.abstract_callback import load_callback
from delira.training.checkpoints import Checkpoints, existing, read
from delira.training.data_position import EpochData, is_foreign_loader
from delira.training.evaluation import StopInValidation, Watcher, aside
from delira.training.events import Events
from delira.training.feeding import Feed
from delira.training.generators import seed_generators, set_generators
from delira.training.live_view import live_view
from delira.training.objective import Objective
from delira.training.output_readings import OutputReadings
from delira.training.phase_times import PhaseTimes
from delira.training.plan import TrainingPlan, close_workers, make_plan
from delira.training.predictor import Evaluation, Predictor
from delira.training.run import Run
from delira.training.run_files import RunFiles, check_score, lock
from delira.training.running_epoch import RunningEpoch
from delira.training.saving import Saver
from delira.training.state import TrainingState
from delira.training.step import TrainingStep
from delira.training.step_values import StepValues
from delira.training.stop_signals import StopSignals
from delira.utils.files import sweep_partials, writable_folder
from delira.utils.notes import noting

_log = logging.getLogger("delira")
T = TypeVar("T")


class _OfRun(Generic[T]):
    """An attribute of the trainer that is one of its run."""

    def __init__(self, name: str = ""):
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, trainer: None, owner: type) -> Self: ...
    @overload
    def __get__(self, trainer: "BaseNetworkTrainer", owner: type) -> T: ...
    def __get__(self, trainer: "BaseNetworkTrainer | None", owner: type) -> "Self | T":
        if trainer is None:
            return self
        found: T = getattr(trainer.run, self._name)
        return found

    def __set__(self, trainer: "BaseNetworkTrainer", value: T) -> None:
        setattr(trainer.run, self._name, value)


class BaseNetworkTrainer(Predictor):
    """Trains a network with the verbs of a room.

    A room's trainer is this class with ``backend`` set; it adds no code. The methods that begin with
    one underscore are the historic override points and stay.

    Parameters
    ----------
    network
        The network.
    save_path
        Folder of the run: ``checkpoints/``, ``history.csv``, ``history.jsonl`` and ``logs/`` go there. If
        it holds checkpoints, the trainer continues from the newest valid one. ``None`` writes no file: nothing
        can be continued then, and no score decides which weights stay.
    key_mapping
        Argument of the network -> batch entry, e.g. ``{"x": "data"}``; ``None`` asks the room.
    losses
        Loss functions by name, called as ``loss(prediction, target)``.
    fold
        Fold of the cross-validation; a counter of every random decision.
    callbacks
        See :class:`delira.training.callbacks.AbstractCallback`.
    start_epoch
        Number of the first epoch of a run without checkpoints.
    resume_from
        The checkpoint to continue from; the newest valid one in ``save_path`` if ``None``. Later ones than this
        are set aside.
    **settings
        The settings of :class:`delira.training.TrainerConfig` as flat keywords, e.g. ``optimizer_cls``;
        ``print(delira.training.settings_help())`` explains each.

    Raises
    ------
    ConfigError
        If a setting is unknown or impossible, or ``save_path`` cannot be written.
    CheckpointError
        If the newest checkpoint does not fit the network.
    """

    #: what a trainer computes unless it is told
    objective_cls: type[Objective] = Objective
    run: Run
    files: RunFiles
    events: Events
    step: TrainingStep
    averages: AveragedWeights
    saving: Checkpoints
    config = _OfRun[TrainerConfig]()
    state = _OfRun[TrainingState]()
    seed = _OfRun[int]()  # type: ignore[assignment]
    fold = _OfRun[int]()  # type: ignore[assignment]
    module = _OfRun[Any]("network")
    network = _OfRun[Any]()
    key_mapping = _OfRun[dict[str, str]]()
    optimizers = _OfRun[dict[str, Any]]()
    devices = _OfRun[Any]()
    closure_fn = _OfRun[Any]("closure")
    hooks = _OfRun[StepHooks]()
    callbacks = _OfRun[CallbackList]()
    facts = _OfRun[State]()
    stop_signals = _OfRun[StopSignals]()
    save_path = _OfRun[Path | None]()
    train_data = _OfRun[Any]()
    score_mode = _OfRun[str]()
    learned_names = _OfRun[frozenset[str]]()
    has_default_closure = _OfRun[bool]()
    #: makes the callback that shows a training by its label, in place of a bar: a cross-validation shows a table
    make_bar: Callable[[str], Any] | None = None
    #: makes the callback that draws the curves in a notebook: those of a cross-validation replace each other
    make_plot: Callable[[], Any] | None = None

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        network: Any,
        save_path: str | Path | None,
        key_mapping: Mapping[str, Any] | None = None,
        losses: Mapping[str, Callable[..., Any]] | None = None,
        *,
        fold: int = 0,
        callbacks: Iterable[Any] | None = None,
        start_epoch: int = 1,
        resume_from: str | Path | None = None,
        objective: Objective | None = None,
        **settings: Unpack[TrainerKeywords],
    ):
        if key_mapping and isinstance(key_mapping, Mapping) and all(map(callable, key_mapping.values())):
            warnings.warn("the third argument is key_mapping; pass losses by name", DeprecationWarning, stacklevel=2)
            key_mapping, losses = None, key_mapping
        self.given_settings: dict[str, Any] = {**settings, **({} if losses is None else {"losses": losses})}
        config = read_settings(self.given_settings)
        self.run = Run(
            config,
            self.backend,
            fold=fold,
            epoch=check_start(start_epoch) - 1,
            # absolute: whatever the working directory becomes
            save_path=None if save_path is None else writable_folder(save_path).absolute(),
            callbacks=callbacks or (),
        )
        self.nonfinite_predictions = config.guards.nonfinite_predictions
        self.objective = objective or self.objective_cls()
        self.objective.run = self.run
        self._given_key_mapping = key_mapping
        self._setup(network)
        with lock(self.run):
            self.checkpoints.sweep()
            if self.run.save_path is not None:
                sweep_partials(self.run.save_path)
            if resume_from is None:
                self.try_resume_training()
            else:
                self.saving.rewind(Path(resume_from), self.load_state)

    def _setup(self, network: Any) -> None:
        """Bring the network to its device and build everything that belongs to it."""
        run, objective, backend, config = self.run, self.objective, self.run.backend, self.run.config
        checks.check_network(network, config, backend)
        if config.guards.deterministic:
            backend.prepare_deterministic()
        run.devices = devices = backend.devices(config.gpu_ids, config.device)
        self.input_device, self.output_device = devices
        prepare, run.closure = objective.methods_of(network)
        prepare = functools.partial(prepare, input_device=devices.input, output_device=devices.output)
        placed = backend.place(network, objective.functions(), devices)
        super().__init__(placed, self._given_key_mapping, config.convert_batch_to_npy_fn, prepare, backend=backend)
        # without preprocessing: a training gets its data behind it, and says what else is to go through it
        self.feed = Feed(backend, prepare, "Validate", objective.may_look_ahead)
        self.readings = OutputReadings(config, backend)
        optimizer, schedule = config.optimizer, config.schedule
        run.optimizers = backend.build_optimizers(
            network, optimizer.builder, optimizer.cls, optimizer.params, config.update
        )
        if schedule.cls is not None:
            for callback in backend.build_schedules(run.optimizers, schedule.cls, schedule.params):
                run.callbacks.append(callback)
        self._build_parts()
        run.callbacks.attach(self)
        run.facts = objective.make_state(self)
        self.events.begin()
        self.step.bind_hooks()
        if objective.tells_init:
            self.events.fire("on_init")
        _ = self.step.bound  # a backend refuses what it cannot compile

    def _build_parts(self) -> None:
        """Build what the trainer is made of."""
        run, objective = self.run, self.objective
        self.files = files = RunFiles(run, self.given_settings)
        self.events = objective.events = Events(run, objective, self)
        self.step = objective.step = TrainingStep(
            run, self.events, objective, self.feed, files.times, self.read_entries
        )
        self.averages = AveragedWeights(run, self.feed, self.step, self.forward, self)
        self.saving = Checkpoints(run, objective, self.averages, files.saver, files.times, self._update_state)

    # ------------------------------------------------------------------ the loop

    def train(
        self,
        num_epochs: int,
        datamgr_train: Any,
        datamgr_valid: Any = None,
        val_score_key: str | None = None,
        val_score_mode: str | None = "auto",
        reduce_mode: str | None = None,
        verbose: int | None = None,
    ) -> Any:
        """Train up to ``num_epochs`` epochs in total and return the network with its best weights.

        Parameters
        ----------
        num_epochs
            Epochs in total; those of a resumed run count.
        datamgr_train, datamgr_valid
            Data managers, or other iterables of batches (dicts of arrays of shape ``(B, ...)``).
        val_score_key, val_score_mode, reduce_mode, verbose
            Replace the settings of the same name for this call. ``val_score_mode="auto"``: that of the settings, if the
            score is theirs, else the direction of the score, if it is known.

        Returns
        -------
        AbstractNetwork
            The trained network in evaluation mode: with the best weights if a score was watched, else with the last.

        Raises
        ------
        NonFiniteLossError
            If a loss or the weights became infinite or not a number and ``nonfinite="raise"``.
        CheckpointError
            If a checkpoint cannot be written and ``on_save_error="raise"``.
        FolderInUseError
            If another process trains in the same folder.
        KeyboardInterrupt, TrainingInterrupted
            After SIGINT, or SIGTERM and SIGUSR1: the step was finished and a checkpoint written.
        """
        run, config = self.run, self.run.config
        if val_score_key is not None:
            config.check_score_key(val_score_key)
        key, mode = config.score(val_score_key, val_score_mode)
        if verbose is not None:
            check_verbose(verbose)
        plan = make_plan(
            config,
            TrainingPlan(
                num_epochs=num_epochs,
                train_data=datamgr_train,
                val_data=datamgr_valid,
                val_score_key=key,
                val_score_mode=mode,
                reduce_mode=reduce_mode or config.reduce_mode,
            ),
            validates_losses=self.objective.validates_losses,
        )
        check_score(run.save_path, plan.val_score_key)
        with lock(run, alone=True), self.times.phase("other"):
            self.saving.return_to_last(self.try_resume_training)
            checks.check_length(run.state, plan.num_epochs)
            if run.state.stop_training and run.state.epoch < plan.num_epochs:
                _log.warning(
                    "training was stopped after epoch %d of %d, so there is nothing to do; set trainer.stop_training "
                    "= False to go on", run.state.epoch, plan.num_epochs,
                )  # fmt: skip
            try:
                with self.files.run_log.opened(plan.num_epochs):
                    self._train_epochs(plan, config.logging.verbose if verbose is None else verbose)
                network = self._at_training_end()
            finally:
                run.plan = None  # it holds the data
            run.backend.set_evaluating(run.network)
            return network

    def _train_epochs(self, plan: TrainingPlan, verbose: int) -> None:
        """The epochs, between the begin and the end of everything that goes with them."""
        run, files = self.run, self.files
        first: BaseException | None = None
        view = live_view(self, verbose, plan.num_epochs) if run.ranks.is_first else []
        self.step.add_view(view)
        run.plan = plan
        files.guard_log.go_on(run.state.epoch, run.state.rollbacks)
        try:
            with guards.scopes(run, plan):
                has_work = run.is_unfinished
                self._begin_training(plan, has_work)
                while True:
                    try:
                        while run.is_unfinished:
                            self._train_epoch(plan, run.state.epoch + 1)
                        files.saver.finish()
                        break
                    except NonFiniteLossError as error:  # of the last checkpoint too
                        back = functools.partial(self.saving.return_to_last, self.try_resume_training)
                        guards.roll_back(run, files.guard_log, error, back, self.scale_rates)
                # else done before that checkpoint, unless a signal came
                if self.averages.renew(plan.train_data, run.state.epoch) and not has_work:
                    self.saving.save(["last"])
                    files.saver.finish()
                if run.stop_signals.received is not None:  # while the last checkpoint was written
                    self.saving.stop()
        except BaseException as error:
            first = error
            run.forget_data()
            raise
        finally:
            files.saver.finish(quietly=True)
            files.saver.forget()
            running = run.callbacks
            run.callbacks = CallbackList(one for one in running if not any(one is shown for shown in view))
            running.conclude(self, first)
            files.times.write()
            close_workers(plan.train_data, plan.val_data)

    def _begin_training(self, plan: TrainingPlan, has_work: bool) -> None:
        """Look at the data, and tell that a training begins."""
        run, events = self.run, self.events
        checks.report_at_start(run, plan)
        if has_work:
            self.objective.check_before(self, plan)
            self.averages.tell(plan.train_data)
        self._at_training_begin(num_epochs=plan.num_epochs, num_batches=checks.count_batches(plan.train_data))
        run.facts.update({keys.EPOCH: run.state.epoch, keys.MAX_EPOCHS: plan.num_epochs, keys.STOP_TRAINING: False})
        events.fire("on_start")
        if has_work:
            self.saving.begin()

    def _train_epoch(self, plan: TrainingPlan, epoch: int) -> None:
        """One epoch, or the rest of one: steps, validation, history, checkpoint."""
        run, state, events, objective, reduce = self.run, self.run.state, self.events, self.objective, plan.reduce_mode
        run.is_whole = False
        values: dict[str, Any] = {}
        running = run.running = self._begin_epoch(plan, epoch)
        with noting(f"in the training of fold {run.fold}, epoch {epoch}"):
            events.begin_pass(keys.TRAIN_DATA, plan.train_data, "on_start_training")
            with self.times.training():
                parts = self._train_single_epoch(self._training_batches(plan.train_data, epoch), epoch)
            for part in parts:
                values |= running.reduce(part, reduce)
            values = events.end_pass(values, "on_end_training")
        if objective.is_broken_off(plan):
            run.leave_epoch()
            return
        if plan.validates(epoch, run.config.val_freq):
            values |= self._validate(plan, epoch)
        values |= {name: rate for name, rate in running.rates.items() if name not in values}
        guards.report_left_out(run, self.guard_log, epoch)
        values = events.end_pass(objective.shown_of_epoch(epoch, values), "on_end_epoch")
        values = objective.record(values)
        state.epoch, state.step_in_epoch, state.has_all_steps = epoch, 0, False
        run.running = run.epoch_data = None
        state.history.append(values)
        is_best = self._update_best(plan, values)
        facts = {name: value for name, value in values.items() if name != "epoch"}
        self._at_epoch_end(facts, plan.val_score_key, epoch, is_best, num_epochs=plan.num_epochs)
        events.fire("on_checkpoint")
        self.saving.save_epoch(is_best)
        self.times.write(at_once=False)
        run.is_whole = True
        if run.stop_signals.received is not None:
            self.saving.stop()

    def _begin_epoch(self, plan: TrainingPlan, epoch: int) -> RunningEpoch:
        """Begin an epoch, or continue one where its checkpoint was written."""
        run, state, backend = self.run, self.run.state, self.run.backend
        self.objective.begin_epoch(plan)
        if not state.step_in_epoch:
            previous = state.history[-1] if state.history else {}
            self._at_epoch_begin(previous, plan.val_score_key, epoch, plan.num_epochs)
            run.facts[keys.EPOCH] = epoch - 1
            self.events.fire("on_start_epoch")
            seed_generators(backend, run.seed, run.fold, epoch, stream="framework")
        running = self.new_epoch()
        if state.step_in_epoch:
            running.load_state_dict(state.accumulators)
            set_generators(backend, state.generators)
            state.accumulators, state.generators = {}, {}
        return running

    def new_epoch(self) -> RunningEpoch:
        """Make what takes the values of an epoch."""
        run, backend = self.run, self.run.backend
        rates, left_out = backend.learning_rates(run.optimizers), backend.count_left_out(run.optimizers)
        metrics = run.config.bound(run.config.metrics, backend=backend)
        if self.readings is not None:
            metrics = self.readings.settled(metrics, run.config.keys_of(metrics), run.state.outputs)
        return RunningEpoch(run.config, backend, rates, left_out, metrics)

    def _training_batches(self, data: Any, epoch: int) -> Any:
        """Return the batches of an epoch from where the run stands in it."""
        run, state = self.run, self.run.state
        if is_foreign_loader(data) and state.loader and (state.has_all_steps or not state.step_in_epoch):
            data.load_state_dict(dict(state.loader))  # it may stand where an epoch was broken off
        run.epoch_data = EpochData(data, (run.seed, run.fold, epoch), state)
        state.batch_in_epoch, state.loader = 0, {}
        return run.epoch_data.batches

    def _train_single_epoch(
        self, batchgen: Iterable[Mapping[str, Any]], epoch: int, verbose: bool = False
    ) -> tuple[Any, Any]:
        """All steps that are left of one epoch; returns ``(metrics, losses)``: values of the steps by name."""
        run, state, signals, objective = self.run, self.run.state, self.run.stop_signals, self.objective
        running, every = run.running or self.new_epoch(), run.config.logging.freq
        length, watches_steps, train_on = checks.count_batches(batchgen), self.saver.watches_steps, self.step.train_on
        # nobody changes batches, or counts them, before their step begins
        ahead = not self.events.hears("at_iter_begin") and not is_foreign_loader(run.train_data)
        with self.events.learning(), self.feed.opened(batchgen, ahead=ahead) as fed:
            for batch, ready in self.times.steps(fed):
                train_on(batch, ready, state.step_in_epoch + 1 == length, running)
                if state.step_in_epoch % every == 0:
                    guards.check_losses(run, running.losses, epoch)
                if watches_steps or signals.received is not None:
                    self.saving.after_step()
                if objective.is_enough():
                    break
            run.backend.finish_epoch(run.optimizers)
        if state.step_in_epoch == 0:
            raise DataError(f"the training data gave no batch in epoch {epoch}")
        guards.check_losses(run, running.losses, epoch)
        if running.over_epoch is not None:
            self._follow_outputs(running.over_epoch, epoch)
        return running.finish(state.step_in_epoch)

    # ------------------------------------------------------------------ without learning

    def watcher(self, *, losses: StepValues | None = None, kept: list[Any] | None = None) -> Watcher:
        """Make what shows a pass without learning to callbacks; see :class:`Watcher`."""
        return Watcher(self.run, self.events, self.objective, self.step, losses, kept)

    def _validate(self, plan: TrainingPlan, epoch: int) -> dict[str, Any]:
        """Exact metrics, and losses where the objective computes them, over the validation data."""
        run, events = self.run, self.events
        try:
            with self.times.phase("validation"), noting(f"in the validation of fold {run.fold}, epoch {epoch}"):
                self.averages.renew(plan.train_data, epoch)
                watcher = self.watcher(losses=self.objective.keep_losses())
                metrics = self._default_metrics()
                events.begin_pass(keys.VALIDATION_DATA, plan.val_data, "on_start_validation")
                seed_generators(run.backend, run.seed, run.fold, epoch, stream="validation")
                with self.averages.in_use():
                    done = self.evaluate(
                        plan.val_data,
                        metrics=metrics,
                        metric_keys=run.config.keys_of(metrics),
                        keep_predictions=False,
                        watcher=watcher,
                        epoch=epoch,
                    )
                values = self.objective.validated(watcher, done.metrics, epoch)
                return events.end_pass(values, "on_end_validation")
        except StopInValidation:  # it begins anew when the run is continued
            run.state.has_all_steps = True
            self.saving.stop()

    def test(self, data: Any, **how: Any) -> Evaluation:
        """Evaluate test data so that callbacks see it, in the phase ``"evaluate"``; what they make of batches counts.

        Parameters
        ----------
        data
            The test data.
        **how
            As for :meth:`delira.training.Predictor.evaluate`.
        """
        run, events = self.run, self.events
        try:
            with aside(run, events, "evaluate"):
                events.begin_pass(keys.TEST_DATA, data, "on_start_validation")
                done = self.evaluate(data, watcher=self.watcher(), **how)
                values = {f"test_{name}": float(array.mean()) for name, array in done.metrics.items()}
                for moment in ("on_end_validation", "on_end_epoch"):
                    values = events.end_pass(values, moment)
        finally:
            run.facts.pop(keys.GENERATOR, None)  # it may have processes, which end with it
        return done

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the network on a prepared batch; the predictions stay on the device."""
        own = self.objective.forward(prepared)
        return super().forward(prepared) if own is None else own

    def _default_metrics(self) -> Mapping[str, Any]:
        return self.objective.metrics()

    @property
    def _told_outputs(self) -> dict[str, Any]:
        return self.run.state.outputs

    def _follow_outputs(self, metrics: MetricSet, epoch: int) -> set[str]:
        changed, state = super()._follow_outputs(metrics, epoch), self.run.state
        if changed and self.run.config.output_of(state.score_key) in changed:
            state.best_score = state.best_epoch = None  # earlier scores do not compare
        return changed

    # ------------------------------------------------------------------ the best epoch

    def _update_best(self, plan: TrainingPlan, values: Mapping[str, float]) -> bool:
        """Compare the score of an epoch with the best so far; returns whether it is better."""
        key, state = plan.val_score_key, self.run.state
        if (state.score_key, state.score_mode) != (key, plan.val_score_mode):  # another score: none of it yet
            if state.score_key == key is not None and state.best_epoch is not None:
                _log.warning(
                    "until now the %s %s was the best; from now on it is the %s: the epochs before are not looked at",
                    state.score_mode, key, plan.val_score_mode,
                )  # fmt: skip
            state.score_key, state.score_mode = key, plan.val_score_mode
            state.best_score = state.best_epoch = None
        if key is None or not plan.validates(state.epoch, self.run.config.val_freq):
            return False
        if key not in values:
            raise ConfigError(f"val_score_key={key!r} was not computed; the epoch has {sorted(values)}")
        if not self._is_better_val_scores(state.best_score, values[key], plan.val_score_mode):
            return False
        state.best_score, state.best_epoch = values[key], state.epoch
        return True

    @staticmethod
    def _is_better_val_scores(old_val_score: float | None, new_val_score: float, mode: str = "lowest") -> bool:
        """Return True if the new score is strictly better; anything but NaN is better than none."""
        if new_val_score != new_val_score or old_val_score is None:
            return new_val_score == new_val_score
        return new_val_score > old_val_score if score_mode(mode) == "highest" else new_val_score < old_val_score

    # ------------------------------------------------------------------ moments that can be overridden

    def _at_training_begin(self, *args: Any, **facts: Any) -> None:
        """Called before the first epoch."""
        self.events.notify("at_training_begin", **facts)

    def _at_epoch_begin(
        self,
        metrics_val: Mapping[str, float],
        val_score_key: str | None,
        epoch: int,
        num_epochs: int,
        **facts: Any,
    ) -> None:
        """Called before each epoch, with the values of the one before."""
        self.events.notify(
            "at_epoch_begin", val_metrics=metrics_val, val_score_key=val_score_key, curr_epoch=epoch,
            num_epochs=num_epochs, **facts,
        )  # fmt: skip

    def _at_epoch_end(
        self,
        metrics_val: Mapping[str, float],
        val_score_key: str | None,
        epoch: int,
        is_best: bool,
        **facts: Any,
    ) -> None:
        """Called after each epoch, before its checkpoint is written."""
        self.events.notify(
            "at_epoch_end", val_metrics=metrics_val, metrics=metrics_val, val_score_key=val_score_key,
            curr_epoch=epoch, is_best=is_best, **facts,
        )  # fmt: skip

    def _at_training_end(self, *args: Any, **facts: Any) -> Any:
        """Load the best weights, if a score was watched, else the averaged ones, if there are; return the network."""
        self.saving.show_best(self.score_key is not None)
        return self.run.network

    # ------------------------------------------------------------------ checkpoints

    def save_state(self, file_name: str | Path, epoch: int | None = None) -> Path:
        """Write network, optimizers and counters to a file, completely or not at all.

        After a training with a score that is the state of the best epoch, whose weights the network has; after
        one that failed, weights and optimizers alone.

        Parameters
        ----------
        file_name
            Name of the file; the backend's ending is added if it has none.
        epoch
            Number of finished epochs to record; the trainer's own if ``None``.
        """
        return self.saving.publish(file_name, epoch)

    @classmethod
    def load_state(cls, file_name: str | Path) -> dict[str, Any]:
        """Verify and read a file written by :meth:`save_state`; nothing in it is executed.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, no checkpoint, or of a later version.
        UnreadableError
            If the system cannot read it now.
        """
        return read(existing(Path(file_name), cls.backend), cls.backend)

    def update_state(self, file_name: str | Path) -> Any:
        """Continue from a file; returns the trainer. Nothing changes if the file does not fit."""
        self.saving.leave_for(Path(file_name), self.load_state(file_name))
        return self

    def _update_state(self, new_state: Mapping[str, Any]) -> Any:
        """Take a checkpoint over; nothing changes if its weights do not fit. Returns the trainer."""
        self.objective.take_over(self.saving.take, new_state)
        return self

    def try_resume_training(self) -> bool:
        """Continue from the newest valid checkpoint of the folder; returns whether there was one."""
        return self.saving.resume()

    def take_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what :meth:`checkpoint_tree` gave."""
        self._update_state(tree)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Give the network weights by name; they are what is trained from now on."""
        self.run.backend.load_state_tree({"model": weights}, self.run.network, {})
        self.averages.forget_trained()

    def checkpoint_tree(self) -> dict[str, Any]:
        """Collect everything from which the training can be continued, as a checkpoint holds it, in copies."""
        with self.saving.filled_state():
            tree: dict[str, Any] = self.run.backend.snapshot(self.saving.tree())
        return tree

    # ------------------------------------------------------------------ what there is

    @property
    def checkpoints(self) -> CheckpointFolder:
        """The folder of the checkpoints."""
        return self.saving.folder

    @property
    def saver(self) -> Saver:
        """Writes the checkpoints."""
        return self.files.saver

    @property
    def times(self) -> PhaseTimes:
        """Measures where the time goes."""
        return self.files.times

    @property
    def guard_log(self) -> GuardLog:
        """What the guards did."""
        return self.files.guard_log

    @property
    def timings(self) -> dict[str, Any]:
        """Where the time went so far; see :class:`delira.training.phase_times.PhaseTimes`."""
        return self.times.to_dict()

    @property
    def weights_epoch(self) -> int | None:
        """Epoch whose weights the network has after a training; None before and while it runs."""
        return self.saving.weights_epoch

    @property
    def raw_statistics(self) -> tuple[str, ...]:
        """Running statistics of the network after a training that are not of its weights, which are averaged."""
        return self.saving.raw_statistics

    @property
    def weight_average(self) -> Any:
        """The callback that averages the weights, if there is one."""
        return self.averages.callback

    @property
    def stop_training(self) -> bool:
        """Return True if the training ends after the running epoch."""
        return self.run.state.stop_training

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        self.run.state.stop_training = bool(stop)

    @property
    def losses(self) -> Mapping[str, Any]:
        """Loss functions by name."""
        return self.run.config.losses

    @property
    def train_metrics(self) -> Mapping[str, Any]:
        """Metrics of the training steps by name."""
        return self.run.config.train_metrics

    @property
    def val_metrics(self) -> Mapping[str, Any]:
        """Metrics of the validation by name."""
        return self.run.config.epoch_metrics

    @property
    def score_key(self) -> str | None:
        """Validation score that decides which epoch is the best, as the running training names it."""
        return None if self.run.plan is None else self.run.plan.val_score_key

    @property
    def skips_validation(self) -> bool:
        """Return True if the epoch that just ended was not validated though others are."""
        run, plan = self.run, self.run.plan
        if plan is None or plan.val_data is None:
            return False
        return not plan.validates(run.state.epoch, run.config.val_freq)

    @property
    def validates_losses(self) -> bool:
        """Return True if validation data have losses."""
        return self.objective.validates_losses

    def validation_losses(self, step: Step) -> dict[str, Any]:
        """Compute the losses of a batch of the validation.

        Parameters
        ----------
        step
            With batch and predictions.
        """
        return self.objective.validation_losses(step)

    @property
    def caveats(self) -> list[str]:
        """What is to be known of the numbers of the training so far: how outputs were read that nobody describes."""
        return [] if self.readings is None else self.readings.caveats(self.run.state.outputs)

    def learning_rates(self) -> list[float]:
        """The learning rates as they are now, of every group of parameters, as far as the optimizers tell them."""
        run = self.run
        made = [getattr(optimizer, "optimizer", optimizer) for optimizer in run.optimizers.values()]
        if groups := [group for optimizer in made for group in getattr(optimizer, "param_groups", ())]:
            return [float(group["lr"]) for group in groups]
        return [*run.backend.learning_rates(run.optimizers).values()]

    def scale_rates(self, factor: float) -> None:
        """Multiply the learning rates, and those that schedules of the backend go back to."""
        self.run.backend.scale_rates(self.run.optimizers, factor)
        for callback in self.run.callbacks:
            if hasattr(callback, "scale_rates"):
                callback.scale_rates(factor)

    def register_callback(self, callback: Any) -> None:
        """Add a callback; one that a checkpoint has a state of continues from it.

        Raises
        ------
        ConfigError
            If the object has none of the methods of a callback.
        """
        run = self.run
        CallbackList([callback]).attach(self)  # may refuse
        run.callbacks.append(callback)
        state = run.callbacks.state_of(callback, run.state.callbacks)
        if state is not None and not run.state.is_new:
            load_callback(callback, state)
        self.averages.go_on(callback)
        self.step.bind_hooks()


show_settings(BaseNetworkTrainer.__init__)
