"""A batch in parts, one after the other, with one update: for batches that do not fit into the device's memory."""

import itertools
import logging
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.training.feed import map_samples
from delira.training.run import Run

if TYPE_CHECKING:
    from delira.training.step import TrainingStep

_log = logging.getLogger("delira")

Values = Mapping[str, Any]


def run_in_parts(
    run: Run,
    step: "TrainingStep",
    prepared: Mapping[str, Any],
    n_samples: int,
    is_last: bool,
    counters: Mapping[str, int],
) -> tuple[Values, Values, Any]:
    """Call the closure on parts of a batch; the optimizers update once, with the gradients of all parts.

    With ``micro_batches="auto"`` there are twice as many parts whenever the device runs out of memory; the
    number is kept in ``run.state`` and so in checkpoints.

    Parameters
    ----------
    run
        The run.
    step
        Its step.
    prepared
        The prepared batch.
    n_samples
        Its number of samples.
    is_last
        Whether the epoch ends with it.
    counters
        Keywords of the closure that count steps.

    Returns
    -------
    tuple
        ``(metrics, losses, predictions)``, as if the batch had been computed at once.
    """
    state, backend, wanted = run.state, run.backend, run.config.guards.micro_batches
    if not isinstance(wanted, str):
        state.micro_batches = wanted
    while True:
        generators = backend.generators.state() if wanted == "auto" else None
        try:
            return _attempt(run, step, prepared, n_samples, is_last, counters)
        except Exception as error:
            if wanted != "auto" or not backend.devices.is_out_of_memory(error) or state.micro_batches >= n_samples:
                raise
            if not backend.optimizers.discard_parts(run.optimizers):
                error.add_note(
                    "micro_batches='auto' cannot compute the batch again in more parts, since an optimizer has updated "
                    f"with it already; set micro_batches={2 * state.micro_batches}"
                )
                raise
        # outside of the handler: the error's traceback holds the memory that is missing
        backend.devices.free_memory()
        backend.generators.set_state(generators)
        state.micro_batches *= 2
        _log.warning(
            "the device ran out of memory with %d samples; batches are computed in %d parts from now on",
            n_samples, state.micro_batches,
        )  # fmt: skip


def _attempt(
    run: Run,
    step: "TrainingStep",
    prepared: Mapping[str, Any],
    n_samples: int,
    is_last: bool,
    counters: Mapping[str, int],
) -> tuple[Values, Values, Any]:
    bounds = np.linspace(0, n_samples, min(run.state.micro_batches, n_samples) + 1).astype(int).tolist()
    shares: list[float] = []
    results, weights = [], []
    for start, stop in itertools.pairwise(bounds):
        part = map_samples(operator.itemgetter(slice(start, stop)), prepared, n_samples)
        results.append(step.compute_part(part, stop - start, is_last, stop < n_samples, counters))
        shares.append((stop - start) / n_samples)
        weights.append(step.loss_weights(part) or {})
    metrics = _average([result[0] for result in results], shares)
    losses = _average([result[1] for result in results], shares, weights)
    return metrics, losses, run.backend.arrays.concatenate([result[2] for result in results])


def _average(values: list[Values], shares: list[float], weights: Sequence[Values] = ()) -> dict[str, Any]:
    """Values of the whole batch, weighted by samples, or by what counts where that is known; they stay where they are.

    Where nothing counts in a part its value is no number, and so is that of the batch, as its gradients are.
    """
    averages = {}
    for name in values[0]:
        counts = [part[name] for part in weights if name in part]
        known = counts if len(counts) == len(values) else shares
        total = sum(known) if known is counts else 1
        averages[name] = sum(part[name] * count for part, count in zip(values, known, strict=True)) / total
    return averages
