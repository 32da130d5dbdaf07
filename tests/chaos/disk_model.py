"""What may be on a disk after a power loss, worked out from the system calls up to then.

The model is what POSIX promises, and no more (fsync(2): syncing a file does not ensure that its entry in the folder
has reached the disk; for that, the folder is synced, too). It follows ALICE (Pillai et al., *All File Systems Are Not
Created Equal*, OSDI 2014), which found file systems that use every freedom of it:

* What a file held when it was last synced is there. Of what was written since, nothing is there, or all, or the half,
  or zeros in its place (XFS; ext4 with delayed allocation).
* What happened to the names of a folder (new file, rename, link, unlink, new folder) before the folder was last
  synced is there. Of what happened since, any subset is there (btrfs); a rename is there or not, never half.
* So a name can reach the disk without the content, and the content without the name. What lies in a folder whose own
  name is not there is lost.

The states of ext4 (data=ordered), where names reach the disk in the order of the calls, and where each sync takes all
earlier ones along, are among them.
"""

import dataclasses
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from system_calls import Call

#: up to so many changes of names that no sync covers, every subset is tried
MAX_EXHAUSTIVE = 5
#: paths -> content; ``None`` for a folder
Tree = dict[str, bytes | None]


@dataclasses.dataclass
class _Content:
    synced: bytes = b""
    now: bytes = b""


@dataclasses.dataclass
class _Change:
    """What happened to the names of folders."""

    call: Call
    inode: int
    is_synced: bool = False

    def apply(self, names: dict[str, int]) -> None:
        """Change ``names``: paths -> numbers of files, -1 for folders."""
        call = self.call
        if call.name in ("replace", "unlink", "rmdir"):
            names.pop(call.path, None)
        if call.name in ("replace", "link"):
            names[call.target] = self.inode
        elif call.name in ("open", "mkdir"):
            names[call.path] = self.inode

    def is_in(self, folder: str) -> bool:
        return os.path.dirname(self.call.target or self.call.path) == ("" if folder == "." else folder)


class Disk:
    """What the calls did so far, and which part of it was synced."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self._contents: dict[int, _Content] = {}
        self._changes: list[_Change] = []
        self._names: dict[str, int] = {}

    def do(self, call: Call) -> None:
        """Take the next call over."""
        if call.name == "mark":
            self.marks.append(call.path)
        elif call.name == "sync_folder":
            for change in self._changes:
                change.is_synced |= change.is_in(call.path)
        elif call.name == "fsync":
            content = self._content(call.inode)
            content.synced = content.now
        elif call.name == "write":
            content = self._content(call.inode)
            before = content.now.ljust(call.offset, b"\0")
            content.now = before[: call.offset] + call.data + before[call.offset + len(call.data) :]
        elif call.name == "truncate":
            content = self._content(call.inode)
            content.now = content.now[: call.offset].ljust(call.offset, b"\0")
        else:
            inode = {"open": call.inode, "mkdir": -1}.get(call.name, self._names.get(call.path, -1))
            self._changes.append(_Change(call, inode))
            self._changes[-1].apply(self._names)

    def now(self) -> Tree:
        """What programs see as long as the power is on."""
        return self._tree(self._changes, lambda content: content.now)

    def after_power_loss(self) -> Iterator[Tree]:
        """All that may be found after the power failed now."""
        loose = [number for number, change in enumerate(self._changes) if not change.is_synced]
        for lost in _subsets(loose):
            kept = [change for number, change in enumerate(self._changes) if number not in lost]
            for variant in (_nothing, _half, _zeros, _everything):
                yield self._tree(kept, variant)

    def _content(self, inode: int) -> _Content:
        return self._contents.setdefault(inode, _Content())

    def _tree(self, changes: Sequence[_Change], variant: Callable[[_Content], bytes]) -> Tree:
        names: dict[str, int] = {}
        for change in changes:
            change.apply(names)
        tree: Tree = {}
        for path in sorted(names):
            parent = os.path.dirname(path)
            if not parent or parent in tree:
                tree[path] = None if names[path] == -1 else variant(self._content(names[path]))
        return tree


def _nothing(content: _Content) -> bytes:
    return content.synced


def _everything(content: _Content) -> bytes:
    return content.now


def _kept(content: _Content) -> int:
    """Up to where what was written since the last sync changed nothing."""
    if content.now.startswith(content.synced):
        return len(content.synced)
    pairs = zip(content.synced, content.now, strict=False)
    return next((place for place, (old, new) in enumerate(pairs) if old != new), len(content.now))


def _half(content: _Content) -> bytes:
    return content.now[: (_kept(content) + len(content.now)) // 2]


def _zeros(content: _Content) -> bytes:
    return content.now[: _kept(content)].ljust(len(content.now), b"\0")


def _subsets(loose: Sequence[int]) -> Iterator[frozenset[int]]:
    """What may be lost of ``loose``: every subset, or of many the plain ones and some at random."""
    if len(loose) <= MAX_EXHAUSTIVE:
        for size in range(len(loose) + 1):
            yield from map(frozenset, itertools.combinations(loose, size))
        return
    everything = frozenset(loose)
    for number, change in enumerate(loose):
        yield frozenset(loose[number:])  # the order of the calls
        yield frozenset([change])
        yield everything - {change}
    yield frozenset()
    rng = random.Random(0)
    for _ in range(16):
        yield frozenset(change for change in loose if rng.random() < 0.5)


def states(calls: Sequence[Call]) -> Iterator[tuple[list[str], Tree]]:
    """``(marks reached, what is found)`` for a power loss after each of the calls, each state once."""
    disk = Disk()
    seen = set()
    for call in (Call("mark", "begin"), *calls):
        disk.do(call)
        for tree in disk.after_power_loss():
            key = (len(disk.marks), frozenset(tree.items()))
            if key not in seen:
                seen.add(key)
                yield disk.marks[1:], tree


def replay(calls: Sequence[Call]) -> Tree:
    """What there is after all calls."""
    disk = Disk()
    for call in calls:
        disk.do(call)
    return disk.now()


def write(tree: Tree, folder: Path) -> Path:
    """Make a folder that holds ``tree``."""
    folder.mkdir()
    for path in sorted(tree):
        content = tree[path]
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
    return folder


def read(folder: Path) -> Tree:
    """What a folder holds."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}
