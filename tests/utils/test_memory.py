"""How much memory there is: of the machine, and of a container with a limit."""

import pytest

from delira.utils.memory import available_memory

GB = 1024**3


def figures(folder, **files):
    """A folder with files of Linux: path with dots for slashes -> text."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


MACHINE = f"MemTotal: {8 * GB // 1024} kB\nMemAvailable: {4 * GB // 1024} kB\n"


def test_there_is_some_here():
    assert available_memory() is None or available_memory() > 0


def test_it_is_what_the_machine_has_left(tmp_path):
    assert available_memory(figures(tmp_path, proc__meminfo=MACHINE)) == 4 * GB


@pytest.mark.parametrize(
    ("line", "group", "names", "cache"),
    [
        ("0::/jobs/mine", "sys/fs/cgroup/jobs", ("memory.max", "memory.current"), "inactive_file"),
        ("0::/", "sys/fs/cgroup", ("memory.max", "memory.current"), "inactive_file"),
        (
            "4:memory:/jobs/mine", "sys/fs/cgroup/memory/jobs/mine",
            ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file",
        ),
    ],
)  # fmt: skip
def test_a_container_has_less_than_the_machine(line, group, names, cache, tmp_path):
    figures(tmp_path, proc__meminfo=MACHINE, proc__self__cgroup=f"{line}\n")
    place = tmp_path / group
    place.mkdir(parents=True)
    for name, value in zip((*names, "memory.stat"), (3 * GB, 2 * GB, f"anon 5\n{cache} {GB}"), strict=True):
        (place / name).write_text(f"{value}\n")
    assert available_memory(tmp_path) == 2 * GB, "what is kept of files goes when it is needed"
    (place / names[0]).write_text("max\n")
    assert available_memory(tmp_path) == 4 * GB
