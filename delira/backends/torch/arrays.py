"""Tensors as arrays on the host, joined and copied."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from delira.contract import ArraysRole
from delira.io.shards import Shards
from delira.utils.arrays import iterate_leaves, map_leaves


class TorchArrays(ArraysRole):
    """Tensors."""

    kinds = (torch.Tensor,)
    single = " (e.g. use reduction='mean')"

    @staticmethod
    def array(value: object) -> Any:
        """A tensor as an array on the host (bfloat16 becomes float32)."""
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach()
        if value.dtype is torch.bfloat16:
            value = value.float()
        return value.cpu().numpy()

    def on_host(self, values: Sequence[Any]) -> Any:
        """Single values of an accelerator in one transfer."""
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if tensors and len(tensors) == len(values) and not any(tensor.is_cpu for tensor in tensors):
            return torch.stack([tensor.detach().reshape(()) for tensor in tensors]).to("cpu", torch.float64).numpy()
        # on the CPU there is nothing to wait for, and to stack tensors takes ten times as long
        return values

    def snapshot(self, tree: object, previous: object = None) -> Any:
        """Copy a checkpoint tree to the host, so that further training does not change it.

        Parameters
        ----------
        tree
            Dicts, lists and tuples of tensors, arrays and plain values. Tensors that share memory (tied weights) share
            it in the copy too.
        previous
            An earlier snapshot that nobody needs any more: its memory is used again where an entry at the same place
            has the same size, since touching new memory costs more than copying.

        Returns
        -------
        Any
            The copy. Of tensors on a GPU it is in pinned memory.
        """
        copier, old = _Copier(), dict(iterate_leaves(previous))
        places = (place for place, _ in iterate_leaves(tree))  # in the order in which the leaves are mapped
        with torch.no_grad():
            copied = map_leaves(lambda leaf: copier.copy(leaf, old.get(next(places))), tree)
        for stream in copier.streams:
            stream.synchronize()
        return copied

    def nonfinite(self, weights: Mapping[str, torch.Tensor]) -> list[str]:
        # of what is spread over processes each part is looked at
        parts = {
            (name, number): part
            for name, weight in weights.items()
            for number, part in enumerate(weight.parts if isinstance(weight, Shards) else [_local(weight)])
        }
        if not parts:
            return []
        # a sum is fast, and finite only if all of it is
        device = next(iter(parts.values())).device
        sums = torch.stack([weight.detach().sum().abs().float().to(device) for weight in parts.values()])
        suspects = [place for place, ok in zip(parts, torch.isfinite(sums).tolist(), strict=True) if not ok]
        return [*dict.fromkeys(place[0] for place in suspects if not bool(torch.isfinite(parts[place]).all()))]


def _local(weight: torch.Tensor) -> torch.Tensor:
    """Return what this process has of a weight that is spread over several."""
    return weight.to_local() if hasattr(weight, "to_local") else weight


def convert_torch_tensor_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword tensors; other values pass. 0-d tensors become shape ``(1,)``."""
    return TorchArrays.convert(args, kwargs)


class _Copier:
    """One snapshot in the making; ``streams`` are those in which GPUs still copy."""

    def __init__(self) -> None:
        self.streams: set[torch.cuda.Stream] = set()
        self._storages: dict[tuple[torch.device, int, int], torch.UntypedStorage] = {}
        self._arrays: dict[int, np.ndarray] = {}
        self._used: set[int] = set()  # addresses of the memory that was taken from the previous snapshot

    def copy(self, leaf: object, previous: Any) -> Any:
        """Copy what is at one place of the tree; ``previous`` is what was there before, or None."""
        if isinstance(leaf, torch.Tensor):
            return self._tensor(leaf, previous if type(previous) is torch.Tensor else None)
        if not isinstance(leaf, np.ndarray):
            return set(leaf) if isinstance(leaf, set) else leaf
        if id(leaf) not in self._arrays:
            fits = (
                isinstance(previous, np.ndarray)
                and (previous.shape, previous.dtype) == (leaf.shape, leaf.dtype)
                and previous.flags.writeable
                and previous.ctypes.data not in self._used
            )
            target = self._arrays[id(leaf)] = previous if fits else np.empty_like(leaf, subok=False)
            self._used.add(target.ctypes.data)
            np.copyto(target, leaf)
        return self._arrays[id(leaf)]

    def _tensor(self, tensor: torch.Tensor, previous: torch.Tensor | None) -> torch.Tensor:
        if not _has_plain_storage(tensor):
            return tensor.detach().cpu().clone()
        source = tensor.untyped_storage()
        key = (tensor.device, source.data_ptr(), source.nbytes())
        if key not in self._storages:
            if tensor.is_contiguous() and tensor.nbytes == source.nbytes():
                copied = self._copied(tensor, previous)
                self._storages[key] = copied.untyped_storage()
                return copied
            # a view, perhaps one of several of this storage, which is copied byte by byte
            old = _bytes_of(previous) if previous is not None and _has_plain_storage(previous) else None
            self._storages[key] = self._copied(_bytes_of(tensor), old).untyped_storage()
        view, place = (
            torch.empty(0, dtype=tensor.dtype, device="cpu"),
            (tensor.storage_offset(), tensor.size(), tensor.stride()),
        )
        return view.set_(self._storages[key], *place)  # type: ignore[call-overload,no-any-return]

    def _copied(self, tensor: torch.Tensor, target: torch.Tensor | None) -> torch.Tensor:
        """A copy of a contiguous tensor that covers its storage; in ``target`` if that can take it."""
        fits = (
            target is not None
            and (target.dtype, target.shape) == (tensor.dtype, tensor.shape)
            and target.is_contiguous()
            and target.untyped_storage().nbytes() == tensor.nbytes
            and target.data_ptr() not in self._used
        )
        if target is None or not fits:
            target = torch.empty(tensor.size(), dtype=tensor.dtype, device="cpu", pin_memory=tensor.is_cuda)
        self._used.add(target.data_ptr())
        if tensor.is_cuda:
            self.streams.add(torch.cuda.current_stream(tensor.device))
        if tensor.device.type == "cpu":
            # one thread fills the memory bus; torch's threads wait for each other, long if others use the cores
            ctypes.memmove(target.data_ptr(), tensor.data_ptr(), tensor.nbytes)
        else:
            target.copy_(tensor, non_blocking=tensor.is_cuda)
        return target


def _has_plain_storage(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
    )


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of the storage of a tensor."""
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(tensor.untyped_storage())  # type: ignore[call-overload,no-any-return]
