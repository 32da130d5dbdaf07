"""What a trial does: fit, evaluate, predict, and replay what was."""

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from delira import state as keys
from delira.callbacks.abstract_callback import CallbackList
from delira.callbacks.progress import Tqdm
from delira.errors import ConfigError, DataError
from delira.settings import config, parts
from delira.state import State
from delira.training.evaluation import Watcher
from delira.training.objective import telling_the_end
from delira.trial.data import FluentData
from delira.trial.objective import TrialObjective
from delira.utils.arrays import iterate_leaves

#: entries of a record that are no metrics
_COUNTS = ("epoch", "train_steps", "validation_steps")
_TITLES: dict[str, str] = {keys.TRAIN_DATA: "training", keys.VALIDATION_DATA: "validation", keys.TEST_DATA: "test"}


class Passes(FluentData):
    """The passes of a trial over its data."""

    verbose: int
    trainer: Any
    callbacks: CallbackList
    metrics: Any
    closure: Any
    objective: TrialObjective
    _is_fitting = False

    def run(self, epochs: int = 1, verbose: int = -1) -> list[dict[str, Any]]:
        """Fit up to a number of epochs in all, those that are done included.

        Parameters
        ----------
        epochs
            Epochs in all: ``run(3)`` and then ``run(5)`` makes five.
        verbose
            As for the trial; -1: what it was told.

        Returns
        -------
        list of dict
            The history: for each epoch its metrics, ``train_steps`` and ``validation_steps``. The network is in
            evaluation mode then.

        Raises
        ------
        ConfigError
            If there is nothing to fit to: neither training data nor a number of steps.
        """
        train, validation = self.data_of(keys.TRAIN_DATA), self.data_of(keys.VALIDATION_DATA)
        if train is None:
            raise ConfigError(
                "there is nothing to fit to; give training data (with_train_data, with_train_generator), or a number "
                "of steps (for_train_steps)"
            )
        epochs = config.check_epochs(epochs)
        trainer, state = self.trainer, self.state
        optimizers = state[keys.OPTIMIZER]
        if isinstance(optimizers, Mapping) and "default" not in optimizers and self.closure is None:
            raise ConfigError(
                f"with several optimizers ({', '.join(optimizers)}) a trial needs a closure that says which network "
                "learns what: with_closure(combined_closure(base_closure(...), base_closure(...)))"
            )
        state[keys.STOP_TRAINING] = trainer.stop_training = False
        trainer.run.phase = state[keys.PHASE] = "fit"
        trainer.events.follow()
        trainer.backend.optimizers.check(trainer.module, trainer.optimizers)
        if trainer.state.epoch < epochs and not self.objective.is_finished:
            self.objective.check_data(train)
            self._is_fitting = True
            try:
                with self._shown(verbose):
                    trainer.train(epochs, train, validation, verbose=False)
            finally:
                self._is_fitting = False
        state[keys.HISTORY] = trainer.state.history
        return list(trainer.state.history)

    @property
    def timings(self) -> dict[str, Any]:
        """Where the time of its fits went: ``version``, ``steps``, ``seconds`` by phase, ``note``."""
        return self.trainer.timings

    @contextlib.contextmanager
    def _shown(self, verbose: int) -> Iterator[None]:
        """Scope of one call whose printer comes before all other callbacks, as it shows what metrics gave."""
        printers = self._printers(verbose)
        if printers:
            self._use_callbacks([*printers, *self.trainer.callbacks])
        try:
            yield
        finally:
            if printers:
                self._use_callbacks(callback for callback in self.trainer.callbacks if callback not in printers)

    def _printers(self, verbose: int) -> list[Tqdm]:
        """Return the printer of a call, if there is one; -1: as the trial was told."""
        verbose = self.verbose if verbose == -1 else verbose
        parts.check_verbose(verbose)
        return [Tqdm(on_epoch=verbose == 1)] if verbose > 0 else []

    def _use_callbacks(self, callbacks: Iterable[Any]) -> None:
        """Call these; the step stays as it is, as no printer looks into it."""
        self.callbacks = self.trainer.callbacks = self.state[keys.CALLBACK_LIST] = CallbackList(callbacks)

    def evaluate(self, verbose: int = -1, data_key: Any = None, to_history: bool | None = None) -> dict[str, Any]:
        """Metrics over a data set, in evaluation mode; nothing is learned.

        Parameters
        ----------
        verbose
            As for the trial; -1: what it was told.
        data_key
            VALIDATION_DATA (the default), TRAIN_DATA or TEST_DATA.
        to_history
            Whether they also go into the last record of the history; None: those of the validation data.

        Returns
        -------
        dict
            The metrics by name.
        """
        data_key = keys.VALIDATION_DATA if data_key is None else data_key
        with self._aside(), self._shown(verbose), self._phase("evaluate", data_key):
            values = self._pass(Watcher(self.trainer.objective), data_key)
            values = self.trainer.events.end_pass(values, "on_end_epoch")
        history = self.trainer.state.history
        merges = data_key == keys.VALIDATION_DATA if to_history is None else to_history
        if history and merges and not self._is_fitting:
            history[-1].update(values)
        return values

    def predict(self, verbose: int = -1, data_key: Any = None) -> Any:
        """Predictions over a data set, in evaluation mode.

        Parameters
        ----------
        verbose
            As for the trial; -1: what it was told.
        data_key
            TEST_DATA (the default), TRAIN_DATA or VALIDATION_DATA.

        Returns
        -------
        Array of the framework of shape ``(n, ...)``, or a structure of them, as the network returns; a list of what it
        returned for each batch if that cannot be joined.
        """
        data_key = keys.TEST_DATA if data_key is None else data_key
        with self._aside(), self._shown(verbose), self._phase("predict", data_key):
            self._pass(Watcher(self.trainer.objective, kept=[]), data_key)
            self.trainer.events.fire("on_end_epoch")
        return self.state[keys.FINAL_PREDICTIONS]

    def _pass(self, watcher: Watcher, data_key: Any) -> dict[str, Any]:
        """One pass without learning, from on_start_validation to on_end_validation."""
        trainer, data = self.trainer, self.data_of(data_key)
        trainer.events.begin_pass(data_key, data, "on_start_validation")
        trainer.evaluate(data, metrics={}, keep_predictions=False, watcher=watcher)
        self.objective.tell_stopped(watcher, data, f"the pass over the {_TITLES[data_key]} data")
        if watcher.kept is not None:
            self.state[keys.FINAL_PREDICTIONS] = self._joined(watcher.kept)
        return trainer.events.end_pass({}, "on_end_validation")

    def _joined(self, predictions: list[Any]) -> Any:
        if not predictions:
            raise DataError("there was no batch to predict; a generator gives its batches once: pass a list")
        if len(predictions) == 1:
            return predictions[0]
        shapes = [getattr(leaf, "shape", None) for _, leaf in iterate_leaves(predictions)]
        if any(shape is not None and not len(shape) for shape in shapes):
            return predictions  # numbers of batches, not of samples
        try:
            return self.trainer.backend.arrays.concatenate(predictions)
        except Exception as error:
            warnings.warn(
                f"the predictions of the batches cannot be joined ({error}); they come as a list", stacklevel=4
            )
            return predictions

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Scope of an evaluation or a prediction; a fit whose callback calls for it goes on as if there was none."""
        if not self._is_fitting:
            yield
            return
        state, metrics = self.state, self.metrics
        before, kept = dict(state), metrics.state_dict()
        try:
            yield
        finally:
            for key in keys.SINCE.keys() - {keys.FINAL_PREDICTIONS}:
                state.pop(key, None)
            state.update({key: value for key, value in before.items() if key in keys.SINCE})
            self.trainer.run.phase = "fit"
            if state.get(keys.DATA) == keys.TRAIN_DATA:
                metrics.train()
            else:
                metrics.eval(keys.VALIDATION_DATA)
            metrics.reset(state)
            metrics.load_state_dict(kept)

    def _phase(self, phase: str, data_key: Any) -> contextlib.AbstractContextManager[None]:
        """Return the scope of an evaluation or a prediction; its end is told whatever happens."""
        if not isinstance(data_key, str) or data_key not in _TITLES:
            raise ConfigError(f"data_key is one of TRAIN_DATA, VALIDATION_DATA and TEST_DATA, got {data_key!r}")
        if self.data_of(data_key) is None:
            raise ConfigError(f"there are no {_TITLES[data_key]} data to {phase}")
        scope: contextlib.AbstractContextManager[None] = self.trainer.evaluator.aside(phase)
        return scope

    def replay(self, callbacks: Iterable[Any] | None = None, verbose: int = 2, one_batch: bool = False) -> Self:
        """Tell callbacks the history again, as if it happened: progress and metrics, no tensors.

        Parameters
        ----------
        callbacks
            Who is told; the callbacks of the trial are not: they would take it for a further fit.
        verbose
            As for the trial; -1: what the trial has.
        one_batch
            Whether each pass has one batch instead of as many as there were.
        """
        listeners = CallbackList([*self._printers(verbose), *(callbacks or ())])
        records = list(self.history)  # type: ignore[attr-defined]
        lasting = {key: value for key, value in self.state.items() if key not in keys.SINCE}
        state = State({
            **lasting, keys.PHASE: "replay", keys.STOP_TRAINING: False, keys.MAX_EPOCHS: len(records),
            keys.HISTORY: records, keys.EPOCH: 0,
        })  # fmt: skip
        with telling_the_end(listeners, state, "replay"):
            _replay_epochs(listeners, state, records, one_batch)
        return self


def _replay_epochs(listeners: CallbackList, state: State, records: list[dict[str, Any]], one_batch: bool) -> None:
    listeners.fire("on_start", state, "replay")
    for epoch, record in enumerate(records):
        values = {name: value for name, value in record.items() if name not in _COUNTS}
        state[keys.EPOCH], state[keys.METRICS] = epoch, {}
        listeners.fire("on_start_epoch", state, "replay")
        _replay_pass(listeners, state, values, "training", record.get("train_steps"), one_batch)
        steps = record.get("validation_steps")
        # records of experiments do not count them
        if steps or ("validation_steps" not in record and any(name.startswith("val_") for name in record)):
            _replay_pass(listeners, state, values, "validation", steps, one_batch)
        state[keys.METRICS] = values
        listeners.fire("on_end_epoch", state, "replay")
        if state[keys.STOP_TRAINING]:
            break


def _replay_pass(
    listeners: CallbackList, state: State, values: Mapping[str, Any], name: str, steps: int | None, one_batch: bool
) -> None:
    is_validation = name == "validation"
    state.update({
        keys.STEPS: steps, keys.DATA: keys.VALIDATION_DATA if is_validation else keys.TRAIN_DATA,
        keys.METRICS: {key: value for key, value in values.items() if key.startswith("val_") == is_validation},
    })  # fmt: skip
    in_step = ("on_sample", "on_forward", "on_criterion")
    hooks = [f"{hook}_validation" for hook in in_step] if is_validation else [*in_step, "on_backward"]
    listeners.fire(f"on_start_{name}", state, "replay")
    for batch in range(1 if one_batch else steps or 0):
        state[keys.BATCH] = batch
        for hook in (*hooks, f"on_step_{name}"):
            listeners.fire(hook, state, "replay")
    listeners.fire(f"on_end_{name}", state, "replay")
