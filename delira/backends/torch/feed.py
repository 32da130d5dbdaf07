"""Batches on their way to a GPU: copied from pinned memory while the step before computes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from delira.utils.trees import iterate_leaves, map_leaves

Batch = Mapping[str, Any]
Prepare = Callable[[Batch], dict[str, Any]]
Fed = tuple[Batch, dict[str, Any] | None]


def feed(batches: Iterable[Batch], prepare: Prepare) -> Iterator[Fed]:
    """Prepare each batch during the step before it, where it goes to a GPU by the backend's ``prepare_batch``.

    A network's own ``prepare_batch`` may draw random numbers, so it is left to be called at its time.
    """
    settings = getattr(prepare, "keywords", {})
    devices = [settings.get(name) for name in ("input_device", "output_device")]
    is_default = getattr(getattr(prepare, "func", None), "is_backend_default", False)
    gpu = next((device for device in devices if getattr(device, "type", None) == "cuda"), None)
    if gpu is None or not is_default:
        return ((batch, None) for batch in batches)
    return _one_ahead(batches, _Copier(prepare, gpu))


def _one_ahead(batches: Iterable[Batch], start: Callable[[Batch], Callable[[], dict[str, Any]]]) -> Iterator[Fed]:
    """Start what is done with a batch before the one ahead of it is handed out.

    An error in making a batch is kept until the batches ahead of it are used.
    """
    iterator = iter(batches)
    waiting: tuple[Batch, Callable[[], dict[str, Any]]] | None = None
    error: Exception | None = None
    while True:
        following = None
        try:
            batch = next(iterator)
            following = batch, start(batch)
        except StopIteration:
            pass
        except Exception as caught:
            error = caught
        if waiting is not None:
            yield waiting[0], waiting[1]()
        if error is not None:
            raise error
        if following is None:
            return
        waiting = following


class _Copier:
    """Starts copies on a stream of their own; what it returns makes the current stream wait for them."""

    def __init__(self, prepare: Prepare, device: torch.device) -> None:
        self._prepare, self._device = prepare, device
        self._stream = torch.cuda.Stream(device)

    def __call__(self, batch: Batch) -> Callable[[], dict[str, Any]]:
        with torch.cuda.stream(self._stream):
            prepared = self._prepare({key: map_leaves(_pinned, value) for key, value in batch.items()})
            done = self._stream.record_event()

        def arrive() -> dict[str, Any]:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(done)
            for _, value in iterate_leaves(prepared):
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    value.record_stream(current)  # its memory is not given away while the step uses it
            return prepared

        return arrive


def _pinned(value: object) -> Any:
    """An array as a tensor in pinned memory; what torch does not take stays as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufc":
        return value
    try:
        return torch.as_tensor(np.ascontiguousarray(value)).pin_memory()
    except (TypeError, ValueError):  # e.g. foreign byte order: prepare_batch sees to it
        return value
