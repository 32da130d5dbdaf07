"""What a store has of one run: its copies, each of one folder, the later one instead of the earlier."""

import contextlib
import dataclasses
import hashlib
import io
import json
import re
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from delira.errors import ConfigError, MirrorError
from delira.execution.snapshot import OWN, Entry
from delira.execution.store import Store
from delira.runs.leases import worker
from delira.utils import files
from delira.utils.time import now

_COPY = re.compile(r"\d{5}-[0-9a-f]{8}")
_INDEX = re.compile(r"index-(\d{8})\.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OWNER, _OBJECTS = "owner.json", "objects"
#: of the layout of a copy
_FORMAT = 1
#: tries to read an index, while who writes it puts another one in its place
_TRIES = 5
#: bytes of what is read at once
_SMALL = 1 << 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Index:
    """All files of a run at one instant, by their names."""

    copy: str
    """Name of the copy that it is of."""
    serial: int
    run: str
    """That no other run has."""
    files: Mapping[str, Entry]
    left: Mapping[str, Entry] = dataclasses.field(default_factory=dict)
    """What the store alone has: nobody needed it to go on."""

    @property
    def all(self) -> dict[str, Entry]:
        """Both together."""
        return {**self.left, **self.files}

    def to_bytes(self) -> bytes:
        """Return what :meth:`from_bytes` reads."""
        told = {"format": _FORMAT, **{key: value for key, value in vars(self).items() if key not in ("files", "left")}}
        for part in ("files", "left"):
            told[part] = {name: vars(entry) for name, entry in sorted(getattr(self, part).items())}
        return json.dumps(files.sealed(told), indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> "Index":
        """Read what a store has, which anybody may have written.

        Raises
        ------
        ValueError
            If it is not what was written, or names a file outside of its folder.
        """
        told = files.unsealed(files.parse_json(content))
        try:
            if told["format"] != _FORMAT:
                raise ValueError(f"its format is {told['format']!r}, and this version of delira reads {_FORMAT}")
            parts = {
                part: {_inside(name): _entry(each) for name, each in told[part].items()} for part in ("files", "left")
            }
            return cls(copy=str(told["copy"]), serial=int(told["serial"]), run=str(told["run"]), **parts)
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"it is no index: {error!r}") from error


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name or name.startswith("."):
        raise ValueError(f"it names {name!r}, which is no file of a run")
    return name


def _entry(told: Mapping[str, Any]) -> Entry:
    if not _SHA256.fullmatch(str(told["sha256"])) or type(told["size"]) is not int:
        raise ValueError("it has an entry without a checksum")
    return Entry(told["sha256"], told["size"])


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a folder knows of its mirror; in a file of it."""

    run: str
    copy: str = ""
    """The copy of this folder; empty: it has none yet."""
    fetched: str = ""
    """The newest copy when this folder was fetched."""
    serial: int = 0
    """Of the last index that was written for this folder, or that it was fetched by."""

    @classmethod
    def of(cls, folder: Path) -> "Claim | None":
        """Read that of a folder; ``None`` if it was never mirrored nor fetched."""
        try:
            told = files.unsealed(files.read_json(folder / OWN / _OWNER))
            return cls(str(told["run"]), str(told["copy"]), str(told["fetched"]), int(told.get("serial", 0)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (LookupError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{folder / OWN / _OWNER} cannot be read ({error!r}), so that nobody knows which mirror is that of the "
                f"run; delete {folder / OWN} and mirror to another place"
            ) from error

    def write(self, folder: Path) -> None:
        """Write it into a folder."""
        files.publish_text(folder / OWN / _OWNER, json.dumps(files.sealed(vars(self))) + "\n")


class Place:
    """A folder of a store, ``<name of the experiment>/<name of the run folder>``, that is for one run.

    In it each copy has a folder ``<number>-<token>``: ``owner.json`` says of which run it is and who made it;
    ``objects`` has contents, named by their checksums; ``index-<serial>.json`` says which file has which content. An
    index is written when all that it names is there, and what only the one before named is deleted after that. Nothing
    is ever overwritten. The copy with the greatest name is that of the machine that went on last; its index counts, or,
    until it has one, that of the copy before. Of two runs that began at once one has the place: that which has an
    index, or the smaller name.

    Parameters
    ----------
    store, key
        Where.
    """

    def __init__(self, store: Store, key: str):
        self.store, self.key = store, key
        self._runs: dict[str, str] = {}
        """Of which run the copies are, as far as that was read."""

    @property
    def url(self) -> str:
        """The URL, for messages."""
        return f"{self.store.url.rstrip('/')}/{self.key}"

    def copies(self) -> list[str]:
        """Names of the copies of the run that has this place, the newest last."""
        names = self._copies_of_all()
        if len(names) < 2:
            return names
        runs = {name: self.run_of(name) for name in names}
        if len({*runs.values()} - {""}) < 2:
            return names
        first = min((not self.serials(name), name) for name in names if runs[name])[1]
        return [name for name in names if runs[name] in ("", runs[first])]

    def _copies_of_all(self) -> list[str]:
        return [name for name in self.store.folders(self.key) if _COPY.fullmatch(name)]

    def run_of(self, copy: str) -> str:
        """Name of the run that a copy is of; empty if it does not say."""
        if not self._runs.get(copy):
            self._runs[copy] = str(self.owner(copy).get("run", ""))
        return self._runs[copy]

    def owner(self, copy: str) -> Mapping[str, Any]:
        """What a copy says of who made it; empty if it does not."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return files.mapping(files.harmless(files.unsealed(files.parse_json(self.store.read(self._at(copy))))))
        return {}

    def _at(self, copy: str, name: str = _OWNER) -> str:
        return f"{self.key}/{copy}/{name}"

    def run(self) -> str:
        """Name of the run that has this place; empty if none has."""
        return next((run for copy in reversed(self.copies()) if (run := self.run_of(copy))), "")

    def describe(self, copy: str) -> str:
        """Who made a copy, in words."""
        owner = self.owner(copy)
        return f"{owner.get('worker', 'another process')} at {owner.get('at', 'an unknown time')}"

    # ------------------------------------------------------------------ who has it

    def claim(self, folder: Path) -> Claim:
        """Make this the place of a folder, or find that it is.

        Parameters
        ----------
        folder
            Of the run; only one process claims for it at a time.

        Raises
        ------
        ConfigError
            If another run is mirrored here, or this one went on elsewhere since the folder was fetched.
        """
        newest, serial = self.newest_serial()
        claim = Claim.of(folder)
        run = self.run()
        if run and (claim is None or claim.run != run):
            raise self.refusal(folder, claim)
        if claim is not None and claim.copy and claim.copy > newest:
            self._write_owner(claim)  # the store was emptied, or the program ended before it had claimed
        elif (
            claim is not None
            and newest
            and (newest not in (claim.copy, claim.fetched) or (claim.copy and serial > claim.serial))
        ):
            raise ConfigError(
                f"{str(folder)!r} is not the newest state of its run: {self.describe(newest)} went on with it from "
                f"{self.url}; continue it with resume=, which fetches what is there"
            )
        elif claim is None or not claim.copy or claim.copy != newest:
            claim = self.renew(folder, run or (uuid.uuid4().hex if claim is None else claim.run))
        if claim.copy not in self.copies():  # another one began between the look and the copy
            self.remove(claim.copy)
            raise self.refusal(folder, claim)
        return claim

    def check_apart(self, folder: Path) -> None:
        """Refuse a place that lies in the folder of its run, which would be copied into itself again and again.

        Raises
        ------
        ConfigError
            If it does.
        """
        here = self.store.on_disk(self.key)
        if here is not None and here.is_relative_to(folder.resolve()):
            raise ConfigError(
                f"mirror={self.store.url!r} would copy the run {str(folder)!r} into itself; name a folder apart from "
                "where the runs lie, on another disk if it is to outlive this one"
            )

    def newest_serial(self) -> tuple[str, int]:
        """Name of the newest copy, and number of its last index; empty and 0 if there is none.

        Whoever compares them with the claim of a folder reads that afterwards: another process that copies the folder
        writes its claim before its index, so that of the same copy a claim that is behind tells of somebody else.
        """
        copies = self.copies()
        return (copies[-1], max(self.serials(copies[-1]), default=0)) if copies else ("", 0)

    def refusal(self, folder: Path, claim: Claim | None) -> ConfigError:
        """What is said to a folder where another run has the place."""
        own = "is another one" if claim is None else f"is the run {claim.run}"
        there = next((self.describe(copy) for copy in reversed(self.copies())), "somebody")
        return ConfigError(
            f"two runs would be mirrored to {self.url}: there is the run {self.run()}, begun by {there}, and "
            f"{str(folder)!r} {own}; mirror it to another place, or continue the run that is there with resume="
        )

    def renew(self, folder: Path, run: str) -> Claim:
        """Begin a new copy of a folder, so that whoever wrote the one before writes nothing that counts any more."""
        number = 1 + max((int(copy[:5]) for copy in self._copies_of_all()), default=0)
        claim = Claim(run, f"{number:05d}-{uuid.uuid4().hex[:8]}")
        claim.write(folder)
        self._write_owner(claim)
        return claim

    def _write_owner(self, claim: Claim) -> None:
        owner = files.sealed({"run": claim.run, "worker": worker(), "at": now()})
        self.store.write(self._at(claim.copy), json.dumps(owner).encode() + b"\n")
        self._runs[claim.copy] = claim.run

    # ------------------------------------------------------------------ what it holds

    def newest(self) -> Index | None:
        """Return the index that counts; ``None`` if there is none yet.

        Raises
        ------
        MirrorError
            If it is damaged.
        """
        for _ in range(_TRIES):
            copies = self.copies()
            found = next(((copy, serials[-1]) for copy in reversed(copies) if (serials := self.serials(copy))), None)
            if found is None and self.copies() == copies:
                return None
            with contextlib.suppress(FileNotFoundError):  # another one has taken its place since
                if found is not None:
                    return self._read_index(*found)
        raise MirrorError(f"{self.url}: its index cannot be read, as it was replaced each time; try again")

    def index_of(self, copy: str) -> Index | None:
        """Return the last index of a copy."""
        serials = self.serials(copy)
        return self._read_index(copy, serials[-1]) if serials else None

    def serials(self, copy: str) -> list[int]:
        """Numbers of the indexes of a copy, the last one at the end."""
        names = self.store.sizes(f"{self.key}/{copy}")
        return sorted(int(found[1]) for name in names if (found := _INDEX.fullmatch(name)))

    def _read_index(self, copy: str, serial: int) -> Index:
        key = self._at(copy, _index_name(serial))
        try:
            return Index.from_bytes(self.store.read(key))
        except ValueError as error:
            raise MirrorError(f"{self.store.url}/{key} is damaged: {error}") from error

    def write_index(self, index: Index) -> None:
        """Write an index, and look whether it is there.

        Raises
        ------
        OSError
            If something else is.
        """
        key, content = self._at(index.copy, _index_name(index.serial)), index.to_bytes()
        self.store.write(key, content)
        if self.store.read(key) != content:
            raise OSError(f"{self.store.url}/{key} is not what was written there")

    def delete_index(self, copy: str, serial: int) -> None:
        """Delete an index that another one has taken the place of."""
        self.store.delete(self._at(copy, _index_name(serial)))

    def objects(self, copy: str) -> dict[str, int]:
        """Sizes of the contents that a copy has, by their checksums."""
        sizes = self.store.sizes(self._at(copy, _OBJECTS))
        return {name: size for name, size in sizes.items() if _SHA256.fullmatch(name)}

    def object(self, copy: str, digest: str) -> str:
        """Key of a content."""
        return self._at(copy, f"{_OBJECTS}/{digest}")

    def remove(self, copy: str) -> None:
        """Delete a copy, its indexes first."""
        for serial in self.serials(copy):
            self.delete_index(copy, serial)
        self.store.remove(f"{self.key}/{copy}")

    def fetch(self, index: Index, name: str, folder: Path) -> None:
        """Bring a file into a folder, completely or not at all.

        Raises
        ------
        FileNotFoundError
            If its content is not there any more: there is another index by now.
        MirrorError
            If it is not what was written.
        """
        entry = index.all[name]
        key = self.object(index.copy, entry.sha256)

        def write(file: Any) -> None:
            digest = hashlib.sha256()
            # as one answer, if it is small: to open it asks how large it is
            with io.BytesIO(self.store.read(key)) if entry.size <= _SMALL else self.store.opened(key) as source:
                while block := source.read(1 << 22):
                    digest.update(block)
                    file.write(block)
            if digest.hexdigest() != entry.sha256:
                raise MirrorError(f"{self.store.url}/{key} is damaged: it is not what was copied from {name}")

        files.publish(folder / name, write)


def _index_name(serial: int) -> str:
    return f"index-{serial:08d}.json"
