"""The lock of a folder: it keeps other processes out, and dies with its owner."""

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from delira.errors import FolderInUseError
from delira.utils import lock
from delira.utils.lock import locked

HOLD = """
import os, sys, time
from delira.utils.lock import locked
with locked(sys.argv[1]):
    children = int(sys.argv[2])
    for _ in range(children):
        if not os.fork():
            time.sleep(60)
    print("locked", flush=True)
    sys.stdin.readline()
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")


@contextlib.contextmanager
def owner_of(folder: Path, children: int = 0) -> Iterator[subprocess.Popen]:
    """Another process that holds the lock until its standard input is closed."""
    command = [sys.executable, "-c", HOLD, str(folder), str(children)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout.readline() == "locked\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(pid: int) -> int:
    """Wait for a child of this process; its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_a_child(function) -> int:
    """Run ``function`` in a forked process; 0 if it went well."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return wait_for(pid)


def test_a_second_process_is_refused_and_told_by_whom(tmp_path):
    with owner_of(tmp_path) as owner:
        with pytest.raises(FolderInUseError) as caught, locked(tmp_path, patience=0.1):
            pytest.fail("two processes in one folder")
        said = str(caught.value)
        for part in (str(tmp_path), f"process {owner.pid} on {socket.gethostname()} since 20", "another save_path"):
            assert part in said


def test_it_is_free_when_its_owner_is_done(tmp_path):
    with owner_of(tmp_path) as owner:
        owner.communicate("\n")
        with locked(tmp_path, patience=0):
            assert [path.name for path in tmp_path.iterdir()]
    assert [*tmp_path.iterdir()] == []


def test_it_waits_a_moment_for_an_owner_that_is_about_to_end(tmp_path):
    with owner_of(tmp_path) as owner:
        timer = threading.Timer(0.5, owner.send_signal, (signal.SIGTERM,))
        timer.start()
        with locked(tmp_path):
            pass
        timer.join()


@pytest.mark.parametrize("children", [0, 2])
def test_it_dies_with_its_owner_though_children_of_it_live_on(tmp_path, children):
    with owner_of(tmp_path, children) as owner:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        began = time.monotonic()
        with locked(tmp_path):
            assert time.monotonic() - began < 1
            if children:
                os.killpg(owner.pid, 0)


def test_a_child_has_no_part_in_the_lock_of_its_parent(tmp_path):
    def child():
        with pytest.raises(FolderInUseError, match=f"process {parent} on"), locked(tmp_path, patience=0):
            pass

    parent = os.getpid()
    with locked(tmp_path):
        assert in_a_child(child) == 0
        assert in_a_child(child) == 0  # the first did not free it by ending


def test_a_child_that_leaves_the_scope_of_its_parent_leaves_the_lock(tmp_path):
    scope = locked(tmp_path)
    scope.__enter__()
    assert in_a_child(lambda: scope.__exit__(None, None, None)) == 0
    command = [sys.executable, "-c", HOLD.replace("argv[1])", "argv[1], 0)"), str(tmp_path), "0"]
    second = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert second.returncode == 1
    assert "FolderInUseError" in second.stderr
    scope.__exit__(None, None, None)


def test_one_process_locks_a_folder_as_often_as_it_likes(tmp_path):
    held = []

    def again():
        with locked(tmp_path, patience=0):
            held.append(True)

    inner = tmp_path / "fold_00"
    inner.mkdir()
    with locked(tmp_path, patience=0):
        with locked(inner, patience=0), locked(tmp_path / "fold_00" / "..", patience=0):
            thread = threading.Thread(target=again)
            thread.start()
            thread.join()
        assert held == [True]
        assert in_a_child(lambda: locked(tmp_path, patience=0).__enter__()) == 1
    assert in_a_child(lambda: locked(tmp_path, patience=0).__enter__()) == 0


def test_it_is_freed_when_an_error_leaves_the_scope(tmp_path):
    with pytest.raises(ValueError, match="mine"), locked(tmp_path):
        raise ValueError("mine")
    assert [*tmp_path.iterdir()] == []
    assert in_a_child(lambda: locked(tmp_path, patience=0).__enter__()) == 0


def test_the_folder_may_be_deleted_under_it(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with locked(folder):
        shutil.rmtree(folder)
        with locked(folder):
            pass
    folder.mkdir()
    with locked(folder):
        assert in_a_child(lambda: locked(folder, patience=0).__enter__()) == 1


def test_a_folder_that_is_another_process_s_by_now_stays_locked(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with contextlib.ExitStack() as other:
        with locked(folder):
            shutil.rmtree(folder)
            folder.mkdir()
            other.enter_context(owner_of(folder))
        with pytest.raises(FolderInUseError), locked(folder, patience=0):
            pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.EROFS])
def test_where_there_are_no_locks_it_goes_on_with_one_warning(tmp_path, monkeypatch, number):
    fcntl = pytest.importorskip("fcntl")

    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(lock, "_without_locks", set())
    inner = tmp_path / "fold_00"
    inner.mkdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with locked(tmp_path), locked(inner), locked(tmp_path):
            pass
        with locked(tmp_path):
            pass
    (warning,) = caught
    assert str(tmp_path) in str(warning.message)
    assert f"cannot be locked ([Errno {number}]" in str(warning.message)
    assert warning.filename == __file__
