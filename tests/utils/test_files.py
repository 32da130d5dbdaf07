"""Files that are complete or not there."""

import builtins
import contextlib
import errno
import io
import os
import threading
from pathlib import Path

import pytest

from delira.errors import ConfigError
from delira.utils.files import make_folder, publish, publish_link, publish_text, sweep_partials, writable_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# ---- publish


def test_a_file_appears_with_its_content(tmp_path):
    path = publish(tmp_path / "a.bin", lambda file: file.write(b"content"))
    assert path == tmp_path / "a.bin"
    assert path.read_bytes() == b"content"
    assert names(tmp_path) == ["a.bin"]


def test_a_file_is_marked_until_it_has_its_name(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    replace, seen = os.replace, []

    def watched(source, target):
        with open(source, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                seen.append("marked")
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    publish_text(tmp_path / "a", "text")
    assert seen == ["marked"], "else who sweeps takes it away"


def test_a_name_may_be_a_string(tmp_path):
    assert publish(str(tmp_path / "a.bin"), lambda file: None).read_bytes() == b""


def test_the_file_is_not_there_while_it_is_written(tmp_path):
    def write(file):
        assert not (tmp_path / "a.bin").exists()
        file.write(b"content")

    publish(tmp_path / "a.bin", write)


def test_the_previous_file_is_there_while_the_next_is_written(tmp_path):
    path = publish_text(tmp_path / "a.txt", "before")

    def write(file):
        file.write(b"after")
        assert path.read_text() == "before"

    publish(path, write)
    assert path.read_text() == "after"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("durable", [True, False])
def test_an_error_of_the_writer_leaves_the_previous_file_and_no_debris(durable, error, tmp_path):
    path = publish_text(tmp_path / "a.txt", "before")

    def write(file):
        file.write(b"half")
        raise error("on purpose")

    with pytest.raises(error, match="on purpose"):
        publish(path, write, durable=durable)
    with pytest.raises(error, match="on purpose"):
        publish(tmp_path / "new.txt", write, durable=durable)
    assert path.read_text() == "before"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_an_error_of_the_system_leaves_the_previous_file_and_no_debris(function, tmp_path, monkeypatch):
    path = publish_text(tmp_path / "a.txt", "before")

    def failing(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, function, failing)
    with pytest.raises(OSError, match="disk full"):
        publish_text(path, "after")
    monkeypatch.undo()
    assert path.read_text() == "before"
    assert names(tmp_path) == ["a.txt"]


def test_content_is_on_disk_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("sync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("rename"), replace(*paths)))
    publish_text(tmp_path / "a.txt", "content")
    assert events == ["sync", "rename", "sync"]
    events.clear()
    publish_text(tmp_path / "b.txt", "content", durable=False)
    assert events == ["rename"]


def test_a_missing_folder_is_made_again(tmp_path):
    """It was deleted under a running training."""
    assert publish_text(tmp_path / "deep" / "er" / "a.txt", "content").read_text() == "content"
    assert names(tmp_path / "deep" / "er") == ["a.txt"]


def test_a_file_cannot_be_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file'$"):
        publish_text(tmp_path / "file" / "a.txt", "content")


class Refusing(io.FileIO):
    """A file on a full disk."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def on_a_full_disk(monkeypatch):
    monkeypatch.setattr(builtins, "open", lambda path, mode, **kw: io.BufferedWriter(Refusing(path, mode)))


def test_an_error_of_writing_names_the_file(tmp_path, monkeypatch):
    on_a_full_disk(monkeypatch)
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'$") as caught:
        publish_text(tmp_path / "a.txt", "content")
    assert caught.value.errno == errno.ENOSPC
    assert names(tmp_path) == []


@pytest.mark.parametrize("durable", [True, False])
def test_what_the_system_refused_is_said_whatever_the_writer_makes_of_it(durable, tmp_path, monkeypatch):
    """PyTorch says "unexpected pos 640 vs 534"."""

    def misleading(file):
        try:
            file.write(b"x" * 100_000)
        except OSError:
            raise RuntimeError("unexpected pos") from None

    def overlooking(file):
        with contextlib.suppress(OSError):
            file.write(b"x" * 100_000)

    on_a_full_disk(monkeypatch)
    for write in (misleading, overlooking):
        with pytest.raises(OSError, match=r"No space left on device: '.*a\.bin'$"):
            publish(tmp_path / "a.bin", write, durable=durable)
        assert names(tmp_path) == []


def test_torch_cannot_hide_a_full_disk(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    on_a_full_disk(monkeypatch)
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.pt'$"):
        publish(tmp_path / "a.pt", lambda file: torch.save({"weight": torch.zeros(50_000)}, file))


def test_errors_of_the_writer_itself_are_left_as_they_are(tmp_path):
    def write(file):
        raise OSError("no file, but a socket")

    with pytest.raises(OSError, match=r"^no file, but a socket$"):
        publish(tmp_path / "a.bin", write)


def test_text_is_written_as_utf8_with_its_line_ends(tmp_path):
    path = publish_text(tmp_path / "a.txt", "größe\r\nend\n")
    assert path.read_bytes() == "größe\r\nend\n".encode()


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path):
    contents = [bytes([number]) * 50_000 for number in range(4)]
    threads = [
        threading.Thread(target=publish, args=(tmp_path / "a.bin", lambda file, c=content: file.write(c)))
        for content in contents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a.bin").read_bytes() in contents
    assert names(tmp_path) == ["a.bin"]


# ---- publish_link


def test_a_link_is_a_second_name(tmp_path):
    source = publish_text(tmp_path / "a.txt", "content")
    target = publish_link(source, tmp_path / "b.txt")
    assert os.path.samefile(source, target)
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_a_link_replaces_an_older_file_and_leaves_its_other_names_alone(tmp_path):
    old = publish_text(tmp_path / "old.txt", "old")
    publish_link(old, tmp_path / "last.txt")
    publish_link(publish_text(tmp_path / "new.txt", "new"), tmp_path / "last.txt")
    assert (tmp_path / "last.txt").read_text() == "new"
    assert old.read_text() == "old"
    assert names(tmp_path) == ["last.txt", "new.txt", "old.txt"]


def test_a_link_that_is_there_already_leaves_no_debris(tmp_path):
    """Renaming a name onto another name of the same file does nothing and leaves both."""
    source = publish_text(tmp_path / "a.txt", "content")
    for _ in range(2):
        publish_link(source, tmp_path / "b.txt")
    publish_link(source, source)
    assert names(tmp_path) == ["a.txt", "b.txt"]
    assert source.read_text() == (tmp_path / "b.txt").read_text() == "content"


def test_without_links_there_is_a_copy(tmp_path, monkeypatch):
    source = publish_text(tmp_path / "a.txt", "content")

    def no_links(*paths):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    target = publish_link(source, tmp_path / "b.txt")
    assert not os.path.samefile(source, target)
    assert target.read_text() == "content"
    assert names(tmp_path) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("links", [True, False])
def test_a_link_that_fails_leaves_the_previous_file_and_no_debris(links, tmp_path, monkeypatch):
    source, target = publish_text(tmp_path / "a.txt", "new"), publish_text(tmp_path / "b.txt", "old")

    def failing(*paths):
        raise OSError("on purpose")

    monkeypatch.setattr(os, "replace", failing)
    if not links:
        monkeypatch.setattr(os, "link", failing)
    with pytest.raises(OSError, match="on purpose"):
        publish_link(source, target)
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt", "b.txt"]


# ---- make_folder


def test_the_names_of_new_folders_are_on_disk(tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(os.fstat(number).st_ino), fsync(number)))
    make_folder(tmp_path / "old" / "new" / "newer")
    assert synced == [(tmp_path / "old").stat().st_ino, (tmp_path / "old" / "new").stat().st_ino]
    make_folder(tmp_path / "old" / "new")
    assert len(synced) == 2


def test_a_folder_cannot_take_the_name_of_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match=r"file'$"):
        make_folder(tmp_path / "file")


# ---- sweep_partials


def test_only_what_was_left_half_written_is_removed(tmp_path):
    publish_text(tmp_path / "a.txt", "content")
    (tmp_path / "a.txt.partial-0123abcd").write_text("half")
    (tmp_path / "b.txt.partial-89abcdef").mkdir()  # none of ours, and no reason to fail
    mine = ["a.partial-notes.txt", "a.txt.partial-0123abcd.txt", "partial.txt", ".partial-0123abcd"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    sweep_partials(tmp_path)
    assert names(tmp_path) == sorted(["a.txt", "b.txt.partial-89abcdef", *mine])
    sweep_partials(tmp_path / "nowhere")


def test_a_partial_that_another_process_removes_at_the_same_time_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "a.txt.partial-0123abcd").write_text("half")
    found = list(tmp_path.glob("*"))
    found[0].unlink()
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(found))
    sweep_partials(tmp_path)


# ---- writable_folder


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path):
    folder = writable_folder(str(tmp_path / "a" / "b"))
    assert folder == tmp_path / "a" / "b"
    assert names(folder) == []
    assert writable_folder(folder) == folder


@pytest.mark.parametrize("below", [(), ("run",), ("run", "deeper")])
def test_a_file_is_no_folder(below, tmp_path):
    file = tmp_path / "file"
    file.touch()
    path = file.joinpath(*below)
    with pytest.raises(
        ConfigError, match=r"save_path='.*' cannot be a folder: '.*file.*' is a file; choose another path"
    ):
        writable_folder(path)


@pytest.mark.parametrize("function", ["mkdir", "open"])
def test_a_folder_that_cannot_be_written_is_refused(function, tmp_path, monkeypatch):
    def denied(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    if function == "open":
        (tmp_path / "run").mkdir()
    monkeypatch.setattr(os, function, denied)
    with pytest.raises(
        ConfigError, match=r"save_path='.*run' is not writable \(Permission denied\); choose another path"
    ):
        writable_folder(tmp_path / "run")


def test_a_locked_folder_is_refused(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(ConfigError, match=r"is not writable \(Permission denied\)"):
        writable_folder(folder)
