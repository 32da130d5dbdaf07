"""What is done about numbers that are not finite, and what a user is told about errors of the framework."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager
from delira.data_loading.abstract_dataset import name_sample
from delira.errors import NonFiniteLossError
from delira.settings.config import TrainerConfig
from delira.training.generators import own_generators
from delira.training.plan import TrainingPlan
from delira.training.running_epoch import RunningEpoch
from delira.utils.trees import iterate_leaves

_log = logging.getLogger("delira")


@contextlib.contextmanager
def scopes(trainer: Any, plan: TrainingPlan) -> Iterator[None]:
    """All scopes that a training runs in; errors of the framework are told what a user can do about them."""
    config, backend = trainer.config, trainer.backend
    trainer.guard_log.go_on(trainer.state.epoch, trainer.state.rollbacks)
    exact = backend.deterministic() if config.guards.deterministic else contextlib.nullcontext()
    with (
        backend.threads(config.num_threads),
        own_generators(backend),
        exact,
        trainer.stop_signals.caught(config.saving.on_signal),
    ):
        try:
            yield
        except Exception as error:
            if backend.is_out_of_memory(error):
                error.add_note(_advise_on_memory(config, plan))
            elif advice := backend.explain(error):
                error.add_note(advice)
            raise


def _advise_on_memory(config: TrainerConfig, plan: TrainingPlan) -> str:
    size = getattr(plan.train_data, "batch_size", None)
    batch = f" with batch_size={size}" if size else ""
    cures = [f"batch_size={max(1, size // 2)}" if size else "smaller batches"]
    if config.guards.micro_batches == 1:
        cures.append("micro_batches='auto' (computes a batch in parts, with the same update)")
    if config.update.precision == "32":
        cures.append("mixed_precision='bf16'")
    return f"The device ran out of memory{batch}. Try {' or '.join(cures)}."


def refuse_weights(trainer: Any) -> None:
    """Refuse weights that are not finite, where no checkpoint is written; errors as of :func:`refuse_nonfinite`."""
    if trainer.learned_names:
        counters = {"epoch": trainer.state.epoch, "step": trainer.state.step_in_epoch}
        refuse_nonfinite(trainer, {**trainer.backend.state_tree(trainer.module, {}), **counters})


def refuse_nonfinite(trainer: Any, tree: Mapping[str, Any]) -> None:
    """Refuse to write weights that are not finite: a run could never recover from such a checkpoint.

    Raises
    ------
    NonFiniteLossError
        Naming the weights.
    """
    if trainer.config.guards.nonfinite not in ("raise", "rollback"):
        return
    if bad := _bad_weights(trainer, tree.get("training_model", tree["model"])):
        epoch, step = tree["epoch"], tree["step"]
        raise NonFiniteLossError(
            f"the weights are not finite any more after epoch {epoch}{f', step {step} of the next' if step else ''}: "
            f"{_shortened(bad)}. No checkpoint was written. The loss was finite, so the gradients were not: look for "
            "square roots, logarithms and divisions at 0, clip the gradients (gradient_clip_norm=1.0), or set "
            "nonfinite='skip' to leave such updates out"
        )


def diagnose(trainer: Any, error: NonFiniteLossError) -> None:
    """Tell an error of a loss what the step was: learning rates, weights, and what is in the batch."""
    rates = ", ".join(f"{name} {rate:g}" for name, rate in trainer.backend.learning_rates(trainer.optimizers).items())
    bad = _bad_weights(trainer, trainer.backend.state_tree(trainer.module, {})["model"])
    lines = [f"learning rates: {rates}"] if rates else []
    lines.append(f"weights that are not finite by now: {_shortened(bad) if bad else 'none'}")
    data = trainer.train_data
    if isinstance(data, BaseDataManager) and error.step is not None:
        counters = (trainer.seed, trainer.fold, trainer.state.epoch + 1)
        try:
            number = trainer._epoch_data.position(error.step) - 1
            found = _look_at_batch(data, *data.batch_at(*counters, number=number, shuffle=True))
            error.is_in_data = len(found) > 1
            lines += found
        except Exception as failure:  # must not hide the error that is diagnosed
            lines.append(f"the batch of that step could not be loaded again: {failure!r}")
    for line in lines:
        error.add_note(line)


def _bad_weights(trainer: Any, weights: Mapping[str, Any]) -> list[str]:
    learned = trainer.learned_names
    return trainer.backend.nonfinite({name: weight for name, weight in weights.items() if name in learned})


def _look_at_batch(data: BaseDataManager, batch: Mapping[str, Any], indices: np.ndarray) -> list[str]:
    """Lines about the batch of a step: its samples, and where it holds values that are not finite."""
    lines = [f"the batch of that step has the samples {_shortened([*map(str, indices)], 20)} of the training data"]
    for place, leaf in iterate_leaves(batch):
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fc" or np.isfinite(leaf).all():
            continue
        entry = ".".join(map(str, place))
        if len(leaf) == len(indices):
            rows = np.flatnonzero(~np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1))
            names = _shortened([name_sample(data.dataset, int(indices[row])) for row in rows])
            lines.append(f"its entry {entry!r} holds values that are not finite in {names}")
        else:
            lines.append(f"its entry {entry!r} holds values that are not finite")
    return lines if len(lines) > 1 else [f"{lines[0]}; all of their values are finite"]


def report_left_out(trainer: Any, running: RunningEpoch, epoch: int) -> None:
    """Say and note how many batches of an epoch were left out of updates."""
    if trainer.config.guards.nonfinite != "skip":
        return
    number, steps = trainer.backend.count_left_out(trainer.optimizers) - running.left_out, trainer.state.step_in_epoch
    trainer.guard_log.note_left_out(epoch, number, steps)
    if number:
        _log.warning(
            "epoch %d: %d of %d updates were left out, since their loss or gradients were not finite%s",
            epoch, number, steps, "; nothing was learned" if number >= steps else "",
        )  # fmt: skip


def roll_back(trainer: Any, error: NonFiniteLossError) -> None:
    """Return to the last checkpoint and make the learning rates smaller; raises ``error`` if that is not wanted."""
    config, state = trainer.config.guards, trainer.state
    if config.nonfinite != "rollback":
        raise error
    rollbacks = state.rollbacks + 1
    if rollbacks > config.max_rollbacks:
        error.add_note(f"the run went back to its last checkpoint {state.rollbacks} times already (max_rollbacks)")
        raise error
    trainer._must_return = True
    if error.is_in_data:
        error.add_note("there was no rollback: the batch would be the same, and it holds values that are not finite")
        raise error
    epoch = state.epoch + bool(state.step_in_epoch)
    trainer._return_to_last()
    done = trainer.state.rollbacks  # of the checkpoint: its rates are that much smaller already
    trainer.scale_rates(config.rollback_factor ** (rollbacks - done))
    trainer.state.rollbacks = rollbacks
    trainer.guard_log.note_rollback(epoch, rollbacks)
    rates = trainer.backend.learning_rates(trainer.optimizers)
    if kept := trainer.state.accumulators:
        kept["rates"] = rates
    shown = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
    _log.warning(
        "%s; the training goes back to epoch %d, step %d, with %s (rollback %d of %d)",
        str(error).partition(". No checkpoint")[0], trainer.state.epoch, trainer.state.step_in_epoch, shown, rollbacks,
        config.max_rollbacks,
    )  # fmt: skip


def _shortened(names: list[str], n: int = 5) -> str:
    return ", ".join(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")
