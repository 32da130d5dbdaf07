"""What is done about numbers that are not finite, and what a user is told about errors of the framework."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager
from delira.data_loading.abstract_dataset import name_sample
from delira.errors import NonFiniteLossError
from delira.runs.guard_log import GuardLog
from delira.settings.config import TrainerConfig
from delira.training.run import Run, TrainingPlan
from delira.training.running_epoch import StepValues
from delira.utils.arrays import iterate_leaves
from delira.utils.checks import listed

_log = logging.getLogger("delira")


@contextlib.contextmanager
def advising(run: Run, plan: TrainingPlan) -> Iterator[None]:
    """Scope whose errors of the framework are told what a user can do about them."""
    try:
        yield
    except Exception as error:
        if run.backend.devices.is_out_of_memory(error):
            error.add_note(_advise_on_memory(run.config, plan))
        elif advice := run.backend.step.explain(error):
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


def refuse_weights(run: Run) -> None:
    """Refuse weights that are not finite, where no checkpoint is written; errors as of :func:`refuse_nonfinite`."""
    if run.learned_names:
        counters = {"epoch": run.state.epoch, "step": run.state.step_in_epoch}
        refuse_nonfinite(run, {**run.backend.checkpoints.state_tree(run.network, {}), **counters})


def refuse_nonfinite(run: Run, tree: Mapping[str, Any]) -> None:
    """Refuse to write weights that are not finite: a run could never recover from such a checkpoint.

    Raises
    ------
    NonFiniteLossError
        Naming the weights.
    """
    if run.config.guards.nonfinite not in ("raise", "rollback"):
        return
    if bad := _bad_weights(run, tree.get("training_model", tree["model"])):
        epoch, step = tree["epoch"], tree["step"]
        raise NonFiniteLossError(
            f"the weights are not finite any more after epoch {epoch}{f', step {step} of the next' if step else ''}: "
            f"{listed(bad, 5)}. No checkpoint was written. The loss was finite, so the gradients were not: look for "
            "square roots, logarithms and divisions at 0, clip the gradients (gradient_clip_norm=1.0), or set "
            "nonfinite='skip' to leave such updates out"
        )


def check_losses(run: Run, losses: StepValues, epoch: int) -> None:
    """Refuse losses of an epoch that are not finite, unless they are to be passed over.

    Raises
    ------
    NonFiniteLossError
        Telling what the step was.
    """
    if run.config.guards.nonfinite in ("raise", "rollback"):
        try:
            losses.check_finite(epoch)
        except NonFiniteLossError as error:
            _diagnose(run, error)
            raise


def _diagnose(run: Run, error: NonFiniteLossError) -> None:
    """Tell an error of a loss what the step was: learning rates, weights, and what is in the batch."""
    rates = ", ".join(
        f"{name} {rate:g}" for name, rate in run.backend.optimizers.learning_rates(run.optimizers).items()
    )
    bad = _bad_weights(run, run.weights)
    lines = [f"learning rates: {rates}"] if rates else []
    lines.append(f"weights that are not finite by now: {listed(bad, 5) or 'none'}")
    data = run.train_data
    if isinstance(data, BaseDataManager) and error.step is not None and run.epoch_data is not None:
        counters = (run.seed, run.fold, run.state.epoch + 1)
        try:
            number = run.epoch_data.position(error.step) - 1
            found = _look_at_batch(data, *data.batch_at(*counters, number=number, shuffle=True))
            error.is_in_data = len(found) > 1
            lines += found
        except Exception as failure:  # must not hide the error that is diagnosed
            lines.append(f"the batch of that step could not be loaded again: {failure!r}")
    for line in lines:
        error.add_note(line)


def _bad_weights(run: Run, weights: Mapping[str, Any]) -> list[str]:
    learned = run.learned_names
    return run.backend.arrays.nonfinite({name: weight for name, weight in weights.items() if name in learned})


def _look_at_batch(data: BaseDataManager, batch: Mapping[str, Any], indices: np.ndarray) -> list[str]:
    """Lines about the batch of a step: its samples, and where it holds values that are not finite."""
    lines = [f"the batch of that step has the samples {listed(indices.tolist(), 20)} of the training data"]
    for place, leaf in iterate_leaves(batch):
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fc" or np.isfinite(leaf).all():
            continue
        entry = ".".join(map(str, place))
        if len(leaf) == len(indices):
            rows = np.flatnonzero(~np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1))
            names = listed([name_sample(data.dataset, int(indices[row])) for row in rows], 5)
            lines.append(f"its entry {entry!r} holds values that are not finite in {names}")
        else:
            lines.append(f"its entry {entry!r} holds values that are not finite")
    return lines if len(lines) > 1 else [f"{lines[0]}; all of their values are finite"]


def report_left_out(run: Run, log: GuardLog, epoch: int) -> None:
    """Say and note how many batches of an epoch were left out of updates."""
    if run.config.guards.nonfinite != "skip" or run.running is None:
        return
    number, steps = (
        run.backend.optimizers.count_left_out(run.optimizers) - run.running.left_out,
        run.state.step_in_epoch,
    )
    log.note_left_out(epoch, number, steps)
    if number:
        _log.warning(
            "epoch %d: %d of %d updates were left out, since their loss or gradients were not finite%s",
            epoch, number, steps, "; nothing was learned" if number >= steps else "",
        )  # fmt: skip


def roll_back(
    run: Run,
    log: GuardLog,
    error: NonFiniteLossError,
    return_to_last: Callable[[], None],
) -> None:
    """Return to the last checkpoint and make the learning rates smaller; raises ``error`` if that is not wanted.

    Parameters
    ----------
    run
        The run.
    log
        Notes it.
    error
        What went wrong.
    return_to_last
        Continues from the last checkpoint.
    """
    config, state = run.config.guards, run.state
    if config.nonfinite != "rollback":
        raise error
    rollbacks = state.rollbacks + 1
    if rollbacks > config.max_rollbacks:
        error.add_note(f"the run went back to its last checkpoint {state.rollbacks} times already (max_rollbacks)")
        raise error
    run.is_whole = False
    if error.is_in_data:
        error.add_note("there was no rollback: the batch would be the same, and it holds values that are not finite")
        raise error
    epoch = state.epoch + bool(state.step_in_epoch)
    return_to_last()
    state = run.state
    done = state.rollbacks  # of the checkpoint: its rates are that much smaller already
    run.scale_rates(config.rollback_factor ** (rollbacks - done))
    state.rollbacks = rollbacks
    log.note_rollback(epoch, rollbacks)
    rates = run.backend.optimizers.learning_rates(run.optimizers)
    if kept := state.accumulators:
        kept["rates"] = rates
    shown = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
    _log.warning(
        "%s; the training goes back to epoch %d, step %d, with %s (rollback %d of %d)",
        str(error).partition(". No checkpoint")[0], state.epoch, state.step_in_epoch, shown, rollbacks,
        config.max_rollbacks,
    )  # fmt: skip
