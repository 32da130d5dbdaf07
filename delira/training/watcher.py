"""What callbacks see of a pass without learning."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from delira import state as keys
from delira.contract import Step
from delira.metrics.tree.metric import reported
from delira.state import State
from delira.training.callbacks.abstract_callback import CallbackList
from delira.training.checkpointed import StopInValidation
from delira.training.predictor import Evaluation
from delira.training.step_values import StepValues


class Watcher:
    """Looks at every batch of a pass without learning, for a trainer.

    Parameters
    ----------
    trainer
        Whose losses and hooks they are.
    losses
        Takes the losses of every batch; None: they are not computed.
    """

    def __init__(self, trainer: Any, losses: StepValues | None):
        self._trainer, self._losses = trainer, losses
        self._is_shown = trainer._shows_validation
        self._number = 0

    def before(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """Show a prepared batch, and take what was made of it."""
        if not self._is_shown:
            return prepared
        self._trainer.facts[keys.BATCH] = self._number
        batch: dict[str, Any] = self._trainer.sampled(prepared, "on_sample_validation")
        return batch

    def after(self, predictions: Mapping[str, Any], prepared: dict[str, Any], n_samples: int) -> Mapping[str, Any]:
        """Show predictions, compute losses, and take what was made of the predictions."""
        trainer = self._trainer
        if trainer.stop_signals.received is not None:
            raise StopInValidation
        step = Step(trainer.module, prepared, predictions)
        if self._is_shown:
            trainer._show_on_forward(step, trainer.facts)
            trainer._fire("on_forward_validation")
            trainer._take_on_forward(step, trainer.facts)
        if self._losses is not None and trainer.validates_losses:
            step.losses = trainer.validation_losses(step)
            step.losses |= trainer.backend.added_losses(trainer.module)
            if self._is_shown and step.losses:
                trainer._show_on_criterion(step, trainer.facts)
                trainer._fire("on_criterion_validation")
                trainer._take_on_criterion(step, trainer.facts)
            self._losses.append(step.losses, n_samples, 0, trainer._loss_weights(prepared))
        if self._is_shown:
            trainer.facts[keys.METRICS] = {f"val_{name}": reported(value) for name, value in step.losses.items()}
            trainer._fire("on_step_validation")
        self._number += 1
        return step.predictions


def evaluate_shown(trainer: Any, data: Any, **how: Any) -> Evaluation:
    """Evaluate test data so that callbacks see it, in the phase ``"evaluate"``, and what they make of batches counts.

    Parameters
    ----------
    trainer
        Of an experiment.
    data
        The test data.
    **how
        As for :meth:`delira.training.Predictor.evaluate`.
    """
    facts, phase = trainer.facts, "evaluate"
    facts.n_asides += 1
    facts.update({keys.EPOCH: 0, keys.MAX_EPOCHS: 1, keys.STOP_TRAINING: False})
    trainer._phase = phase
    try:
        with telling_the_end(trainer.callbacks, facts, phase):
            for hook in ("on_start", "on_start_epoch"):
                trainer._fire(hook)
            trainer._begin_pass(keys.TEST_DATA, data, "on_start_validation")
            done: Evaluation = trainer.evaluate(data, watcher=Watcher(trainer, None), **how)
            values = {f"test_{name}": float(array.mean()) for name, array in done.metrics.items()}
            for hook in ("on_end_validation", "on_end_epoch"):
                values = trainer._end_pass(values, hook)
    finally:
        trainer._phase = "fit"
        facts.pop(keys.GENERATOR, None)  # it may have processes, which end with it
    return done


@contextlib.contextmanager
def telling_the_end(callbacks: CallbackList, state: State, phase: str) -> Iterator[None]:
    """Scope after which ``on_end`` is called, whatever ends it; the first error is raised."""
    try:
        yield
    except BaseException as error:
        callbacks.end(state, phase, error)
        raise
    if (first := callbacks.end(state, phase, None)) is not None:
        raise first
