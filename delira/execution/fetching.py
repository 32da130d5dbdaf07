"""Runs that a mirror has: found, and brought to this disk, where they are then as if they had been begun here."""

import contextlib
import dataclasses
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from delira.errors import ConfigError, FolderInUseError, LeaseLostError, MirrorError
from delira.execution.place import Claim, Index, Place
from delira.execution.snapshot import Entry
from delira.execution.store import Store, check_url, is_plain
from delira.runs import fetched
from delira.runs.folder import LEDGER, RunFolder
from delira.runs.leases import Leases
from delira.runs.ledger import events_in
from delira.utils import files, lock
from delira.utils.time import now

_T = TypeVar("_T")
_log = logging.getLogger("delira")

#: where a run lies until all of it is there
FETCHING = ".fetching"
_LEASE = "fetching"
#: what tells which run it is
FACTS = ("manifest.json", LEDGER)
#: seconds between tries of what the store does not give
_PAUSES = (0.5, 2.0, 5.0)
#: looks whether the name of a new run is free
_TRIES = 5
_FOLD_CHECKPOINT = re.compile(r"fold_0*(\d+)/checkpoints/.+")
#: what tells how far a run is
_CHECKPOINT = re.compile(r".*checkpoints/checkpoint_epoch_(\d+)(?:_step_(\d+))?(?:\.\w+)?")
_TELLS = re.compile(rf"{re.escape(LEDGER)}|(.*/)?history\.jsonl|{_CHECKPOINT.pattern}")
_ENDINGS = ("fold_finished", "trial_finished")
_ASIDE = re.compile(r"\.(damaged|superseded)\d*$")
#: made anew at the end of a run
_MADE_AGAIN = "report/"


def needed_of(place: Place, index: Index) -> list[str]:
    """Return the files that a run needs to go on: all but checkpoints of folds that have finished, and the report.

    Parameters
    ----------
    place, index
        Of the run; its ledger is read in the store.
    """
    kind, finished = "kfold", set()
    for name in FACTS:
        if name in index.files:
            content = place.store.read(place.object(index.copy, index.files[name].sha256))
            if name == LEDGER:
                told = _events(content)
                finished = {str(each.get("fold")) for each in told if each["event"] == "fold_finished"}
            else:
                with contextlib.suppress(ValueError):
                    manifest = files.mapping(files.parse_json(content))
                    kind = str(files.mapping(manifest.get("fingerprint")).get("kind"))

    def is_needed(name: str) -> bool:
        found = _FOLD_CHECKPOINT.fullmatch(name)
        is_over = found is not None and found[1] in finished and kind in ("kfold", "learning_curve")
        return not (is_over or _ASIDE.search(name) or name.startswith(_MADE_AGAIN))

    return [name for name in index.files if is_needed(name)]


class Fetching:
    """The runs of one experiment in a store, as seen from the folder that they are to be in.

    Parameters
    ----------
    store
        That they are mirrored to.
    name
        Of the experiment.
    parent
        Folder of its runs here.
    """

    def __init__(self, store: Store, name: str, parent: Path):
        self._store, self._name, self._parent = store, Path(name).as_posix(), parent

    def place(self, run: str) -> Place:
        """Return where a run is, or will be, by the name of its folder."""
        return Place(self._store, f"{self._name}/{run}")

    def runs(self) -> list[str]:
        """Names of the folders of runs, the newest first."""
        return [run for run in reversed(self._store.folders(self._name)) if self.place(run).copies()]

    def located(self, path: Path) -> Path:
        """Bring the run of a path here, if it is not there or went on elsewhere; return the path that it has then.

        Parameters
        ----------
        path
            What ``resume`` was given: a folder of a run, of a fold or of its checkpoints, or a checkpoint file.
        """
        with self._alone():
            if path.exists():
                folder = next((each for each in (path, *path.parents) if Claim.of(each) is not None), None)
                if folder is not None:
                    self._renew(folder)
                return path
            there = self.runs()
            for number, part in enumerate(path.parts):
                if part in there:
                    folder = self._parent / part
                    if folder.is_dir():
                        self._renew(folder)
                    else:
                        self._fetch(part)
                    return folder.joinpath(*path.parts[number + 1 :])
        return path

    def bring_newest(self, facts: Mapping[str, Any]) -> None:
        """Bring the newest unfinished run that is meant, else the newest finished one; renew those that are here.

        Parameters
        ----------
        facts
            Those of the run that is asked for.
        """
        with self._alone():
            finished, passed_by = "", None
            for run in self.runs():
                folder = self._parent / run
                if folder.is_dir():
                    if RunFolder(folder).is_meant(facts):
                        self._renew(folder)
                    continue
                looked = self._fetch_facts(run)
                if looked is None or not looked.is_meant(facts):
                    passed_by = passed_by or (looked if looked is not None and looked.is_alike(facts) else None)
                    continue
                if looked.is_unfinished():
                    self._fetch(run)
                    break
                finished = finished or run
            else:
                here = any(RunFolder(path).is_meant(facts) for path in self._parent.iterdir() if path.is_dir())
                if finished and not here:
                    self._fetch(finished)
                elif not here:
                    self._tell_if_none(facts, passed_by)
                    self.wait_for_a_name()
            shutil.rmtree(self._parent / FETCHING, ignore_errors=True)

    def wait_for_a_name(self) -> None:
        """Wait until a run that begins now has a name that none in the store has; names are those of seconds."""
        for _ in range(_TRIES):
            if not any(run.startswith(now()) for run in self._store.folders(self._name)):
                return
            time.sleep(_PAUSES[0])

    def _tell_if_none(self, facts: Mapping[str, Any], passed_by: RunFolder | None) -> None:
        """Say that nothing goes on, and why the newest run that is of this kind does not."""
        _log.info("resume='auto' found no run to continue in %s/%s", self._store.url, self._name)
        if passed_by is not None:
            passed_by.tell_if_passed_by(facts, self.place(passed_by.path.name).url)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with Leases(files.writable_folder(self._parent)).waited_for(_LEASE):
            yield

    def _fetch_facts(self, run: str) -> RunFolder | None:
        place, folder = self.place(run), self._parent / FETCHING / run

        def look(index: Index) -> RunFolder:
            bring(place, index, folder, [name for name in FACTS if name in index.files])
            return RunFolder(folder)

        return _while_it_goes_on(place, look)

    def _fetch(self, run: str) -> None:
        """Bring what a run needs to go on; what an earlier try has brought is not brought again."""
        _fetch_new(self.place(run), self._parent / run, needed_of)

    def _renew(self, folder: Path) -> None:
        """Bring a run that went on elsewhere to its newest state, unless somebody is at work on it here."""
        place = self.place(folder.name)
        if _is_behind(place, folder) and _user_of(folder) is None:
            _bring_up_to_date(place, folder, needed_of)


def _is_behind(place: Place, folder: Path) -> bool:
    """Return True if the run of a folder is mirrored and went on, but not in that folder."""
    newest, serial = place.newest_serial()
    claim = Claim.of(folder)
    if claim is None or not newest or place.run() != claim.run:
        return False
    if fetched.is_in_parts(folder):
        return True
    return newest >= claim.copy and (newest not in (claim.copy, claim.fetched) or serial > claim.serial)


def _bring_up_to_date(place: Place, folder: Path, wanted: Callable[[Place, Index], Collection[str]]) -> None:
    """Bring a run that went on elsewhere to its newest state, unless the state here is further."""
    newest = place.copies()[-1]
    who = place.describe(newest)
    # what is of two moments is no state, and nobody has gone on from it
    is_whole = not fetched.is_in_parts(folder)
    if is_whole and (further := _while_it_goes_on(place, lambda index: _told_if_further(place, index, folder))):
        _log.warning(
            "%s went on elsewhere, by %s, but less far than here (%s); it goes on from what is here",
            folder, who, further,
        )  # fmt: skip
        Claim(place.run(), fetched=newest, serial=max(place.serials(newest), default=0)).write(folder)
        return
    _log.warning("%s went on elsewhere, by %s; what is here is brought to its newest state", folder, who)
    fetch_whole(place, folder, wanted)


def _told_if_further(place: Place, index: Index, folder: Path) -> str:
    """Return by how much a folder is further than its mirror, in words; empty if it is not."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    names = {
        name
        for name in {*paths, *index.files}
        if _TELLS.fullmatch(name)
        and not (name in paths and name in index.files and _is_there(paths[name], index.files[name]))
    }
    read = lambda name: place.store.read(place.object(index.copy, index.files[name].sha256))  # noqa: E731
    here = _Progress.of(names & paths.keys(), lambda name: files.read_bytes(paths[name]))
    there = _Progress.of(names & index.files.keys(), read)
    return f"{here} here, {there} there" if here > there else ""


@dataclasses.dataclass(frozen=True, order=True)
class _Progress:
    """How far a run is, by the files that tell it."""

    n_parts: int
    """Folds or trials that have finished."""
    n_epochs: int
    last: tuple[int, int]
    """Epoch and step of the last checkpoint."""

    @classmethod
    def of(cls, names: Collection[str], read: Callable[[str], bytes]) -> "_Progress":
        """Look at files of a run, by their names; those that are the same in another state may be left out."""
        parts = [event for event in _events(read(LEDGER)) if event["event"] in _ENDINGS] if LEDGER in names else []
        lines = [read(name).count(b"\n") for name in names if name.endswith("history.jsonl")]
        numbers = [found for name in names if (found := _CHECKPOINT.fullmatch(name))]
        last = max(((int(found[1]), int(found[2] or 0)) for found in numbers), default=(0, 0))
        return cls(len({(str(each.get("fold")), str(each.get("trial"))) for each in parts}), sum(lines), last)

    def __str__(self) -> str:
        epoch, step = self.last
        return (
            f"{self.n_parts} finished, {self.n_epochs} epochs of what differs, checkpoint of epoch {epoch}, step {step}"
        )


def _events(ledger: bytes) -> list[dict[str, Any]]:
    entries = []
    for line in ledger.splitlines():
        with contextlib.suppress(ValueError):
            entries.append(files.mapping(files.parse_json(line)))
    return events_in([dict(entry) for entry in entries])


def _fetch_new(place: Place, target: Path, wanted: Callable[[Place, Index], Collection[str]]) -> None:
    """Bring a run that is not here: its folder is there when all of it is."""
    folder = target.parent / FETCHING / target.name
    fetch_whole(place, folder, wanted, is_new=True)
    os.rename(folder, target)
    files.sync_folder(target.parent)
    _log.info("%s was fetched from %s", target, place.url)


def fetch_whole(
    place: Place, folder: Path, wanted: Callable[[Place, Index], Collection[str]], *, is_new: bool = False
) -> Index:
    """Make a folder the newest state of a run, as far as it is wanted; try again where it goes on meanwhile.

    Checkpoints that are here and belong to no such state are set aside (``.superseded``).

    Parameters
    ----------
    place, folder
        From where, and where to.
    wanted
        Names of the files to bring.
    is_new
        Whether nobody has used the folder yet.

    Raises
    ------
    ConfigError
        If there is nothing to fetch.
    MirrorError
        If the store does not give it, or it is damaged.
    """
    for _ in range(len(_PAUSES) + 1):
        copies = place.copies()
        index = place.newest()
        if index is None:
            raise ConfigError(f"there is no run at {place.url}, or nothing of it was copied yet")
        with contextlib.suppress(FileNotFoundError):
            names = wanted(place, index)
            # whoever comes after a crash sees that this is not all, with the mirror and without it
            fetched.begin(folder, place.url)
            Claim(index.run).write(folder)
            for path in folder.glob("fold_*/checkpoints/checkpoint_*"):
                name = path.relative_to(folder).as_posix()
                if name not in index.all and not _ASIDE.search(name):
                    if not is_new:
                        files.publish_copy(path, path.with_name(f"{path.name}.superseded"))
                    path.unlink()
            bring(place, index, folder, names)
            fetched.end(folder)
            serial = index.serial if index.copy == copies[-1] else 0
            Claim(index.run, fetched=copies[-1], serial=serial).write(folder)
            return index
    raise _unsteady(place)


def bring(place: Place, index: Index, folder: Path, names: Collection[str]) -> None:
    """Bring files into a folder, but those that are there; each completely or not at all.

    Raises
    ------
    FileNotFoundError
        If the run goes on meanwhile, so that another index counts.
    MirrorError
        If the store does not give one, or it is damaged.
    """
    brought: dict[str, Path] = {}
    for name in sorted(names, key=lambda name: (name in FACTS, name)):
        entry, target = index.all[name], folder / name
        if not _is_there(target, entry):
            if entry.sha256 in brought:
                files.publish_copy(brought[entry.sha256], target)  # a link would be one file by two names
            else:
                _bring_one(place, index, name, folder)
        brought[entry.sha256] = target


def _bring_one(place: Place, index: Index, name: str, folder: Path) -> None:
    pauses = [*_PAUSES]
    while True:
        try:
            place.fetch(index, name, folder)
            return
        except FileNotFoundError:
            if (newest := place.newest()) is not None and (newest.copy, newest.serial) != (index.copy, index.serial):
                raise
            raise MirrorError(f"{place.url} has no content of {name}, which its index names") from None
        except Exception as error:  # of whatever store
            if not pauses or isinstance(error, (FolderInUseError, LeaseLostError)):
                raise MirrorError(
                    f"{name} cannot be fetched from {place.url}: {type(error).__name__}: {error}; what was brought "
                    "stays, and the same call goes on with the rest"
                ) from error
        time.sleep(pauses.pop(0))


def _is_there(path: Path, entry: Entry) -> bool:
    try:
        if path.is_symlink() or path.stat().st_size != entry.size:
            return False
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
    except OSError:
        return False


def fetch(url: str | Path, out: str | Path = ".") -> Path:
    """Bring a mirrored run to this disk, with all of its files.

    Of a run that is here only what is missing is brought, such as checkpoints of folds that had finished when it went
    on here.

    Parameters
    ----------
    url
        Of the run, of the experiment or of the mirror; of the two its newest run.
    out
        Folder like ``save_path`` of an experiment: the run will be in ``<out>/<name of the experiment>``.

    Returns
    -------
    Path
        Folder of the run.

    Raises
    ------
    ConfigError
        If there is none, another one has its folder, or somebody is at work on it.
    MirrorError
        If the store does not give it, or it is damaged.
    """
    text = check_url(url, "url")
    place, name, run = _found(text)
    target = _below(files.as_path(out, "out"), name, run)
    parent = files.writable_folder(target.parent)
    with Leases(parent).waited_for(_LEASE):
        if not target.exists():
            _fetch_new(place, target, lambda _, index: index.all)
            shutil.rmtree(parent / FETCHING, ignore_errors=True)
            return target
        claim = Claim.of(target)
        if claim is None or claim.run != place.run():
            raise ConfigError(
                f"{str(target)!r} is there, and is another run than that of {place.url}; choose another out"
            )
        if (user := _user_of(target)) is not None:
            raise FolderInUseError(f"{str(target)!r} is in use by {user}; wait until that has ended")
        if _is_behind(place, target):
            _bring_up_to_date(place, target, lambda _, index: index.all)
        else:
            missing = lambda index: [name for name in index.all if not (target / name).exists()]  # noqa: E731
            _while_it_goes_on(place, lambda index: bring(place, index, target, missing(index)))
    return target


def _user_of(folder: Path) -> str | None:
    """Who is at work in a folder, in words; who may be, by a lease, is watched for some time."""
    owner = lock.owner_of(folder)
    return RunFolder(folder).workers() if owner is None and not Leases(folder).are_all_dead() else owner


def _while_it_goes_on(place: Place, act: Callable[[Index], _T]) -> _T | None:
    """Do something with the index that counts, again where another one has taken its place; ``None``: there is none."""
    for _ in range(len(_PAUSES) + 1):
        if (index := place.newest()) is None:
            return None
        with contextlib.suppress(FileNotFoundError):
            return act(index)
    raise _unsteady(place)


def _unsteady(place: Place) -> MirrorError:
    return MirrorError(f"{place.url} changed all the time while it was fetched; try again")


def _found(url: str) -> tuple[Place, str, str]:
    """Return the place that a URL means, the name of its experiment, and that of its run."""
    protocol, found, path = url.rpartition("://")
    parts = [part for part in path.split("/") if part]
    above, own = parts[:-2] or parts[:1], parts[len(parts[:-2] or parts[:1]) :]
    start = "/" if path.startswith("/") else ""
    store, key = Store(f"{protocol}{found}{start}{'/'.join(above)}", "url"), "/".join(own)
    if own and (place := Place(store, key)).copies():
        return place, own[-2] if len(own) > 1 else parts[-2], own[-1]
    homes = [key, *(f"{key}/{each}".lstrip("/") for each in store.folders(key))]
    runs = [(run, home) for home in homes if home for run in Fetching(store, home, Path()).runs()]
    if not runs:
        raise ConfigError(f"there is no run at url={url!r}; it is <mirror>/<name of the experiment>/<name of the run>")
    run, home = max(runs)
    return Place(store, f"{home}/{run}"), home.rpartition("/")[2], run


def _below(parent: Path, *names: str) -> Path:
    """Return a path below a folder, whatever the names are that a URL or a store has.

    Raises
    ------
    ConfigError
        If one of them leads elsewhere.
    """
    if wrong := [name for name in names if not is_plain(name)]:
        raise ConfigError(f"{wrong[0]!r} is no name of a run, and would be written outside of {str(parent)!r}")
    return parent.joinpath(*names)
