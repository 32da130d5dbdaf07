"""Debug mode: one switch, and as long as it is on no process is started."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import delira
from delira.data_loading import BaseDataManager
from delira.utils.debug import (
    DebugDisabled,
    DebugEnabled,
    DebugMode,
    get_current_debug_mode,
    set_debug_mode,
    switch_debug_mode,
)


@pytest.fixture(autouse=True)
def off_before_and_after():
    assert get_current_debug_mode() is False
    yield
    set_debug_mode(False)


def with_pid(batch):
    return batch | {"pid": os.getpid()}


def pids(batches):
    return {batch["pid"] for batch in batches}


def children():
    """Processes that this one started and that are not over."""
    return {pid for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()}


@pytest.fixture
def manager():
    manager = BaseDataManager({"label": np.arange(8)}, 2, 2, with_pid)
    yield manager
    manager.close()


def test_it_can_be_set_and_switched():
    set_debug_mode(True)
    assert get_current_debug_mode() is True
    switch_debug_mode()
    assert get_current_debug_mode() is False
    switch_debug_mode()
    assert delira.get_current_debug_mode() is True
    delira.switch_debug_mode()
    delira.set_debug_mode(1)
    assert get_current_debug_mode() is True


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("scope", "inside"),
    [(DebugEnabled, True), (DebugDisabled, False), (lambda: DebugMode(True), True), (lambda: DebugMode(False), False)],
)
def test_a_scope_gives_back_what_was_before(before, scope, inside):
    set_debug_mode(before)
    with scope():
        assert get_current_debug_mode() is inside
        switch_debug_mode()
    assert get_current_debug_mode() is before
    with pytest.raises(ZeroDivisionError, match="in the scope"), scope():
        raise ZeroDivisionError("in the scope")
    assert get_current_debug_mode() is before


def test_scopes_can_be_nested():
    with DebugEnabled():
        with DebugDisabled(), DebugMode(True):
            assert get_current_debug_mode() is True
        assert get_current_debug_mode() is True
    assert get_current_debug_mode() is False


def test_no_worker_is_started_in_it(manager):
    before = children()
    with DebugEnabled():
        assert pids(manager) == {os.getpid()}
        assert children() == before
    found = pids(manager)
    assert len(found) == 2
    assert os.getpid() not in found


def test_batches_are_the_same_in_it():
    def draw(batch, rng):
        return batch | {"drawn": rng.random(), "global": np.random.rand()}

    manager = BaseDataManager({"label": np.arange(8)}, 2, 2, draw)
    with DebugEnabled():
        alone = [(batch["drawn"], batch["global"]) for batch in manager.epoch(3, 1, 2, shuffle=True)]
    ahead = [(batch["drawn"], batch["global"]) for batch in manager.epoch(3, 1, 2, shuffle=True)]
    assert alone == ahead
    assert len(set(alone)) == 4


def test_an_iteration_keeps_the_mode_that_it_began_with(manager):
    running = manager.epoch(0, 0, 0)
    with DebugEnabled():
        debugged = manager.epoch(0, 0, 0)
        assert os.getpid() not in pids(running)
    assert pids(debugged) == {os.getpid()}


def test_transforms_can_be_debugged_in_it(manager):
    # what a debugger needs: the user's code runs in this thread, and what it keeps stays here
    seen = []

    def keep(batch):
        seen.append((threading.get_ident(), batch["label"].tolist()))
        return batch

    manager.transforms = keep
    with DebugEnabled():
        list(manager)
    assert seen == [(threading.get_ident(), labels) for labels in ([0, 1], [2, 3], [4, 5], [6, 7])]
