"""The largest batch that the device has memory for, found by steps that are undone."""

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.contract.kinds import Data, Tree
from delira.errors import ConfigError
from delira.training.feed import batch_length, map_samples
from delira.training.finders.rehearsal import Rehearsal, participants, rehearsing
from delira.utils.checks import check_flags, check_whole

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer

_log = logging.getLogger("delira")

#: in the names of devices with memory of their own, which they refuse to give where there is none left
_ACCELERATORS = ("cuda", "gpu")


def find_batch_size(
    of: Any,
    data: Data = None,
    max_batch_size: int | None = None,
    start: int = 2,
    steps: int = 2,
    is_exact: bool = False,
) -> int:
    """Train on larger and larger batches until the device runs out of memory.

    The samples of the first batch are repeated as often as it takes, so a batch of larger ones may need more memory.
    Everything is put back afterwards, as by :func:`find_learning_rate`.

    Parameters
    ----------
    of
        A :class:`delira.Trial`, or a trainer.
    data
        To train on; a trial has its own.
    max_batch_size
        The largest batch that is tried. It must be given on a CPU: there the system ends processes that need too much
        memory rather than refuse it.
    start
        The first size that is tried; it is doubled as long as there is memory. (Batch normalisation refuses batches of
        one.)
    steps
        Updates with each size. The second one has the optimizer's state beside the gradients.
    is_exact
        Whether to go on between the last size that fitted and the first that did not, down to one sample.

    Returns
    -------
    int
        The largest size that fitted: ``start`` times a power of two, or ``max_batch_size``, unless ``is_exact``.

    Raises
    ------
    ConfigError
        If an argument is impossible, there are no data, not even a batch of ``start`` samples fits, or
        ``micro_batches="auto"``, with which all sizes fit.

    Examples
    --------
    >>> import delira, torch
    >>> x = torch.randn(64, 3)
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), verbose=0).with_train_data(x, x[:, :1], 16)
    >>> find_batch_size(trial, max_batch_size=100)
    100
    """
    check_whole("find_batch_size", at_least=1, start=start, steps=steps)
    check_flags("find_batch_size", is_exact=is_exact)
    if max_batch_size is not None:
        check_whole("find_batch_size", at_least=1, max_batch_size=max_batch_size)
    trainer, data = participants(of, data)
    _check_limit(trainer, start, max_batch_size)
    with rehearsing(trainer, data) as rehearsal:
        first = next(rehearsal.batches)
        good, bad = 0, None
        size: int | None = start
        while size is not None:
            if _fits(trainer, rehearsal, first, size, steps):
                good = size
            else:
                bad = size
            size = _next(good, bad, max_batch_size, start, is_exact)
    if not good:
        raise ConfigError(
            f"the device has not the memory for a batch of {start} samples; begin with a smaller start, or see "
            "micro_batches and mixed_precision"
        )
    return int(good)


def _next(good: int, bad: int | None, limit: int | None, start: int, is_exact: bool) -> int | None:
    """The size to try after the largest that fitted and the smallest that did not."""
    if bad is None:
        size = 2 * good
        if limit is not None and size > limit:
            return limit if good < limit else None
        return size
    if is_exact and good and bad - good > 1:
        return (good + bad) // 2
    return None


def _fits(trainer: "BaseNetworkTrainer", rehearsal: Rehearsal, first: Any, size: int, steps: int) -> bool:
    """Return True if the device has memory for batches of a size, which repeat the samples of the first one."""
    batch = resized(first, batch_length(first), size)
    is_good = True
    try:
        for _ in range(steps * trainer.config.update.accumulation_steps):
            rehearsal.step(batch)
    except Exception as error:
        if not trainer.backend.devices.is_out_of_memory(error):
            raise
        is_good = False
    if not is_good:  # outside of the handler: the error's traceback holds the memory that is missing
        del batch
        rehearsal.put_back()  # a step that was broken off may have left neither the old nor the new
        trainer.backend.devices.free_memory()
    _log.info("a batch of %d samples %s", size, "fits" if is_good else "does not fit into the device's memory")
    return is_good


def resized(batch: Tree, n_samples: int, size: int) -> Any:
    """A batch with another number of samples: they are repeated.

    Parameters
    ----------
    batch
        Arrays whose first axis are the samples, in any structure; what has another length stays as it is.
    n_samples
        Its number of samples.
    size
        The number that is wanted.
    """
    rows = np.arange(size) % n_samples

    def repeated(entry: Any) -> Any:
        if isinstance(entry, (list, tuple)):
            return type(entry)([entry[row] for row in rows])
        if hasattr(entry, "__array_namespace__") or hasattr(entry, "detach") or isinstance(entry, np.ndarray):
            return entry[rows]
        return np.asarray(entry)[rows] if hasattr(entry, "shape") else entry  # TensorFlow takes no rows

    changed = map_samples(repeated, batch, n_samples)
    return type(batch)(changed) if isinstance(batch, dict) and hasattr(batch, "n_samples") else changed


def _check_limit(trainer: "BaseNetworkTrainer", start: int, limit: int | None) -> None:
    if trainer.config.guards.micro_batches == "auto":
        raise ConfigError("micro_batches='auto' divides batches that do not fit, so all sizes do; set it to 1")
    if limit is not None and limit < start:
        raise ConfigError(f"find_batch_size: max_batch_size={limit} is below start={start}")
    device = str(trainer.devices.input)
    if limit is None and not any(name in device.lower() for name in _ACCELERATORS):
        raise ConfigError(
            f"find_batch_size: on the device {device!r} the system ends a process that needs too much memory; pass "
            "max_batch_size= as a limit"
        )
