"""Runs whose files are copied elsewhere while they run, and fetched from there where they are not."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.errors import expect
from delira.runs.folder import At, RunFolder

if TYPE_CHECKING:
    from delira.execution import Mirror


def as_mirror(mirror: Any) -> "Mirror | None":
    """Return what a user gave as a mirror, or ``None``.

    Raises
    ------
    ConfigError
        If it is none, or says something secret.
    """
    from delira.execution import Mirror

    is_mirror = mirror is None or isinstance(mirror, (Mirror, str, os.PathLike))
    expect(("mirror", mirror, is_mirror, "a URL such as 's3://bucket/folder', a folder or a delira.execution.Mirror"))
    return mirror if mirror is None or isinstance(mirror, Mirror) else Mirror(mirror)


def located(mirror: Any, parent: Path, name: str, resume: Any) -> Any:
    """Return what to resume from on this disk; a path that is not there is looked for in the mirror.

    Parameters
    ----------
    mirror
        As it was given.
    parent, name
        Folder of the runs of the experiment, and its name.
    resume
        As it was given.
    """
    from delira.execution.fetching import Fetching

    asked = as_mirror(mirror)
    if asked is None or resume == "auto" or not isinstance(resume, (str, os.PathLike)):
        return resume
    return Fetching(asked.connected(), name, parent).located(Path(resume))


def opened(
    mirror: Any,
    parent: Path,
    save: Callable[[Path], Path],
    facts: Mapping[str, Any],
    resume: str | Path | At | None,
    allow_changes: bool,
) -> AbstractContextManager[RunFolder]:
    """Scope of a run, as of ``RunFolder.opened``, that is mirrored if that is asked for.

    Parameters
    ----------
    mirror
        As it was given; ``None``: it is not.
    parent, save, facts, resume, allow_changes
        As of ``RunFolder.opened``.
    """
    asked = as_mirror(mirror)
    if asked is None:
        return RunFolder.opened(parent, save, facts, resume, allow_changes)
    return _mirrored(asked, parent, facts, resume, lambda at: RunFolder.opened(parent, save, facts, at, allow_changes))


@contextlib.contextmanager
def _mirrored(
    asked: "Mirror",
    parent: Path,
    facts: Mapping[str, Any],
    resume: str | Path | At | None,
    begin: Callable[[str | Path | At | None], AbstractContextManager[RunFolder]],
) -> Iterator[RunFolder]:
    from delira.execution.fetching import Fetching

    fetching = Fetching(asked.connected(), str(facts["name"]), parent)
    fetching.place("run").check_apart(parent / "run")  # as it would be for any name, before anything is written
    if resume == "auto":
        fetching.bring_newest(facts)
    elif resume is None:
        fetching.wait_for_a_name()
    elif not isinstance(resume, At):
        resume = fetching.located(Path(resume))
    # outside: the last line of the ledger is copied, too
    with asked.following() as copying, begin(resume) as folder:
        copying.begin(folder.path, fetching.place(folder.path.name))
        yield folder
