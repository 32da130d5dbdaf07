"""The training loop. It is written here and nowhere else.

``train`` → ``_train_epochs`` → ``_train_epoch`` → ``_train_single_epoch`` → ``step.train_on`` → the ``closure``.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from delira import state as keys
from delira.callbacks.abstract_callback import CallbackList, load_callback
from delira.callbacks.live_view import live_view
from delira.contract import Data, Devices, Network, Step, StepHooks
from delira.errors import DataError, NonFiniteLossError, noting
from delira.io.checkpoint import CheckpointFolder
from delira.metrics import MetricSet
from delira.runs.results import GuardLog
from delira.settings.config import TrainerConfig, check_start, read_settings
from delira.settings.parts import check_verbose
from delira.settings.signatures import Reduction, ScoreMode, TrainerKeywords, show_settings
from delira.state import State
from delira.training import checks
from delira.training.checkpoints import Checkpoints, existing, read
from delira.training.epoch import Feed, RunningEpoch, close_workers, is_foreign_loader
from delira.training.evaluation import AveragedWeights, Evaluator, LossesOf, StopInValidation
from delira.training.objective import Events, Objective, checked_objective
from delira.training.outputs import OutputReadings
from delira.training.predictor import Predictor, part_of
from delira.training.ranks import Ranks, at_rest, resolve_devices
from delira.training.run import (
    Run,
    Scopes,
    TrainingPlan,
    TrainingState,
    make_plan,
    seed_generators,
    set_generators,
    update_best,
)
from delira.training.saving import PhaseTimes, RunFiles, Saver, check_score, lock
from delira.training.step import TrainingStep
from delira.training.together import in_all_processes, led_training, ranks_of
from delira.utils.files import sweep_partials, writable_folder
from delira.utils.frameworks import find_backend
from delira.utils.lazy import for_old_scripts, of_old_scripts
from delira.utils.signals import StopSignals
from delira.utils.user_code import overrides


class BaseNetworkTrainer(Predictor):
    """Trains a network with the verbs of a backend.

    A backend's trainer is this class with ``backend`` set; it adds no code. The methods that begin with
    one underscore are the historic override points and stay.

    Parameters
    ----------
    network
        The network.
    save_path
        Folder of the run: ``checkpoints/``, ``history.csv``, ``history.jsonl`` and ``logs/`` go there. If it holds
        checkpoints, the trainer continues from the newest valid one. ``None`` writes no file: nothing can be continued.
    key_mapping
        Argument of the network -> batch entry, e.g. ``{"x": "data"}``; ``None`` asks the backend.
    losses
        Loss functions by name, called as ``loss(prediction, target)``.
    *positions
        Further arguments by position, in the order of an older version.
    fold
        Fold of the cross-validation; a counter of every random decision.
    callbacks
        See :class:`delira.training.callbacks.AbstractCallback`.
    start_epoch
        Number of the first epoch of a run without checkpoints.
    resume_from
        The checkpoint to continue from, setting later ones aside; the newest valid one in ``save_path`` if ``None``.
    objective
        What is computed on batches, and how callbacks see it; that of an experiment if ``None``.
    ranks
        Which of several processes that train one network this is; the only one if ``None``.
    config
        The settings, if somebody has read them already.
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
    scopes: Scopes
    files: RunFiles
    events: Events
    step: TrainingStep
    averages: AveragedWeights
    saving: Checkpoints
    evaluator: Evaluator
    config: TrainerConfig = part_of("run.config")
    state: TrainingState = part_of("run.state")
    seed: int = part_of("run.seed")
    fold: int = part_of("run.fold")
    #: the network; also called ``network``
    module: Any = part_of("run.network")
    network: Any = part_of("run.network")
    key_mapping: dict[str, str] = part_of("run.key_mapping")
    optimizers: dict[str, Any] = part_of("run.optimizers")
    devices: Devices = part_of("run.devices")
    input_device: Any = part_of("run.devices.input")
    output_device: Any = part_of("run.devices.output")
    closure_fn: Any = part_of("run.closure")
    hooks: StepHooks = part_of("run.hooks")
    callbacks: CallbackList = part_of("run.callbacks")
    #: the state that hooks (``on_…``) read and change; also called ``facts``
    hook_state: State = part_of("run.hook_state")
    facts: State = part_of("run.hook_state")
    stop_signals: StopSignals = part_of("run.stop_signals")
    save_path: Path | None = part_of("run.save_path")
    #: the data that ``train`` is at work on, for callbacks that change its transforms; else None
    train_data: Any = part_of("run.train_data")
    #: ``"lowest"`` or ``"highest"``: which score is good
    score_mode: str = part_of("run.score_mode")
    #: names of the weights that the training changes
    learned_names: frozenset[str] = part_of("run.learned_names")
    has_default_closure: bool = part_of("run.has_default_closure")
    #: the learning rates as they are now, of every group of parameters, as far as the optimizers tell them
    learning_rates: Callable[[], list[float]] = part_of("run.learning_rates")
    #: multiplies the learning rates, and those that schedules of the backend go back to
    scale_rates: Callable[[float], None] = part_of("run.scale_rates")
    #: validation score that decides which epoch is the best, as the running training names it
    score_key: str | None = part_of("run.score_key")
    #: whether the epoch that just ended was not validated though others are
    skips_validation: bool = part_of("run.skips_validation")
    #: functions by name: losses, metrics of the steps, metrics of the validation
    losses: Mapping[str, Any] = part_of("run.config.losses")
    train_metrics: Mapping[str, Any] = part_of("run.config.train_metrics")
    val_metrics: Mapping[str, Any] = part_of("run.config.epoch_metrics")
    #: whether validation data have losses, and how they are computed
    validates_losses: bool = part_of("objective.validates_losses")
    validation_losses: Callable[[Step], dict[str, Any]] = part_of("objective.validation_losses")
    #: collects everything from which the training can be continued, as a checkpoint holds it, in copies
    checkpoint_tree: Callable[[], dict[str, Any]] = part_of("saving.copy")
    #: the folder of the checkpoints, and what writes them
    checkpoints: CheckpointFolder = part_of("saving.folder")
    saver: Saver = part_of("files.saver")
    times: PhaseTimes = part_of("files.times")
    guard_log: GuardLog = part_of("files.guard_log")
    _told_outputs: dict[str, Any] = part_of("run.state.outputs")
    #: epoch whose weights the network has after a training; None before and while it runs
    weights_epoch: int | None = part_of("saving.weights_epoch")
    #: running statistics of the network after a training that are not of its weights, which are averaged
    raw_statistics: tuple[str, ...] = part_of("saving.raw_statistics")
    weight_average: Any = part_of("averages.callback")
    #: makes the callback that shows a training by its label, in place of a bar: a cross-validation shows a table
    make_bar: Callable[[str], Any] | None = None
    #: makes the callback that draws the curves in a notebook: those of a cross-validation replace each other
    make_plot: Callable[[], Any] | None = None

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        network: Network = None,
        save_path: str | Path | None = None,
        key_mapping: Mapping[str, Any] | None = None,
        losses: Mapping[str, Callable[..., Any]] | None = None,
        *positions: Any,
        fold: int = 0,
        callbacks: Iterable[Any] | None = None,
        start_epoch: int = 1,
        resume_from: str | Path | None = None,
        objective: Objective | None = None,
        ranks: Ranks | None = None,
        config: TrainerConfig | None = None,
        **settings: Unpack[TrainerKeywords],
    ):
        is_bare = network is None or (isinstance(network, int) and not isinstance(save_path, (str, Path)))
        if positions or (is_bare and not hasattr(self, "backend")):
            kwargs = {"fold": fold, "callbacks": callbacks, "start_epoch": start_epoch, **settings}
            for_old_scripts("trainer").begin(self, network, save_path, (key_mapping, losses, *positions), kwargs)
            return
        self.backend = getattr(self, "backend", None) or find_backend(network)
        if key_mapping and isinstance(key_mapping, Mapping) and all(map(callable, key_mapping.values())):
            warnings.warn("the third argument is key_mapping; pass losses by name", DeprecationWarning, stacklevel=2)
            key_mapping, losses = None, key_mapping
        self.given_settings: dict[str, Any] = {**settings, **({} if losses is None else {"losses": losses})}
        self.run = Run(
            config := read_settings(self.given_settings) if config is None else config,
            self.backend, fold=fold, epoch=check_start(start_epoch) - 1,
            save_path=None if save_path is None else writable_folder(save_path).absolute(),  # whatever chdir does
            callbacks=callbacks or (), ranks=ranks or ranks_of(self.backend),
        )  # fmt: skip
        self.nonfinite_predictions = config.guards.nonfinite_predictions
        self.objective = checked_objective(objective) or self.objective_cls()
        self.objective.run, self.asked_mapping, self.given_callbacks = self.run, key_mapping, [*self.run.callbacks]
        if overrides(self, BaseNetworkTrainer, "_setup"):
            for_old_scripts("trainer").call_setup(self, network)
        else:
            self._setup(network)
        with lock(self.run):
            if self.run.save_path is not None and self.saver.writes:
                self.checkpoints.sweep()
                sweep_partials(self.run.save_path)
            self.try_resume_training() if resume_from is None else self.saving.rewind(Path(resume_from))

    def _setup(self, network: Network, *historic: Any, **named: Any) -> None:
        """Bring the network to its device and build everything that belongs to it; once, whoever calls it again."""
        if hasattr(self, "step"):
            return
        if historic or named:
            for_old_scripts("trainer").take_arguments(self, historic, named)
        run, objective, backend, config = self.run, self.objective, self.run.backend, self.run.config
        checks.check_network(network, config, backend)
        if config.guards.deterministic:
            backend.devices.prepare_deterministic()
        run.devices = devices = resolve_devices(config, backend.devices, run.ranks.rank)
        prepare, run.closure = objective.methods_of(network)
        prepare = functools.partial(prepare, input_device=devices.input, output_device=devices.output)
        placed = backend.devices.place(network, objective.functions(), at_rest(config, backend.devices, devices))
        super().__init__(placed, self.asked_mapping, config.convert_batch_to_npy_fn, prepare, backend=backend)
        # without preprocessing: a training gets its data behind it, and says what else is to go through it
        self.feed = Feed(backend, prepare, "Validate", objective.may_look_ahead)
        self.readings, self.inference = OutputReadings(config, backend), config.inference
        optimizer, schedule = config.optimizer, config.schedule
        run.optimizers = backend.optimizers.build(
            network, optimizer.builder, optimizer.cls, optimizer.params, config.update
        )
        if schedule.cls is not None:
            for callback in backend.optimizers.build_schedules(run.optimizers, schedule.cls, schedule.params):
                run.callbacks.append(callback)
        self.scopes, self.files = Scopes(run), (files := RunFiles(run, self.given_settings))
        self.events = objective.events = Events(run, objective, self)
        self.step = objective.step = TrainingStep(
            run, self.events, objective, self.feed, files.times, self.read_entries
        )
        self.averages = AveragedWeights(run, self.feed, self.step, self.forward, self)
        self.saving = Checkpoints(
            run, objective, self.averages, files.saver, files.times,
            functools.partial(BaseNetworkTrainer._update_state, self), self.try_resume_training,
        )  # fmt: skip
        if overrides(self, BaseNetworkTrainer, "save_state", "load_state", "_update_state"):
            for_old_scripts("trainer").keep_others(self)
        self.evaluator = Evaluator(objective, self.averages, self.evaluate)
        self.watch_losses = functools.partial(LossesOf, objective)
        run.callbacks.attach(self)
        run.hook_state = objective.make_state(self)
        self.events.begin()
        self.step.bind_hooks()
        if objective.tells_init:
            self.events.fire("on_init")
        _ = self.step.bound  # a backend refuses what it cannot compile

    # ------------------------------------------------------------------ the loop

    @led_training
    def train(
        self,
        num_epochs: int,
        datamgr_train: Data,
        datamgr_valid: Data = None,
        val_score_key: str | None = None,
        val_score_mode: ScoreMode | None = "auto",
        reduce_mode: Reduction | None = None,
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
        config.check_score_key(val_score_key)
        key, mode = config.score(val_score_key, val_score_mode)
        check_verbose(config.logging.verbose if verbose is None else verbose)
        asked = TrainingPlan(
            num_epochs=num_epochs, train_data=datamgr_train, val_data=datamgr_valid, val_score_key=key,
            val_score_mode=mode, reduce_mode=reduce_mode or config.reduce_mode,
        )  # fmt: skip
        plan = make_plan(config, asked, validates_losses=self.objective.validates_losses)
        check_score(run.save_path, plan.val_score_key)
        with lock(run, alone=True), self.files.times.phase("other"):
            self.saving.return_to_last()
            checks.check_length(run.state, plan.num_epochs)
            try:
                with self.files.run_log.opened(plan.num_epochs), in_all_processes(self, plan):
                    self._train_epochs(plan, config.logging.verbose if verbose is None else verbose)
                network = self._at_training_end()
            finally:
                run.plan = None  # it holds the data
            run.backend.calls.set_evaluating(run.network)
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
            with self.scopes.entered(), checks.advising(run, plan):
                has_work = run.is_unfinished
                self._begin_training(plan, has_work)
                while True:
                    try:
                        while run.is_unfinished:
                            self._train_epoch(plan, run.state.epoch + 1)
                        files.saver.finish()
                        break
                    except NonFiniteLossError as error:  # of the last checkpoint too
                        files.saver.finish(quietly=True)  # before others look for what to go back to
                        checks.roll_back(run, files.guard_log, error, self.saving.return_to_last)
                # else done before that checkpoint, unless a signal came
                if self.averages.renew(plan.train_data, run.state.epoch) and not has_work:
                    self.saving.save(["last"])
                    files.saver.finish()
                if run.stop_signals.received is not None:  # while the last checkpoint was written
                    self.saving.stop()
        except BaseException as error:
            first = error
            run.plan = run.running = run.epoch_data = None  # they hold data
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
        if run.ranks.is_first:
            checks.report_at_start(run, plan)
        if has_work:
            self.objective.check_before(self, plan)
            self.averages.tell(plan.train_data)
        self._at_training_begin(num_epochs=plan.num_epochs, num_batches=checks.count_batches(plan.train_data))
        run.hook_state.update(
            {keys.EPOCH: run.state.epoch, keys.MAX_EPOCHS: plan.num_epochs, keys.STOP_TRAINING: False}
        )
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
            with self.files.times.training():
                parts = self._train_single_epoch(run.enter(plan.train_data, epoch), epoch)
            for part in parts:
                values |= running.reduce(part, reduce)
            values = events.end_pass(values, "on_end_training")
        run.ranks.settle(run.network)
        if objective.is_broken_off(plan):
            run.leave_epoch()
            return
        if plan.validates(epoch, run.config.val_freq):
            values |= self._validate(plan, epoch)
        values |= {name: rate for name, rate in running.rates.items() if name not in values}
        checks.report_left_out(run, self.guard_log, epoch)
        values = objective.end_epoch(epoch, values)
        state.epoch, state.step_in_epoch, state.has_all_steps = epoch, 0, False
        run.running = run.epoch_data = None
        state.history.append(values)
        is_best = update_best(run, plan, values, self._is_better_val_scores)
        facts = {name: value for name, value in values.items() if name != "epoch"}
        self._at_epoch_end(facts, plan.val_score_key, epoch, is_best, num_epochs=plan.num_epochs)
        events.fire("on_checkpoint")
        run.agree_to_stop()
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
            run.hook_state[keys.EPOCH] = epoch - 1
            self.events.fire("on_start_epoch")
            seed_generators(backend, run.seed, run.fold, epoch, stream="framework")
        running = RunningEpoch.of(run, self.readings)
        if state.step_in_epoch:
            running.load_state_dict(state.accumulators)
            set_generators(backend, state.generators)
            state.accumulators, state.generators = {}, {}
        return running

    def _train_single_epoch(
        self, batchgen: Iterable[Mapping[str, Any]], epoch: int, verbose: bool = False
    ) -> tuple[Any, Any]:
        """All steps that are left of one epoch; returns ``(metrics, losses)``: values of the steps by name."""
        run, state, signals, files = self.run, self.run.state, self.run.stop_signals, self.files
        running, every = run.running or RunningEpoch.of(run, self.readings), run.config.logging.freq
        length, watches_steps, train_on = checks.count_batches(batchgen), files.saver.watches_steps, self.step.train_on
        # nobody changes batches, or counts them, before their step begins
        ahead = not run.callbacks.hears("at_iter_begin") and not is_foreign_loader(run.train_data)
        with self.events.learning(), self.feed.opened(batchgen, ahead=ahead) as fed:
            for batch, ready in files.times.steps(fed):
                train_on(batch, ready, state.step_in_epoch + 1 == length, running)
                if state.step_in_epoch % every == 0:
                    checks.check_losses(run, running.losses, epoch)
                if watches_steps or signals.received is not None:
                    self.saving.after_step()
                if self.objective.is_enough():
                    break
            run.backend.optimizers.finish_epoch(run.optimizers)
        if state.step_in_epoch == 0:
            raise DataError(f"the training data gave no batch in epoch {epoch}")
        checks.check_losses(run, running.losses, epoch)
        if running.over_epoch is not None:
            self._follow_outputs(running.over_epoch, epoch)
        return running.finish(state.step_in_epoch)

    def _validate(self, plan: TrainingPlan, epoch: int) -> dict[str, Any]:
        """Return the values of the validation, which a signal ends: it begins anew when the run is continued."""
        try:
            with self.times.phase("validation"), noting(f"in the validation of fold {self.run.fold}, epoch {epoch}"):
                return self.evaluator.validate(plan, epoch)
        except StopInValidation:
            self.run.state.has_all_steps = True
            self.saving.stop()

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the network on a prepared batch; the predictions stay on the device."""
        plain, objective = super().forward, self.objective
        self.run.bring_network()
        return self.run.ranks.predict(
            lambda own: plain(own) if (given := objective.forward(own)) is None else given, prepared, self.network
        )

    def _default_metrics(self) -> Mapping[str, Any]:
        return self.objective.metrics()

    def _follow_outputs(self, metrics: MetricSet, epoch: int) -> set[str]:
        changed, state = super()._follow_outputs(metrics, epoch), self.run.state
        if changed and self.run.config.output_of(state.score_key) in changed:
            state.best_score = state.best_epoch = None  # earlier scores do not compare
        return changed

    _is_better_val_scores = staticmethod(checks.is_better)

    def _at_training_begin(self, *args: Any, **facts: Any) -> None:
        """Called before the first epoch."""
        self.events.notify("at_training_begin", **facts)

    def _at_epoch_begin(
        self, metrics_val: Mapping[str, float], val_score_key: str | None, epoch: int, num_epochs: int, **facts: Any
    ) -> None:
        """Called before each epoch, with the values of the one before."""
        self.events.notify(
            "at_epoch_begin", val_metrics=metrics_val, val_score_key=val_score_key, curr_epoch=epoch,
            num_epochs=num_epochs, **facts,
        )  # fmt: skip

    def _at_epoch_end(
        self, metrics_val: Mapping[str, float], val_score_key: str | None, epoch: int, is_best: bool, **facts: Any
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
        state = self.load_state(file_name)
        if "format" not in state:  # what a user's own load_state has read
            return self._update_state(state) or self
        self.saving.leave_for(Path(file_name), state)
        return self

    def _update_state(self, new_state: Mapping[str, Any]) -> Any:
        """Take over a checkpoint, or parts of one by name; nothing changes if it does not fit. Returns the trainer."""
        if {"format", "state"} & new_state.keys() or (old := of_old_scripts("trainer")) is None:
            self.objective.take_over(self.saving.take, new_state)
        else:
            old.update_partly(self, new_state)
        return self

    def try_resume_training(self) -> bool:
        """Continue from the newest valid checkpoint of the folder; returns whether there was one."""
        return self.saving.resume()

    @property
    def timings(self) -> dict[str, Any]:
        """Where the time went so far; see :class:`delira.training.saving.PhaseTimes`."""
        return self.times.to_dict()

    @property
    def stop_training(self) -> bool:
        """Return True if the training ends after the running epoch."""
        return self.run.state.stop_training

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        self.run.state.stop_training = bool(stop)

    @property
    def caveats(self) -> list[str]:
        """What is to be known of the numbers of the training so far: how outputs were read that nobody describes."""
        return [] if self.readings is None else self.readings.caveats(self.run.state.outputs)

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
        self.given_callbacks.append(callback)
        state = run.callbacks.state_of(callback, run.state.callbacks)
        if state is not None and not run.state.is_new:
            load_callback(callback, state)
        self.averages.go_on(callback)
        self.step.bind_hooks()


show_settings(BaseNetworkTrainer.__init__)
