"""A network of whose weights each of several processes holds a part: FSDP2 for the time of a training."""

import collections
import contextlib
import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import distributed
from torch.distributed import fsdp
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parameter import is_lazy

from delira.backends.torch.watching import tells_loss
from delira.contract import ByName, Tree
from delira.errors import ConfigError, TrainingInterrupted, WorkerLostError
from delira.io.shards import Shards
from delira.utils.arrays import map_leaves

_log = logging.getLogger("delira")
_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


@contextlib.contextmanager
def spread(network: torch.nn.Module, optimizers: ByName, device_type: str) -> Iterator[torch.nn.Module]:
    """Scope in which each process has a part of the weights, and of what optimizers keep of them.

    Parameters
    ----------
    network
        It lies on the host, and has the trained weights afterwards; those of before if an error ends the scope, since
        the other processes may be gone.
    optimizers
        They change the weights of the network that is given.
    device_type
        Of this process; of several devices the current one is taken.

    Raises
    ------
    ConfigError
        If weights have two names, or no shape yet.
    WorkerLostError
        If another process is gone.

    Yields
    ------
    torch.nn.Module
        The network to train: a copy with the same names, whose weights are put together layer by layer as it computes.
    """
    names = [name for name, _ in network.named_parameters(remove_duplicate=False)]
    if tied := sorted({*names} - {name for name, _ in network.named_parameters()}):
        raise ConfigError(f"shard=True cannot spread weights that have two names: {', '.join(tied)}; leave it out")
    if lazy := [name for name, weight in network.named_parameters() if is_lazy(weight)]:
        raise ConfigError(f"{', '.join(lazy)} have no shape yet; call the network once with a batch before shard=True")
    # of the group that is there: one of the mesh's own would be looked after by nobody
    world: Any = distributed.group.WORLD
    mesh = distributed.device_mesh.DeviceMesh.from_group(world, device_type)
    network.to("cpu")  # it may have predicted
    made = copy.deepcopy(network)
    for layer in _blocks(made):
        # the outermost layer would keep its weights for a backward pass, which a batch that is left out does not have
        fsdp.fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    # checkpoints name the class that the network has without this
    type(made).__module__, type(made).__qualname__ = type(network).__module__, type(network).__qualname__
    for layer in made.modules():
        if isinstance(layer, fsdp.FSDPModule):  # gradients are those of shares, which are weighed before
            layer.set_gradient_divide_factor(1.0)
            layer.set_force_sum_reduction_for_comms(True)
    own, parts = dict(network.named_parameters()), dict(made.named_parameters())
    pairs: dict[torch.Tensor, torch.Tensor] = {weight: parts[name] for name, weight in own.items()}
    _exchange(optimizers, pairs, lambda value, weight: _part(value, pairs[weight]))
    try:
        yield made
    except (KeyboardInterrupt, TrainingInterrupted):  # all of them stop after the same step
        _take_back(network, made, optimizers, pairs)
        raise
    except BaseException as error:
        for optimizer in optimizers.values():
            optimizer.optimizer.state.clear()
        _exchange(optimizers, {part: weight for weight, part in pairs.items()}, lambda value, part: value)
        _log.warning(
            "the training ended by an error while its weights were spread over processes: the network has those from "
            "before this training; its last checkpoint has later ones"
        )
        if tells_loss(error) and not isinstance(error, WorkerLostError):
            raise WorkerLostError(f"another of the processes that train the network has ended: {error}") from error
        raise
    _take_back(network, made, optimizers, pairs)


def gathered(tree: Tree) -> Any:
    """Return a tree with all parts of what is spread, as :class:`delira.io.shards.Shards`; all processes call it.

    Only the first one gets them; the others do not write.
    """
    places: list[DTensor] = []

    def noted(leaf: Any) -> Any:
        if not _is_part(leaf):
            return leaf
        places.append(leaf)
        return leaf

    map_leaves(noted, tree)
    own = [leaf.to_local().detach().cpu() for leaf in places]
    is_first = distributed.get_rank() == 0
    told: Any = [None] * distributed.get_world_size() if is_first else None
    distributed.gather_object(own, told)
    shards = iter([Shards(parts) for parts in zip(*told, strict=True)] if is_first else [Shards(())] * len(own))
    return map_leaves(lambda leaf: next(shards) if _is_part(leaf) else leaf, tree)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a tensor that this process has, which is all of it unless it is spread; the same memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _is_part(leaf: object) -> bool:
    return isinstance(leaf, DTensor)


def _blocks(network: torch.nn.Module) -> list[torch.nn.Module]:
    """Layers whose weights are put together when they are called: those in containers, from the inside, and all."""
    found = [
        layer
        for container in network.modules()
        if isinstance(container, _CONTAINERS)
        for layer in container.children()
        if not isinstance(layer, _CONTAINERS) and any(True for _ in layer.parameters())
    ]
    inside_first = [layer for layer in reversed([*network.modules()]) if any(layer is one for one in found)]
    return [*(layer for layer in inside_first if layer is not network), network]


def _part(value: Any, part: torch.Tensor) -> Any:
    """Return the part of what an optimizer keeps of a weight, if it has the weight's shape."""
    if not isinstance(value, torch.Tensor) or value.shape != part.shape or not isinstance(part, DTensor):
        return value
    return distribute_tensor(value.to(part.device), part.device_mesh, part.placements, src_data_rank=None)


def _exchange(
    optimizers: ByName, pairs: Mapping[torch.Tensor, torch.Tensor], convert: Callable[[Any, torch.Tensor], Any]
) -> None:
    """Let optimizers change other weights, with what they keep of them."""
    for optimizer in optimizers.values():
        inner = optimizer.optimizer
        for group in inner.param_groups:
            group["params"] = [pairs[weight] for weight in group["params"]]
        kept: dict[torch.Tensor, dict[str, Any]] = collections.defaultdict(dict)
        for weight, state in inner.state.items():
            kept[pairs[weight]] = {name: convert(value, weight) for name, value in state.items()}
        inner.state = kept


def _take_back(
    network: torch.nn.Module,
    made: torch.nn.Module,
    optimizers: ByName,
    pairs: Mapping[torch.Tensor, torch.Tensor],
) -> None:
    """Give a network the weights that were trained, and optimizers what they keep of it; all processes call it."""
    with torch.no_grad():
        for weight, part in pairs.items():
            weight.copy_(_whole(part))
        buffers = dict(made.named_buffers())
        for name, buffer in network.named_buffers():
            buffer.copy_(buffers[name])
    back = {part: weight for weight, part in pairs.items()}
    _exchange(optimizers, back, lambda value, part: _whole(value))
    network.train(made.training)


def _whole(value: Any) -> Any:
    return value.full_tensor().cpu() if isinstance(value, DTensor) else value
