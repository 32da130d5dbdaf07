"""Which of several processes that train one network together this one is, and what it has of a batch."""

import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delira.contract import Devices, DevicesRole
from delira.contract.devices import asked_for
from delira.errors import ConfigError, check_functions, check_whole
from delira.training.epoch import batch_length, map_samples
from delira.training.launched import launched

Tree = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Ranks:
    """Which of several processes that train one network together this one is; the first writes, prints and decides."""

    rank: int = 0
    size: int = 1
    gather: Callable[[Tree], Sequence[Tree]] = lambda tree: [tree]
    """The parts of a checkpoint that all of them hold, made of the part that this one holds."""
    agree: Callable[[Any], Any] = lambda value: value
    """What the first decides: whether an epoch is the best, a training stops, or it goes back to a checkpoint."""
    group: Any = None
    """How they add up and exchange arrays; ``None``: they do not."""
    least: int = 1
    """Samples that a share has, if the batch has so many, unless it is empty: a batch normalisation needs two."""

    def __post_init__(self) -> None:
        check_whole(self, at_least=0, rank=self.rank)
        check_whole(self, at_least=1, least=self.least)
        check_whole(self, at_least=self.rank + 1, size=self.size)
        check_functions(self, gather=self.gather, agree=self.agree)

    @functools.cached_property
    def is_first(self) -> bool:
        """Return True if this process writes files, prints and decides."""
        return self.rank == 0

    def bounds(self, n_samples: int) -> list[int]:
        """Return where in a batch the share of each begins, and its end: the first has as many as any other."""
        if self.least == 1 or n_samples >= self.least * self.size:
            return [-(-n_samples * rank // self.size) for rank in range(self.size + 1)]
        n_having = max(1, n_samples // self.least)
        return [-(-n_samples * min(rank, n_having) // n_having) for rank in range(self.size + 1)]

    def count(self, n_samples: int) -> int:
        """Return how many samples of a batch are the share of this process."""
        start, stop = self.bounds(n_samples)[self.rank :][:2]
        return stop - start

    def rows(self, n_samples: int) -> slice:
        """Return which samples of a batch this process has: its share, or the first ones if that is empty."""
        start, stop = self.bounds(n_samples)[self.rank :][:2]
        return slice(start, stop) if stop > start else slice(0, min(self.least, n_samples))

    def n_taken(self, n_samples: int) -> int:
        """Return how many samples of a batch this process computes, with those that it counts as 0."""
        rows = self.rows(n_samples)
        return int(rows.stop - rows.start)

    def share(self, batch: Tree, n_samples: int) -> tuple[dict[str, Any], int]:
        """Return what this process learns of a batch that all of them have, and how many samples that are.

        Shares differ by one sample at most. Who has none gets the first ones, to take part with, and counts them as 0.

        Parameters
        ----------
        batch
            Any structure; what has an entry for each sample is shared out.
        n_samples
            Of the batch.
        """
        return map_samples(operator.itemgetter(self.rows(n_samples)), batch, n_samples), self.count(n_samples)

    def settle(self, network: Any) -> None:
        """Give all of them the running statistics of the first, and refuse weights that have come apart."""
        if self.group is not None:
            self.group.settle(network)

    def confirm(self) -> None:
        """Return when all is computed that is under way; raise if that rests on a process that was lost."""
        if self.group is not None:
            self.group.confirm()

    def predict(self, forward: Callable[[Tree], Tree], batch: Tree, network: Any) -> Tree:
        """Predict a batch that all of them have, each a part of it; all of them get all predictions.

        Parameters
        ----------
        forward
            Predicts a batch.
        batch
            The batch.
        network
            What predicts; where it learns by it, as running statistics do, each of them predicts the whole batch.
        """
        if self.group is None or not self.group.evaluates(network):
            return forward(batch)
        n_samples = batch_length(batch)
        # as many for each, so that what is exchanged has one shape: the last may predict some that others do, too
        n_each = -(-n_samples // self.size)
        starts = [min(rank * n_each, n_samples - n_each) for rank in range(self.size)]
        start = starts[self.rank]
        own = forward(map_samples(operator.itemgetter(slice(start, start + n_each)), batch, n_samples))
        if n_each == n_samples:
            return own
        firsts = [max(0, rank * n_each - start) for rank, start in enumerate(starts)]
        return self.group.rows(own, n_each, [(first, n_each) for first in firsts])  # type: ignore[no-any-return]

    def join(self, tree: Tree, n_samples: int) -> Tree:
        """Return what all of them made of their shares, in the order of the batch.

        Parameters
        ----------
        tree
            What this one made of its own.
        n_samples
            Of the whole batch.
        """
        counts = [stop - start for start, stop in itertools.pairwise(self.bounds(n_samples))]
        return self.group.rows(tree, self.n_taken(n_samples), [(0, count) for count in counts])  # type: ignore[no-any-return]


ALONE = Ranks()


def number_of_processes(config: Any, devices: DevicesRole) -> int:
    """Return how many processes train a network, as settings ask for.

    Parameters
    ----------
    config
        The settings.
    devices
        Of the backend; one whose program uses several devices needs no further process.

    Raises
    ------
    ConfigError
        If a launcher has started another number.
    """
    if (launch := launched(devices)) is None:
        return max(config.devices, len(config.gpu_ids)) if devices.in_processes else 1
    if config.devices not in (1, launch.size):
        raise ConfigError(f"devices={config.devices}, and torchrun has started {launch.size} processes; leave it out")
    return launch.size


def at_rest(config: Any, devices: DevicesRole, own: Devices) -> Devices:
    """Return where a network lies outside of a training: on the host if its weights are spread over processes in it.

    Parameters
    ----------
    config
        The settings.
    devices
        Of the backend.
    own
        Those that this process computes on.
    """
    is_spread = config.shard and number_of_processes(config, devices) > 1
    return Devices(devices.resolve([], "cpu").input, own.output) if is_spread else own


def resolve_devices(config: Any, devices: DevicesRole, rank: int) -> Devices:
    """Return the devices that one of several processes computes on.

    Parameters
    ----------
    config
        The settings.
    devices
        Of the backend.
    rank
        Which process.

    Raises
    ------
    ConfigError
        If there are not as many devices as are asked for.
    """
    if not devices.in_processes and (config.shard or config.shard_transforms or config.sync_batchnorm):
        raise devices.lacking("has one process for all devices; leave shard, shard_transforms and sync_batchnorm out")
    number, ids, device, launch = config.devices, [*config.gpu_ids], config.device, launched(devices)
    if len({*ids}) < len(ids):
        raise ConfigError(f"gpu_ids={ids} names a GPU twice; name each once, or say how many with devices")
    if launch is not None:
        number, rank = launch.local_size, launch.local_rank
        if ids and len(ids) != number:
            raise ConfigError(f"gpu_ids={ids} names not as many GPUs as torchrun has started processes here, {number}")
    elif number == 1 and (len(ids) < 2 or not devices.in_processes):
        return devices.resolve(ids, device)
    asked = asked_for(ids, device) if ids else f"devices={number}"
    if ids and number not in (1, len(ids)):
        raise ConfigError(f"devices={number} and gpu_ids={ids} name different numbers of devices; leave devices out")
    kind = str(device or "gpu")
    if kind not in ("cpu", "auto", "gpu", "cuda"):
        raise ConfigError(f"devices={number} are 'cpu', 'cuda' or 'auto', got device={device!r}; use gpu_ids=[…]")
    if devices.in_processes and kind == "cpu":
        if config.sync_batchnorm:
            raise ConfigError("sync_batchnorm=True needs GPUs: PyTorch has no such layer for the CPU")
        return devices.resolve([], "cpu")
    if devices.in_processes:
        return [_gpu(devices, each, asked, max(number, len(ids))) for each in ids or range(number)][rank]
    try:
        if ids:
            return devices.resolve(ids, None)
        return devices.resolve([], f"{'cpu' if kind == 'cpu' else 'gpu'}:{','.join(map(str, range(number)))}")
    except ConfigError as error:
        raise ConfigError(f"{asked}: {error}") from error


def _gpu(devices: DevicesRole, number: int, asked: str, size: int) -> Devices:
    """Return a GPU as the device of a process; if it is not there, say so of what was asked for."""
    try:
        return devices.resolve([number], None)
    except ConfigError as error:
        reason = str(error).partition("; ")[0].replace(asked_for([number], None), asked)  # what follows cures another
        raise ConfigError(f"{reason}; device='cpu' with devices={size} trains on the CPU") from error
