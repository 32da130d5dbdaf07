"""A step of a training that several processes take together: each computes its share of the batch."""

from collections.abc import Mapping
from typing import Any

from delira.training.objective import Result
from delira.training.run import Run, seed_generators


def begin_share(run: Run, prepared: Mapping[str, Any], n_samples: int) -> tuple[dict[str, Any], int]:
    """Return what this process learns of a batch, and how many samples that are.

    The others draw random numbers of their own, by the step: nothing of them has to be kept in a checkpoint.

    Parameters
    ----------
    run
        The run.
    prepared
        The prepared batch, which is the same in all processes.
    n_samples
        Of the whole batch.
    """
    ranks, state = run.ranks, run.state
    ranks.group.n_samples = n_samples
    if not ranks.is_first:
        counters = run.fold, state.epoch + 1, state.step_in_epoch, ranks.rank
        seed_generators(run.backend, run.seed, *counters, stream="framework of a rank")
    return ranks.share(prepared, n_samples)


def join_shares(
    run: Run, result: Result, prepared: Mapping[str, Any], n_samples: int, weights: Mapping[str, Any] | None
) -> tuple[Result, dict[str, Any] | None]:
    """Return metrics, losses and predictions of the whole batch, and what its losses count.

    Metrics are computed of all predictions; losses are means, weighted by what they count in each share.

    Parameters
    ----------
    run
        The run, which hears of a signal that the first process got.
    result
        Of the share.
    prepared
        The share.
    n_samples
        Of the whole batch.
    weights
        What the losses count in the share, where that is not its samples.
    """
    metrics, losses, predictions = result
    ranks, config, running = run.ranks, run.config, run.running
    n_own, own = ranks.count(n_samples), weights or {}
    if own:
        run.warn_once(
            f"{', '.join(sorted(own))}: a mean over what counts in a batch (class weights, targets left out), of which "
            f"each of the {ranks.size} processes makes its own; their gradients are weighed by samples"
        )
    values = [*losses.values(), *metrics.values()]
    counts = [own.get(name, n_own) if n_own else 0 for name in losses] + [n_own] * len(metrics)
    numbers, run.stop_signals.received = ranks.group.means(values, counts, run.stop_signals.arrived)
    totals = dict(zip(losses, ranks.group.totals, strict=False))
    losses, metrics = (
        dict(zip(losses, numbers, strict=False)),
        dict(zip(metrics, numbers[len(losses) :], strict=True)),
    )
    if config.train_metrics or (running is not None and running.over_epoch is not None):
        targets = {key: value for key, value in prepared.items() if key not in run.key_mapping.values()}
        joined = ranks.join({"predictions": predictions, "targets": targets}, n_samples)
        predictions = joined["predictions"]
        if config.train_metrics:
            batch = {**prepared, **joined["targets"]}
            metrics |= run.backend.step.measure(config.train_metrics, config.metric_keys, predictions, batch)
    return (metrics, losses, predictions), {name: totals[name] for name in own if name in totals}
