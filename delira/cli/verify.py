"""``delira verify``: whether the files of runs are whole, and whether this is the environment that they ran in."""

import argparse
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.cli.output import Answer, wrapped
from delira.cli.stored_files import BROKEN, MISSING, UNKNOWN, UNREADABLE, WHOLE, Check, check_files
from delira.runs.folder import git_commit, versions
from delira.runs.stored_run import StoredRun, read_run
from delira.utils.files import mapping

SAME, DIFFERENT = "same", "different"


def run(options: argparse.Namespace) -> Answer:
    """Verify the runs that were named."""
    return verify(options.run_folders, strict=options.strict)


def verify(paths: Sequence[str | Path], *, strict: bool = False) -> Answer:
    """Look at every file of runs, and compare their environments with this one.

    Parameters
    ----------
    paths
        The folders of the runs.
    strict
        Whether another environment counts as broken.

    Returns
    -------
    Answer
        Of one run what was found; of several that of each, below ``runs``.

    Raises
    ------
    ConfigError
        If one of them is no run.
    """
    answers = [_verify(run, strict) for run in [read_run(path) for path in paths]]
    if len(answers) == 1:
        return answers[0]
    contents = [answer.content for answer in answers]
    broken = [content["run"] for content in contents if content["is_broken"]]
    content = {
        "is_broken": bool(broken),
        "is_same_environment": all(content["is_same_environment"] for content in contents),
        "runs": contents,
    }
    if broken:
        told = f"{len(broken)} of {len(answers)} runs are broken: {', '.join(broken)}"
    elif all(check["state"] == WHOLE for content in contents for check in content["files"]):
        told = f"all {len(answers)} runs are whole"
    else:
        told = f"none of {len(answers)} runs is known to be broken"
    texts = [*(answer.text for answer in answers), wrapped(told, "runs         ")]
    return Answer(content, "\n\n\n".join(texts), is_broken=bool(broken))


def _verify(run: StoredRun, strict: bool) -> Answer:
    files, environment = [*check_files(run)], [*_compare(run.manifest, run.path / "manifest.json")]
    is_changed = any(check.state == DIFFERENT for check in environment)
    is_broken = (strict and is_changed) or any(check.state in (BROKEN, MISSING, UNREADABLE) for check in files)
    content = {
        "run": str(run.path),
        "status": run.state,
        "is_broken": is_broken,
        "is_same_environment": not is_changed,
        "files": [check._asdict() for check in files],
        "environment": [check._asdict() for check in environment],
    }
    return Answer(content, _as_text(run, files, environment), is_broken=is_broken)


# ------------------------------------------------------------------ environment


def _compare(manifest: Mapping[str, Any], file: Path) -> Iterator[Check]:
    if not manifest:
        why = f"it would be in manifest.json, which {'cannot be read' if file.exists() else 'is missing'}"
        yield from (Check(what, UNKNOWN, why) for what in ("versions", "platform", "processor", "git", "data"))
        return
    if isinstance(then := manifest.get("versions"), Mapping):
        now = versions()
        yield from (_compared(name, version, now.get(name, "not installed")) for name, version in then.items())
    else:
        yield Check("versions", UNKNOWN, "the run did not record them")
    here = {"platform": platform.platform(), "processor": platform.processor() or platform.machine()}
    for what, value in here.items():
        then = manifest.get(what)
        yield Check(what, UNKNOWN, "the run did not record it") if then is None else _compared(what, then, value)
    yield _compare_git(manifest)
    data = mapping(manifest.get("fingerprint")).get("data")
    told = f"recorded as {str(data)[:12]}…; it is compared when the run is continued" if data else "not recorded"
    yield Check("data", UNKNOWN, told)


def _compared(what: str, then: object, here: str) -> Check:
    return Check(what, SAME if then == here else DIFFERENT, f"{then} in the run, {here} here")


def _compare_git(manifest: Mapping[str, Any]) -> Check:
    then = manifest.get("git")
    if not isinstance(then, Mapping):
        is_told = "git" in manifest
        return Check("git", UNKNOWN, "the script was in no repository" if is_told else "the run did not record it")
    # of the working directory: git runs what the settings of a repository say, and the file may name any folder
    now, told = git_commit(""), _commit(then)
    if now is None:
        return Check("git", UNKNOWN, f"{told} in the run; this folder is in no repository")
    same = then.get("commit") == now["commit"] and not then.get("changed") and not now["changed"]
    return Check("git", SAME if same else DIFFERENT, f"{told} in the run, {_commit(now)} here")


def _commit(git: Mapping[str, Any]) -> str:
    return str(git.get("commit"))[:10] + (" with changes" if git.get("changed") else "")


# ------------------------------------------------------------------ text


def _as_text(run: StoredRun, files: list[Check], environment: list[Check]) -> str:
    others = [check for check in files if check.state != WHOLE]
    named = {state: [check.what for check in environment if check.state == state] for state in (DIFFERENT, UNKNOWN)}
    n_same = len(environment) - sum(map(len, named.values()))
    parts = [f"not that of the run: {', '.join(named[DIFFERENT])}"] if named[DIFFERENT] else []
    parts += [f"as in the run: {'the other ' if named[DIFFERENT] else ''}{n_same} entries"] if n_same else []
    parts += [f"not compared: {', '.join(named[UNKNOWN])}"] if named[UNKNOWN] else []
    lines = [
        f"{run.name}, {run.state}: {run.path}",
        "",
        *map(_line, others),
        f"files        {len(files) - len(others)} of {len(files)} are whole",
        "",
        *(_line(check) for check in environment if check.state != SAME),
        wrapped("; ".join(parts), "environment  "),
    ]
    return "\n".join(lines)


def _line(check: Check) -> str:
    return wrapped(f"{check.what}: {check.detail}" if check.detail else check.what, f"{check.state:<12} ")
