"""Processes of this machine that train one network: how they add up gradients and exchange what they computed."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

import numpy as np
import torch
from torch import distributed
from torch.distributed.tensor import DTensor
from torch.nn.modules import batchnorm

from delira.backends.torch import watching
from delira.errors import NetworkError, WorkerLostError
from delira.utils.arrays import iterate_leaves, map_leaves

#: of an all-reduce at a time, in elements: so much memory is needed beside the gradients
_BUCKET = 1 << 23
_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def _telling_loss(verb: _Verb) -> _Verb:
    """A verb whose error is that another process is gone: it is told as that."""

    @functools.wraps(verb)
    def called(self: "TorchGroup", *args: Any) -> Any:
        self.check()
        try:
            found = verb(self, *args)
        except RuntimeError as error:
            if not watching.tells_loss(error):
                raise
            raise WorkerLostError(
                f"another of the {self.size} processes that train the network has ended, or has not answered for "
                f"{self.seconds:g} s: {str(error).splitlines()[0]}"
            ) from error
        if self.watch is not None:
            self.watch.note()
        self.check()  # what was broken off has left no numbers
        return found

    return called  # type: ignore[return-value]


class TorchGroup:
    """What processes that train one network exchange.

    All of them call the same verbs in the same order. Sums are made in an order that depends on the number of processes
    alone, so that they have the same bits each time.

    Parameters
    ----------
    rank, size
        Which of how many.
    device
        Of this process.
    seconds
        After which one that waits for another raises a :class:`delira.errors.WorkerLostError`.
    """

    #: samples of the whole batch at hand
    n_samples = 1
    #: looks after the others where GPUs add up, as those wait without end
    watch: watching.Watch | None = None
    #: number of the signal that this process got, which that of the first tells all
    signal: int | None = None
    #: whether an optimizer has scaled a loss of the step at hand
    is_scaled = False
    #: what losses at hand count in the whole batch, where that is not its samples
    totals: dict[str, Any]
    #: of random numbers, as they were before the share at hand
    generators: Mapping[str, Any]

    def __init__(self, rank: int, size: int, device: torch.device, seconds: float):
        self.rank, self.size = rank, size
        self.device, self.seconds = device, seconds
        self._told: torch.Tensor | None = None
        self._share = 1.0  # of the samples of the batch at hand
        self._factors: dict[str, torch.Tensor | float] = {}
        self._empty: set[str] = set()  # losses that count nothing here
        self._to_send: torch.Tensor | None = None  # what goes with the next gradients
        self._sent: torch.Tensor | None = None  # its sum over all processes
        self._watched: tuple[Any, list[torch.nn.Module], list[Any]] = (None, [], [])

    def check(self) -> None:
        """Raise if another process is known to be lost."""
        if self.watch is not None:
            self.watch.check()

    def confirm(self) -> None:
        """Return when all is computed that the device was given, with all processes there."""
        if self.watch is not None:
            torch.cuda.synchronize(self.device)
            self.watch.check()

    # ------------------------------------------------------------------ objects

    @_telling_loss
    def agree(self, value: Any) -> Any:
        """Return what the first says."""
        told = [value]
        distributed.broadcast_object_list(told, src=0)
        return told[0]

    @_telling_loss
    def exchange(self, value: Any) -> list[Any]:
        """Return what each says, in their order."""
        told: list[Any] = [None] * self.size
        distributed.all_gather_object(told, value)
        return told

    @_telling_loss
    def any(self, flag: bool) -> bool:
        """Return True if one of them says so."""
        found = torch.tensor([float(flag)], device=self.device)
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return bool(found)

    # ------------------------------------------------------------------ numbers

    def weigh(
        self,
        weights: Mapping[str, Any],
        n_own: int,
        n_samples: int,
        sums: Set[str] = frozenset(),
        totals: Mapping[str, Any] | None = None,
    ) -> None:
        """Set how much each loss counts here, beside what the share of the batch does, so that their sum is exact.

        Parameters
        ----------
        weights
            What the means of some losses count in the share, where that is not its samples.
        n_own, n_samples
            Samples of the share, and of the whole batch.
        sums
            Losses that are sums over samples.
        totals
            What those of ``weights`` count in the whole batch; ``None``: nobody has all of it, and it is exchanged.
        """
        self._share, whole = n_own / n_samples, n_samples / max(n_own, 1)
        self._factors, self._empty = dict.fromkeys(sums, whole if n_own else 0.0), set()
        self._to_send = self._sent = None
        self.is_scaled = False
        # the first sample of the batch is another one's, too
        counts = dict(weights) if n_own else dict.fromkeys(weights, 0.0)
        if weights and totals is None:
            totals = dict(zip(weights, self._added(torch.stack([*map(self._number, counts.values())])), strict=True))
        self.totals = dict(totals or {})
        for name, total in self.totals.items():
            self._factors[name] = self._factor(counts[name], total, whole)
            # a GPU is waited for where there are weights of classes alone: the gradients of a mean of weights of 0 are
            # no numbers, and those of a mean of nothing are 0
            is_waited_for = getattr(total, "is_cpu", True) or getattr(weights[name], "dtype", None) == torch.float64
            if is_waited_for and counts[name] == 0 and total > 0:
                self._empty.add(name)

    def _factor(self, count: Any, total: Any, whole: float) -> torch.Tensor | float:
        # where nothing counts in any of them it is in each what it is in one process: no number
        if isinstance(total, (int, float)):
            return count / total * whole if total > 0 else 1.0
        count, total = self._number(count), self._number(total)
        return torch.where(total > 0, count / total * whole, 1.0)

    def weighed(self, losses: Mapping[str, Any], predictions: Mapping[str, Any]) -> dict[str, Any]:
        """Return losses of the share as they count; one that counts nothing may be no number.

        Parameters
        ----------
        losses
            By name.
        predictions
            What they were computed on.
        """
        changed: dict[str, Any] = {}
        for name, factor in self._factors.items():
            if not isinstance(loss := losses.get(name), torch.Tensor):
                continue
            if name in self._empty:
                changed[name] = _nothing_of(predictions)
            elif isinstance(factor, float):
                changed[name] = loss * factor
            else:
                changed[name] = torch.where(factor > 0, loss * factor.to(loss.dtype), 0.0)
        return {**losses, **changed}

    def send(self, losses: Mapping[str, Any]) -> None:
        """Have single numbers, which nobody changes any more, added up together with the next gradients.

        An exchange of few numbers takes as long as one of many: what costs is to wake the processes.
        """
        self._to_send = torch.stack([*self._counting(losses), self._number(self._signal_to_tell)])

    def joined(
        self, losses: Mapping[str, Any], metrics: Mapping[str, Any], were_sent: bool
    ) -> tuple[dict[str, Any], dict[str, Any], int | None]:
        """Return losses and metrics of the whole batch, and the signal that the first process got a call before.

        That is read a call later, so that nobody waits for the device. Losses are means, weighted by what they count in
        each share, or sums; metrics are means over samples.

        Parameters
        ----------
        losses, metrics
            Single numbers of the share.
        were_sent
            Whether the losses are those that went with the gradients, if any did.
        """
        sums = self._sent if were_sent and not metrics else None
        if sums is None:
            own = [self._part(one, 1.0) for one in metrics.values()]
            sums = self._added(torch.stack([*self._counting(losses), *own, self._number(self._signal_to_tell)]))
        before, self._told = self._told, sums[-1]
        return (
            dict(zip(losses, sums[: len(losses)], strict=True)),
            dict(zip(metrics, sums[len(losses) : -1], strict=True)),
            None if before is None else int(before) or None,
        )

    def _counting(self, losses: Mapping[str, Any]) -> list[torch.Tensor]:
        """Return what losses of the share add to those of the whole batch."""
        return [self._part(loss, self._factors.get(name, 1.0)) for name, loss in losses.items()]

    def _part(self, value: Any, factor: torch.Tensor | float) -> torch.Tensor:
        number, share = self._number(value), factor * self._share
        if isinstance(share, float):
            return number * share if share > 0 else torch.zeros_like(number)
        # of what counts nothing the value does not count either, though it may be no number
        return torch.where(share > 0, number * share, 0.0)

    @property
    def _signal_to_tell(self) -> float:
        return float(self.signal or 0) if self.rank == 0 else 0.0

    def _number(self, value: Any) -> torch.Tensor:
        if not isinstance(value, torch.Tensor):  # nobody waits for the device, as for what is copied to it
            return torch.full((), float(value), dtype=torch.float64, device=self.device)
        return torch.as_tensor(value, dtype=torch.float64, device=self.device).detach().reshape(())

    @_telling_loss
    def _added(self, numbers: torch.Tensor) -> torch.Tensor:
        total = numbers.clone()
        distributed.all_reduce(total)
        return total

    # ------------------------------------------------------------------ gradients and weights

    @_telling_loss
    def add_gradients(self, parameters: Sequence[torch.Tensor]) -> None:
        """Add up the gradients of all of them, in place; a parameter that nobody has one of stays without."""
        # those of weights that are spread are added up where each is computed
        learned = [one for one in parameters if one.requires_grad and not isinstance(one, DTensor)]
        for bucket in _buckets(learned):
            missing = [parameter.grad is None for parameter in bucket]
            parts = [_dense(parameter) for parameter in bucket]
            there = parts[0].new_ones(len(bucket))
            if any(missing):
                there = torch.tensor([float(not lacks) for lacks in missing]).to(there)
            more = self._taken_along(there)
            flat = torch.cat([*(part.reshape(-1) for part in parts), there, more])
            distributed.all_reduce(flat)
            *sums, there, more = flat.split([*(part.numel() for part in parts), len(bucket), len(more)])
            if len(more):
                self._sent = more.clone()
            nowhere = (there == 0).tolist() if any(missing) else missing
            for parameter, total, is_nowhere in zip(bucket, sums, nowhere, strict=True):
                if parameter.grad is not None:
                    parameter.grad.copy_(total.view_as(parameter))
                elif not is_nowhere:
                    parameter.grad = total.view_as(parameter).clone()

    def _taken_along(self, like: torch.Tensor) -> torch.Tensor:
        """Return the numbers to send, if gradients of that type can carry them."""
        if self._to_send is None or like.dtype not in (torch.float32, torch.float64) or like.device != self.device:
            return like[:0]
        taken, self._to_send = self._to_send.to(like.dtype), None
        return taken

    @_telling_loss
    def settle(self, network: torch.nn.Module) -> None:
        """Give all of them the running statistics of the first, and refuse weights that have come apart.

        Raises
        ------
        NetworkError
            Naming the weight.
        """
        self._copy_first([*network.buffers()])
        self._watched = (None, [], [])  # it may have other layers by now
        named = [(name, one.detach()) for name, one in network.named_parameters() if not isinstance(one, DTensor)]
        if not named:
            return
        own = torch.stack([part for _, one in named for part in (one.double().sum(), one.double().abs().sum())])
        told = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(told, own)
        for rank, other in enumerate(told):
            # by their bits: no number is what it is, too
            differs = (other.view(torch.int64) != told[0].view(torch.int64)).nonzero()
            if len(differs):
                raise NetworkError(
                    f"the weight {named[int(differs[0]) // 2][0]!r} of process {rank} is not that of the first one any "
                    "more: something changes weights or gradients by what only one process knows, such as random "
                    "numbers in on_backward; do it before the backward pass, or derive it from the epoch and the batch"
                )

    @_telling_loss
    def follow(self, network: torch.nn.Module) -> None:
        """Give all of them the first one's buffers that have changed, as what a network computes may depend on them.

        Running statistics wait for the end of the epoch: no layer that learns reads them.
        """
        known, layers, before = self._watched
        if known is not network:
            holding = [(layer, dict(layer.named_buffers(recurse=False))) for layer in network.modules()]
            layers, before = [layer for layer, own in holding if own and "running_mean" not in own], []
        buffers = [buffer for layer in layers for _, buffer in layer.named_buffers(recurse=False)]
        if not buffers:
            self._watched = (network, layers, [])
            return
        before = before if len(before) == len(buffers) else [None] * len(buffers)
        # what changes in one of them may stay in another; on the host, where nobody waits for a device
        differ = [_version(one) != last for one, last in zip(buffers, before, strict=True)]
        changed = torch.tensor(differ, device="cpu").byte()
        distributed.all_reduce(changed, distributed.ReduceOp.MAX)
        self._copy_first([buffer for buffer, is_other in zip(buffers, changed.tolist(), strict=True) if is_other])
        self._watched = (network, layers, [*map(_version, buffers)])

    def _copy_first(self, buffers: Sequence[torch.Tensor]) -> None:
        """Give all of them the values of the first, as bytes: gloo does not take every type."""
        if not buffers:
            return
        raw = torch.cat([_bytes(one).to(self.device) for one in buffers])
        distributed.broadcast(raw, src=0)
        if self.rank:
            parts = raw.split([one.numel() * one.element_size() for one in buffers])
            for one, part in zip(buffers, parts, strict=True):
                one.detach().copy_(_of_bytes(part, one))

    @staticmethod
    def normalises(network: torch.nn.Module) -> bool:
        """Return True if layers normalise by batches, which single values cannot be; of any kind, scripted or not."""
        return next(_of_batches(network), None) is not None

    @contextlib.contextmanager
    def normalising(self, network: torch.nn.Module) -> Iterator[None]:
        """Scope in which layers that normalise by batches do it by the whole ones; GPUs alone can.

        Parameters
        ----------
        network
            Afterwards it has its own layers again, with the statistics of the others.
        """
        found = [
            (parent, name, layer)
            for parent in network.modules()
            for name, layer in parent._modules.items()  # a layer may have several names
            if isinstance(layer, batchnorm._BatchNorm) and not isinstance(layer, batchnorm.SyncBatchNorm)
        ]
        layers = {layer: batchnorm.SyncBatchNorm.convert_sync_batchnorm(layer) for _, _, layer in found}
        for parent, name, layer in found:  # both have the same weights and statistics
            setattr(parent, name, layers[layer])
        try:
            yield
        finally:
            for parent, name, layer in found:
                layer._buffers.update(layers[layer]._buffers)  # which are others if the network was moved
                setattr(parent, name, layer.train(layers[layer].training))

    def spread(self, network: torch.nn.Module, optimizers: Mapping[str, Any]) -> Any:
        """Scope in which each process has a part of the weights; it gives the network to train."""
        from delira.backends.torch import sharding

        return sharding.spread(network, optimizers, self.device.type)

    @_telling_loss
    def gather(self, tree: Mapping[str, Any]) -> list[Any]:
        """Return a tree with all parts of what is spread over processes; the first one alone has them."""
        from delira.backends.torch import sharding

        return [sharding.gathered(tree)]

    # ------------------------------------------------------------------ predictions

    def evaluates(self, network: torch.nn.Module) -> bool:
        """Return True if a network predicts each sample by itself; layers without running statistics do not."""
        followed = (getattr(layer, "running_mean", layer) for layer in _of_batches(network))  # a block has none itself
        return not network.training and all(one is not None for one in followed)

    @_telling_loss
    def rows(self, tree: Any, n_rows: int, wanted: Sequence[tuple[int, int]]) -> Any:
        """Return entries with rows of all of them, one after the other; what has none stays as it is here.

        Parameters
        ----------
        tree
            What this one has.
        n_rows
            First axis of arrays that have a row for each sample.
        wanted
            By process: the first of its rows that is wanted, and the one after the last.
        """
        own = {path: kind for path, leaf in iterate_leaves(tree) if (kind := _kind_of_rows(leaf, n_rows)) is not None}
        told = self.exchange(own)
        # one that has as many rows by chance has not as many everywhere
        agreed = {path for path in own if all(path in other for other in told)}
        for path in agreed:
            if len(kinds := {other[path] for other in told}) > 1:
                raise NetworkError(
                    f"{'.'.join(map(str, path))!r} has samples of {' and '.join(map(str, sorted(kinds)))} in processes "
                    "that train the network together; let those of a batch have one shape and type"
                )
        n_most = max(max(stop for _, stop in wanted), 1)
        have_rows = iter([path in agreed for path, _ in iterate_leaves(tree)])
        return map_leaves(lambda leaf: self._all_rows(leaf, wanted, n_most) if next(have_rows) else leaf, tree)

    def _all_rows(self, leaf: Any, wanted: Sequence[tuple[int, int]], n_most: int) -> Any:
        """Return the wanted rows of all of them, of whom none has more than ``n_most``."""
        if isinstance(leaf, np.ndarray):
            if leaf.dtype.kind in "biufc":
                return self._all_rows(torch.from_numpy(leaf.copy()), wanted, n_most).numpy()
            told = self.exchange(leaf)  # such as names
            return np.concatenate([part[start:stop] for part, (start, stop) in zip(told, wanted, strict=True)])
        own = leaf.detach()
        if len(own) < n_most:
            own = torch.cat([own, own.new_zeros((n_most - len(own), *own.shape[1:]))])
        raw = _bytes(own)
        parts = [torch.empty_like(raw) for _ in range(self.size)]
        distributed.all_gather(parts, raw)
        cut = (_of_bytes(part, own)[start:stop] for part, (start, stop) in zip(parts, wanted, strict=True))
        return torch.cat([*cut])


def _of_batches(network: torch.nn.Module) -> Iterator[Any]:
    """Iterate over layers that normalise by batches."""
    return (one for one in network.modules() if "BatchNorm" in getattr(one, "original_name", type(one).__name__))


def _kind_of_rows(leaf: Any, n_rows: int) -> tuple[str, tuple[int, ...]] | None:
    """Return type and shape of a row; ``None`` if it has not one for each sample."""
    if not isinstance(leaf, (torch.Tensor, np.ndarray)) or leaf.ndim == 0 or len(leaf) != n_rows:
        return None
    is_number = isinstance(leaf, torch.Tensor) or leaf.dtype.kind in "biufc"
    return str(leaf.dtype if is_number else "texts"), tuple(leaf.shape[1:])  # these may have any length


def _nothing_of(predictions: Mapping[str, Any]) -> Any:
    """Return a 0 whose gradients are zeros, also where predictions are infinite: all go through a backward pass."""
    learned = [one for _, one in iterate_leaves(predictions) if isinstance(one, torch.Tensor) and one.requires_grad]
    return sum(one.real.reshape(-1)[:0].sum() for one in learned)


def _version(buffer: torch.Tensor) -> tuple[int, int]:
    """Return what is another number after a buffer was written into, or replaced."""
    return buffer.data_ptr(), buffer._version


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _of_bytes(raw: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return raw.clone().view(like.dtype).view(like.shape)  # a copy, which begins where its type wants it


def _buckets(parameters: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Yield parameters of one dtype and device, as many as are exchanged at once; the same ones each time."""
    bucket: list[torch.Tensor] = []
    for parameter in parameters:
        is_other = bucket and (parameter.dtype, parameter.device) != (bucket[0].dtype, bucket[0].device)
        if bucket and (is_other or sum(one.numel() for one in bucket) + parameter.numel() > _BUCKET):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket


def _dense(parameter: torch.Tensor) -> torch.Tensor:
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    if parameter.grad.is_sparse:
        raise NetworkError("a gradient is sparse, and several processes add up dense ones; use Embedding(sparse=False)")
    return parameter.grad
