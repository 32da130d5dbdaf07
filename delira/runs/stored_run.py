"""A run as its folder tells it, without any framework: what it is, how far it came, and what cannot be read."""

import contextlib
import datetime
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import CheckpointError, ConfigError, UnreadableError
from delira.metrics.direction import named_direction
from delira.runs.differences import score_mode_of
from delira.runs.folder import FORMAT, LEDGER, checksum, ending_of, locate_run
from delira.runs.leases import Leases
from delira.runs.ledger import cut_line, events_in
from delira.runs.results import RESULT_FILE, SUMMARY, TIMES_FILE, read_means, read_summary, read_timings
from delira.utils.files import (
    CHECKSUM,
    MOST_OF_MANY,
    OTHER_CHECKSUM,
    harmless,
    is_changed,
    mapping,
    read_bytes,
    read_json,
    read_json_lines,
)
from delira.utils.lock import owner_of

FINISHED, RUNNING, BROKEN_OFF, FAILED, UNKNOWN = "finished", "running", "broken off", "failed", "unknown"
STATES = (FINISHED, RUNNING, BROKEN_OFF, FAILED, UNKNOWN)

#: errors that somebody wanted: a signal, the keyboard
_WANTED = ("KeyboardInterrupt", "SystemExit", "TrainingInterrupted")
HISTORY = "history.jsonl"
#: what is said of the last line of a ledger that has no end: nothing else is lost
CUT_OFF = "was cut off, as by a power loss; the next resume cuts it away"
#: the ``split_type`` of which one more fold tests what it learned from
BOOTSTRAP = "bootstrap632+"
#: entries of the ledger that begin a session, and that end it
_BEGINS = ("started", "resumed")
_ENDS = ("finished", "broken_off")
#: seconds between the time that the last line of a ledger names, and that of the file
_TOLERANCE = 5.0
#: folders that hold no runs, and may be large
_PASSED_BY = {"node_modules", "site-packages", "__pycache__", "checkpoints", "logs"}


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """What manifest, ledger and histories of a run folder say; see :func:`read_run`."""

    path: Path
    manifest: Mapping[str, Any]
    """Empty if there is none that can be read."""
    events: Sequence[Mapping[str, Any]]
    """The entries of the ledger, the oldest first."""
    owner: str | None
    """The process that is at work in the folder, in words."""
    problems: Sequence[str] = field(default_factory=tuple)
    """What cannot be read, naming the file."""
    is_readable: bool = True
    """Whether anything of it could be read; what cannot is listed by its folder alone."""

    @property
    def name(self) -> str:
        """Of the experiment."""
        return str(self.manifest.get("name") or self.summary.get("name") or self.path.absolute().parent.name)

    @property
    def kind(self) -> str:
        """``"kfold"``, ``"learning_curve"``, ``"tune"``, a search, or ``"run"``: one training."""
        kind = mapping(self.manifest.get("fingerprint")).get("kind")
        if kind in ("kfold", "learning_curve", "tune", "run"):
            return str(kind)
        # what only a cross-validation writes; the folder of a single training may have any number
        is_divided = self.stored_folds or len(self.fold_folders) > 1 or (self.path / SUMMARY).exists()
        return "kfold" if is_divided or any(event["event"].startswith("fold_") for event in self.events) else "run"

    @property
    def has_folds(self) -> bool:
        """Return True if its parts are tested folds."""
        return self.kind in ("kfold", "learning_curve")

    @property
    def state(self) -> str:
        """One of :data:`STATES`; a run whose process was killed is broken off, of one without a ledger nobody knows."""
        if self.owner is not None:
            return RUNNING
        if not self.events:
            return UNKNOWN
        last = self._ending
        if last.get("event") == "finished":
            return FINISHED
        is_failed = last.get("event") == "broken_off" and not str(last.get("error") or "").startswith(_WANTED)
        return FAILED if is_failed else BROKEN_OFF

    @property
    def can_go_on(self) -> bool:
        """Return True if there is a checkpoint to continue from, and the manifest that tells whose it is."""
        is_trainer = self.kind == "run" and not self.has_ledger and not (self.path / "manifest.json").exists()
        if not self.manifest.get("fingerprint") and not is_trainer:
            return False
        return any(any((folder / "checkpoints").glob("checkpoint_*")) for folder in self.fold_folders.values())

    @property
    def missing_folds(self) -> list[int]:
        """Numbers of the folds that the run was not asked for when it finished."""
        missing = self._ending.get("missing_folds")
        return [number for number in missing if isinstance(number, int)] if isinstance(missing, list) else []

    @property
    def error(self) -> str:
        """What ended the last session before its time; empty if nothing did, or nobody could say."""
        return str(self._ending.get("error") or "").removesuffix(": ")

    @property
    def error_notes(self) -> list[str]:
        """Where :attr:`error` happened, as ``"in metric 'dice', called with …"``, if that is known."""
        notes = self._ending.get("notes")
        return [*map(str, notes)] if isinstance(notes, list) else []

    @property
    def _ending(self) -> Mapping[str, Any]:
        return ending_of(self.events)

    @property
    def n_folds(self) -> int | None:
        """Folds, or trials of a search, that the run has when it is done; ``None`` if nothing says so."""
        planned = self.manifest.get("n_trials" if self.kind == "tune" else "num_splits")
        if self.kind == "run":
            return max(1, len(self.fold_folders))
        if isinstance(planned, int):
            return max(planned, len(self.finished_folds)) if self.kind == "tune" else planned
        return max([*self.finished_folds, *self.fold_folders], default=0) + 1 if self.state == FINISHED else None

    @functools.cached_property
    def fold_folders(self) -> dict[int, Path]:
        """Folders of the folds that began, by number."""
        away = _led_out(self.path)
        paths = [path for path in sorted(self.path.glob("fold_*")) if path not in away and path.is_dir()]
        folders = {path.name.removeprefix("fold_"): path for path in paths}
        found = {int(number): path for number, path in folders.items() if number.isdecimal()}
        # a trainer that was made alone has its files where others have their folds
        return found or ({0: self.path} if (self.path / HISTORY).exists() else {})

    @property
    def is_alone(self) -> bool:
        """Return True if a trainer that was made alone left this, which writes neither manifest nor ledger."""
        return self.fold_folders.get(0) == self.path and not (self.has_ledger or (self.path / "manifest.json").exists())

    @functools.cached_property
    def stored_folds(self) -> list[int]:
        """Folds that have a file of their result, whole or not."""
        return [number for number, folder in self.fold_folders.items() if (folder / RESULT_FILE).exists()]

    @functools.cached_property
    def finished_folds(self) -> dict[int, Mapping[str, Any]]:
        """What the ledger, or else its file, says of each finished fold or trial, by number; one training is fold 0."""
        if self.kind == "run" and self._ending.get("event") == "finished":
            return dict.fromkeys(self.fold_folders, self._ending)
        part = "trial" if self.kind == "tune" else "fold"
        ended = [event for event in self.events if event["event"] == f"{part}_finished"]
        found = {event[part]: event for event in ended if isinstance(event.get(part), int)}
        # the ledger may be lost, or its last line not yet written
        for number in self.stored_folds:
            if number not in found:
                with contextlib.suppress(CheckpointError, OSError):
                    found[number] = {"fold": number, "metrics": read_means(self.fold_folders[number])}
        return dict(sorted(found.items()))

    @functools.cached_property
    def metrics(self) -> dict[str, float]:
        """Mean over finished folds by metric, of a learning curve those of the largest size; of a search the scores of
        its best trial, of a single training the values of its best epoch, else its last.
        """
        if self.kind == "tune":
            return self._best_scores()
        if self.has_folds:
            stated = [mapping(event.get("metrics")) for event in self._counted_folds()] or [{}]
            names = [name for name in stated[0] if all(_is_number(each.get(name)) for each in stated)]
            return {name: float(np.mean([each[name] for each in stated])) for name in names}
        for folder in self.fold_folders.values():
            if history := read_history(folder)[0]:
                best = self.best_epoch(history)
                record = next((each for each in history if each.get("epoch") == best), history[-1])
                return {name: value for name, value in record.items() if name != "epoch" and _is_number(value)}
        return {}

    @property
    def apparent(self) -> int | None:
        """Number of the fold of a bootstrap that learned from all cases and tested them; ``None``: there is none."""
        is_bootstrap = mapping(self.manifest.get("options")).get("split_type") == BOOTSTRAP
        return self.n_folds - 1 if is_bootstrap and self.n_folds and self.kind == "kfold" else None

    def _counted_folds(self) -> list[Mapping[str, Any]]:
        """What is said of the finished folds whose mean is the result."""
        sizes = self.manifest.get("train_sizes")
        n_folds = (self.n_folds or 0) // len(sizes) if isinstance(sizes, list) and sizes else 0
        first = (self.n_folds or 0) - n_folds if n_folds else 0
        ended = [(number, event) for number, event in self.finished_folds.items() if number >= first]
        return [event for number, event in ended if number != self.apparent]

    def _best_scores(self) -> dict[str, float]:
        """Scores of the best trial by the first metric that is looked at."""
        names = mapping(self.manifest.get("search")).get("metric")
        directions = self.manifest.get("directions")
        ended = [event.get("scores") for event in self.finished_folds.values() if event.get("state") == "finished"]
        if not isinstance(names, list) or not isinstance(directions, list) or not directions:
            return {}
        known = [each for each in ended if isinstance(each, list) and len(each) == len(names) > 0]
        known = [each for each in known if all(map(_is_number, each))]
        if not known:
            return {}
        best = (max if directions[0] == "max" else min)(known, key=lambda scores: scores[0])
        return {str(name): float(value) for name, value in zip(names, best, strict=True)}

    def best_epoch(self, history: Sequence[Mapping[str, float]]) -> int | None:
        """Epoch of a history with the best value of the run's score; ``None`` if it has none."""
        key, sign = self.score_key, -1 if self.prefers_low(self.score_key) else 1
        known = [each for each in history if _is_number(each.get(key)) and each[key] == each[key]]
        scored = [(sign * each[key], -int(each["epoch"])) for each in known]
        return -max(scored)[1] if scored else None

    def weights_epoch(self, number: int) -> int | None:
        """Epoch whose weights a single training ended with, where the ledger says that it was not the best one."""
        found = [event.get("weights_epoch") for event in self._of_last_session("other_weights", number)]
        return found[-1] if found and isinstance(found[-1], int) else None

    @property
    def caveats(self) -> list[str]:
        """What the last session of a single training said of its numbers."""
        return [event["text"] for event in self._of_last_session("caveat") if isinstance(event.get("text"), str)]

    def guarded(self, number: int) -> Mapping[str, Any] | None:
        """How often the guards did something in a finished fold, as the ledger counts it; None: never, or not known."""
        told = [self.finished_folds.get(number, {})] if self.has_folds else self._of_last_session("guarded", number)
        found = told[-1].get("guards") if told else None
        return found if isinstance(found, Mapping) else None

    def _of_last_session(self, name: str, fold: int | None = None) -> list[Mapping[str, Any]]:
        """Entries of the ledger about a fold: what an earlier session ended with does not count."""
        starts = [place for place, event in enumerate(self.events) if event["event"] in _BEGINS]
        last = self.events[max(starts, default=0) :]
        return [event for event in last if event["event"] == name and (fold is None or event.get("fold") == fold)]

    @property
    def lacks_summary(self) -> bool:
        """Return True if there should be a ``result.json``: a run from before there was one has no checksums."""
        is_one_fold = self.path in self.fold_folders.values()  # copied out of its run
        is_expected = "checksums" in self.manifest or not (self.manifest or is_one_fold)
        is_expected = is_expected and self.has_folds and not self.manifest.get("is_trial")
        return is_expected and bool(self.finished_folds) and not (self.path / SUMMARY).exists()

    @property
    def summary(self) -> Mapping[str, Any]:
        """What is in ``result.json``; empty if there is none that can be read."""
        return self._summary[0]

    @property
    def summary_trouble(self) -> str:
        """Why ``result.json`` cannot be read; empty if it can, or there is none."""
        return self._summary[1]

    @functools.cached_property
    def _summary(self) -> tuple[Mapping[str, Any], str]:
        return read_summary(self.path)

    @property
    def has_ledger(self) -> bool:
        """Return True if there is a ledger, which may be damaged."""
        return (self.path / LEDGER).exists()

    def is_changed(self, name: str) -> bool:
        """Return True if a file is another one than the manifest, written right after it, says.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        written = mapping(self.manifest.get("checksums")).get(name)
        return written is not None and checksum(self.path / name) != written

    @property
    def score_key(self) -> str:
        """Key of the history that chose the best weights; empty if nothing did."""
        key = mapping(self.manifest.get("settings")).get("val_score_key")
        return f"val_{key.removeprefix('val_')}" if isinstance(key, str) else ""

    def prefers_low(self, metric: str) -> bool:
        """Return True if less of a metric is better, as the run says of its score, or as is known of its name."""
        settings = mapping(self.manifest.get("settings"))
        name = metric.removeprefix("val_")
        if name == self.score_key.removeprefix("val_"):
            return score_mode_of(self.manifest) == "lowest"
        return name in mapping(settings.get("losses")) or named_direction(name) is False

    # ------------------------------------------------------------------ times

    @property
    def started(self) -> datetime.datetime | None:
        """When the run began."""
        begun = self.events[0].get("time") if self.events else None
        return _as_time(self.manifest.get("started") or begun or mapping(self.summary.get("info")).get("started"))

    @property
    def seconds(self) -> float | None:
        """Time at work: the sum over sessions, a running one up to now, and one that was killed as far as it wrote."""
        timed = [(_as_time(event.get("time")), event["event"]) for event in self.events]
        times = [(time, event) for time, event in timed if time is not None]
        starts = [place for place, (_, event) in enumerate(times) if event in _BEGINS]
        if not starts:
            return None
        sessions = [times[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
        is_cut = any(session[-1][1] not in _ENDS for session in sessions[:-1])
        last, event = times[-1]
        if self.state == RUNNING:
            last = datetime.datetime.now().astimezone()
        elif event not in _ENDS:
            is_cut, last = True, max(last, self._last_write(last))
        ends = [*(session[-1][0] for session in sessions[:-1]), last]
        total = sum((end - session[0][0]).total_seconds() for session, end in zip(sessions, ends, strict=True))
        # the folds add up their own times, also those of sessions whose end nobody wrote down
        return max(total, self._seconds_of_folds) if is_cut else total

    def _last_write(self, last: datetime.datetime) -> datetime.datetime:
        """When the folds last wrote their epochs or times, if that is known: of a copy it is when it was made."""
        try:
            is_copy = abs((self.path / LEDGER).stat().st_mtime - last.timestamp()) > _TOLERANCE
        except OSError:
            return last
        files = [folder / name for folder in self.fold_folders.values() for name in (HISTORY, TIMES_FILE)]
        written = [file.stat().st_mtime for file in files if file.exists()]
        return last if is_copy or not written else datetime.datetime.fromtimestamp(max(written)).astimezone()

    @property
    def _seconds_of_folds(self) -> float:
        total = 0.0
        for folder in self.fold_folders.values():
            with contextlib.suppress(UnreadableError):
                total += sum(mapping(read_timings(folder)).get("seconds", {}).values())
        return total

    @property
    def age(self) -> float | None:
        """Seconds since the run began."""
        started = self.started
        return None if started is None else (datetime.datetime.now().astimezone() - started).total_seconds()


def read_run(path: str | Path) -> StoredRun:
    """Read what a run folder says of itself; nothing of it is changed.

    Parameters
    ----------
    path
        The folder of the run, anything in it, or the folder above it: then its newest run.

    Raises
    ------
    ConfigError
        If there is no run.
    """
    folder = _newest(locate_run(path), path)
    problems: list[str] = []
    manifest = harmless(_read_manifest(folder / "manifest.json", problems))
    events = harmless(_read_events(folder / LEDGER, problems))
    problems += [f"{place} is a link out of the folder of the run; it is not followed" for place in _led_out(folder)]
    owner = owner_of(folder, Leases(folder).workers)
    run = StoredRun(path=folder, manifest=manifest, events=events, owner=owner, problems=problems)
    if run.is_alone:
        problems.clear()  # there never was a manifest
    return run


def read_facts(folder: Path) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """Return what of the manifest and of the ledger in a folder can be read; both empty if there is nothing."""
    return harmless(_read_manifest(folder / "manifest.json", [])), harmless(_read_events(folder / LEDGER, []))


def _read_events(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    try:
        entries, n_lines = read_json_lines(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{path} cannot be read ({error}), so that it is not known how the run ended")
        return []
    events = events_in(entries)
    is_cut = events and n_lines == len(events) + 1 and cut_line(read_bytes(path, MOST_OF_MANY)) is not None
    if is_cut:
        problems.append(f"the last of {n_lines} lines of {path} {CUT_OFF}")
    elif n_lines != len(events):
        problems.append(f"{n_lines - len(events)} of {n_lines} lines of {path} cannot be read")
    return events


def _led_out(folder: Path) -> list[Path]:
    """Folders of a run that are links to somewhere else."""
    links = [path for path in (*folder.glob("fold_*"), folder / "report") if path.is_symlink()]
    own = os.path.join(os.path.realpath(folder), "")  # a path of pathlib does not resolve a link to itself
    return [path for path in links if not os.path.realpath(path).startswith(own)]


def find_runs(root: str | Path) -> list[Path]:
    """Folders of all runs below a folder, which may be one itself, in the order of their paths.

    Raises
    ------
    ConfigError
        If there is no such folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise ConfigError(f"there is no folder {str(root)!r}")
    found = []
    for place, folders, files in os.walk(root):
        if _is_run([*folders, *files]):
            found.append(Path(place))
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _PASSED_BY)
    return found


def read_history(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the epochs of a fold's ``history.jsonl``, and what of them cannot be read or was changed, in words."""
    path = folder / HISTORY
    try:
        found, n_lines = read_json_lines(path)
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"{path} cannot be read: {error}"
    epochs = [each for each in found if type(each.get("epoch")) is int]
    history = [record for each in epochs if (record := _as_written(each)) is not None]
    n_lost, n_changed = n_lines - len(epochs), len(epochs) - len(history)
    told = ((n_lost, "cannot be read"), (n_changed, "left out: the checksum is another one"))
    return history, "; ".join(f"{n} of {n_lines} epochs in {path} {why}" for n, why in told if n)


def _as_written(record: dict[str, Any]) -> dict[str, Any] | None:
    """An epoch without its checksum; None if it was changed. A number under that name is a value of the user's own."""
    if not isinstance(record.get(CHECKSUM), str):
        return record
    return None if is_changed(record) else {name: value for name, value in record.items() if name != CHECKSUM}


def _newest(folder: Path, given: str | Path) -> Path:
    if not folder.is_dir():
        raise ConfigError(f"there is no run in {str(given)!r}: there is no such folder")
    if _is_run(entry.name for entry in folder.iterdir()):
        return folder
    runs = find_runs(folder)
    if not runs:
        raise ConfigError(
            f"there is no run in {str(given)!r}: a run has a manifest.json, a ledger.jsonl or folders fold_00 …; "
            "'delira runs FOLDER' lists those below a folder"
        )
    newest: dict[Path, Path] = {}
    for path in sorted(runs, key=_order_of, reverse=True):
        newest.setdefault(path.parent, path)  # numbers count the runs of one folder
    return max(newest.values(), key=lambda path: (path.name[:19], path.stat().st_mtime))


def _order_of(path: Path) -> tuple[int, str, float]:
    number = read_facts(path)[0].get("number")
    return number if isinstance(number, int) else 0, path.name[:19], path.stat().st_mtime


def _is_run(names: Iterable[str]) -> bool:
    found = set(names)
    return bool(found & {"manifest.json", LEDGER, "fold_00"}) or found >= {HISTORY, "checkpoints"}


def _read_manifest(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        manifest = read_json(path)
        if not isinstance(manifest, dict):
            raise TypeError(f"it holds a {type(manifest).__name__}, not the entries of a manifest")
    except (OSError, TypeError, ValueError) as error:
        how = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        where = f"those in {SUMMARY}" if read_summary(path.parent)[0] else "lost"
        problems.append(f"{path} {how}; settings, versions and seed are {where}")
        return {}
    if is_changed(manifest):
        problems.append(f"{path} is damaged: {OTHER_CHECKSUM}, and settings, versions and seed may be wrong")
    if (number := manifest.get("format", FORMAT)) != FORMAT:
        version = mapping(manifest.get("versions")).get("delira", "another version")
        problems.append(
            f"{path} has the format {number}, written by delira {version}; this delira knows {FORMAT}, and shows what "
            "it understands: pip install --upgrade delira"
        )
    return manifest


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _as_time(text: object) -> datetime.datetime | None:
    with contextlib.suppress(ValueError):
        time = datetime.datetime.fromisoformat(str(text))
        return time if time.tzinfo else time.astimezone()
    return None
