"""Batches on their way to a GPU: copied from pinned memory while the step before computes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from delira.contract.kinds import ByName
from delira.utils.trees import iterate_leaves, map_leaves

Batch = ByName
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
    return _one_ahead(batches, _copying(prepare, gpu))


def _one_ahead(batches: Iterable[Batch], start: Callable[[Batch], Callable[[], dict[str, Any]]]) -> Iterator[Fed]:
    """Start what is done with a batch before the one ahead of it is handed out.

    An error in making a batch is kept until the batches ahead of it are used.
    """
    started = ((batch, start(batch)) for batch in batches)
    waiting = next(started, None)
    while waiting is not None:
        following, error = None, None
        try:
            following = next(started, None)
        except Exception as caught:
            error = caught
        yield waiting[0], waiting[1]()
        if error is not None:
            raise error
        waiting = following


def _copying(prepare: Prepare, device: torch.device) -> Callable[[Batch], Callable[[], dict[str, Any]]]:
    """Return what starts copies on a stream of their own; what that returns makes the current stream wait for them."""
    stream = torch.cuda.Stream(device)

    def start(batch: Batch) -> Callable[[], dict[str, Any]]:
        with torch.cuda.stream(stream):
            prepared = prepare({key: map_leaves(_pinned, value) for key, value in batch.items()})
            done = stream.record_event()

        def arrive() -> dict[str, Any]:
            current = torch.cuda.current_stream(device)
            current.wait_event(done)
            for _, value in iterate_leaves(prepared):
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    value.record_stream(current)  # its memory is not given away while the step uses it
            return prepared

        return arrive

    return start


def _pinned(value: object) -> Any:
    """An array as a tensor in pinned memory; what torch does not take stays as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufc":
        return value
    try:
        return torch.as_tensor(np.ascontiguousarray(value)).pin_memory()
    except (TypeError, ValueError):  # e.g. foreign byte order: prepare_batch sees to it
        return value
