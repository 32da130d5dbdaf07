"""Where processes of this machine that train one network meet, and the scope in which they do."""

import contextlib
import datetime
import functools
import os
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import distributed

from delira.backends.torch import watching
from delira.backends.torch.group import TorchGroup
from delira.contract import Devices
from delira.errors import ConfigError, WorkerLostError

_HERE = "127.0.0.1"
#: seconds between two looks
_LOOK = 0.02


def opened(size: int, seconds: float) -> distributed.TCPStore:
    """Open a place on the loopback of this machine where processes meet; others need its ``port``."""
    wait = datetime.timedelta(seconds=seconds)
    with socket.create_server((_HERE, 0)) as server:  # the store's own would listen to all machines
        port, listening = server.getsockname()[1], server.detach()
    return distributed.TCPStore(
        _HERE, port, size, is_master=True, timeout=wait, wait_for_workers=False, master_listen_fd=listening
    )


def launch_store(prefix: str, process: int) -> distributed.Store:
    """Return where the processes that torchrun has started leave messages, under names that begin so."""
    return distributed.PrefixStore(prefix, _store_of_launcher(process))


@functools.cache
def _store_of_launcher(process: int) -> distributed.Store:
    store, _, _ = next(iter(distributed.rendezvous("env://")))
    return store


@contextlib.contextmanager
def entered(
    rank: int, size: int, place: Any, seconds: float, devices: Devices, look: Callable[[], object]
) -> Iterator[TorchGroup]:
    """Scope in which this process is one of several.

    Parameters
    ----------
    rank, size
        Which one of how many.
    place
        Where they meet, or its port.
    seconds
        After which one that waits for another gives it up.
    devices
        Of this process.
    look
        Called again and again while the others are waited for.

    Raises
    ------
    ConfigError
        If the script has brought processes together itself.
    WorkerLostError
        If the others do not come.
    """
    if distributed.is_initialized():
        raise ConfigError("delira brings the processes of a training together itself; leave init_process_group() out")
    group, before, device = TorchGroup(rank, size, devices.input, seconds), _connections(), devices.input
    with _on_gpu(device) if device.type == "cuda" else contextlib.nullcontext():
        try:
            _meet(group, place, look)
            connections = _connections() - before
            try:
                with _watched(group):
                    yield group
            except BaseException:
                # torch keeps them open as long as anything holds the group, and others would wait
                for descriptor in connections:
                    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
                        connection.shutdown(socket.SHUT_RDWR)
                raise
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()


@contextlib.contextmanager
def _on_gpu(device: torch.device) -> Iterator[None]:
    # FSDP2 takes the memory of the current one, wherever the weights are
    with torch.cuda.device(device), watching.left_to_us():
        yield


@contextlib.contextmanager
def _watched(group: TorchGroup) -> Iterator[None]:
    if group.watch is None:
        yield
        return
    with group.watch.entered():
        group.any(False)  # GPUs make their connections now
        yield


def _meet(group: TorchGroup, place: Any, look: Callable[[], object]) -> None:
    """Bring the processes together; arguments as of :func:`entered`."""
    rank, size, seconds, hook = group.rank, group.size, group.seconds, sys.excepthook
    wait = datetime.timedelta(seconds=seconds)
    try:
        store = distributed.TCPStore(_HERE, place, size, timeout=wait) if isinstance(place, int) else place
        _wait_for_others(store, rank, size, seconds, look)
        with _on_loopback(size):
            distributed.init_process_group(
                "gloo" if group.device.type == "cpu" else "cpu:gloo,cuda:nccl",
                store=store, rank=rank, world_size=size, timeout=wait,
            )  # fmt: skip
            group.exchange(None)
        if group.device.type == "cuda":
            group.watch = watching.Watch(store.clone(), look, seconds)  # type: ignore[union-attr]
    except RuntimeError as error:
        raise WorkerLostError(
            f"the {size} processes of a training did not find each other within {seconds:g} s: {error}"
        ) from error
    finally:
        sys.excepthook = hook  # torch has put one of its own around it, which would stay


def _wait_for_others(
    store: distributed.Store, rank: int, size: int, seconds: float, look: Callable[[], object]
) -> None:
    store.set(f"here/{rank}", "")
    deadline = time.monotonic() + seconds
    while not store.check([f"here/{other}" for other in range(size)]):
        look()
        if time.monotonic() > deadline:
            raise RuntimeError("not all of them came")
        time.sleep(_LOOK)


def _connections() -> set[int]:
    """Return the descriptors of this process that are connections over a network."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            mode = os.fstat(int(name)).st_mode
            if stat.S_ISSOCK(mode):
                with socket.socket(fileno=os.dup(int(name))) as each:
                    each.getpeername()  # else it only listens
                    found |= {int(name)} if each.family in (socket.AF_INET, socket.AF_INET6) else set()
    return found


@contextlib.contextmanager
def _on_loopback(size: int) -> Iterator[None]:
    """Scope in which gloo listens where no other machine hears it, if none takes part and it was not told where."""
    name, n_here = "GLOO_SOCKET_IFNAME", int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if n_here < size or name in os.environ or sys.platform not in ("linux", "darwin"):
        yield
        return
    os.environ[name] = "lo" if sys.platform == "linux" else "lo0"
    try:
        yield
    finally:
        del os.environ[name]
