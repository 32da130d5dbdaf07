"""Tensors as arrays on the host, joined and copied."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from delira.contract import (
    ArraysRole,
)


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

    @staticmethod
    def join(arrays: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(arrays))

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
        copier = _Copier()
        with torch.no_grad():
            copied = copier.copy(tree, previous)
        copier.wait()
        return copied

    def nonfinite(self, weights: Mapping[str, torch.Tensor]) -> list[str]:
        if not weights:
            return []
        # a sum is fast, and finite only if all of it is
        device = next(iter(weights.values())).device
        sums = torch.stack([weight.detach().sum().abs().float().to(device) for weight in weights.values()])
        suspects = [name for name, ok in zip(weights, torch.isfinite(sums).tolist(), strict=True) if not ok]
        return [name for name in suspects if not bool(torch.isfinite(weights[name]).all())]


def convert_torch_tensor_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword tensors; other values pass. 0-d tensors become shape ``(1,)``."""
    return TorchArrays.convert(args, kwargs)


class _Copier:
    """One snapshot in the making."""

    def __init__(self) -> None:
        self._storages: dict[tuple[torch.device, int, int], torch.UntypedStorage] = {}
        self._arrays: dict[int, np.ndarray] = {}
        self._used: set[int] = set()  # addresses of the memory that was taken from the previous snapshot
        self._streams: set[torch.cuda.Stream] = set()

    def copy(self, tree: object, previous: object) -> Any:
        """Copy what is at one place of the tree; ``previous`` is what was there before, or None."""
        if isinstance(tree, torch.Tensor):
            return self._tensor(tree, previous)
        if isinstance(tree, np.ndarray):
            return self._array(tree, previous)
        if isinstance(tree, Mapping):
            old = previous if isinstance(previous, Mapping) else {}
            return {key: self.copy(value, old.get(key)) for key, value in tree.items()}
        if isinstance(tree, (list, tuple)):
            olds = (
                previous if isinstance(previous, (list, tuple)) and len(previous) == len(tree) else [None] * len(tree)
            )
            parts = [self.copy(value, old) for value, old in zip(tree, olds, strict=True)]
            return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
        return set(tree) if isinstance(tree, set) else tree

    def _tensor(self, tensor: torch.Tensor, previous: object) -> torch.Tensor:
        if not _has_plain_storage(tensor):
            return tensor.detach().cpu().clone()
        source = tensor.untyped_storage()
        key = (tensor.device, source.data_ptr(), source.nbytes())
        old = previous if type(previous) is torch.Tensor else None
        if key not in self._storages:
            if tensor.is_contiguous() and tensor.nbytes == source.nbytes():
                copied = self._copied(tensor, old)
                self._storages[key] = copied.untyped_storage()
                return copied
            # a view, perhaps one of several of this storage, which is copied byte by byte
            old_bytes = _bytes_of(old) if old is not None and _has_plain_storage(old) else None
            self._storages[key] = self._copied(_bytes_of(tensor), old_bytes).untyped_storage()
        view = torch.empty(0, dtype=tensor.dtype)
        return view.set_(  # type: ignore[call-overload,no-any-return]
            self._storages[key], tensor.storage_offset(), tensor.size(), tensor.stride()
        )

    def _copied(self, tensor: torch.Tensor, previous: torch.Tensor | None) -> torch.Tensor:
        """A copy of a contiguous tensor that covers its storage."""
        target, is_cuda = previous, tensor.is_cuda
        if target is None or not self._can_take(target, tensor):
            target = torch.empty(tensor.size(), dtype=tensor.dtype, pin_memory=is_cuda)
        self._used.add(target.data_ptr())
        if tensor.device.type == "cpu":
            # one thread fills the memory bus; torch's threads wait for each other, long if others use the cores
            ctypes.memmove(target.data_ptr(), tensor.data_ptr(), tensor.nbytes)
        else:
            target.copy_(tensor, non_blocking=is_cuda)
        if is_cuda:
            self._streams.add(torch.cuda.current_stream(tensor.device))
        return target

    def _can_take(self, target: torch.Tensor, tensor: torch.Tensor) -> bool:
        return (
            target.dtype is tensor.dtype
            and target.shape == tensor.shape
            and target.is_contiguous()
            and target.untyped_storage().nbytes() == tensor.nbytes
            and target.data_ptr() not in self._used
        )

    def _array(self, array: np.ndarray, previous: Any) -> np.ndarray:
        if id(array) not in self._arrays:
            fits = (
                isinstance(previous, np.ndarray)
                and (previous.shape, previous.dtype) == (array.shape, array.dtype)
                and previous.flags.writeable
                and previous.ctypes.data not in self._used
            )
            target = previous if fits else np.empty_like(array, subok=False)
            self._used.add(target.ctypes.data)
            np.copyto(target, array)
            self._arrays[id(array)] = target
        return self._arrays[id(array)]

    def wait(self) -> None:
        """Until the GPUs have copied what they were told to."""
        for stream in self._streams:
            stream.synchronize()


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
