"""``delira verify``: whether the files of runs are whole, and whether this is the environment that they ran in."""

import argparse
import csv
import io
import json
import platform
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.cli.output import Answer, wrapped
from delira.cli.repeatable import Outlook, outlook
from delira.errors import CheckpointError, ConfigError, UnreadableError
from delira.experiments import stored_result
from delira.experiments.search_result import FILE_NAME as TRIAL_FILE
from delira.experiments.search_result import Trial
from delira.experiments.selection import other_weights
from delira.io import shards
from delira.io.container import BROKEN_ZIP, read_tree, verify_zip
from delira.metrics.per_class import means_of
from delira.runs import environment as run_environment
from delira.runs import folder as run_folder
from delira.runs import results, seen_cases, weight_hashes
from delira.runs.stored_run import CUT_OFF, FINISHED, StoredRun, read_history, read_run
from delira.utils import files
from delira.utils.cells import as_text

WHOLE, BROKEN, MISSING, UNKNOWN, UNREADABLE = "whole", "broken", "missing", "unknown", "unreadable"
#: a ledger whose last line was cut off, which is no damage
CUT = "cut off"
SAME, DIFFERENT = "same", "different"
#: what is said of a file that only a later delira understands
NEWER = "it was written by a newer version of delira, which this one cannot read: pip install --upgrade delira"
#: ending of a checkpoint that was taken out of the way
_ASIDE = re.compile(r"\.(damaged|superseded)\d*$")


class Check(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: str
    """A file: ``whole``, ``broken``, ``missing``, ``unreadable``: the system cannot read it now, or ``unknown``: of a
    newer version, or ``cut off``: going on mends it. The environment: ``same``, ``different`` or ``unknown``."""
    detail: str = ""


def check_files(run: StoredRun) -> Iterator[Check]:
    """Look at every file of a run, and for those that it must have."""
    yield from _check_run_files(run)
    if run.kind == "tune":
        yield from _check_trials(run)
        return
    for number in _finished(run):
        if number not in run.fold_folders:
            yield Check(f"fold_{number:02d}", MISSING, "the ledger says that the fold has finished")
    for number, folder in run.fold_folders.items():
        place = "." if folder == run.path else folder.name
        stored, wrong = _read_result(run, number, folder)
        is_missed = run.has_folds and number in run.finished_folds
        without = "the ledger says that the fold has finished" if is_missed else None
        yield from _look(folder / results.RESULT_FILE, f"{folder.name}/{results.RESULT_FILE}", wrong, without)
        yield from _check_history(run, folder, place, stored)
        yield from _check_small_files(run, number, place)
        for checkpoint in sorted((folder / "checkpoints").glob("*")):
            name = checkpoint.name
            if name.startswith("checkpoint_") or (checkpoint.is_file() and not name.startswith(".")):
                yield _check(f"{place}/checkpoints/{name}", _wrong_checkpoint(checkpoint))
        yield from _check_weights(run, number, place, stored)
    # that there are none may be as it should be: of most data nothing can be drawn
    examples = run.path / "report" / "examples.npz"
    yield from _look(examples, f"report/{examples.name}", _wrong_arrays(examples), None)


def _check_trials(run: StoredRun) -> Iterator[Check]:
    """Look at every trial of a search, each of which is a run of its own."""
    study = run.path / "study.journal"
    yield from _look(study, study.name, "", "what was proposed is not known, so the search cannot go on")
    for number in run.finished_folds:
        folder = run.path / "trials" / f"trial_{number:04d}"
        place, wrong = f"trials/{folder.name}", ""
        try:
            Trial.read(folder)
        except (CheckpointError, OSError) as error:
            wrong = _without_path(folder / TRIAL_FILE, str(error))
        told = "the ledger says that the trial has ended"
        yield from _look(folder / TRIAL_FILE, f"{place}/{TRIAL_FILE}", wrong, told)
        if folder.is_dir():
            yield from (each._replace(what=f"{place}/{each.what}") for each in check_files(read_run(folder)))


def _look(path: Path, what: str, wrong: str, without: str | None) -> Iterator[Check]:
    """A file, if it is there, and what is wrong with it; else, where it is missed, what the run is without."""
    if path.exists():
        yield _check(what, wrong)
    elif without is not None:
        yield Check(what, MISSING, without)


def _check(what: str, wrong: str) -> Check:
    """A file that is there, by what is wrong with it."""
    if wrong == NEWER:
        return Check(what, UNKNOWN, wrong)
    if wrong.endswith(CUT_OFF):
        return Check(what, CUT, wrong)
    return Check(what, UNREADABLE if files.SAYS_NOTHING in wrong else BROKEN if wrong else WHOLE, wrong)


def _finished(run: StoredRun) -> Sequence[int]:
    """Numbers of the folds that have ended as the ledger says; a single training is the fold that it was asked for."""
    fold = files.mapping(run.manifest.get("fingerprint")).get("fold")
    if run.kind == "run" and run.state == FINISHED and not run.fold_folders and isinstance(fold, int):
        return [fold]
    return [*run.finished_folds]


# ------------------------------------------------------------------ of the run


def _check_run_files(run: StoredRun) -> Iterator[Check]:
    if not run.is_alone:  # what every run has that an experiment began
        manifest, ledger = run.path / "manifest.json", run.path / "ledger.jsonl"
        unknown = "settings, versions and seed are not known"
        yield from _look(manifest, manifest.name, _wrong_manifest(run, manifest), unknown)
        told = _without_path(ledger, _problem_of(run, ledger))
        check = _check(ledger.name, told) if told or run.events else Check(ledger.name, BROKEN)
        yield check if run.events or ledger.exists() else check._replace(state=MISSING)
    path, summary = run.path / "parameters.yml", run.path / results.SUMMARY
    yield from _look(path, path.name, _wrong_parameters(run, path), "" if run.manifest else None)
    wrong = _wrong_json(summary, "format", results.SUMMARY_FORMAT, run.summary_trouble)
    without = "groups and warnings of the run are not known" if run.lacks_summary else None
    yield from _look(summary, summary.name, wrong, without)
    cases = run.path / seen_cases.FILE
    is_missed = run.manifest.get("seen_cases") and any(run.path.glob("fold_*/checkpoints/checkpoint_*"))
    unknown_cases = "which cases it was trained on is not known, and a score on some of them is not refused"
    wrong = _wrong_json(cases, "hashes", seen_cases.FORMAT)
    yield from _look(cases, cases.name, wrong, unknown_cases if is_missed else None)


def _problem_of(run: StoredRun, file: Path) -> str:
    return next((problem for problem in run.problems if file.name in problem), "")


def _wrong_manifest(run: StoredRun, path: Path) -> str:
    wrong = _wrong_json(path, known=run_folder.FORMAT)
    wrong = wrong or ("" if run.manifest else "it cannot be read: it has no entries")
    if wrong in ("", NEWER):
        return wrong or _without_path(path, _problem_of(run, path))
    return f"{wrong}, so that settings, versions and seed are not known"


def _wrong_parameters(run: StoredRun, path: Path) -> str:
    try:
        stored_result.load_parameters(path)
        return stored_result.CHANGED if run.is_changed(path.name) else ""
    except (ConfigError, OSError) as error:
        return str(error).removeprefix(f"{path}: ")


# ------------------------------------------------------------------ of a fold


def _read_result(run: StoredRun, number: int, folder: Path) -> tuple[results.StoredFold | None, str]:
    """Return what is in a fold's ``result.zip`` if it can be read, and what is wrong with it."""
    path = folder / results.RESULT_FILE
    try:
        if _is_newer(read_tree(path), results.RESULT_FORMAT):
            return None, NEWER
        stored = results.read_fold(folder)
    except (CheckpointError, OSError) as error:
        return None, _without_path(path, str(error))
    wrong = _compare_metrics(means_of(stored.fields), run.finished_folds.get(number, {}).get("metrics"))
    if not wrong and (told := other_weights(stored.fields)):
        wrong = f"its numbers are those of {_weights(**told)}"
    return stored, wrong


def _weights(weights_epoch: int, best_epoch: int) -> str:
    return f"the weights of epoch {weights_epoch}, not of the best one, {best_epoch}, whose checkpoint was not there"


def _check_history(run: StoredRun, folder: Path, place: str, stored: results.StoredFold | None) -> Iterator[Check]:
    """Both files of the epochs; of a finished fold they are in ``result.zip``, too."""
    path, table = folder / "history.jsonl", folder / "history.csv"
    history, lost = read_history(folder)
    told = stored.fields["history"] if stored is not None else []
    if not (told or history or lost or any((folder / "checkpoints").glob("checkpoint_*"))):
        return  # else both are there, though empty, before the first checkpoint is written
    # a run that goes on for more epochs has the result of the first ones until the fold ends again
    ended = history if run.state == FINISHED else history[: len(told)]
    is_same = not told or json.dumps(told, default=str) == json.dumps(ended, default=str)
    wrong = _without_path(path, lost) or ("" if is_same else f"its epochs are not those of {results.RESULT_FILE}")
    yield from _look(path, f"{place}/{path.name}", wrong, f"the epochs are in {results.RESULT_FILE}" if told else "")
    wrong = _compare_table(table, None if lost else history or told)
    yield from _look(table, f"{place}/{table.name}", wrong, "")


def _compare_table(table: Path, epochs: Sequence[Mapping[str, Any]] | None) -> str:
    """Return what is wrong with the table of some epochs; of ``None`` nobody knows which there were."""
    try:
        rows = [*csv.DictReader(io.StringIO(files.read_bytes(table, files.MOST_OF_MANY).decode(), newline=""))]
    except (OSError, ValueError, csv.Error) as error:
        return f"it cannot be read: {error}"
    if epochs is None:
        return ""
    if len(rows) != len(epochs):
        return f"it has {len(rows)} rows for {len(epochs)} epochs"
    for row, epoch in zip(rows, epochs, strict=True):
        cells = {as_text(name): "" if value is None else str(value) for name, value in epoch.items()}
        other = [name for name in {**cells, **row} if (row.get(name) or "") != cells.get(name, "")]
        if other:
            where = f"epoch {epoch['epoch']}" if "epoch" in epoch else "an epoch"
            return f"its {other[0]!r} of {where} is {row.get(other[0])!r}, and was {cells.get(other[0])}"
    return ""


def _check_small_files(run: StoredRun, number: int, place: str) -> Iterator[Check]:
    """Predictions, times and what was left out, by the guards or of the data, which a run can do without."""
    folder, is_finished = run.path / place, number in run.finished_folds
    # a run from before there were checksums may be older than these files
    is_new = is_finished and "checksums" in run.manifest
    is_fitted = is_finished and "preprocessing" in files.mapping(run.manifest.get("batches"))
    arrays, fitted = folder / "predictions.npz", folder / results.PREPROCESSING
    hashes = folder / weight_hashes.FILE
    is_hashed = is_finished and any(run.path.glob(f"fold_*/{weight_hashes.FILE}"))
    unhashed = "a rerun cannot compare its weights epoch by epoch" if is_hashed else None
    times, guards, left_out = folder / results.TIMES_FILE, folder / results.GUARDS_FILE, folder / "left_out.json"
    lost = _without_path(guards, results.describe_lost_guards(folder, run.guarded(number))) or None
    untimed = "where the time of the fold went is not known"
    looked_at = [
        (arrays, _wrong_arrays(arrays), "" if is_new and run.has_folds and not run.manifest.get("is_trial") else None),
        (fitted, _wrong_checkpoint(fitted), "what was fitted on the training part is lost" if is_fitted else None),
        (times, _wrong_json(times, "seconds", results.VERSION), untimed if is_new else None),
        (guards, _wrong_json(guards, "left_out", results.VERSION), lost),
        (left_out, _wrong_json(left_out), None),
        (hashes, _without_path(hashes, weight_hashes.read_hashes(folder)[1]), unhashed),
    ]
    for path, wrong, without in looked_at:
        yield from _look(path, f"{place}/{path.name}", wrong, without)


def _wrong_arrays(path: Path) -> str:
    def read() -> str | None:
        files.refuse_link(path)
        with files.open_regular(path) as file:
            files.check_unpacked(file)
            return zipfile.ZipFile(file).testzip()

    try:
        damaged = files.read_patiently(path, read)
    except BROKEN_ZIP as error:
        return f"it cannot be read: {error}"
    return f"the checksum of its record {damaged!r} is wrong" if damaged else ""


def _compare_metrics(stored: Mapping[str, float], noted: object) -> str:
    """Return what differs between a fold's file and the ledger, which were written one after the other."""
    for name, value in files.mapping(noted).items():
        if name in stored and not isinstance(value, (int, float)):
            return f"{name} is {value!r} in ledger.jsonl, which is no number"
        if name in stored and not np.isclose(stored[name], value, rtol=1e-9, atol=0, equal_nan=True):
            return f"{name} is {stored[name]:.6g} in it and {value:.6g} in ledger.jsonl"
    return ""


# ------------------------------------------------------------------ checkpoints


def _wrong_checkpoint(path: Path) -> str:
    if path.suffix == ".damaged":
        return "it was set aside when the run went on; delete it if the run is fine"
    try:
        verify_zip(path, compressed=path.suffix == ".ptj")
    except (CheckpointError, UnreadableError) as error:
        return _without_path(path, str(error))
    return shards.wrong_parts(path)


def _check_weights(run: StoredRun, number: int, place: str, stored: results.StoredFold | None) -> Iterator[Check]:
    """The checkpoints of a fold that are gone: of the weights that it gives, and of where it goes on."""
    folder = run.path / place
    if run.manifest.get("is_trial") and not (folder / "checkpoints").exists():
        return  # a search keeps the weights of its best trial
    history = read_history(folder)[0] if stored is None else stored.fields["history"]
    if not history:
        return
    best = run.best_epoch(history) if stored is None else stored.fields["best_epoch"]
    settings = files.mapping(run.manifest.get("settings"))
    is_finished = stored is not None or number in run.finished_folds
    # what was being written when a run broke off need not be there
    n_saved = len(history) if is_finished else len(history) - (2 if settings.get("save_in_background") else 1)
    needed = {}
    other = run.weights_epoch(number) if stored is None else None
    if best is not None and other is not None:
        yield Check(f"{place}/checkpoints", BROKEN, f"the training ended with {_weights(other, best)}")
    if best is not None and best <= n_saved and not _is_superseded(folder / "checkpoints", best):
        needed["best"] = f"epoch {best} was the best and had its weights"
    if is_finished and best is None:
        needed["last"] = "the fold ended with its weights"
    elif _has_last(run, n_saved, is_finished=is_finished, has_best="best" in needed):
        needed["last"] = "it is what the fold goes on from" + (", should it be trained longer" if is_finished else "")
    if "last" in needed and run.manifest.get("states") and settings.get("on_save_error") != "warn":
        needed["previous"] = "it is the state before checkpoint_last, should that be damaged"
    there = {name: _endings(folder / "checkpoints", f"checkpoint_{name}") for name in ("best", "last", "previous")}
    for ending in sorted(there["last"] & there["previous"]) if is_finished else ():
        last, previous = (folder / "checkpoints" / f"checkpoint_{name}{ending}" for name in ("last", "previous"))
        if last.exists() and previous.exists() and last.samefile(previous):  # one damaged file must not be both
            told = f"it is another name of {last.name}, so that damage to one is damage to both; copy the file"
            yield Check(f"{place}/checkpoints/{previous.name}", BROKEN, told)
    for name, detail in needed.items():
        # one of TorchScript is two files
        for ending in sorted((set().union(*there.values()) or {""}) - there[name]):
            yield Check(f"{place}/checkpoints/checkpoint_{name}{ending}", MISSING, detail)


def _has_last(run: StoredRun, n_saved: int, *, is_finished: bool, has_best: bool) -> bool:
    """Return True if ``checkpoint_last`` was written for certain: settings are known and let no writing fail."""
    settings = files.mapping(run.manifest.get("settings"))
    if not run.manifest or settings.get("on_save_error") == "warn":
        return False
    every = settings.get("save_freq", settings.get("checkpoint_freq", 1))
    return is_finished or has_best or (isinstance(every, int) and 0 < every <= n_saved)


def _is_superseded(folder: Path, best: int) -> bool:
    """Return True if the run went back to before its best epoch of then: the best one of now has but its number."""
    return any(folder.glob("checkpoint_best*.superseded*")) and any(folder.glob(f"checkpoint_epoch_{best}[!_0-9]*"))


def _endings(folder: Path, stem: str) -> set[str]:
    """Return what the names of files end with that begin with ``stem``, without those that were set aside."""
    return {path.name.removeprefix(stem) for path in folder.glob(f"{stem}*") if not _ASIDE.search(path.name)}


# ------------------------------------------------------------------ words


def _wrong_json(path: Path, entry: str = "", known: int | None = None, trouble: str = "") -> str:
    """Return what is wrong with a file of JSON; ``trouble`` is what its reader says of it.

    It has an entry of this name, if there is one, and is of no newer version, if one is known.
    """
    try:
        content = files.read_json(path, files.MOST_OF_MANY)
    except (OSError, ValueError) as error:
        return _without_path(path, f"it cannot be read: {error}")
    if known is not None and _is_newer(content, known):
        return NEWER
    if not isinstance(content, dict):
        return "it cannot be read: it has no entries with names"
    if files.is_changed(content):
        return f"it is damaged: {files.OTHER_CHECKSUM}"
    lacks = entry and content.get(entry) is None
    return f"it cannot be read: it has no entry {entry!r}" if lacks else _without_path(path, trouble)


def _is_newer(content: object, known: int) -> bool:
    written = files.mapping(content)
    found = written.get("format", written.get("version"))
    return isinstance(found, int) and found > known


def _without_path(path: Path, told: str) -> str:
    if told.startswith(f"{path} "):
        return f"it {told.removeprefix(f'{path} ')}"
    return told.replace(str(path), path.name)


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
    checks, environment = [*check_files(run)], [*compare_environment(run)]
    is_changed = any(check.state == DIFFERENT for check in environment)
    is_broken = (strict and is_changed) or any(check.state in (BROKEN, MISSING, UNREADABLE) for check in checks)
    different = {check.what: check.detail for check in environment if check.state == DIFFERENT}
    again = outlook(run, different)
    content = {
        "run": str(run.path),
        "status": run.state,
        "is_broken": is_broken,
        "is_same_environment": not is_changed,
        "rerun": again._asdict(),
        "files": [check._asdict() for check in checks],
        "environment": [check._asdict() for check in environment],
    }
    return Answer(content, _as_text(run, checks, environment, again), is_broken=is_broken)


# ------------------------------------------------------------------ environment


def compare_environment(run: StoredRun) -> Iterator[Check]:
    """Compare what a run was made with, as its manifest says, with what is here."""
    manifest = run.manifest
    if not manifest:
        is_there = (run.path / "manifest.json").exists()
        why = f"it would be in manifest.json, which {'cannot be read' if is_there else 'is missing'}"
        yield from (Check(what, UNKNOWN, why) for what in ("versions", "platform", "processor", "git", "data"))
        return
    if isinstance(then := manifest.get("versions"), Mapping):
        now = run_environment.versions()
        yield from (_compared(name, version, now.get(name, "not installed")) for name, version in then.items())
    else:
        yield Check("versions", UNKNOWN, "the run did not record them")
    here = {"platform": platform.platform(), "processor": platform.processor() or platform.machine()}
    for what, value in here.items():
        then = manifest.get(what)
        yield Check(what, UNKNOWN, "the run did not record it") if then is None else _compared(what, then, value)
    yield _compare_git(manifest)
    data = files.mapping(manifest.get("fingerprint")).get("data")
    told = f"recorded as {str(data)[:12]}…; it is compared when the run is continued" if data else "not recorded"
    yield Check("data", UNKNOWN, told)


def _compared(what: str, then: object, here: str) -> Check:
    return Check(what, SAME if then == here else DIFFERENT, f"{then} in the run, {here} here")


def _compare_git(manifest: Mapping[str, Any]) -> Check:
    then = manifest.get("git")
    if not isinstance(then, Mapping):
        why = "the script was in no repository" if "git" in manifest else "the run did not record it"
        return Check("git", UNKNOWN, why)
    # of the working directory: git runs what the settings of a repository say, and the file may name any folder
    now, told = run_environment.git_commit(""), _commit(then)
    if now is None:
        return Check("git", UNKNOWN, f"{told} in the run; this folder is in no repository")
    same = then.get("commit") == now["commit"] and not then.get("changed") and not now["changed"]
    return Check("git", SAME if same else DIFFERENT, f"{told} in the run, {_commit(now)} here")


def _commit(git: Mapping[str, Any]) -> str:
    return str(git.get("commit"))[:10] + (" with changes" if git.get("changed") else "")


# ------------------------------------------------------------------ text


def _as_text(run: StoredRun, checks: list[Check], environment: list[Check], again: Outlook) -> str:
    others = [check for check in checks if check.state != WHOLE]
    named = {state: [check.what for check in environment if check.state == state] for state in (DIFFERENT, UNKNOWN)}
    n_same = len(environment) - sum(map(len, named.values()))
    parts = [f"not that of the run: {', '.join(named[DIFFERENT])}"] if named[DIFFERENT] else []
    parts += [f"as in the run: {'the other ' if named[DIFFERENT] else ''}{n_same} entries"] if n_same else []
    parts += [f"not compared: {', '.join(named[UNKNOWN])}"] if named[UNKNOWN] else []
    lines = [
        f"{run.name}, {run.state}: {run.path}",
        "",
        *map(_line, others),
        f"files        {len(checks) - len(others)} of {len(checks)} are whole",
        "",
        *(_line(check) for check in environment if check.state != SAME),
        wrapped("; ".join(parts), "environment  "),
        wrapped(f"{again.state}: {'; '.join(again.reasons)}" if again.reasons else again.state, "rerun        "),
        *(wrapped(line, " " * 13) for line in again.needs),
    ]
    return "\n".join(lines)


def _line(check: Check) -> str:
    return wrapped(f"{check.what}: {check.detail}" if check.detail else check.what, f"{check.state:<12} ")
