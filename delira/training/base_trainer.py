"""The training loop. It is written here and nowhere else.

``train`` → ``_train_epoch`` → ``_train_single_epoch`` → ``_train_batch`` → the network's ``closure``.
"""

import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from delira import state as keys
from delira.contract import NO_HOOKS, StepHooks
from delira.errors import DataError, NonFiniteLossError
from delira.settings.config import TrainerConfig, check_start, read_settings
from delira.settings.keywords import TrainerKeywords
from delira.settings.parts import check_verbose
from delira.settings.signatures import show_settings
from delira.training import checks, guards
from delira.training.averaged_statistics import AveragedStatistics
from delira.training.callbacks import CallbackList
from delira.training.checkpointed import StopInValidation
from delira.training.generators import seed_generators, set_generators
from delira.training.hooked_run import HookedRun
from delira.training.live_view import live_view
from delira.training.micro_batches import run_in_parts
from delira.training.output_readings import OutputReadings
from delira.training.plan import TrainingPlan, close_workers, make_plan
from delira.training.predictor import batch_length
from delira.training.run_files import check_score, lock, open_files
from delira.training.running_epoch import RunningEpoch
from delira.training.state import TrainingState
from delira.training.stop_signals import StopSignals
from delira.utils.files import sweep_partials, writable_folder
from delira.utils.notes import noting

_log = logging.getLogger("delira")


class BaseNetworkTrainer(HookedRun):
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

    _bar_text = "Validate"

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
        **settings: Unpack[TrainerKeywords],
    ):
        if key_mapping and isinstance(key_mapping, Mapping) and all(map(callable, key_mapping.values())):
            warnings.warn("the third argument is key_mapping; pass losses by name", DeprecationWarning, stacklevel=2)
            key_mapping, losses = None, key_mapping
        self.given_settings: dict[str, Any] = {**settings, **({} if losses is None else {"losses": losses})}
        self.config: TrainerConfig = read_settings(self.given_settings)
        self.seed = self.config.seed
        self.nonfinite_predictions = self.config.guards.nonfinite_predictions
        self.fold = fold
        self.state = TrainingState(epoch=check_start(start_epoch) - 1, fold=self.fold, seed=self.seed)
        # absolute: whatever the working directory becomes
        self.save_path = None if save_path is None else writable_folder(save_path).absolute()
        self.callbacks = CallbackList(callbacks or ())
        self.hooks: StepHooks = NO_HOOKS
        self._given_key_mapping = key_mapping
        self.stop_signals = StopSignals()
        self.weight_average, self.averaged_statistics = None, AveragedStatistics(self)
        self._warned: set[str] = set()
        self._must_return = False
        self._plan: TrainingPlan | None = None
        self._setup(network)
        with lock(self.save_path):
            self.checkpoints.sweep()
            if self.save_path is not None:
                sweep_partials(self.save_path)
            if resume_from is None:
                self.try_resume_training()
            else:
                self._rewind(Path(resume_from))

    def _setup(self, network: Any) -> None:
        """Bring the network to its device and build everything that belongs to it."""
        config, backend = self.config, self.backend
        checks.check_network(network, config, backend)
        if config.guards.deterministic:
            backend.prepare_deterministic()
        self.devices = backend.devices(config.gpu_ids, config.device)
        self.input_device, self.output_device = self.devices
        prepare, closure = self._methods_of(network)
        super().__init__(
            backend.place(network, self._functions(), self.devices),
            self._given_key_mapping,
            config.convert_batch_to_npy_fn,
            functools.partial(prepare, input_device=self.input_device, output_device=self.output_device),
            backend=backend,
        )
        self.closure_fn = closure
        self.readings = OutputReadings(config, backend)
        optimizer, schedule = config.optimizer, config.schedule
        how = optimizer.builder, optimizer.cls, optimizer.params, config.update
        self.optimizers = backend.build_optimizers(network, *how)
        if schedule.cls is not None:
            for callback in backend.build_schedules(self.optimizers, schedule.cls, schedule.params):
                self.callbacks.append(callback)
        open_files(self)
        self.callbacks.attach(self)
        self._begin_hooks()
        _ = self._step  # a room refuses what it cannot compile

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
        if val_score_key is not None:
            self.config.check_score_key(val_score_key)
        key, mode = self.config.score(val_score_key, val_score_mode)
        if verbose is not None:
            check_verbose(verbose)
        plan = make_plan(
            self.config,
            TrainingPlan(
                num_epochs=num_epochs,
                train_data=datamgr_train,
                val_data=datamgr_valid,
                val_score_key=key,
                val_score_mode=mode,
                reduce_mode=reduce_mode or self.config.reduce_mode,
            ),
            validates_losses=self.validates_losses,
        )
        check_score(self.save_path, plan.val_score_key)
        with lock(self.save_path, alone=True), self.times.phase("other"):
            self._return_to_last()
            checks.check_length(self.state, plan.num_epochs)
            if self.state.stop_training and self.state.epoch < plan.num_epochs:
                _log.warning(
                    "training was stopped after epoch %d of %d, so there is nothing to do; set trainer.stop_training "
                    "= False to go on", self.state.epoch, plan.num_epochs,
                )  # fmt: skip
            try:
                with self.run_log.opened(plan.num_epochs):
                    self._run(plan, self.config.logging.verbose if verbose is None else verbose)
                network = self._at_training_end()
            finally:
                self._plan = None  # it holds the data
            self.backend.set_evaluating(self.module)
            return network

    def _run(self, plan: TrainingPlan, verbose: int) -> None:
        """The epochs, between the begin and the end of everything that goes with them."""
        view = live_view(self, verbose, plan.num_epochs)
        self._add_view(view)
        self._plan, error = plan, None
        try:
            with guards.scopes(self, plan):
                self._train_epochs(plan)
        except BaseException as caught:
            error = caught
            self._plan = self._running = self._epoch_data = None  # they hold data
            raise
        finally:
            self.saver.finish(quietly=True)
            self.saver.forget()
            running = self.callbacks
            self.callbacks = CallbackList(one for one in running if not any(one is shown for shown in view))
            running.conclude(self, error)
            self.times.write()
            close_workers(plan.train_data, plan.val_data)

    def _train_epochs(self, plan: TrainingPlan) -> None:
        is_unfinished = self._is_unfinished(plan)
        checks.report_at_start(self, plan)
        if is_unfinished:
            self._check_first_batches(plan)
            self.averaged_statistics.tell(plan.train_data)
        self._at_training_begin(num_epochs=plan.num_epochs, num_batches=checks.count_batches(plan.train_data))
        self.facts.update({keys.EPOCH: self.state.epoch, keys.MAX_EPOCHS: plan.num_epochs, keys.STOP_TRAINING: False})
        self._fire("on_start")
        if is_unfinished:
            self.saver.begin(self._checkpoint_tree)
            if self.config.guards.nonfinite == "rollback" and not self.checkpoints.path("last").exists():
                self._save(["last"])
        while True:
            try:
                while self._is_unfinished(plan):
                    self._train_epoch(plan, self.state.epoch + 1)
                self.saver.finish()
                break
            except NonFiniteLossError as error:  # of the last checkpoint too
                guards.roll_back(self, error)
        # else done before that checkpoint, unless a signal came
        if self.averaged_statistics.renew(plan.train_data, self.state.epoch) and not is_unfinished:
            self._save(["last"])
            self.saver.finish()
        if self.stop_signals.received is not None:  # while the last checkpoint was written
            self._stop()

    def _is_unfinished(self, plan: TrainingPlan) -> bool:
        state = self.state
        return bool(state.step_in_epoch) or (state.epoch < plan.num_epochs and not state.stop_training)

    def _train_epoch(self, plan: TrainingPlan, epoch: int) -> None:
        """One epoch, or the rest of one: steps, validation, history, checkpoint."""
        state, self._must_return = self.state, True
        running = self._running = self._begin_epoch(plan, epoch)
        values: dict[str, float] = {"epoch": epoch}
        with noting(f"in the training of fold {self.fold}, epoch {epoch}"):
            values |= self._train_pass(plan, epoch)
        if self._is_broken_off(plan):
            self._leave_epoch()
            return
        if plan.validates(epoch, self.config.val_freq):
            try:
                with self.times.phase("validation"), noting(f"in the validation of fold {self.fold}, epoch {epoch}"):
                    self.averaged_statistics.renew(plan.train_data, epoch)
                    values |= self._validate(plan.val_data, epoch)
            except StopInValidation:  # it begins anew when the run is continued
                state.has_all_steps = True
                self._stop()
        values |= {name: rate for name, rate in running.rates.items() if name not in values}
        guards.report_left_out(self, running, epoch)
        values = self._end_of_epoch(values)
        state.epoch, state.step_in_epoch, state.has_all_steps = epoch, 0, False
        self._running = self._epoch_data = None
        state.history.append(values)
        is_best = self._update_best(plan, values)
        facts = {name: value for name, value in values.items() if name != "epoch"}
        self._at_epoch_end(facts, plan.val_score_key, epoch, is_best, num_epochs=plan.num_epochs)
        self._fire("on_checkpoint")
        self._save_epoch(plan, is_best)
        self.times.write(at_once=False)
        self._must_return = False
        if self.stop_signals.received is not None:
            self._stop()

    def _begin_epoch(self, plan: TrainingPlan, epoch: int) -> RunningEpoch:
        """Begin an epoch, or continue one where its checkpoint was written."""
        state, backend = self.state, self.backend
        if not state.step_in_epoch:
            previous = state.history[-1] if state.history else {}
            self._at_epoch_begin(previous, plan.val_score_key, epoch, plan.num_epochs)
            self.facts[keys.EPOCH] = epoch - 1
            self._fire("on_start_epoch")
            seed_generators(backend, self.seed, self.fold, epoch, stream="framework")
        running = self._new_epoch()
        if state.step_in_epoch:
            running.load_state_dict(state.accumulators)
            set_generators(backend, state.generators)
            state.accumulators, state.generators = {}, {}
        return running

    def _new_epoch(self) -> RunningEpoch:
        rates, left_out = self.backend.learning_rates(self.optimizers), self.backend.count_left_out(self.optimizers)
        metrics = self.config.bound(self.config.metrics, backend=self.backend)
        if self.readings is not None:
            metrics = self.readings.settled(metrics, self.config.keys_of(metrics), self.state.outputs)
        return RunningEpoch(self.config, self.backend, rates, left_out, metrics)

    def _train_single_epoch(
        self, batchgen: Iterable[Mapping[str, Any]], epoch: int, verbose: bool = False
    ) -> tuple[Any, Any]:
        """All steps that are left of one epoch; returns ``(metrics, losses)``: values of the steps by name."""
        running, state, signals = self._running or self._new_epoch(), self.state, self.stop_signals
        length, watches_steps = checks.count_batches(batchgen), self.saver.watches_steps
        with self._learning(), self._fed(batchgen, ahead=self._may_look_ahead) as fed:
            for batch, ready in self.times.steps(fed):
                self._train_batch(batch, ready, state.step_in_epoch + 1 == length, running)
                if state.step_in_epoch % self.config.logging.freq == 0:
                    self._check_finite(running.losses, epoch)
                if watches_steps or signals.received is not None:
                    self._after_step()
                if self._is_enough():
                    break
            self.backend.finish_epoch(self.optimizers)
        if state.step_in_epoch == 0:
            raise DataError(f"the training data gave no batch in epoch {epoch}")
        self._check_finite(running.losses, epoch)
        if running.over_epoch is not None:
            self._follow_outputs(running.over_epoch, epoch)
        return running.finish(state.step_in_epoch)

    def _train_pass(self, plan: TrainingPlan, epoch: int) -> dict[str, float]:
        """All steps that are left of an epoch; returns its values."""
        self._begin_pass(keys.TRAIN_DATA, plan.train_data, "on_start_training")
        values: dict[str, float] = {}
        with self.times.training():
            parts = self._train_single_epoch(self._training_batches(plan.train_data, epoch), epoch)
        for part in parts:
            values |= self._reduce(part, plan.reduce_mode)
        return self._end_pass(values, "on_end_training")

    def _train_batch(
        self, batch: Mapping[str, Any], ready: dict[str, Any] | None, is_last: bool, running: RunningEpoch
    ) -> None:
        """One step: prepare the batch, call the closure, keep its values where they are."""
        state, callbacks = self.state, self.callbacks
        n_samples, self.run_log.step = batch_length(batch), state.global_step + 1
        counters = {"iter_num": state.step_in_epoch, "global_iter_num": state.global_step}
        if callbacks.hears("at_iter_begin"):
            callbacks.notify("at_iter_begin", self, data_dict=batch, curr_epoch=state.epoch + 1, train=True, **counters)
        prepared = self._prepare_batch(batch) if ready is None else ready
        self.facts[keys.BATCH] = state.step_in_epoch
        prepared = self._before_step(prepared)
        step = (prepared, n_samples, is_last, self._taken({**counters, "batch_nr": state.step_in_epoch}))
        if self.times.is_sampling:
            self.times.mark("other")  # what came before the step
        if self.config.guards.nonfinite == "skip":
            with self.backend.leaving_out(self.module, self.optimizers):
                result = self._compute(*step)
        else:
            result = self._compute(*step)
        step_metrics, step_losses, predictions = result
        state.step_in_epoch += 1
        state.global_step += 1
        if state.step_in_epoch == 1:
            checks.check_step_names(step_metrics, step_losses)
        running.metrics.append(step_metrics, n_samples, state.step_in_epoch)
        running.losses.append(step_losses, n_samples, state.step_in_epoch, self._loss_weights(prepared))
        if running.over_epoch is not None and self.backend.is_ready(self.module):
            arrays, host = self._read(running.over_epoch, predictions, batch)
            running.over_epoch.update({**arrays, **host})
        if callbacks.hears("at_iter_end"):
            callbacks.notify(
                "at_iter_end", self, data_dict=batch, curr_epoch=state.epoch + 1, train=True,
                losses=step_losses, metrics=step_metrics, predictions=predictions, **counters,
            )  # fmt: skip
        if self._shows_steps:
            self._after_batch(prepared, result, "on_step_training")

    def _compute(
        self, prepared: dict[str, Any], n_samples: int, is_last: bool, counters: dict[str, int]
    ) -> tuple[Any, Any, Any]:
        """Call the closure on a batch, or on its parts."""
        try:
            if self.config.guards.micro_batches != 1:
                return run_in_parts(self, prepared, n_samples, is_last, counters)
            with self.backend.step_scope(self.optimizers, n_samples, is_last):
                if self.has_default_closure:  # calls the network apart by itself
                    return checks.unpack_closure(self._step(prepared, counters))
                step = functools.partial(self._step, counters=counters)
                return checks.unpack_closure(self.backend.call_apart(self.module, prepared, step))
        except Exception as error:
            error.add_note(f"in a training step on a batch of {checks.describe_batch(prepared)}")
            raise


show_settings(BaseNetworkTrainer.__init__)
