"""The training loop. It is written here and nowhere else.

``train`` → ``_train_epoch`` → ``_train_single_epoch`` → ``_train_batch`` → the network's ``closure``.
"""

import functools
import importlib.util
import inspect
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from delira.contract import NO_HOOKS, StepHooks, call_losses
from delira.errors import ConfigError, DataError
from delira.io.checkpoint import CheckpointFolder
from delira.metrics import MetricSet
from delira.training import checks
from delira.training.callbacks import CallbackList, HistoryWriter, ProgressBar, TensorBoardWriter
from delira.training.config import TrainerConfig, check_start, read_settings
from delira.training.generators import own_generators, seed_generators
from delira.training.plan import TrainingPlan, close_workers, make_plan
from delira.training.predictor import batch_length
from delira.training.run_state import RunState
from delira.training.signatures import settings_signature
from delira.training.state import TrainingState
from delira.training.step_values import StepValues, reduce_values
from delira.utils.files import writable_folder

_log = logging.getLogger("delira")


class BaseNetworkTrainer(RunState):
    """Trains a network with the verbs of a room.

    A room's trainer is this class with ``backend`` set; it adds no code. The methods that begin with
    one underscore are the historic override points and stay.

    Parameters
    ----------
    network
        The network.
    save_path
        Folder of the run: ``checkpoints/``, ``history.csv``, ``history.jsonl`` and ``logs/`` go there. If
        it holds checkpoints, the trainer continues from the newest valid one.
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

    def __init__(
        self,
        network: Any,
        save_path: str | Path,
        key_mapping: Mapping[str, Any] | None = None,
        losses: Mapping[str, Callable[..., Any]] | None = None,
        *,
        fold: int = 0,
        callbacks: Iterable[Any] | None = None,
        start_epoch: int = 1,
        **settings: Any,
    ):
        if key_mapping and isinstance(key_mapping, Mapping) and all(map(callable, key_mapping.values())):
            warnings.warn("the third argument is key_mapping; pass losses by name", DeprecationWarning, stacklevel=2)
            key_mapping, losses = None, key_mapping
        if losses is not None:
            settings["losses"] = losses
        self.config: TrainerConfig = read_settings(settings)
        self.seed = self.config.seed
        self.fold = fold
        self.state = TrainingState(epoch=check_start(start_epoch) - 1, fold=self.fold, seed=self.seed)
        self.save_path = writable_folder(save_path)
        self.callbacks = CallbackList(callbacks or ())
        self.hooks: StepHooks = NO_HOOKS
        self._given_key_mapping = key_mapping
        self._must_return = False
        self._plan: TrainingPlan | None = None
        self._setup(network)
        self.try_resume_training()

    def _setup(self, network: Any) -> None:
        """Bring the network to its device and build everything that belongs to it."""
        config, backend = self.config, self.backend
        checks.check_network(network, config)
        self.devices = backend.devices(config.gpu_ids, config.device)
        self.input_device, self.output_device = self.devices
        super().__init__(
            backend.place(network, {**config.losses, **config.train_metrics}, self.devices),
            self._given_key_mapping,
            config.convert_batch_to_npy_fn,
            functools.partial(network.prepare_batch, input_device=self.input_device, output_device=self.output_device),
            backend=backend,
        )
        self.closure_fn = network.closure
        optimizer, schedule = config.optimizer, config.schedule
        self.optimizers = backend.build_optimizers(
            network, optimizer.builder, optimizer.cls, optimizer.params, config.update
        )
        if schedule.cls is not None:
            for callback in backend.build_schedules(self.optimizers, schedule.cls, schedule.params):
                self.callbacks.append(callback)
        self.callbacks.append(HistoryWriter(self.save_path))
        if config.logging.type == "tensorboardx" and importlib.util.find_spec("tensorboardX"):
            self.callbacks.append(TensorBoardWriter(self.save_path / "logs", **config.logging.kwargs))
        self.checkpoints = CheckpointFolder(
            self.save_path / "checkpoints",
            backend.checkpoint_suffix,
            backend.write_checkpoint,
            backend.read_checkpoint,
        )
        self.callbacks.attach(self)

    # ------------------------------------------------------------------ the loop

    def train(
        self,
        num_epochs: int,
        datamgr_train: Any,
        datamgr_valid: Any = None,
        val_score_key: str | None = None,
        val_score_mode: str | None = None,
        reduce_mode: str | None = None,
        verbose: bool | None = None,
    ) -> Any:
        """Train up to ``num_epochs`` epochs in total and return the network with its best weights.

        Parameters
        ----------
        num_epochs
            Epochs in total; those of a resumed run count.
        datamgr_train, datamgr_valid
            Data managers, or other iterables of batches (dicts of arrays of shape ``(B, ...)``).
        val_score_key, val_score_mode, reduce_mode, verbose
            Replace the settings of the same name for this call.

        Returns
        -------
        AbstractNetwork
            The trained network: with the best weights if a score was watched, else with the last.

        Raises
        ------
        NonFiniteLossError
            If a loss became infinite or not a number and ``nonfinite="raise"``.
        """
        plan = make_plan(
            self.config,
            TrainingPlan(
                num_epochs=num_epochs,
                train_data=datamgr_train,
                val_data=datamgr_valid,
                val_score_key=val_score_key or self.config.val_score_key,
                val_score_mode=val_score_mode or self.config.val_score_mode,
                reduce_mode=reduce_mode or self.config.reduce_mode,
            ),
            validates_losses=self.has_default_closure,
        )
        self._return_to_last()
        if self.state.stop_training and self.state.epoch < plan.num_epochs:
            _log.warning(
                "training was stopped after epoch %d of %d, so there is nothing to do; set trainer.stop_training "
                "= False to go on", self.state.epoch, plan.num_epochs,
            )  # fmt: skip
        bar = ProgressBar(f"fold {self.fold}")
        if self.config.logging.verbose if verbose is None else verbose:
            self.callbacks.append(bar)
        self._plan, error = plan, None
        try:
            with self.backend.threads(self.config.num_threads), own_generators(self.backend):
                if self._is_unfinished(plan):
                    checks.check_first_batches(self, plan)
                self._at_training_begin(num_epochs=num_epochs, num_batches=checks.count_batches(datamgr_train))
                while self._is_unfinished(plan):
                    self._train_epoch(plan, self.state.epoch + 1)
        except BaseException as caught:
            error = caught
            raise
        finally:
            running = self.callbacks
            self.callbacks = CallbackList(callback for callback in running if callback is not bar)
            running.conclude(self, error)
            close_workers(datamgr_train, datamgr_valid)
        try:
            return self._at_training_end()
        finally:
            self._plan = None  # it holds the data

    def _is_unfinished(self, plan: TrainingPlan) -> bool:
        return self.state.epoch < plan.num_epochs and not self.state.stop_training

    def _train_epoch(self, plan: TrainingPlan, epoch: int) -> None:
        """One epoch: steps, validation, history, checkpoint."""
        state, self._must_return = self.state, True
        previous = state.history[-1] if state.history else {}
        self._at_epoch_begin(previous, plan.val_score_key, epoch, plan.num_epochs)
        seed_generators(self.backend, self.seed, self.fold, epoch, stream="framework")
        values: dict[str, float] = {"epoch": epoch}
        rates = self.backend.learning_rates(self.optimizers)
        for part in self._train_single_epoch(self._training_batches(plan.train_data, epoch), epoch):
            values |= self._reduce(part, plan.reduce_mode)
        if plan.validates(epoch, self.config.val_freq):
            values |= self._validate(plan.val_data, epoch)
        values |= {name: rate for name, rate in rates.items() if name not in values}
        state.epoch, state.step_in_epoch = epoch, 0
        state.history.append(values)
        is_best = self._update_best(plan, values)
        facts = {name: value for name, value in values.items() if name != "epoch"}
        self._at_epoch_end(facts, plan.val_score_key, epoch, is_best, num_epochs=plan.num_epochs)
        self._save_epoch(plan, is_best)
        self._must_return = False

    def _train_single_epoch(
        self, batchgen: Iterable[Mapping[str, Any]], epoch: int, verbose: bool = False
    ) -> tuple[Any, Any]:
        """All steps of one epoch; returns ``(metrics, losses)``: values of the steps by name."""
        read = self.backend.read_scalars
        metrics, losses = StepValues(read), StepValues(read)
        over_epoch = (
            MetricSet(self.config.metrics, self.config.keys_of(self.config.metrics)) if self.config.metrics else None
        )
        length = checks.count_batches(batchgen)
        self.state.step_in_epoch = 0
        ahead = not self.callbacks.hears("at_iter_begin")  # which may change a batch before it is prepared
        with self.backend.training(self.module), self._fed(batchgen, ahead=ahead) as fed:
            for batch, ready in fed:
                is_last = self.state.step_in_epoch + 1 == length
                self._train_batch(batch, ready, is_last, metrics, losses, over_epoch)
                if self.state.step_in_epoch % self.config.logging.freq == 0:
                    self._check_finite(losses, epoch)
            self.backend.finish_epoch(self.optimizers)
        if self.state.step_in_epoch == 0:
            raise DataError(f"the training data gave no batch in epoch {epoch}")
        self._check_finite(losses, epoch)
        if over_epoch is not None:
            for name, array in over_epoch.compute().items():
                metrics.append({name: float(array.mean())}, 1, self.state.step_in_epoch)
        return metrics, losses

    def _train_batch(
        self,
        batch: Mapping[str, Any],
        ready: dict[str, Any] | None,
        is_last: bool,
        metrics: StepValues,
        losses: StepValues,
        over_epoch: Any,
    ) -> None:
        """One step: prepare the batch, call the closure, keep its values where they are."""
        state, callbacks = self.state, self.callbacks
        n_samples = batch_length(batch)
        counters = {"iter_num": state.step_in_epoch, "global_iter_num": state.global_step}
        if callbacks.hears("at_iter_begin"):
            callbacks.notify("at_iter_begin", self, data_dict=batch, curr_epoch=state.epoch + 1, train=True, **counters)
        prepared = self._prepare_batch(batch) if ready is None else ready
        with self.backend.step_scope(self.optimizers, n_samples, is_last):
            result = self.closure_fn(self.module, prepared, **self._closure_arguments(counters))
        step_metrics, step_losses, predictions = checks.unpack_closure(result)
        state.step_in_epoch += 1
        state.global_step += 1
        if state.step_in_epoch == 1:
            checks.check_step_names(step_metrics, step_losses)
        metrics.append(step_metrics, n_samples, state.step_in_epoch)
        losses.append(step_losses, n_samples, state.step_in_epoch)
        if over_epoch is not None:
            arrays, host = self._read(over_epoch, predictions, batch)
            over_epoch.update({**arrays, **host})
        if callbacks.hears("at_iter_end"):
            callbacks.notify(
                "at_iter_end", self, data_dict=batch, curr_epoch=state.epoch + 1, train=True,
                losses=step_losses, metrics=step_metrics, predictions=predictions, **counters,
            )  # fmt: skip

    def _validate(self, datamgr: Any, epoch: int) -> dict[str, float]:
        """Exact metrics, and losses where the room's default closure is in use, over the validation data."""
        losses = StepValues(self.backend.read_scalars)

        def observe(predictions: Mapping[str, Any], prepared: Mapping[str, Any], n_samples: int) -> None:
            values = call_losses(self.config.losses, self.config.loss_keys, predictions, prepared)
            losses.append(values, n_samples, 0)

        metrics = self.config.epoch_metrics
        done = self.evaluate(
            datamgr,
            metrics=metrics,
            metric_keys=self.config.keys_of(metrics),
            keep_predictions=False,
            observe=observe if self.has_default_closure else None,
            epoch=epoch,
        )
        if self.has_default_closure and not losses.keys():
            raise DataError(f"the validation data gave no batch in epoch {epoch}")
        values = {name: float(array.mean()) for name, array in done.metrics.items()} | losses.reduce()
        return {name if name.startswith("val_") else f"val_{name}": value for name, value in values.items()}

    # ------------------------------------------------------------------ moments that can be overridden

    def _at_training_begin(self, *args: Any, **facts: Any) -> None:
        """Called before the first epoch."""
        self.callbacks.notify("at_training_begin", self, **facts)

    def _at_training_end(self, *args: Any, **facts: Any) -> Any:
        """Load the best weights, if a score was watched, and return the network."""
        is_scored = self.score_key is not None and self.state.best_epoch is not None
        if is_scored and (best := self._best_tree()) is not None:
            self.backend.load_state_tree(best, self.module, {})
            self._must_return = True
        return self.module

    def _at_epoch_begin(
        self,
        metrics_val: Mapping[str, float],
        val_score_key: str | None,
        epoch: int,
        num_epochs: int,
        **facts: Any,
    ) -> None:
        """Called before each epoch, with the values of the one before."""
        if self.callbacks.hears("at_epoch_begin"):
            self.callbacks.notify(
                "at_epoch_begin", self, val_metrics=metrics_val, val_score_key=val_score_key, curr_epoch=epoch,
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
        self.callbacks.notify(
            "at_epoch_end", self, val_metrics=metrics_val, metrics=metrics_val, val_score_key=val_score_key,
            curr_epoch=epoch, is_best=is_best, **facts,
        )  # fmt: skip

    # ------------------------------------------------------------------ details of the loop

    def _training_batches(self, data: Any, epoch: int) -> Any:
        if hasattr(data, "epoch"):
            return data.epoch(self.seed, self.fold, epoch, shuffle=True)
        return data

    def _check_finite(self, losses: StepValues, epoch: int) -> None:
        if self.config.nonfinite == "raise":
            losses.check_finite(epoch)

    def _reduce(self, values: Any, mode: str) -> dict[str, float]:
        """One number for each name of what ``_train_single_epoch`` returned."""
        if isinstance(values, StepValues):
            return values.reduce(mode, finite_only=self.config.nonfinite == "skip")
        return {name: reduce_values(steps, mode) for name, steps in values.items()}

    def _update_best(self, plan: TrainingPlan, values: Mapping[str, float]) -> bool:
        key, state = plan.val_score_key, self.state
        if (state.score_key, state.score_mode) != (key, plan.val_score_mode):  # another score: none of it yet
            state.score_key, state.score_mode = key, plan.val_score_mode
            state.best_score = state.best_epoch = None
        if key is None or not plan.validates(state.epoch, self.config.val_freq):
            return False
        if key not in values:
            raise ConfigError(f"val_score_key={key!r} was not computed; the epoch has {sorted(values)}")
        if not self._is_better_val_scores(state.best_score, values[key], plan.val_score_mode):
            return False
        state.best_score, state.best_epoch = values[key], state.epoch
        return True


BaseNetworkTrainer.__init__.__signature__ = settings_signature(  # type: ignore[attr-defined]
    *(p for p in inspect.signature(BaseNetworkTrainer.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD)
)
