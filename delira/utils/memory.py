"""How much memory there is for more."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

#: where a control group of Linux says its limit, what it takes, and how much of that are files that can go: v2, v1
_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory(root: str | Path = "/") -> int | None:
    """Bytes of memory that can be taken before something has to go: of the machine, and of a container around.

    Parameters
    ----------
    root
        Where Linux has its figures.

    Returns
    -------
    int or None
        On Linux what is available, on other systems with ``sysconf`` what is built in; None: nobody says.
    """
    found = [*_of_machine(Path(root)), *_of_groups(Path(root))]
    return min(found, default=None)


def _of_machine(root: Path) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, LookupError):
        yield 1024 * _figure(root / "proc/meminfo", "MemAvailable:")
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(root: Path) -> Iterator[int]:
    """What is left in each control group of this process that has a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, path = line.split(":", 2)
        for folder, limit, usage, files in _GROUPS:
            own = Path(path.strip("/"))
            for part in (own, *own.parents):
                place = root / folder / part
                with contextlib.suppress(OSError, ValueError, LookupError):  # "max", or no such group
                    left = int((place / limit).read_text()) - int((place / usage).read_text())
                    yield max(0, left + _figure(place / "memory.stat", files))


def _figure(file: Path, name: str) -> int:
    """A number of a file with a name and a number in each line."""
    named = dict(line.split(maxsplit=1) for line in file.read_text().splitlines())
    return int(named[name].split()[0])
