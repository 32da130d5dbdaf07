"""Leases: one of all takers holds a part, whoever dies, sleeps or has another clock."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from delira.errors import ConfigError, LeaseLostError
from delira.runs import leases as module
from delira.runs.leases import FOLDER, Leases
from delira.utils import files

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs to know when processes began")


def left(folder):
    return sorted(path.name for path in (folder / FOLDER).glob("*"))


@contextlib.contextmanager
def holding(folder, *, expires_after=60.0, clock=0.0, parts=("a",)):
    """Another process that holds parts until it is told to write a file, or is ended."""
    code = f"""
import sys, time
now = time.time
time.time = lambda: now() + {clock!r}
from pathlib import Path
from delira.errors import LeaseLostError
from delira.runs.leases import Leases
from delira.utils import files
folder = Path({str(folder)!r})
held = [Leases(folder, {expires_after!r}).take(part).__enter__() for part in {parts!r}]
with held[0].fenced(folder / "part"):
    print("held", flush=True)
    for line in sys.stdin:
        try:
            files.publish_text(folder / "part" / "text", line.strip())
            print("written", flush=True)
        except LeaseLostError as error:
            print(error, flush=True)
for lease in held:
    lease.release()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def ask(process, text="hello"):
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def waited(condition, seconds):
    """Wait until something is true; returns after how many seconds."""
    began = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - began < seconds, "it did not happen"
        time.sleep(0.02)
    return found, time.monotonic() - began


# ---- one of all


def test_who_holds_a_part_keeps_others_out_until_it_is_released(tmp_path):
    with Leases(tmp_path).take("a") as lease:
        assert Leases(tmp_path).take("a") is None
        assert Leases(tmp_path).holder("a").worker == module.worker()
        assert Leases(tmp_path).held() == ["a"]
        with Leases(tmp_path).take("b"):
            assert Leases(tmp_path).held() == ["a", "b"]
        lease.check()
    assert not (tmp_path / FOLDER).exists()
    assert Leases(tmp_path).holder("a") is None
    assert Leases(tmp_path).is_free("a").number == 0
    Leases(tmp_path).take("a").release()
    assert not (tmp_path / FOLDER).exists()


@pytest.mark.parametrize("is_new", [True, False])
def test_of_several_takers_at_once_exactly_one_wins(tmp_path, is_new):
    for turn in range(40):
        over = None
        if not is_new:
            Leases(tmp_path).take(f"p{turn}")  # and never released
            over = Leases(tmp_path).holder(f"p{turn}")
        ready, won = threading.Barrier(8), []

        def take(part=f"p{turn}", over=over, ready=ready, won=won):
            own = Leases(tmp_path)
            ready.wait()
            if (lease := own.take(part, over)) is not None:
                won.append(lease)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert won[0].number == 2 - is_new
        won[0].check()
        won[0].release()
    assert not left(tmp_path)


def test_who_waits_gets_it_when_it_is_released(tmp_path):
    order = []

    def work(name):
        with Leases(tmp_path).waited_for("result"):
            order.append(name)
            time.sleep(0.05)
            order.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order[::2] == order[1::2]
    assert sorted(order) == sorted("aabbccdd")


# ---- the dead, the stopped, and clocks


@linux
def test_a_dead_process_of_this_machine_is_known_at_once(tmp_path):
    with holding(tmp_path) as process:
        other = Leases(tmp_path)
        assert other.take("a") is None
        process.kill()
        lease, seconds = waited(lambda: other.take("a"), 5)
        assert seconds < 3
        assert lease.number == 2
        assert lease.taken_from == f"process {process.pid} on {module.worker().rpartition(' ')[2]}"
        assert left(tmp_path) == ["a.2.lease"]
        lease.release()
    assert not left(tmp_path)


@linux
def test_another_process_with_the_same_number_is_not_taken_for_the_dead_one(tmp_path):
    Leases(tmp_path).take("a")
    path = tmp_path / FOLDER / "a.1.lease"
    told = json.loads(path.read_text())
    assert Leases(tmp_path).is_free("a") is None
    path.write_text(json.dumps({**told, "began": "1"}))
    assert Leases(tmp_path).is_free("a").number == 1
    path.write_text(json.dumps({**told, "began": "1", "machine": "another one"}))
    assert Leases(tmp_path).is_free("a") is None


@linux
def test_what_this_process_does_not_hold_it_has_lost(tmp_path):
    """A copy of a folder, or what was left of one: nobody else can be at work on it."""
    with Leases(tmp_path).take("a"):
        content = (tmp_path / FOLDER / "a.1.lease").read_bytes()
        assert Leases(tmp_path).take("a") is None
    assert Leases(tmp_path).is_free("a").number == 0
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "a.1.lease").write_bytes(content)
    assert Leases(tmp_path).take("a").number == 2


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs to stop a process")
def test_who_was_stopped_and_wakes_after_a_takeover_writes_nothing(tmp_path):
    with holding(tmp_path, expires_after=1.0) as process:
        assert ask(process, "before") == "written"
        other = Leases(tmp_path)
        began = time.monotonic()
        while time.monotonic() - began < 1.5:  # it is alive
            assert other.take("a") is None
            time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        lease, seconds = waited(lambda: other.take("a"), 10)
        assert 0.7 < seconds < 5
        with lease, lease.fenced(tmp_path / "part"):
            process.send_signal(signal.SIGCONT)
            told = ask(process, "after")
            assert told.startswith(
                f"a of {str(tmp_path)!r} was taken over by {module.worker()}: this process had shown"
            )
            assert "for 1 s" in told
            assert (tmp_path / "part" / "text").read_text() == "before"
            files.publish_text(tmp_path / "part" / "text", "new")
        assert ask(process, "much later").startswith(f"a of {str(tmp_path)!r} was taken over by somebody else")
        with Leases(tmp_path).take("a") as again:  # whose number is that of the first one
            assert again.number == 1
            assert "taken over" in ask(process, "again")
            process.stdin.close()
            process.wait(20)
            again.check()
        assert (tmp_path / "part" / "text").read_text() == "new"
    assert not left(tmp_path)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs to stop a process")
def test_who_wakes_leaves_the_lease_alone_whose_number_began_again(tmp_path):
    with holding(tmp_path, expires_after=1.0) as process:
        process.send_signal(signal.SIGSTOP)
        other = Leases(tmp_path)
        waited(lambda: other.take("a"), 10)[0].release()
        with Leases(tmp_path).take("a") as lease, lease.fenced(tmp_path / "part"):
            assert lease.number == 1
            content = lease.path.read_bytes()
            process.send_signal(signal.SIGCONT)
            for turn in range(20):  # more than two of its heartbeats
                assert "taken over" in ask(process, str(turn))
                lease.check()
                time.sleep(0.02)
            assert lease.path.read_bytes() == content


def test_who_has_taken_a_part_since_somebody_expired_is_left_alone(tmp_path):
    expired = Leases(tmp_path).take("a")
    seen = Leases(tmp_path).holder("a")
    Leases(tmp_path).take("a", seen).release()
    with Leases(tmp_path).take("a") as lease:
        assert lease.number == expired.number
        assert Leases(tmp_path).take("a", seen) is None
        lease.check()


def taken_over(lease):
    """What somebody else does who takes a part over."""
    lease.path.rename(lease.path.with_name("a.2.lease"))


def test_a_file_that_was_being_written_at_the_takeover_replaces_nothing(tmp_path):
    with Leases(tmp_path).take("a") as lease, lease.fenced(tmp_path / "part"):
        path = tmp_path / "part" / "text"

        def write(file):
            file.write(b"old")
            taken_over(lease)
            path.write_bytes(b"new")

        with pytest.raises(LeaseLostError):
            files.publish(path, write)
        assert [each.name for each in path.parent.iterdir() if not each.name.startswith(".")] == ["text"]
        assert path.read_bytes() == b"new"


def test_what_was_called_alone_is_called_again_after_a_takeover(tmp_path):
    calls = []

    def write():
        calls.append(tmp_path)
        if len(calls) == 1:
            path = tmp_path / FOLDER / "a.1.lease"  # somebody else's, who is dead by now
            path.write_text(path.read_text().replace('"token": "', '"token": "other'))
        files.publish_text(tmp_path / "part" / "text", str(len(calls)))
        if len(calls) == 1:
            pytest.fail("it was taken over")
        return "written"

    assert Leases(tmp_path).call_alone("a", tmp_path / "part", write) == "written"
    assert calls == [tmp_path] * 2
    assert (tmp_path / "part" / "text").read_text() == "2"
    assert not left(tmp_path)


@pytest.mark.parametrize("clock", [3600.0, -3600.0])
def test_clocks_that_are_an_hour_apart_make_no_difference(tmp_path, clock):
    with holding(tmp_path, expires_after=1.0, clock=clock) as process:
        other = Leases(tmp_path)
        began = time.monotonic()
        while time.monotonic() - began < 2.0:
            assert other.take("a") is None
            now = time.time()
            os.utime(tmp_path / FOLDER / "a.1.lease", (now + clock, now + clock))
            time.sleep(0.05)
        assert ask(process) == "written"
        if hasattr(signal, "SIGSTOP"):
            process.send_signal(signal.SIGSTOP)
            waited(lambda: other.take("a"), 10)


def test_who_looks_after_a_long_sleep_takes_nothing_from_a_living_one(tmp_path, monkeypatch):
    Leases(tmp_path).take("a")
    path = tmp_path / FOLDER / "a.1.lease"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "another one"}))
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    other = Leases(tmp_path)
    for _ in range(12):
        assert other.take("a") is None
        now[0] += 3600  # of which nobody knows whether the holder slept, too
    assert other.is_free("a").number == 1


# ---- files that are none


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"token": "x"}'])
def test_a_lease_that_cannot_be_read_is_one_until_it_was_quiet_for_long(tmp_path, content, monkeypatch):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "a.3.lease").write_bytes(content)
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    other = Leases(tmp_path, expires_after=5.0)
    for _ in range(100):
        assert other.take("a") is None
        now[0] += 0.5
    for _ in range(50):
        other.holder("a")
        now[0] += 0.5
    lease = other.take("a")
    assert lease.number == 4
    assert left(tmp_path) == ["a.4.lease"]


@pytest.mark.parametrize("name", ["a.x.lease", "a.lease", "ab.1.lease", "a.1.other", "b.1.lease"])
def test_other_files_are_no_leases_of_a_part(tmp_path, name):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / name).write_text("x")
    with Leases(tmp_path).take("a") as lease:
        assert lease.number == 1
    assert left(tmp_path) == [name]


def test_what_a_dead_holder_left_is_swept_and_what_lives_is_not(tmp_path):
    with holding(tmp_path, parts=("a", "b")) as process:
        Leases(tmp_path).sweep()
        assert left(tmp_path) == ["a.1.lease", "b.1.lease"]
        process.kill()
        process.wait()
        if Path("/proc/self/stat").exists():
            Leases(tmp_path).sweep()
            assert not left(tmp_path)


@pytest.mark.parametrize(("number", "words"), [(errno.EACCES, "let this user write"), (errno.EROFS, "save_path")])
def test_who_may_write_no_lease_takes_nothing(tmp_path, monkeypatch, number, words):
    def refused(path, *arguments, **options):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(module, "open", refused, raising=False)
    with pytest.raises(ConfigError, match=words):
        Leases(tmp_path).take("a")
    monkeypatch.undo()
    with Leases(tmp_path).take("a"):
        monkeypatch.setattr(module, "open", refused, raising=False)
        assert Leases(tmp_path).take("a") is None


def test_where_a_full_disk_takes_no_lease_the_work_goes_on(tmp_path, monkeypatch, caplog):
    def full(path, *arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(module, "open", full, raising=False)
    with Leases(tmp_path).take("a") as lease:
        lease.check()
    assert "begin no second one before there is room" in caplog.text


def test_a_lease_whose_file_somebody_removed_is_lost(tmp_path):
    with Leases(tmp_path).take("a") as lease:
        (tmp_path / FOLDER / "a.1.lease").unlink()
        with pytest.raises(LeaseLostError, match="taken over by somebody else"):
            lease.check()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "x", None])
def test_times_that_are_none_are_refused(tmp_path, seconds):
    with pytest.raises(ConfigError, match="expires_after"):
        Leases(tmp_path, seconds)


def test_a_child_that_was_forked_does_not_release_what_its_parent_holds(tmp_path):
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    with Leases(tmp_path).take("a") as lease:
        if (pid := os.fork()) == 0:
            lease.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(pid, 0)
        lease.check()


def test_whether_anybody_is_alive_is_known_after_a_while(tmp_path):
    with Leases(tmp_path, expires_after=3.0).take("a"):
        began = time.monotonic()
        assert not Leases(tmp_path, expires_after=3.0).are_all_dead()
        assert time.monotonic() - began < 2  # it was seen to beat
    Leases(tmp_path, expires_after=0.5).take("a")  # and does not beat
    path = tmp_path / FOLDER / "a.1.lease"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "another one"}))
    assert Leases(tmp_path, expires_after=0.5).are_all_dead()
    path.unlink()
    assert Leases(tmp_path).are_all_dead()
