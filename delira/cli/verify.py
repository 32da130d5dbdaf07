"""``delira verify``: whether the files of runs are whole, and whether this is the environment that they ran in."""

import json
import platform
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.cli.output import Answer, wrapped
from delira.errors import CheckpointError, ConfigError
from delira.io.verify import BROKEN_ZIP, verify_zip
from delira.training.fold_file import FILE, StoredFold, read_fold
from delira.training.parameters import Parameters
from delira.training.run_folder import git_commit, versions
from delira.training.stored_result import CHANGED
from delira.training.stored_run import StoredRun, read_history, read_run

WHOLE, BROKEN, MISSING = "whole", "broken", "missing"
SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"
#: ending of a checkpoint that was taken out of the way
_ASIDE = re.compile(r"\.(damaged|superseded)\d*$")


class Check(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: str
    """A file: ``whole``, ``broken`` or ``missing``. The environment: ``same``, ``different`` or ``unknown``."""
    detail: str = ""


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
    told = f"{len(broken)} of {len(answers)} runs are broken: {', '.join(broken)}"
    last = wrapped(told if broken else f"all {len(answers)} runs are whole", "runs         ")
    return Answer(content, "\n\n\n".join([*(answer.text for answer in answers), last]), is_broken=bool(broken))


def _verify(run: StoredRun, strict: bool) -> Answer:
    files = [*_check_files(run)]
    environment = [*_compare(run)]
    broken = [check for check in files if check.state != WHOLE]
    changed = [check for check in environment if check.state == DIFFERENT]
    is_broken = bool(broken or (strict and changed))
    content = {
        "run": str(run.path),
        "status": run.state,
        "is_broken": is_broken,
        "is_same_environment": not changed,
        "files": [check._asdict() for check in files],
        "environment": [check._asdict() for check in environment],
    }
    return Answer(content, _as_text(run, files, environment), is_broken=is_broken)


# ------------------------------------------------------------------ files


def _check_files(run: StoredRun) -> Iterator[Check]:
    yield from _check_run_files(run)
    for number in run.finished_folds:
        if number not in run.fold_folders:
            yield Check(f"fold_{number:02d}", MISSING, "the ledger says that the fold has finished")
    for number, folder in run.fold_folders.items():
        place = "." if folder == run.path else folder.name
        checks, stored = _check_result(run, number, folder)
        yield from checks
        yield from _check_history(folder, place, stored)
        yield from _check_small_files(folder, place)
        for checkpoint in sorted((folder / "checkpoints").glob("*")):
            if checkpoint.is_file() and not checkpoint.name.startswith("."):
                yield _check_checkpoint(checkpoint, f"{place}/checkpoints/{checkpoint.name}")
        yield from _check_weights(run, number, place, stored)


def _check_run_files(run: StoredRun) -> Iterator[Check]:
    for name, is_read in (("manifest.json", bool(run.manifest)), ("ledger.jsonl", bool(run.events))):
        told = next((problem for problem in run.problems if name in problem), "")
        is_there = is_read or (run.path / name).exists()
        yield Check(name, MISSING if not is_there else BROKEN if told or not is_read else WHOLE, told)
    if (path := run.path / "parameters.yml").exists():
        try:
            Parameters.load(path)
            yield Check(path.name, *((BROKEN, CHANGED) if run.is_changed(path.name) else (WHOLE,)))
        except (ConfigError, OSError) as error:
            yield Check(path.name, BROKEN, str(error))
    elif run.manifest:
        yield Check(path.name, MISSING)
    if (path := run.path / "result.json").exists():
        try:
            json.loads(path.read_bytes())["info"]
            yield Check(path.name, WHOLE)
        except (OSError, LookupError, TypeError, ValueError) as error:
            yield Check(path.name, BROKEN, f"{type(error).__name__}: {error}")
    elif run.lacks_summary:
        yield Check(path.name, MISSING, "groups and warnings of the run are not known")


def _check_result(run: StoredRun, number: int, folder: Path) -> tuple[list[Check], StoredFold | None]:
    """What is to be said of a fold's ``result.zip``, and what is in it if it can be read."""
    path, what = folder / FILE, f"{folder.name}/{FILE}"
    if not path.exists():
        is_missing = run.kind == "kfold" and number in run.finished_folds
        return [Check(what, MISSING, "the ledger says that the fold has finished")] if is_missing else [], None
    try:
        stored = read_fold(folder)
    except CheckpointError as error:
        return [Check(what, BROKEN, str(error).removeprefix(f"{path} "))], None
    noted = run.finished_folds.get(number, {}).get("metrics")
    return [Check(what, *_compare_metrics(stored.fields["metrics"], noted))], stored


def _check_history(folder: Path, place: str, stored: StoredFold | None) -> Iterator[Check]:
    """Both files of the epochs; of a finished fold they are in ``result.zip``, too."""
    history, lost = read_history(folder)
    told = "" if stored is None else json.dumps(stored.fields["history"], default=str)
    what = f"{place}/history.jsonl"
    if not history and not lost:
        if stored is not None and stored.fields["history"]:
            yield Check(what, MISSING, f"the epochs are in {FILE}")
        return
    changed = f"its epochs are not those of {FILE}" if told and told != json.dumps(history, default=str) else ""
    yield Check(what, BROKEN if lost or changed else WHOLE, lost or changed)
    table = folder / "history.csv"
    try:
        n_rows = len(table.read_bytes().splitlines()) - 1
    except OSError as error:
        is_there = table.exists()
        yield Check(f"{place}/{table.name}", BROKEN if is_there else MISSING, str(error) if is_there else "")
    else:
        wrong = f"it has {n_rows} rows for {len(history)} epochs" if not lost and n_rows != len(history) else ""
        yield Check(f"{place}/{table.name}", BROKEN if wrong else WHOLE, wrong)


def _check_small_files(folder: Path, place: str) -> Iterator[Check]:
    """Predictions, times and what the guards did, which a run can do without."""
    if (path := folder / "predictions.npz").exists():
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
            detail = f"the checksum of its record {damaged!r} is wrong" if damaged else ""
        except BROKEN_ZIP as error:
            detail = str(error)
        yield Check(f"{place}/{path.name}", BROKEN if detail else WHOLE, detail)
    for name, entry in (("timings.json", "seconds"), ("guards.json", "left_out")):
        if not (path := folder / name).exists():
            continue
        try:
            json.loads(path.read_bytes())[entry]
            yield Check(f"{place}/{path.name}", WHOLE)
        except (OSError, LookupError, TypeError, ValueError) as error:
            yield Check(f"{place}/{path.name}", BROKEN, f"{type(error).__name__}: {error}")


def _compare_metrics(stored: Mapping[str, Any], noted: Any) -> tuple[str, str]:
    """Whether a fold's file and the ledger, which were written one after the other, say the same."""
    for name, value in noted.items() if isinstance(noted, Mapping) else ():
        if name in stored and not isinstance(value, (int, float)):
            return BROKEN, f"{name} is {value!r} in ledger.jsonl, which is no number"
        if name in stored and not np.isclose(np.mean(stored[name]), value, rtol=1e-9, atol=0, equal_nan=True):
            return BROKEN, f"{name} is {np.mean(stored[name]):.6g} in it and {value:.6g} in ledger.jsonl"
    return WHOLE, ""


def _check_checkpoint(path: Path, what: str) -> Check:
    if path.suffix == ".damaged":
        return Check(what, BROKEN, "it was set aside when the run went on; delete it if the run is fine")
    try:
        verify_zip(path, compressed=path.suffix == ".ptj")
    except CheckpointError as error:
        return Check(what, BROKEN, str(error).removeprefix(f"{path} "))
    return Check(what, WHOLE)


def _check_weights(run: StoredRun, number: int, place: str, stored: StoredFold | None) -> Iterator[Check]:
    """The checkpoint with the weights that a fold gave, or gives so far, if it is gone."""
    folder = run.path / place
    history = read_history(folder)[0] if stored is None else stored.fields["history"]
    best = run.best_epoch(history) if stored is None else stored.fields["best_epoch"]
    # what was being written when a run broke off need not be there
    is_written = stored is not None or number in run.finished_folds or (best is not None and best < len(history))
    if not history or not is_written:
        return
    name, other = ("last", "best") if best is None else ("best", "last")
    there = {each: _endings(folder / "checkpoints", f"checkpoint_{each}") for each in (name, other)}
    # one of TorchScript is two files
    for ending in sorted((there[other] or there[name] or {""}) - there[name]):
        of = "the fold ended with its weights" if best is None else f"epoch {best} was the best and had its weights"
        yield Check(f"{place}/checkpoints/checkpoint_{name}{ending}", MISSING, of)


def _endings(folder: Path, stem: str) -> set[str]:
    """What the names of files end with that begin with ``stem``, without those that were set aside."""
    names = [path.name for path in folder.glob(f"{stem}*") if not _ASIDE.search(path.name)]
    return {name.removeprefix(stem) for name in names}


# ------------------------------------------------------------------ environment


def _compare(run: StoredRun) -> Iterator[Check]:
    manifest = run.manifest
    then, now = manifest.get("versions"), versions()
    if not isinstance(then, Mapping):
        yield Check("versions", UNKNOWN, "the run did not record them")
    else:
        for name, version in then.items():
            here = now.get(name, "not installed")
            yield Check(name, SAME if here == version else DIFFERENT, f"{version} in the run, {here} here")
    yield _compare_value("platform", manifest.get("platform"), platform.platform())
    yield _compare_value("processor", manifest.get("processor"), platform.processor() or platform.machine())
    yield _compare_git(manifest)
    fingerprint = manifest.get("fingerprint")
    data = fingerprint.get("data") if isinstance(fingerprint, Mapping) else None
    told = f"recorded as {str(data)[:12]}…; it is compared when the run is continued" if data else "not recorded"
    yield Check("data", UNKNOWN, told)


def _compare_value(what: str, then: Any, now: str) -> Check:
    if then is None:
        return Check(what, UNKNOWN, "the run did not record it")
    return Check(what, SAME if then == now else DIFFERENT, f"{then} in the run, {now} here")


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
    lines = [f"{run.name}, {run.state}: {run.path}", ""]
    broken = [check for check in files if check.state != WHOLE]
    lines += [_line(check) for check in broken]
    lines.append(f"files        {len(files) - len(broken)} of {len(files)} are whole")
    lines += ["", *(_line(check) for check in environment if check.state != SAME)]
    lines.append(wrapped(_compared(environment), "environment  "))
    return "\n".join(lines)


def _compared(environment: list[Check]) -> str:
    """What of the environment is another, and what nobody can say, by name."""
    named = {state: [check.what for check in environment if check.state == state] for state in (DIFFERENT, UNKNOWN)}
    n_same = len(environment) - sum(map(len, named.values()))
    parts = [f"not that of the run: {', '.join(named[DIFFERENT])}"] if named[DIFFERENT] else []
    parts += [f"as in the run: {'the other ' if named[DIFFERENT] else ''}{n_same} entries"] if n_same else []
    parts += [f"not compared: {', '.join(named[UNKNOWN])}"] if named[UNKNOWN] else []
    return "; ".join(parts)


def _line(check: Check) -> str:
    return wrapped(f"{check.what}: {check.detail}" if check.detail else check.what, f"{check.state:<12} ")
