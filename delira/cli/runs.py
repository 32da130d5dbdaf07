"""``delira runs``: all runs below a folder, filtered and sorted."""

import argparse
import datetime
import fnmatch
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.cli.output import DASH, Answer, duration, table, wrapped
from delira.errors import ConfigError, did_you_mean, expect
from delira.experiments.search_result import FILE_NAME as TRIAL_FILE
from delira.runs.results import RESULT_FILE, SUMMARY
from delira.runs.stored_run import FINISHED, UNKNOWN, StoredRun, find_runs, read_history, read_run
from delira.utils.files import harmless, open_regular

_LONG = 200  # characters of an error that are shown
_UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def run(options: argparse.Namespace) -> Answer:
    """List the runs that were asked for."""
    which = {"name": options.name, "states": options.status or (), "since": options.since, "best": options.best}
    return list_runs(options.root, **which, sort=options.sort, limit=options.limit)


def list_runs(
    root: str | Path, *, name: str | None = None, states: Sequence[str] = (), since: str | None = None,
    best: str | None = None, sort: str = "age", limit: int | None = None,
) -> Answer:  # fmt: skip
    """All runs below a folder, a line for each.

    Parameters
    ----------
    root
        The folder.
    name
        Part of the experiment's name, or a pattern.
    states
        ``"finished"``, ``"running"``, ``"broken-off"``, ``"failed"``, ``"unknown"``; none: all.
    since
        A day or an age.
    best
        A metric that the runs must have, by which they are sorted.
    sort
        ``"age"`` (the newest first), ``"name"``, ``"score"``, ``"duration"`` (the longest first) or ``"status"``.
    limit
        At most so many.

    Raises
    ------
    ConfigError
        If there is no such folder, or no run has the metric that was asked for.
    """
    expect(("--limit", limit, limit is None or limit >= 1, "at least 1"))
    found = [_read(path) for path in find_runs(root)]
    runs = [run for run in found if _is_listed(run, name or "", states, since)]
    if best is not None:
        known = {metric for run in runs for metric in run.metrics}
        if runs and not known & {best, f"val_{best}"}:
            raise ConfigError(f"no run has the metric {best!r}{did_you_mean(best, known)}")
        runs = [run for run in runs if score_of(run, best)[0]]
    shown = sorted(runs, key=lambda run: _order(run, "score" if best else sort, best))[:limit]
    facts = [describe(run, Path(root), best) for run in shown]
    return Answer({"root": str(root), "runs": facts}, _as_text(facts, Path(root), len(found), len(runs)))


def _is_listed(run: StoredRun, name: str, states: Sequence[str], since: str | None) -> bool:
    """Return True if a run fits; of its metrics nothing is asked here."""
    is_named = fnmatch.fnmatch(run.name, name) if set(name) & set("*?[") else name.lower() in run.name.lower()
    return (
        is_named
        and (not states or run.state.replace(" ", "-") in states)
        and (since is None or (run.started is not None and run.started >= read_time(since)))
    )


def _read(path: Path) -> StoredRun:
    """Return a run; one that cannot be read becomes an entry that says so, and the others are still listed."""
    try:
        run = read_run(path)
        describe(run, path)
        _order(run, "duration", None)
    except Exception as error:  # the folder of a stranger, or a mistake of ours
        told = harmless(f"{path} cannot be read: {type(error).__name__}: {error}")
        return StoredRun(path=path.absolute(), manifest={}, events=[], owner=None, problems=[told], is_readable=False)
    return run


def describe(run: StoredRun, root: Path, metric: str | None = None) -> dict[str, Any]:
    """Return what is said of a run, by stable names."""
    place = run.path.relative_to(root.resolve()) if run.path.is_relative_to(root.resolve()) else run.path
    if not run.is_readable:
        names = (
            "kind",
            "folds_done",
            "folds",
            "part",
            "score",
            "started",
            "seconds",
            "age_seconds",
            "room",
            "error",
            "owner",
        )
        known = {"run": str(place), "path": str(run.path), "name": run.name, "status": UNKNOWN}
        return {**dict.fromkeys(names), **known, "metrics": {}, "error_notes": [], "problems": [*run.problems]}
    lost = [_without_ledger(run)] if run.state == UNKNOWN and not run.is_alone else []
    name, value = score_of(run, metric)
    return {
        "run": str(place),
        "path": str(run.path),
        "name": run.name,
        "kind": run.kind,
        "status": run.state,
        "folds_done": None if run.state == UNKNOWN and run.kind == "run" else len(run.finished_folds),
        "folds": run.n_folds,
        "part": _part_of(run),
        "metrics": run.metrics,
        "score": {"metric": name, "value": value} if name else None,
        "started": None if run.started is None else run.started.isoformat(),
        "seconds": run.seconds,
        "age_seconds": run.age,
        "room": run.manifest.get("room") or (run.summary.get("info") or {}).get("room"),
        "error": run.error or None,
        "error_notes": run.error_notes,
        "owner": run.owner,
        "problems": [*lost, *run.problems, *_losses(run)],
    }


def _part_of(run: StoredRun) -> str:
    """What ``folds_done`` and ``folds`` count."""
    return {"tune": "trial", "run": "training"}.get(run.kind, "fold")


def _losses(run: StoredRun) -> list[str]:
    """Return what of the results is gone or visibly cut; of large files only the ends are read, which is quick."""
    if run.kind == "run" and run.state != FINISHED:
        return []
    if run.kind == "run":
        gone = "" if run.fold_folders else f"{run.path} has no folder of the training, which has finished"
        return [*filter(None, [gone, *(read_history(folder)[1] for folder in run.fold_folders.values())])]
    found: list[str] = []
    if run.kind == "tune":  # its trials are runs of their own: 'delira verify' looks at them
        return found
    for number in sorted({*run.finished_folds, *run.stored_folds}):
        folder = run.fold_folders.get(number)
        file = f"fold_{number:02d}" if folder is None else f"{folder.name}/{RESULT_FILE}"
        if folder is None or number not in run.stored_folds:
            found.append(f"{file} is missing, though the ledger says that fold {number} has finished")
        elif why := _why_cut(folder / RESULT_FILE):
            found.append(f"{file} {why}")
    return [*filter(None, [*found, f"{SUMMARY} is missing" if run.lacks_summary else "", run.summary_trouble])]


def _why_cut(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return "" if zipfile.is_zipfile(file) else "is damaged: it has no end"
    except OSError as error:
        return f"cannot be read: {error}"


def _without_ledger(run: StoredRun) -> str:
    """Why the state of a run is unknown, and what its folders show instead."""
    is_search = run.kind == "tune"
    folders = [*run.path.glob("trials/trial_*")] if is_search else [*run.fold_folders.values()]
    result = TRIAL_FILE if is_search else RESULT_FILE
    shown = {"trials" if is_search else "folds": len(folders)}
    shown[f"of them with {result}"] = sum((folder / result).exists() for folder in folders)
    if not is_search:
        shown["epochs"] = sum(len(read_history(folder)[0]) for folder in folders)
    why = "its ledger.jsonl is damaged" if run.has_ledger else "there is no ledger.jsonl"
    told = ", ".join(f"{what}: {number}" for what, number in shown.items())
    return f"{why}, and nothing else says whether the run has ended; in its folder: {told}"


def score_of(run: StoredRun, metric: str | None = None) -> tuple[str, float | None]:
    """Name and value of a metric of a run; of the one that chose its weights, or else the first, if none is named."""
    score = run.score_key
    wanted = (metric, f"val_{metric}") if metric else (score, score.removeprefix("val_"), *run.metrics)
    return next(((name, run.metrics[name]) for name in wanted if name in run.metrics), ("", None))


def read_time(text: str) -> datetime.datetime:
    """Return a day, a time, or an age such as ``"7d"``, as a time.

    Raises
    ------
    ConfigError
        If it is none of these.
    """
    try:
        if found := re.fullmatch(r"(\d+)\s*(min|h|d|w)", text):
            return datetime.datetime.now().astimezone() - datetime.timedelta(**{_UNITS[found[2]]: int(found[1])})
        return datetime.datetime.fromisoformat(text).astimezone()
    except (OverflowError, ValueError):
        raise ConfigError(f"--since {text!r} is no time; write a day (2026-11-22), or an age: 30min, 12h, 7d") from None


def _order(run: StoredRun, sort: str, metric: str | None) -> tuple[Any, ...]:
    age = run.age if run.age is not None else math.inf
    if sort == "score":
        name, value = score_of(run, metric)
        if value is None or not math.isfinite(value):
            return (True, "", 0.0, age)
        return (False, "" if metric else name, value if run.prefers_low(name) else -value, age)
    keys: dict[str, Any] = {"name": run.name, "duration": -(run.seconds or 0.0), "status": run.state}
    return (keys.get(sort, 0), age)


def _as_text(facts: Sequence[dict[str, Any]], root: Path, n_found: int, n_left: int) -> str:
    if not facts:
        return f"none of the {n_found} runs below {root} is like that" if n_found else f"there are no runs below {root}"
    broken = [fact["run"] for fact in facts if fact["problems"]]
    unknown = [fact for fact in facts if fact["status"] == UNKNOWN]
    remarks = [f"{fact['run']}: {_told(fact)}" for fact in facts if fact["error"]]
    remarks += [f"{fact['run']}: {fact['problems'][0]}" for fact in unknown if fact["problems"]]
    remarks += [f"not whole: {', '.join(broken)}; 'delira verify RUN' tells more"] if broken else []
    # without a search all parts are folds, and a line keeps to 80 columns
    is_mixed = any(fact["part"] == "trial" for fact in facts)
    header = ("status", "done" if is_mixed else "folds", "score", "took", "age", "run")
    lines = [
        table(header, [_cells(fact, is_mixed) for fact in facts], "<><>><"),
        *("\n" + wrapped(remark) for remark in remarks),
        *([f"\nand {n_left - len(facts)} more"] if n_left > len(facts) else []),
    ]
    return "\n".join(lines)


def _told(fact: Mapping[str, Any]) -> str:
    """Return an error, and where it happened: of each the first line."""
    lines = [text.strip().partition("\n")[0] for text in (fact["error"], *fact["error_notes"][:1])]
    return "; ".join(line if len(line) <= _LONG else f"{line[:_LONG]}…" for line in lines)


def _counted(fact: Mapping[str, Any], is_named: bool) -> str:
    """How many parts are done, of how many, and if asked for what they are: ``7/20 trials``."""
    numbers = "/".join("?" if number is None else str(number) for number in (fact["folds_done"], fact["folds"]))
    part = fact["part"]
    return f"{numbers} {part}{'' if fact['folds'] == 1 else 's'}" if part and is_named else numbers


def _cells(fact: Mapping[str, Any], is_named: bool) -> tuple[str, ...]:
    score = fact["score"]
    return (
        fact["status"],
        _counted(fact, is_named),
        DASH if score is None else f"{score['metric']} {score['value']:.4g}",
        duration(fact["seconds"]),
        duration(fact["age_seconds"]),
        fact["run"],
    )
