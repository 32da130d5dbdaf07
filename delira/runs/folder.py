"""The folder of a run: which one a user means, and its settings, manifest and ledger, beside those of its folds."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from delira.errors import CheckpointError, ConfigError, FolderInUseError, UnreadableError
from delira.runs.differences import explain, find_differences, find_remarks, refusals, summarise
from delira.runs.environment import environment, timestamp
from delira.runs.fetched import refuse_in_parts
from delira.runs.leases import Lease, Leases, worker
from delira.runs.ledger import events_in, mended_end
from delira.utils import files, lock
from delira.utils.time import now

_T = TypeVar("_T")
_log = logging.getLogger("delira")

#: of the manifest; a later one may mean something else by the same names
FORMAT = 1
#: of a training that lie on disk at any time, in files of their own; of runs from before this was recorded: 1
STATES = 2
LEDGER = "ledger.jsonl"
#: what a session, and its work, begins with
_BEGINS = ("started", "resumed", "joined", "fold_started")


@dataclasses.dataclass(frozen=True)
class At:
    """Where a run lies that is new or, if it was begun, continued; and its number among the runs beside it."""

    path: Path
    number: int
    is_durable: bool = True
    """Whether its ledger and manifest are to survive a power loss: whoever decided where it lies may know both."""
    made_with: Mapping[str, Any] | None = None
    """What :func:`environment` says, if that is known."""
    check: Callable[[Mapping[str, Any]], None] | None = None
    """Called with what a new run says of itself, before it begins: it may refuse."""

    def found(self) -> "RunFolder | None":
        """Return the run, if there is one that tells what it is."""
        folder = RunFolder(self.path)
        folder.is_durable = self.is_durable
        return folder if folder.events() and folder.read_manifest() else None

    @classmethod
    def new(cls, parent: Path) -> "At":
        """Make a new folder, named after the time."""
        path = RunFolder.create(parent).path
        others = (other for other in path.parent.iterdir() if other != path)
        return cls(path, 1 + max((order_of(other)[0] for other in others), default=0))


class RunFolder:
    """``<save_path>/<name>/<timestamp>[-k]`` with ``manifest.json``, ``ledger.jsonl`` and ``fold_<i>/``.

    Parameters
    ----------
    path
        The folder; see :meth:`create` for a new one.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path).absolute()  # whatever the working directory becomes
        self._others: str | None = None
        """Who else was at work when this session began."""
        self._has_owner = False
        """Whether one of them held the lock."""
        self._is_read = False
        """Whether the run had finished and nothing was done yet but reading it."""
        self._lease: Lease | None = None
        """Of the part that its lines are about."""
        #: whether ledger and manifest survive a power loss
        self.is_durable = True
        #: folds that this session was not asked for, and no other has run
        self.missing_folds: list[int] = []

    @classmethod
    def create(cls, parent: str | Path) -> "RunFolder":
        """Make a new folder, named after the time; two runs of one second get different ones."""
        parent = files.writable_folder(parent)
        stamp = now()
        for number in range(10_000):
            path = parent / (f"{stamp}-{number}" if number else stamp)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            files.sync_folder(parent)
            return cls(path)
        raise ConfigError(f"{parent} already holds 10,000 runs of this second; is a clock standing still?")

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls,
        parent: Path,
        save: Callable[[Path], Path],
        facts: Mapping[str, Any],
        resume: "str | Path | At | None",
        allow_changes: bool = False,
    ) -> Iterator["RunFolder"]:
        """Scope of a run in a new folder, or in an old one that is continued; locked and recorded.

        Parameters
        ----------
        parent
            Where new folders are made and ``"auto"`` looks for old ones.
        save
            Writes the parameters of a new folder into a file, and returns that.
        facts
            For the manifest of a new folder; an old one is compared with them.
        resume
            ``None``: a new folder. The path of an old one. ``"auto"``: the newest unfinished one with equal facts; else
            the newest finished one, which is read, and trained only for more epochs; else a new one. Of a single
            training that another process is at work on it is passed by; a cross-validation is joined. :class:`At`: the
            folder it says, which is new or continued.
        allow_changes
            Continue though something differs, with a warning.

        Raises
        ------
        ConfigError
            If the run cannot be continued; says what differs.
        FolderInUseError
            If another process is at work in the folder, on a single training or on something else.
        """
        is_shared = facts["fingerprint"]["kind"] != "run"
        with contextlib.ExitStack() as stack:
            # of several that begin in the same moment one makes the folder, and the others find it
            is_sought = is_shared and resume == "auto"
            with Leases(files.writable_folder(parent)).waited_for("opening") if is_sought else contextlib.nullcontext():
                folder = None
                if isinstance(resume, At):
                    folder = resume.found()
                elif resume == "auto":
                    folder = cls._newest_of(stack, parent, facts, is_shared)
                elif resume is not None:
                    folder = cls(locate_run(resume))
                if folder is None:
                    made = resume if isinstance(resume, At) else At.new(parent)
                    folder = cls._begun(stack, made, save, facts, is_shared)
                else:
                    folder._continue(stack, facts, resume, allow_changes, is_shared)
            with folder.recorded():
                yield folder

    @classmethod
    def _begun(
        cls,
        stack: contextlib.ExitStack,
        made: "At",
        save: Callable[[Path], Path],
        facts: Mapping[str, Any],
        is_shared: bool,
    ) -> "RunFolder":
        if made.check is not None:
            made.check(facts)
        folder = cls(made.path)
        folder.is_durable = made.is_durable
        with contextlib.nullcontext() if made.is_durable else files.unsynced():
            files.make_folder(folder.path)
            stack.enter_context(lock.locked(folder.path, shared=is_shared))
            written = save(folder.path / "parameters.yml")
            told = {"number": made.number, **facts, "checksums": {written.name: checksum(written)}}
            folder.write_manifest(told, made.made_with)
            folder.log("started")
        return folder

    def _continue(
        self,
        stack: contextlib.ExitStack,
        facts: Mapping[str, Any],
        resume: "str | Path | At | None",
        allow_changes: bool,
        is_shared: bool,
    ) -> None:
        if not self.path.is_dir():
            raise ConfigError(f"{str(self.path)!r} is no run folder: there is no such folder")
        refuse_in_parts(self.path)
        self._enter(stack, facts, is_shared)
        sweep = files.sweep_abandoned if self._others else files.sweep_partials
        sweep(self.path)
        changes = self.check_unchanged(facts, allow_changes)
        if self._others and changes:
            self._refuse_to_join(changes)
        self._is_read = (resume == "auto" or isinstance(resume, At)) and self.has_finished(facts.get("num_epochs"))
        if not self._is_read:
            event, told = ("joined", {"worker": worker()}) if self._others else ("resumed", {})
            self.log(event, **self._told_again(facts, changes), **told)

    def _enter(self, stack: contextlib.ExitStack, facts: Mapping[str, Any], is_shared: bool) -> None:
        """Keep out who does something else."""
        if is_shared and not lock.is_ours(self.path):
            self._has_owner = lock.owner_of(self.path) is not None
            self._others = self.workers()
        if self._others and (asked := facts.get("num_epochs")) != (epochs := self._epochs()):
            self._refuse_to_join([f"num_epochs: {epochs} there, {asked} here"])
        stack.enter_context(lock.locked(self.path, shared=is_shared))

    def workers(self) -> str | None:
        """Who is at work in the folder of a cross-validation, in words; ``None`` if nobody is known to be."""
        return Leases(self.path).workers() or lock.owner_of(self.path)

    def _refuse_to_join(self, lines: Sequence[str]) -> None:
        """Refuse to do something else than others do, unless they turn out to be dead."""
        if not self._has_owner:  # a lock dies with its owner, a lease does not
            _log.info("watching whether %s is alive", self._others)
            if Leases(self.path).are_all_dead():
                self._others = None
                return
        listed = "".join(f"\n  {line}" for line in lines)
        raise FolderInUseError(
            f"{self._others} is at work on {str(self.path)!r}, and was asked for something else:{listed}\nask for the "
            "same, wait until that has ended, or choose another save_path"
        )

    def check_unchanged(self, facts: Mapping[str, Any], allow_changes: bool = False) -> list[str]:
        """Refuse to continue another run than the one that is asked for.

        Parameters
        ----------
        facts
            Those of the run that is asked for.
        allow_changes
            Warn instead, of what may be allowed.

        Returns
        -------
        list of str
            What differs and is allowed, line by line, and what that means.

        Raises
        ------
        ConfigError
            Saying what differs. A single run of a trainer that was made alone, without a manifest, passes.
        """
        manifest = self.read_manifest()
        if (number := manifest.get("format", FORMAT)) != FORMAT:
            raise ConfigError(
                f"{self.path / 'manifest.json'} has the format {number!r}; this version of delira reads {FORMAT}, and "
                "does not continue the run: pip install --upgrade delira"
            )
        found, kind = manifest.get("fingerprint"), facts["fingerprint"]["kind"]
        if not found and kind == "run":
            return []
        if not found:
            raise ConfigError(f"{str(self.path)!r} is no run folder: it has no manifest.json that can be read")
        if found.get("kind") != kind:
            raise ConfigError(
                f"{str(self.path)!r} holds a {found.get('kind')} and cannot be continued by a {kind}; "
                f"call experiment.{found.get('kind')}(…, resume={str(self.path)!r})"
            )
        different = find_differences(manifest, facts)
        lines = [line for part in different.values() for line in part]
        if is_damaged := files.is_changed(manifest):
            _log.warning("%s: %s", self.path / "manifest.json", files.OTHER_CHECKSUM)
        if not different:
            return []
        lines += [f"manifest.json: {files.OTHER_CHECKSUM}, and a difference may be only there"] if is_damaged else []
        listed, cures = "".join(f"\n  {line}" for line in lines), refusals(different)
        if cures or not allow_changes:
            cure = "; ".join(cures) or "begin a new one, or continue all the same with allow_changes=True"
            raise ConfigError(
                f"the {kind} in {str(self.path)!r} cannot be continued: its {' and '.join(different)} differ from "
                f"what is asked for now:{listed}\n{cure}"
            )
        lines += explain(different)
        told = "\n  ".join([f"the {kind} in {str(self.path)!r} is continued with changes:", *lines])
        warnings.warn(told, stacklevel=6 + (kind != "run"))
        return lines

    @classmethod
    def _newest_of(
        cls, stack: contextlib.ExitStack, parent: Path, facts: Mapping[str, Any], is_shared: bool
    ) -> "RunFolder | None":
        """Return the newest unfinished run with equal facts that can be used, else the newest finished one; locked."""
        if not parent.is_dir():
            return None
        folders = [cls(path) for path in sorted(parent.iterdir(), key=order_of, reverse=True)]
        meant = [folder for folder in folders if folder.is_meant(facts)]
        for folder in sorted(meant, key=lambda folder: not folder.is_unfinished()):
            try:
                folder._enter(stack, facts, is_shared)
            except FolderInUseError as error:
                told = f"resume='auto' passes by an unfinished run, and begins a new one if there is no other: {error}"
                warnings.warn(told, stacklevel=5 + is_shared)
            else:
                return folder
        for folder in folders:
            if folder.is_alike(facts):
                folder.tell_if_passed_by(facts)
                break
        return None

    def is_alike(self, facts: Mapping[str, Any]) -> bool:
        """Return True if this is a run of the same kind, whatever its settings and data are."""
        found, asked = self.read_manifest().get("fingerprint") or {}, facts["fingerprint"]
        return bool(self.events()) and all(found.get(part, asked[part]) == asked[part] for part in ("kind", "fold"))

    def is_meant(self, facts: Mapping[str, Any]) -> bool:
        """Return True if this is the run of ``facts``, and was not trained for more epochs than are asked for."""
        manifest = self.read_manifest()
        if not self.events() or manifest.get("format", FORMAT) != FORMAT or find_differences(manifest, facts):
            return False
        epochs, asked = self._epochs(), facts.get("num_epochs")
        return self.is_unfinished() or epochs is None or asked is None or epochs <= asked

    def has_finished(self, num_epochs: int | None) -> bool:
        """Return True if the run has ended, and was asked for as many epochs as now."""
        has_ended = bool(self.events()) and not self.is_unfinished()
        return has_ended and num_epochs is not None and self._epochs() == num_epochs

    def _epochs(self) -> int | None:
        return epochs_asked_for(self.read_manifest(), self.events())

    def _told_again(self, facts: Mapping[str, Any], changes: list[str]) -> dict[str, Any]:
        """Return what the ledger says of a run that is continued: what differs, and what was not compared."""
        asked, remarks = facts.get("num_epochs"), find_remarks(self.read_manifest(), facts)
        if remarks:
            _log.warning("%s is continued: %s", self.path, "; ".join(remarks))
        told = {"num_epochs": None if asked == self._epochs() else asked, "changes": changes, "remarks": remarks}
        return {name: value for name, value in told.items() if value not in (None, [])}

    def tell_if_passed_by(self, facts: Mapping[str, Any], where: str = "") -> None:
        """Say why this run is not continued by ``resume="auto"``, if it did not end and nobody is at work on it.

        Parameters
        ----------
        facts
            Those of the run that is asked for.
        where
            What the run is called, if it is a copy; else its path.
        """
        if not self.is_unfinished() or lock.owner_of(self.path) is not None:
            return
        manifest = self.read_manifest()
        if (number := manifest.get("format", FORMAT)) != FORMAT:
            why = f"its manifest.json has the format {number!r}"
        elif different := find_differences(manifest, facts):
            why = summarise(different) if manifest else "its manifest.json cannot be read"
        else:
            return
        _log.warning(
            "resume='auto' begins a new run; %s did not end, but is not continued: %s", where or self.path, why
        )

    def fold(self, number: int) -> Path:
        """Folder of a fold; a single run is fold 0."""
        return self.path / f"fold_{number:02d}"

    def write_manifest(self, facts: Mapping[str, Any], made_with: Mapping[str, Any] | None = None) -> Path:
        """Record what is needed to know how the run was made, and ``facts``."""
        made = environment() if made_with is None else {**made_with, "started": timestamp()}
        text = json.dumps(files.sealed({"format": FORMAT, "states": STATES, **made, **facts}), indent=2)
        return files.publish_text(self.path / "manifest.json", text + "\n")

    def read_manifest(self) -> dict[str, Any]:
        """Return the manifest; empty if there is none, or it is damaged.

        Raises
        ------
        UnreadableError
            If the system cannot read it now.
        """
        manifest = _read(files.read_json, self.path / "manifest.json")
        return manifest if isinstance(manifest, dict) else {}

    def events(self) -> list[dict[str, Any]]:
        """Return the entries of the ledger, the oldest first; what a crash left half written is none.

        Raises
        ------
        UnreadableError
            If the system cannot read it now.
        """
        entries, _ = _read(files.read_json_lines, self.path / LEDGER) or ([], 0)
        return events_in(entries)

    def is_unfinished(self) -> bool:
        """Return True if the ledger shows a run that began, or was continued, and did not end with all of its folds."""
        ending = ending_of(self.events())
        return bool(ending) and (ending["event"] != "finished" or bool(ending.get("missing_folds")))

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Keep other processes out; write into the ledger how the run ends, and tell its error how to go on."""
        with lock.locked(self.path):
            try:
                yield
            except BaseException as error:
                told: dict[str, Any] = {"error": said_by(error)}
                if notes := getattr(error, "__notes__", None):  # where it happened, as in which metric
                    told["notes"] = [*map(str, notes)]
                with contextlib.suppress(OSError, CheckpointError):  # a full disk must not hide what happened
                    self._append("broken_off", **told)
                is_part = any((folder / LEDGER).exists() for folder in self.path.parents[:2])
                begun = itertools.chain(self.path.glob("fold_*/checkpoints/*"), self.path.glob("trials/*"))
                if any(begun) and not is_part:  # of a part of a search, which goes on as a whole
                    error.add_note(f"The run can be continued from its last checkpoint: resume={str(self.path)!r}")
                raise
            if not self._is_read:
                self.log("finished", **({"missing_folds": self.missing_folds} if self.missing_folds else {}))

    @contextlib.contextmanager
    def written_as(self, lease: Lease) -> Iterator[None]:
        """Scope in which the ledger gets no line any more once a lease was taken over: they are about its part."""
        before, self._lease = self._lease, lease
        try:
            yield
        finally:
            self._lease = before

    def work_on(self) -> None:
        """Note that a run that had finished is worked on nevertheless, as other metrics are asked for."""
        if self._is_read:
            self._is_read = False
            self.log("resumed")

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to the ledger; it is on disk when this returns.

        A folder that was deleted is made again; a last line that a crash cut short is cut away. Where the disk refuses
        there is a warning, but for the first line of a run: nothing is lost yet.

        Raises
        ------
        OSError
            If ``"started"`` cannot be written.
        LeaseLostError
            If it is about a part that somebody else has taken over; see :meth:`written_as`.
        """
        is_first = event == "started"
        tolerated = (
            contextlib.nullcontext() if is_first else loss_tolerated(f"the line {event!r} of {self.path / LEDGER}")
        )
        with tolerated, contextlib.nullcontext() if self.is_durable else files.unsynced():
            self._append(event, **facts)

    def _append(self, event: str, **facts: Any) -> None:
        if self._is_read:
            self._is_read = False
            self._append("resumed")
        files.make_folder(self.path)
        is_new = not (self.path / LEDGER).exists()
        with open(self.path / LEDGER, "a+b") as file, lock.of_file(file) as is_locked:
            if self._lease is not None:
                self._lease.check()
            line = json.dumps(files.sealed({"time": timestamp(), "event": event, **facts})).encode() + b"\n"
            file.write(mended_end(file, is_alone=is_locked) + line)
            file.flush()
            files.sync(file)
        if is_new:
            files.sync_folder(self.path)


def epochs_asked_for(manifest: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> int | None:
    """For how many epochs a run was last asked, by its manifest and its ledger; None: nobody knows."""
    known = [entry["num_epochs"] for entry in (manifest, *events) if isinstance(entry.get("num_epochs"), int)]
    return known[-1] if known else None


def said_by(error: BaseException) -> str:
    """Kind and message of an error, as a ledger has them."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def ending_of(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Line of a ledger that says how the run ended; its last one if it did not, empty if there is none.

    Of several sessions at once the one that finished all folds counts, whatever the others said since.
    """
    for event in reversed(events):
        if event["event"] in _BEGINS:
            break
        if event["event"] == "finished" and not event.get("missing_folds"):
            return event
    return events[-1] if events else {}


def _read(read: Callable[[Path], _T], path: Path) -> _T | None:
    """What a file holds; None if there is none, or it is damaged."""
    try:
        return read(path)
    except UnreadableError:
        raise
    except (OSError, ValueError):
        return None


def checksum(path: Path) -> str:
    """Return the sha256 of a small file, in hex."""
    return hashlib.sha256(files.read_bytes(path)).hexdigest()


@contextlib.contextmanager
def loss_tolerated(what: str) -> Iterator[None]:
    """Scope of a write that no result depends on: if the disk refuses, that is said and the run goes on.

    Parameters
    ----------
    what
        What is written, for the message.
    """
    try:
        yield
    except OSError as error:
        text = f"{what} could not be written: {error}. The run goes on."
        _log.warning("%s", text)
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def order_of(path: Path) -> tuple[int, str, int]:
    """Sort key of the runs of one folder: the number in the manifest, which no clock can change.

    Runs of before there were numbers come first, by the local time in their name and the number behind it.
    """
    number = RunFolder(path).read_manifest().get("number")
    stamp, _, again = path.name[:19], path.name[19:20], path.name[20:]
    return number if isinstance(number, int) else 0, stamp, int(again) if again.isdecimal() else 0


_FOLD = re.compile(r"fold_\d+")


def locate_run(path: str | Path) -> Path:
    """Run folder of any path a user may have at hand: the folder itself, a fold's, or what is in them.

    Raises
    ------
    ConfigError
        If it is a file that is in no run.
    """
    folder = _as_path(path)
    if folder.is_file() or (folder.name in ("logs", "report") and _is_of_run(folder.absolute().parent)):
        folder = next((parent for parent in folder.absolute().parents if _is_of_run(parent)), folder)
    while folder.name == "checkpoints" or folder.name.startswith(("fold_", "checkpoint_")):
        folder = folder.parent
    if folder.is_file():
        raise ConfigError(f"there is no run in {str(path)!r}: it is a file, and in no run; name the folder of a run")
    return folder


def _is_of_run(folder: Path) -> bool:
    """Return True if a folder is surely that of a run or of a fold: others have a manifest.json, too."""
    if _FOLD.fullmatch(folder.name) or (folder / "ledger.jsonl").exists():
        return True
    is_begun = (folder / "manifest.json").exists() and (folder / "parameters.yml").exists()
    return is_begun or (folder / "history.jsonl").exists() or (folder / "fold_00").is_dir()


def _as_path(resume: object) -> Path:
    """Return what a user wants to resume from, refused if it is no path."""
    if not isinstance(resume, (str, os.PathLike)):
        raise ConfigError(f"resume must be 'auto', a path or None, got {resume!r}")
    path = Path(resume)
    if path.name.lower() == "auto" and not path.exists():
        raise ConfigError(f"there is no {str(resume)!r}; did you mean resume='auto'?")
    if path.name.startswith("checkpoint_") and not path.exists():
        there = ", ".join(sorted(other.name for other in path.parent.glob("checkpoint_*"))) or "none"
        raise ConfigError(f"there is no checkpoint {str(path)!r}; there are: {there}")
    return path


def locate_fold(path: str | Path) -> tuple[Path, Path | None]:
    """Return what a trainer continues from, for any path a user may have at hand.

    Parameters
    ----------
    path
        A run folder, the folder of a fold, its ``checkpoints`` folder, or a checkpoint file.

    Returns
    -------
    tuple
        The folder of the fold, and the checkpoint file if ``path`` is one; else ``None``: the newest.

    Raises
    ------
    ConfigError
        If there are no checkpoints.
    """
    given = _as_path(path)
    file = given if given.is_file() else None
    folder = given.parent if file else given
    folder = folder.parent if folder.name == "checkpoints" else folder
    folder = min(folder.glob("fold_*"), default=folder)  # of a run of another fold than 0 there is only that one
    if not (folder / "checkpoints").is_dir():
        raise ConfigError(f"there are no checkpoints to resume from in {str(given)!r}")
    return folder, file
