"""What a trial sees of a pass without learning."""

from collections.abc import Mapping
from typing import Any

from delira import state as keys
from delira.training.checkpointed import StopInValidation
from delira.training.trial.calls import needed_inputs, spread
from delira.training.trial.data import X_ENTRY, Y_ENTRY

#: the one output that a trial's networks have for the trainer
PREDICTION = "y_pred"


class TrialWatcher:
    """Shows each batch of a validation, an evaluation or a prediction to the trial's callbacks and metrics.

    Parameters
    ----------
    trainer
        Of the trial.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        #: predictions of the batches, if they are kept
        self.kept: list[Any] | None = None
        #: batches that were seen, and whether the pass ends with the last of them
        self.number, self.is_enough = 0, False
        self._needed: int | None = None
        #: an epoch that was stopped before is validated as a whole
        self._was_stopped = bool(trainer.facts.get(keys.STOP_TRAINING))

    def before(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """Show a prepared batch, and take what was made of it."""
        self._trainer.facts[keys.BATCH] = self.number
        given = prepared if self.kept is None else self._as_inputs(prepared)
        batch: dict[str, Any] = self._trainer.sampled(given, "on_sample_validation")
        return batch

    def _as_inputs(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch to predict: a tuple of two is no input with its target if the network needs both."""
        if len(spread(batch.get(X_ENTRY))) != 1 or batch.get(Y_ENTRY) is None:
            return batch
        if self._needed is None:
            self._needed = needed_inputs(self._trainer.facts[keys.MODEL])
        rest = {key: value for key, value in batch.items() if key != Y_ENTRY}
        return {**rest, X_ENTRY: (batch[X_ENTRY], batch[Y_ENTRY])} if self._needed == 2 else batch

    def after(self, predictions: Mapping[str, Any], prepared: dict[str, Any], n_samples: int) -> Mapping[str, Any]:
        """Show predictions, compute loss and metrics if there are targets."""
        trainer, facts = self._trainer, self._trainer.facts
        if trainer.stop_signals.received is not None:
            raise StopInValidation
        facts[keys.Y_PRED] = predictions[PREDICTION]
        trainer._fire("on_forward_validation")
        is_measured = self.kept is None or facts[keys.Y_TRUE] is not None
        if is_measured:
            facts[keys.LOSS] = trainer._loss(facts)
            for added in trainer.backend.added_losses(trainer.module).values():
                facts[keys.LOSS] = facts[keys.LOSS] + added
            trainer._fire("on_criterion_validation")
            trainer._measure(facts)
        if self.kept is not None:
            self.kept.append(facts[keys.Y_PRED])
        trainer._fire("on_step_validation")
        self.number += 1
        self.is_enough = bool(facts.get(keys.STOP_TRAINING)) and not self._was_stopped
        return {PREDICTION: facts[keys.Y_PRED]}
