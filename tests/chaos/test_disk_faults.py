"""The disk is full, breaks, is read-only, or is taken away: a clear error, and what was there before stays."""

import contextlib
import ctypes
import errno
import os
import re
import resource
import shutil
import warnings

import numpy as np
import pytest
from system_calls import SystemCalls, in_child
from test_writer_protocol import LINKS, checkpoint_folder, tree_of
from trainings import build, check_checkpoints, check_equal, data, files, train

from delira.errors import CheckpointError, ConfigError
from delira.utils.files import publish, publish_link, publish_text, sweep_partials, sync_folder, writable_folder


class Fault:
    """Raises one error in place of the n-th call of a kind, and of all later ones if it lasts."""

    def __init__(self, names, code, at=1, lasts=False, where=""):
        self.names, self.code, self.at, self.lasts, self.where = names, code, at, lasts, where
        self.n_seen = 0

    def __call__(self, call):
        if call.name in self.names and self.where in call.path:
            self.n_seen += 1
            if self.n_seen == self.at or (self.lasts and self.n_seen > self.at):
                paths = [call.path, None, call.target] if call.target else [call.path]
                # as the system does: writing and syncing know no names
                raise OSError(
                    self.code, os.strerror(self.code), *([] if "write" in call.name or "sync" in call.name else paths)
                )

    @property
    def was_hit(self):
        return self.n_seen >= self.at


WRITING = ("open", "write", "fsync", "sync_folder", "replace")


def describe(code):
    return re.escape(f"[Errno {int(code)}] {os.strerror(code)}")


# ---- one file


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("name", ["open", "write", "fsync", "replace"])
def test_an_error_of_the_system_names_the_file_and_leaves_the_previous_one(tmp_path, name, code):
    path = publish_text(tmp_path / "a.txt", "before")
    with SystemCalls(tmp_path, fault=Fault([name], code)), pytest.raises(OSError, match=describe(code)) as caught:
        publish_text(path, "after")
    assert "a.txt" in str(caught.value)
    assert path.read_text() == "before"
    assert files(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES])
@pytest.mark.parametrize("name", ["open", "fsync"])
def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path, name, code, monkeypatch):
    real = getattr(os, name)

    def refusing(target, *args):
        if target == tmp_path or (isinstance(target, int) and os.path.isdir(f"/proc/self/fd/{target}")):
            raise OSError(code, os.strerror(code))
        return real(target, *args)

    monkeypatch.setattr(os, name, refusing)
    assert publish_text(tmp_path / "a.txt", "content").read_text() == "content"
    publish_link(tmp_path / "a.txt", tmp_path / "b.txt")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_folder_that_was_not_synced_because_the_disk_is_broken_is_an_error(tmp_path, code):
    with (
        SystemCalls(tmp_path, fault=Fault(["sync_folder"], code)),
        pytest.raises(OSError, match=describe(code)) as caught,
    ):
        publish_text(tmp_path / "a.txt", "content")
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_where_a_link_is_refused_a_copy_is_made(tmp_path, code):
    source = publish_text(tmp_path / "a", "new")
    publish_text(tmp_path / "b", "old")
    with SystemCalls(tmp_path, fault=Fault(["link"], code)):
        publish_link(source, tmp_path / "b")
    assert (tmp_path / "b").read_text() == "new"
    assert not os.path.samefile(source, tmp_path / "b")
    assert files(tmp_path) == ["a", "b"]


def test_temporary_files_lie_beside_the_file_wherever_others_go(tmp_path, monkeypatch):
    """A rename from another file system is not possible (EXDEV)."""
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with SystemCalls(tmp_path) as calls:
        publish_text(tmp_path / "folder" / "a", "content")
        writable_folder(tmp_path / "folder")
    assert {os.path.dirname(call.path) for call in calls.calls if call.name in ("open", "replace")} == {"folder"}


def test_a_writer_that_overlooks_an_error_publishes_nothing(tmp_path):
    def overlooks(file):
        with contextlib.suppress(OSError):
            file.write(b"x" * 100_000)

    with SystemCalls(tmp_path, fault=Fault(["write"], errno.ENOSPC)), pytest.raises(OSError, match="No space left"):
        publish(tmp_path / "a", overlooks)
    assert files(tmp_path) == []


def test_debris_that_cannot_be_removed_does_not_hide_the_error(tmp_path):
    with (
        SystemCalls(tmp_path, fault=Fault(["fsync", "unlink"], errno.EIO, lasts=True)),
        pytest.raises(OSError, match=r"Input/output error: '.*a\.txt'"),
    ):
        publish_text(tmp_path / "a.txt", "content")
    with SystemCalls(tmp_path, fault=Fault(["unlink"], errno.EROFS, lasts=True)):
        sweep_partials(tmp_path)  # and sweeping does not stop who only wants to read
    assert len(files(tmp_path)) == 1
    sweep_partials(tmp_path)
    assert files(tmp_path) == []


# ---- checkpoints


@pytest.mark.sampled("pairs")
@LINKS
@pytest.mark.parametrize(
    ("names", "code"),
    [(["write"], errno.ENOSPC), (["fsync"], errno.EIO), (["open", "link", "replace"], errno.EROFS),
     (WRITING, errno.EIO)],
)  # fmt: skip
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(kit, tmp_path, names, code, patch):
    """At each call in turn; from there on nothing works any more, not even cleaning up."""
    failures = []
    for at in range(1, 200):
        folder = tmp_path / str(at)
        checkpoints = checkpoint_folder(kit, folder)
        checkpoints.save(tree_of(kit, 1), "best", "epoch_1", "last")
        fault = Fault([*names, "unlink"], code, at, lasts=True)
        link = os.link
        try:
            patch()
            with SystemCalls(folder, fault=fault):
                checkpoints.save(tree_of(kit, 2), "best", "epoch_2", "last")
        except OSError as error:
            failures.append(error)
        finally:
            os.link = link
        checkpoints.sweep()
        check_checkpoints(checkpoints.folder, checkpoints.suffix)
        assert not [name for name in files(folder) if "partial" in name]
        newest = checkpoints.newest()[1]
        assert kit.same(newest, tree_of(kit, newest["epoch"]))
        assert kit.same(checkpoints.load(checkpoints.path("epoch_1")), tree_of(kit, 1))
        if not fault.was_hit:
            break
    assert newest["epoch"] == 2
    assert {error.errno for error in failures} == {code}
    assert all("checkpoint" in str(error) for error in failures)


# ---- trainings


@pytest.mark.sampled("values")
@pytest.mark.parametrize("background", [False, True])
def test_a_training_on_a_full_disk_says_so_and_goes_on_when_there_is_space(kit, tmp_path, background):
    settings = {"save_freq": 1, "save_in_background": background}
    expected = train(kit, tmp_path / "unbroken", **settings)
    n_writes = count_writes(kit, tmp_path / "counted", **settings)
    for at in range(1, n_writes + 1, 1 + n_writes // 4):
        run = tmp_path / f"run{at}"
        run.mkdir()
        with (
            SystemCalls(run, fault=Fault(["write"], errno.ENOSPC, at, lasts=True, where="checkpoint")),
            pytest.raises((OSError, CheckpointError), match="No space left on device") as caught,
        ):
            train(kit, run, **settings)
        assert str(run) in str(caught.value)
        check_checkpoints(run / "checkpoints", kit.backend.checkpoint_suffix)
        assert kit.same(train(kit, run, **settings), expected)
        check_equal(kit, run, tmp_path / "unbroken")


def count_writes(backend, path, **settings):
    path.mkdir()
    with SystemCalls(path) as calls:
        train(backend, path, **settings)
    return sum(call.name == "write" and "checkpoint" in call.path for call in calls.calls)


def test_a_history_that_cannot_be_written_does_not_stop_a_training(kit, tmp_path, caplog):
    """Each checkpoint holds it as well."""
    expected = train(kit, tmp_path / "unbroken", save_freq=1)
    run = tmp_path / "run"
    run.mkdir()
    with SystemCalls(run, fault=Fault(["write"], errno.ENOSPC, lasts=True, where="history")):
        assert kit.same(train(kit, run, save_freq=1), expected)
    assert "No space left on device" in caplog.text
    train(kit, run, save_freq=1)
    check_equal(kit, run, tmp_path / "unbroken")


def test_a_training_may_go_on_without_checkpoints(kit, tmp_path):
    expected = train(kit, tmp_path / "unbroken", save_freq=1)
    run = tmp_path / "run"

    def only_checkpoints(call):
        if call.name in ("write", "fsync") and "checkpoint" in call.path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    trainer = build(kit, run, save_freq=1, on_save_error="warn", val_score_key=None)
    with SystemCalls(run, fault=only_checkpoints), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train(3, data(), data(7))
    assert ["No space left on device" in str(warning.message) for warning in caught] == [True] * 3
    assert files(run / "checkpoints") == []
    assert kit.same(train(kit, run, save_freq=1), expected)


def test_a_folder_that_is_deleted_under_a_training_is_made_again(kit, tmp_path):
    run = tmp_path / "run"

    class Delete:
        def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
            if curr_epoch == 2:
                shutil.rmtree(run)

    policy = {"save_freq": 1, "val_score_key": None}
    expected = train(kit, tmp_path / "unbroken", **policy)
    settings = kit.halving()
    callbacks = [*settings.pop("callbacks", ()), Delete()]
    kit.trainer(run, kit.build(dropout=0.4), callbacks=callbacks, **policy, **settings).train(3, data(), data(7))
    assert kit.same(train(kit, run, **policy), expected)
    assert (run / "history.csv").read_bytes() == (tmp_path / "unbroken" / "history.csv").read_bytes()
    check_checkpoints(run / "checkpoints", kit.backend.checkpoint_suffix)
    assert {"checkpoint_epoch_2", "checkpoint_epoch_3", "checkpoint_last"} <= {
        path.name.removesuffix(kit.backend.checkpoint_suffix) for path in (run / "checkpoints").iterdir()
    }


# ---- real limits of the system


def test_a_limit_of_file_sizes_is_an_error_that_names_the_file(kit, tmp_path):
    """RLIMIT_FSIZE: the first write over the limit is cut short, the next one fails; no part of this is made up."""
    folder = tmp_path / "limited"

    def save(limit):
        checkpoints = checkpoint_folder(kit, folder)
        checkpoints.save(tree_of(kit, 1), "best", "last")
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            checkpoints.save({**tree_of(kit, 2), "large": np.zeros(4000)}, "best", "last")
        except OSError as error:
            return str(error)
        return None

    for limit in (100, 1000, 8192, 30_000):
        message = in_child(lambda limit=limit: save(limit))
        assert "File too large" in message
        assert "checkpoint_best" in message
        checkpoints = checkpoint_folder(kit, folder)
        assert kit.same(checkpoints.newest()[1], tree_of(kit, 1))
        assert [name for name in files(folder) if "partial" in name] == []


def on_small_disk(function, folder, size):
    """Call ``function`` in a child that sees an own file system of ``size`` bytes in ``folder``; it ends with it."""
    CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000
    libc = ctypes.CDLL(None, use_errno=True)
    folder.mkdir(exist_ok=True)

    def mount(source, target, kind, flags, options):
        return libc.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), options)

    def run():
        flags = CLONE_NEWNS | (CLONE_NEWUSER if os.geteuid() else 0)
        if libc.unshare(flags) or mount(b"none", "/", None, MS_REC | MS_PRIVATE, None):
            return "no mount", None
        if mount(b"tmpfs", folder, b"tmpfs", 0, b"size=%d" % size):
            return "no mount", None

        def make_read_only():
            assert mount(b"tmpfs", folder, b"tmpfs", 0x20 | 0x1, b"size=%d" % size) == 0  # MS_REMOUNT | MS_RDONLY

        return "ran", function(make_read_only)

    if not hasattr(libc, "unshare"):
        pytest.skip("mounting a small file system needs Linux")
    answer, value = in_child(run)
    if answer == "no mount":
        pytest.skip("this user may not mount a file system")
    return value


def test_a_full_disk_is_an_error_and_what_was_there_stays(kit, tmp_path):
    disk = tmp_path / "disk"

    def fill(make_read_only):
        checkpoints = checkpoint_folder(kit, disk)
        large = np.random.default_rng(0).normal(size=12_000)  # 96 kB
        checkpoints.save({**tree_of(kit, 1), "large": large}, "best", "epoch_1", "last")
        failures = []
        for epoch in (2, 3, 4):
            try:
                checkpoints.save({**tree_of(kit, epoch), "large": large}, "best", f"epoch_{epoch}", "last")
            except OSError as error:
                failures.append(str(error))
        checkpoints.sweep()
        left = checkpoints.newest()[1]
        (checkpoints.folder / f"checkpoint_epoch_1{checkpoints.suffix}").unlink()
        checkpoints.save({**tree_of(kit, 5), "large": large}, "last")  # there is room again
        check_checkpoints(checkpoints.folder, checkpoints.suffix)
        return left["epoch"], failures, files(disk), checkpoints.newest()[1]["epoch"]

    epoch, failures, names, newest = on_small_disk(fill, disk, 320 * 1024)
    assert epoch == 3  # of 96 kB there is room for three
    assert len(failures) == 1
    assert all("No space left on device" in text and "checkpoint_" in text for text in failures)
    assert not [name for name in names if "partial" in name]
    assert newest == 5


@pytest.mark.slow_cases("toy")
def test_a_training_that_fills_the_disk_stops_and_goes_on_when_there_is_space(kit, tmp_path):
    disk = tmp_path / "disk"

    def fill(make_read_only):
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(64 * 1024))
        try:
            train(kit, disk / "run", epochs=60, save_freq=1)
        except (OSError, CheckpointError) as error:
            message = str(error)
        check_checkpoints(disk / "run" / "checkpoints", kit.backend.checkpoint_suffix)
        reached = build(kit, disk / "run", save_freq=1).state.epoch
        ballast.unlink()
        shutil.copytree(disk / "run", tmp_path / "run")
        return message, reached

    message, reached = on_small_disk(fill, disk, 192 * 1024)
    assert "No space left on device" in message
    assert str(disk / "run") in message
    assert 3 < reached < 60
    unbroken = train(kit, tmp_path / "unbroken", epochs=60, save_freq=1)
    assert kit.same(train(kit, tmp_path / "run", epochs=60, save_freq=1), unbroken)


def test_a_folder_that_may_only_be_read_is_refused_for_writing_and_can_be_read(kit, tmp_path):
    disk = tmp_path / "disk"

    def read(make_read_only):
        checkpoints = checkpoint_folder(kit, disk)
        checkpoints.save(tree_of(kit, 1), "last")
        (checkpoints.folder / "checkpoint_last.partial-0123abcd").write_bytes(b"debris")
        make_read_only()
        checkpoints.sweep()
        messages = []
        for write in (
            lambda: kit.trainer(disk / "new"),
            lambda: kit.trainer(disk),
            lambda: checkpoints.save(tree_of(kit, 2), "last"),
        ):
            try:
                write()
            except (ConfigError, OSError) as error:
                messages.append(f"{type(error).__name__}: {error}")
        return checkpoints.newest()[1]["epoch"], messages

    epoch, messages = on_small_disk(read, disk, 256 * 1024)
    assert epoch == 1
    new, old, saved = messages
    for message in (new, old):
        assert message.startswith("ConfigError: save_path=")
        assert "is not writable (Read-only file system); choose another path" in message
    assert saved.startswith("OSError: [Errno 30] Read-only file system")
    assert "checkpoint_previous" in saved  # the name that the last is about to get


def test_a_folder_that_cannot_be_synced_is_only_an_error_if_the_disk_is_broken(tmp_path):
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sync_folder(tmp_path / "nowhere")
