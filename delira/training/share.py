"""A step of a training that several processes take together: each computes its share of the batch."""

import itertools
import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from delira.data_loading._content import fingerprint_of
from delira.errors import DataError
from delira.metrics import scoring
from delira.training.objective import Result
from delira.training.run import Run, generators_state, seed_generators, set_generators
from delira.utils.arrays import map_leaves


def begin_step(run: Run, batch: Mapping[str, Any]) -> None:
    """Let all processes begin a step with the same batch and the same buffers.

    Parameters
    ----------
    run
        The run.
    batch
        As it was loaded; that of an epoch's first step is compared.

    Raises
    ------
    DataError
        If another process has loaded another batch.
    """
    ranks, state = run.ranks, run.state
    ranks.group.signal = run.stop_signals.arrived
    ranks.group.follow(run.network)
    if run.makes_shares:
        _draw_apart(run)
    if not state.step_in_epoch and not run.makes_shares:
        refuse_others(
            run, batch, f"the first batch of epoch {state.epoch + 1}", "the training data and learns its share"
        )


def refuse_others(run: Run, batch: Mapping[str, Any], what: str, of_which: str) -> None:
    """Refuse a batch that is another one in another process.

    Parameters
    ----------
    run
        The run.
    batch
        The batch, in this process.
    what, of_which
        What it is, and what each process goes through and does.

    Raises
    ------
    DataError
        If it is another one.
    """
    ranks = run.ranks
    told = ranks.group.exchange(fingerprint_of(map_leaves(_comparable, run.backend.arrays.to_numpy(dict(batch)))))
    if others := [rank for rank, one in enumerate(told) if one != told[0]]:
        raise DataError(
            f"{what} is another one in process {others[0]} than in the first one: each of the {ranks.size} processes "
            f"goes through all of {of_which} of every batch; have the data draw by a seed, as "
            "numpy.random.default_rng(0), or give a BaseDataManager"
        )


def _draw_apart(run: Run) -> None:
    """Have each process draw numbers of its own, by the step, so that nothing of them has to be in a checkpoint.

    Between the shares all draw the same ones, those of one process: iterables make batches of them, networks prepare
    them, and callbacks draw.
    """
    ranks, counters = run.ranks, (run.fold, run.state.epoch + 1, run.state.step_in_epoch)
    ranks.group.generators = generators_state(run.backend)
    seed_generators(run.backend, run.seed, *counters, ranks.rank, stream="framework of a rank")


def _comparable(leaf: object) -> object:
    is_plain = hasattr(leaf, "__array__") or isinstance(leaf, (str, bytes, int, float, complex))
    return leaf if is_plain else type(leaf).__name__


def begin_share(run: Run, prepared: Mapping[str, Any], n_samples: int) -> tuple[dict[str, Any], int, int]:
    """Return what this process learns of a batch, how many samples that are, and how many the whole batch has.

    Parameters
    ----------
    run
        The run.
    prepared
        The prepared batch, which is the same in all processes, or the share that was made here.
    n_samples
        That it has.

    Raises
    ------
    DataError
        If a transform has changed the number of samples of a share, which the others cannot know.
    """
    ranks, state = run.ranks, run.state
    whole = None if run.epoch_data is None else run.epoch_data.n_samples(state.step_in_epoch)
    n_made = n_samples if whole is None else ranks.n_taken(whole)
    if n_samples != n_made:
        raise DataError(
            f"a share of {n_made} samples has {n_samples} after its transforms; with shard_transforms they keep the "
            "number of samples"
        )
    n_samples = ranks.group.n_samples = n_samples if whole is None else whole
    if n_samples < ranks.size and run.config.sync_batchnorm:
        run.warn_once(
            f"a batch of {n_samples} samples has none for some of the {ranks.size} processes; they normalise its first "
            "one once more, which counts as often in the statistics of sync_batchnorm: choose a batch_size that leaves "
            "no such rest"
        )
    if not run.makes_shares:
        _draw_apart(run)
    if whole is not None:
        return dict(prepared), ranks.count(whole), whole
    return *ranks.share(prepared, n_samples), n_samples


def own_part(run: Run, batch: Mapping[str, Any], n_samples: int) -> Mapping[str, Any]:
    """Return what this process learned of a batch as it was loaded.

    Parameters
    ----------
    run
        The run.
    batch
        The whole batch, or the share that was made here.
    n_samples
        Of the whole batch.
    """
    return batch if run.ranks.group is None or run.makes_shares else run.ranks.share(batch, n_samples)[0]


def join_shares(
    run: Run,
    result: Result,
    prepared: Mapping[str, Any],
    batch: Mapping[str, Any],
    n_samples: int,
) -> tuple[Result, Mapping[str, Any], dict[str, Any]]:
    """Return metrics, losses and predictions of the whole batch, the batch as metrics read it, and what losses count.

    Metrics are computed of all predictions, those of a closure of one's own are means over samples; losses are means,
    weighted by what they count in each share, or sums.

    Parameters
    ----------
    run
        The run, which hears of a signal that the first process got.
    result
        Of the share.
    prepared
        The share.
    batch
        What it was prepared of: the whole batch, or the share that was made here.
    n_samples
        Of the whole batch.
    """
    set_generators(run.backend, run.ranks.group.generators)
    metrics, losses, predictions = result
    ranks, config, running = run.ranks, run.config, run.running
    if wrong := [one for one in [*losses.values(), *metrics.values()] if not _is_real_number(one)]:
        run.backend.arrays.read_scalars(wrong)  # refuses them in the words of one process
    # a closure of one's own may give others than it has learned by
    losses, metrics, run.stop_signals.received = ranks.group.joined(losses, metrics, run.has_default_closure)
    over_epoch = None if running is None else running.over_epoch
    measured = config.train_metrics if run.has_default_closure else {}
    if measured or over_epoch is not None:
        read = scoring.keys_of(measured, config.keys_of(measured)).values()
        targets = _entries(prepared, itertools.chain.from_iterable(read))
        made = {} if over_epoch is None or not run.makes_shares else _entries(batch, over_epoch.entries)
        joined = ranks.join({"predictions": predictions, "targets": targets, "batch": made}, n_samples)
        predictions, batch = joined["predictions"], {**batch, **joined["batch"]}
        if measured:
            whole = {**prepared, **joined["targets"]}
            metrics |= run.backend.step.measure(measured, config.metric_keys, predictions, whole)
    return (metrics, losses, predictions), batch, ranks.group.totals


def _is_real_number(value: Any) -> bool:
    """Return True if a value is one, whatever it is: nobody waits for the device."""
    kind = getattr(value, "dtype", None)
    return isinstance(value, Real) if kind is None else math.prod(value.shape) == 1 and "complex" not in str(kind)


def _entries(batch: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: batch[name] for name in names if name in batch}
