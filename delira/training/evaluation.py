"""One pass over data without learning, as callbacks see it: validation, test, evaluation, prediction."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from delira import state as keys
from delira.contract import Data, Step
from delira.training.averages import AveragedWeights
from delira.training.objective import Objective, telling_the_end
from delira.training.predictor import Evaluation
from delira.training.process import seed_generators
from delira.training.run import TrainingPlan
from delira.training.running_epoch import StepValues


class StopInValidation(Exception):
    """A signal came while the validation was running."""


class Watcher:
    """Looks at every batch of a pass: shows it to callbacks, takes what they make of it, and computes losses.

    Parameters
    ----------
    objective
        What the run computes.
    losses
        Takes the losses of every batch; None: nobody asks for them.
    kept
        Takes the predictions of every batch, if the pass only predicts.
    """

    def __init__(self, objective: Objective, losses: StepValues | None = None, kept: list[Any] | None = None):
        self._objective, self._run, self.losses, self.kept = objective, objective.run, losses, kept
        self._is_shown = objective.step.shows_validation
        self._was_stopped = bool(self._run.facts.get(keys.STOP_TRAINING))
        #: batches so far
        self.number = 0

    @property
    def is_enough(self) -> bool:
        """Return True if a callback has ended the pass before its time; experiments go through all of their data."""
        is_stopped = bool(self._run.facts.get(keys.STOP_TRAINING)) and not self._was_stopped
        return is_stopped and self._objective.may_end_early

    def before(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """Show a prepared batch, and take what was made of it."""
        if not self._is_shown:
            return prepared
        self._run.facts[keys.BATCH] = self.number
        given = prepared if self.kept is None else self._objective.before_prediction(prepared)
        return self._objective.step.sampled(given, "on_sample_validation")

    def after(self, predictions: Mapping[str, Any], prepared: dict[str, Any], n_samples: int) -> Mapping[str, Any]:
        """Show predictions, compute losses, and take what was made of the predictions."""
        run, objective, events = self._run, self._objective, self._objective.events
        if run.stop_signals.received is not None:
            raise StopInValidation
        step = Step(run.network, prepared, predictions)
        if self._is_shown:
            objective.show_on_forward(step)
            events.fire("on_forward_validation")
            objective.take_on_forward(step)
        if objective.is_measured(self):
            step.losses = {**objective.validation_losses(step), **run.backend.calls.added_losses(run.network)}
            if self._is_shown and (step.losses or objective.looks_inside):
                objective.show_on_criterion(step)
                events.fire("on_criterion_validation")
                objective.take_on_criterion(step)
            if self.losses is not None:
                self.losses.append(step.losses, n_samples, 0, objective.step.loss_weights(prepared))
        if self._is_shown:
            objective.after_validation_step(step)
            if self.kept is not None:
                self.kept.append(run.facts[keys.Y_PRED])
            events.fire("on_step_validation")
        self.number += 1
        return step.predictions


class Evaluator:
    """Makes the passes of a run without learning.

    Parameters
    ----------
    objective
        What the run computes.
    averages
        Weights that are validated in place of those that are trained.
    evaluate
        The pass itself; see :meth:`delira.training.Predictor.evaluate`.
    """

    def __init__(self, objective: Objective, averages: AveragedWeights, evaluate: Callable[..., Evaluation]):
        self._objective, self._run, self._events = objective, objective.run, objective.events
        self._averages, self._evaluate = averages, evaluate

    def validate(self, plan: TrainingPlan, epoch: int) -> dict[str, Any]:
        """Compute exact metrics, and losses where the objective has them, over the validation data.

        Raises
        ------
        StopInValidation
            If a signal came.
        """
        run, objective = self._run, self._objective
        self._averages.renew(plan.train_data, epoch)
        losses = StepValues(run.backend.arrays.read_scalars) if objective.gathers_losses else None
        watcher, metrics = Watcher(objective, losses), objective.metrics()
        self._events.begin_pass(keys.VALIDATION_DATA, plan.val_data, "on_start_validation")
        seed_generators(run.backend, run.seed, run.fold, epoch, stream="validation")
        with self._averages.in_use():
            done = self._evaluate(
                plan.val_data, metrics=metrics, metric_keys=run.config.keys_of(metrics), keep_predictions=False,
                watcher=watcher, epoch=epoch,
            )  # fmt: skip
        return self._events.end_pass(objective.validated(watcher, done.metrics, epoch), "on_end_validation")

    def test(self, data: Data, **how: Any) -> Evaluation:
        """Evaluate test data so that callbacks see it, in the phase ``"evaluate"``; what they make of batches counts.

        Parameters
        ----------
        data
            The test data.
        **how
            As for :meth:`delira.training.Predictor.evaluate`.
        """
        events = self._events
        try:
            with self.aside("evaluate"):
                events.begin_pass(keys.TEST_DATA, data, "on_start_validation")
                done = self._evaluate(data, watcher=Watcher(self._objective), **how)
                values = {f"test_{name}": float(array.mean()) for name, array in done.metrics.items()}
                for event in ("on_end_validation", "on_end_epoch"):
                    values = events.end_pass(values, event)
        finally:
            self._run.facts.pop(keys.GENERATOR, None)  # it may have processes, which end with it
        return done

    @contextlib.contextmanager
    def aside(self, phase: str) -> Iterator[None]:
        """Scope of an evaluation or a prediction, from ``on_start`` to ``on_end``, which is told whatever happens.

        Parameters
        ----------
        phase
            ``"evaluate"`` or ``"predict"``.
        """
        run, events = self._run, self._events
        facts, run.phase = run.facts, phase
        try:
            events.follow()
            facts.n_asides += 1
            facts.update({keys.PHASE: phase, keys.EPOCH: 0, keys.MAX_EPOCHS: 1, keys.STOP_TRAINING: False})
            with telling_the_end(run.callbacks, facts, phase):
                events.fire("on_start")
                events.fire("on_start_epoch")
                yield
        finally:
            run.phase = "fit"
