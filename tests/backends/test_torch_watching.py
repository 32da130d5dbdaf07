"""GPUs that wait for that of a lost process are woken, and their numbers are void; on the CPU, with what a GPU does."""

import threading
import time

import pytest

from delira.errors import WorkerLostError

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")

from delira.backends.torch import group, watching  # noqa: E402


class Given:
    """What a GPU was given, which waits for another one until it is broken off."""

    def __init__(self):
        self.broken_off = threading.Event()


@pytest.fixture
def given(monkeypatch):
    found = Given()
    monkeypatch.setattr(watching, "_LOOK", 0.01)
    monkeypatch.setattr(watching, "_marked", lambda: found)
    monkeypatch.setattr(watching, "_is_done", lambda event: event.broken_off.is_set())
    monkeypatch.setattr(watching, "_break_off", found.broken_off.set)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *args: found.broken_off.wait(20))
    yield found
    assert not [thread for thread in threading.enumerate() if thread.name == "delira watch"]


def gone():
    raise WorkerLostError("process 7 was ended by SIGKILL")


def quiet():
    """Nobody is known to be lost."""


def waits(watch):
    """Add up with the others."""
    with watch.entered():
        made = group.TorchGroup(0, 2, torch.device("cpu"), 1.0)
        made.watch = watch
        watch.note()
        made.any(True)


LOSSES = {
    "told by who started it": (gone, False, 60.0, "process 7 was ended by SIGKILL"),
    "told by itself": (quiet, True, 60.0, "it has ended by an error"),
    "never heard of": (quiet, False, 0.1, "the GPU has waited for it for 0.1 s"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_who_waits_for_a_lost_process_is_woken(given, name):
    look, is_told, seconds, text = LOSSES[name]
    store = torch.distributed.HashStore()
    if is_told:
        store.set("ended", "")
    with pytest.raises(WorkerLostError, match=f"another of the processes .* is lost: {text}"):
        waits(watching.Watch(store, look, seconds))
    assert store.check(["ended"])  # so that all others are woken, too


def divides(watch, is_void):
    with watch.entered():
        while is_void and watch.cause is None:
            time.sleep(0.01)
        raise ZeroDivisionError


def test_what_follows_from_numbers_that_are_void_is_told_as_the_loss(given):
    with pytest.raises(WorkerLostError, match="SIGKILL") as caught:
        divides(watching.Watch(torch.distributed.HashStore(), gone, 60.0), is_void=True)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    store = torch.distributed.HashStore()
    with pytest.raises(ZeroDivisionError):
        divides(watching.Watch(store, quiet, 60.0), is_void=False)
    assert store.check(["ended"])


def test_what_is_done_in_time_is_left_alone(given):
    given.broken_off.set()
    watch = watching.Watch(store := torch.distributed.HashStore(), quiet, 0.05)
    with watch.entered():
        watch.note()
        time.sleep(0.2)
        watch.check()
    assert not store.check(["ended"])
