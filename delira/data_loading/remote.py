"""Files elsewhere: how they are reached, and ranges of their bytes by way of the local cache."""

import dataclasses
import io
import logging
import math
import numbers
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from delira.data_loading._exact import check_count
from delira.errors import (
    ConfigError,
    DataError,
    MissingBackendError,
    UnreadableError,
    check_known,
    expect,
    import_optional,
)
from delira.utils.block_cache import BlockCache
from delira.utils.files import as_path
from delira.utils.urls import named_by, secrets_in, shown, without_secrets

_log = logging.getLogger("delira")
_T = TypeVar("_T")
_BLOCK = 2**20  # bytes
_AT_ONCE = 2**25  # bytes that one request asks for
_HEAD = 4096  # bytes
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds before the second try, which double
_SUMS = (
    *("ETag", "etag", "Content-MD5", "content_md5", "Digest", "md5Hash", "checksum", "ContentHash"),
    *("CRC", "sha", "hex", "blob_id", "xet_hash", "raw_url"),  # zip, GitHub, git, Hugging Face, gists
)
"""Where file systems say what tells a content from others."""
_TIMES = (
    *("LastModified", "Last-Modified", "last_modified", "updated", "modified", "mtime", "created", "ino"),
    *("modify", "modificationTime", "date_time", "last_commit"),  # FTP, WebHDFS, zip, Hugging Face
)
#: hosts whose files are known by their sizes alone, as far as was said
_warned: set[str] = set()
_MISSING, _REFUSED, _WORTH_A_TRY = {404, 410}, {401, 403, 407}, {408, 425, 429}
_NO_KEYS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError")
_FINAL = (
    ImportError,
    AttributeError,
    NotImplementedError,
    TypeError,
    ValueError,
    IsADirectoryError,
    NotADirectoryError,
)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base if os.path.isabs(base) else tempfile.gettempdir()) / "delira" / "data"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RemoteSettings:
    """How data at a URL are reached and kept; what is read does not depend on it."""

    cache_dir: str | os.PathLike[str] | None = None
    """Folder of the blocks that were fetched, for all data and runs; by default ``$XDG_CACHE_HOME/delira/data``, or
    ``~/.cache/delira/data``."""

    cache_size: int = 10 * 2**30
    """Bytes that the folder may take of the disk, 10 GiB; what nobody has read for the longest time goes first. 0: no
    cache."""

    time_limit: float = 60.0
    """Seconds that one request may take, of 32 MiB at most; file systems of fsspec that are not asynchronous (FTP,
    SFTP) have time limits of their own, in ``storage_options``."""

    retries: int = 5
    """Further tries, after 0.5, 1, 2, ... seconds, of a request that was not answered; not of what is missing or
    refused."""

    storage_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Arguments of fsspec's file system, e.g. ``{"anon": True}`` or ``{"key": ..., "secret": ...}`` for S3. They are
    written into no run and no log; jobs of SLURM get them in a file that nobody else may read."""

    def __post_init__(self) -> None:
        if self.cache_dir is not None:
            as_path(self.cache_dir, "cache_dir")
        check_count(self.cache_size, "cache_size", 0)
        check_count(self.retries, "retries", 0)
        limit, options = self.time_limit, self.storage_options
        is_number = isinstance(limit, numbers.Real) and not isinstance(limit, bool)
        expect(
            ("time_limit", limit, is_number and 0 < limit < math.inf, "a number of seconds above 0"),
            ("storage_options", type(options), isinstance(options, Mapping), "a dict of arguments"),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"  # a data set is known by it, and is the same however it is reached

    @property
    def cache(self) -> BlockCache:
        """The cache of the blocks."""
        folder = _cache_folder() if self.cache_dir is None else Path(self.cache_dir)
        return BlockCache(os.path.abspath(folder), self.cache_size)


def as_remote_settings(settings: RemoteSettings | Mapping[str, Any] | None) -> RemoteSettings:
    """Make settings of a mapping of them, or the defaults of None.

    Raises
    ------
    ConfigError
        If it is something else, or there is no such setting.
    """
    if settings is None:
        return RemoteSettings()
    if isinstance(settings, RemoteSettings):
        return settings
    expect(("remote", type(settings), isinstance(settings, Mapping), "a RemoteSettings or a dict of its settings"))
    check_known(settings, [field.name for field in dataclasses.fields(RemoteSettings)], "remote has no")
    return RemoteSettings(**settings)


class About(NamedTuple):
    """What a store says of a file."""

    size: int
    """In bytes."""
    stamp: str
    """What tells this content from others: the size, and an ETag or a checksum, else the time of the last change."""
    is_told: bool
    """Whether it says more than the size."""


class Address:
    """A URL and how to ask for it: with time limit, further tries, and errors that say what to do.

    Parameters
    ----------
    url
        Of any protocol of fsspec.
    settings
        How it is reached.
    """

    def __init__(self, url: str, settings: RemoteSettings) -> None:
        self.url, self.settings = url, settings
        self._behind = ""
        """Stamp of the file that holds this one, when it was asked for last."""

    def __str__(self) -> str:
        return shown(self.url)

    @property
    def path(self) -> str:
        """The address without its query, of several parts the first that is no bare name of a system."""
        return next(part for part in self.url.split("::") if "://" in part).partition("?")[0].rstrip("/")

    def __truediv__(self, name: str) -> "Address":
        parts = self.url.split("::")  # the path is that of the first system that has one
        place = next(number for number, part in enumerate(parts) if "://" in part)
        path, query, rest = parts[place].partition("?")
        parts[place] = f"{path.rstrip('/')}/{name}{query}{rest}"
        return Address("::".join(parts), self.settings)

    def about(self) -> About | None:
        """What the store says of a file; None if there is none."""
        behind = self._look_behind()
        info: dict[str, Any] | None = self._patiently(lambda: self._ask("info"), is_missing=lambda: None)
        if info is None or info.get("type") == "directory":
            return None
        own = _about(self, info)
        if behind is None or behind.stamp == own.stamp:  # the same file, by way of a cache of fsspec
            return own
        # of references to other files nobody knows what these hold
        is_told = behind.is_told and not self.url.startswith("reference:")
        return About(own.size, f"{own.stamp} in {behind.stamp}", is_told)

    def _look_behind(self) -> About | None:
        """What a store says of the file that holds this one, as ``a.zip`` does in ``zip://x.npy::s3://bucket/a.zip``."""
        parts = self.url.split("::")[1:]
        if not parts or self.url.startswith("dir:"):
            return None
        names, given = {part.partition("://")[0] for part in parts}, self.settings.storage_options
        own = {name: dict(given[name]) for name in names if isinstance(given.get(name), Mapping)}
        found = Address("::".join(parts), dataclasses.replace(self.settings, storage_options=own)).about()
        self._behind = "" if found is None else found.stamp
        return found

    def names(self) -> list[str]:
        """What lies below it, as far as the store tells."""
        self._look_behind()
        found: list[str] = self._patiently(lambda: self._ask("ls", detail=False), is_missing=list)
        return sorted({name.rstrip("/").rpartition("/")[2] for name in found})

    def listed(self, n_files: int) -> dict[str, About]:
        """What the store says of all files below it, by their names from here on; empty if it lists none so.

        Parameters
        ----------
        n_files
            How many there may be: stores list a thousand at once, each for as long as a request may take.
        """
        behind = self._look_behind()
        is_told = not self.url.startswith("reference:") and (behind is None or behind.is_told)
        more, n_requests = "" if behind is None else f" in {behind.stamp}", 1 + n_files // 1000
        try:
            found: dict[str, dict[str, Any]] = self._patiently(
                lambda: self._ask("find", n_requests, detail=True), is_missing=dict
            )
            base = f"{self._system()[1].strip('/')}/".lstrip("/")
            told = {name.strip("/").removeprefix(base): _about(self, info) for name, info in found.items()}
        except DataError:  # who may read files may not list them, and the pages of a server say no sizes
            return {}
        return {name: About(own.size, own.stamp + more, own.is_told and is_told) for name, own in told.items()}

    def fetch(self, start: int, stop: int) -> bytes:
        """Fetch bytes ``start`` to ``stop``, exactly so many.

        Raises
        ------
        DataError
            If it is gone or refused, or the server has no ranges.
        UnreadableError
            If nobody answers.
        """

        def ask() -> bytes:
            content = self._ask("cat_file", start=start, end=stop)
            if len(content) > stop - start:
                raise DataError(
                    f"the server of {self} gives whole files only, and no ranges of bytes; download the file, or serve "
                    "it by a server that has them (nginx, Apache, any object store)"
                )
            if len(content) < stop - start:
                raise OSError(f"{len(content)} of {stop - start} bytes came")
            return bytes(content)

        def is_missing() -> bytes:
            raise DataError(f"{self} is gone since it was opened")

        return self._patiently(ask, is_missing)

    def _ask(self, what: str, n_requests: int = 1, **arguments: Any) -> Any:
        system, path = self._system()
        asyn = import_optional("fsspec.asyn", f"reading {self}", "delira[remote]")
        if isinstance(system, asyn.AsyncFileSystem):
            function, limit = getattr(system, f"_{what}"), self.settings.time_limit * n_requests
            return asyn.sync(system.loop, function, path, timeout=limit, **arguments)
        return getattr(system, what)(path, **arguments)

    def _system(self) -> tuple[Any, str]:
        """The file system of fsspec, and the path in it."""
        fsspec = import_optional("fsspec", f"reading {self}", "delira[remote]")
        try:
            return fsspec.core.url_to_fs(self.url, **self._options())  # type: ignore[no-any-return]
        except ImportError as error:
            lacks = getattr(error.__cause__, "name", None)
            cure = f". Install it with: pip install {lacks!r}" if lacks else ""
            raise MissingBackendError(f"reading {self} needs a package that is not installed: {error}{cure}") from None
        except ValueError as error:
            if "rotocol" not in str(error):
                raise
            raise ConfigError(
                f"{self} has a protocol that fsspec does not know: {error}; it knows s3, gs, abfs, https, ftp, sftp, "
                "file, ..."
            ) from None

    def _options(self) -> dict[str, Any]:
        """Arguments of the file systems."""
        options, parts = dict(self.settings.storage_options), self.url.split("::")
        if len(parts) == 1:
            options.setdefault("use_listings_cache", False)  # an old listing would hide a change
        if self.url.startswith("hf://"):
            options.setdefault("expand_info", True)  # else it says the size alone
        if (
            self._behind
        ):  # fsspec goes on with the archive, or the copy, that it has open, unless something is different
            options["delira_behind"] = self._behind
            for name in {part.partition("://")[0] for part in parts[1:-1]}:
                options[name] = {**options.get(name, {}), "delira_behind": self._behind}
        return options

    def _patiently(self, ask: Callable[[], _T], is_missing: Callable[[], _T]) -> _T:
        for number in range(self.settings.retries + 1):
            try:
                return ask()
            except (DataError, ConfigError, MissingBackendError):
                raise
            except Exception as raised:
                # of HTTP any error, what it was stands behind it
                error = raised.__cause__ if type(raised) is FileNotFoundError and raised.__cause__ else raised
                status = getattr(error, "status", None)
                if status in _MISSING or isinstance(error, FileNotFoundError):
                    break  # outside of this scope nothing that was caught is shown with it
                if (refusal := self._refusal(error, status)) is not None:
                    raise refusal from None  # addresses in what was caught may hold keys
                if number == self.settings.retries:
                    raise UnreadableError(
                        f"{self} cannot be read, in {number + 1} tries: {self._text(error)}; is the network there, and "
                        "the address right? remote={'retries': ..., 'time_limit': ...} waits longer"
                    ) from None
            time.sleep(min(_PAUSE * 2**number, _LONGEST_PAUSE))
        return is_missing()

    def _refusal(self, error: BaseException, status: int | None) -> Exception | None:
        """The error to raise where a further try would be in vain."""
        if isinstance(error, PermissionError) or status in _REFUSED or type(error).__name__ in _NO_KEYS:
            return DataError(
                f"{self} may not be read, or is not there: {self._text(error)}; check who asks, by remote="
                "{'storage_options': ...} or by what the environment says of this protocol"
            )
        if isinstance(error, _FINAL) or (status is not None and 400 <= status < 500 and status not in _WORTH_A_TRY):
            return DataError(f"{self} cannot be read: {self._text(error)}")
        return None

    def _text(self, error: BaseException) -> str:
        secrets = _texts_in(self.settings.storage_options)
        return without_secrets(f"{type(error).__name__}: {error}", *secrets_in(self.url), *secrets).rstrip(": ")


class RemoteFile:
    """A file at an address, of which ranges are read by way of the cache; it must stay as it was when it was opened.

    Parameters
    ----------
    address
        Where it is.
    about
        What the store says of it. Of what is known by its size alone nothing is kept for who opens it again: what was
        fetched may be of another content.
    keeps
        Whether the block that was read last stays in memory, for the next sample in it.
    """

    def __str__(self) -> str:
        return str(self.address)

    def __init__(self, address: Address, about: About, keeps: bool = True) -> None:
        self.address, self.size, self.stamp, self._keeps = address, about.size, about.stamp, keeps
        self.is_told = about.is_told
        self._name = f"{named_by(address.url)} {self.stamp}"
        if not about.is_told:
            self._name += f" {uuid.uuid4().hex}"
            _warn_of_sizes(address)
        self._cache = address.settings.cache
        self._latest: tuple[int, bytes] = (-1, b"")

    @property
    def _fingerprint(self) -> str:
        """What a cache of samples knows it by: not how it is reached, nor what was read of it."""
        return self._name

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_latest": (-1, b"")}

    @classmethod
    def find(cls, address: Address, keeps: bool = True) -> "RemoteFile | None":
        """Open a file, of which nothing is read; None if there is none. Parameters as of the class."""
        about = address.about()
        return None if about is None else cls(address, about, keeps)

    @classmethod
    def open(cls, address: Address, what: str = "which data should be read from") -> "RemoteFile":
        """Open a file, of which nothing is read.

        Raises
        ------
        DataError
            If there is none, or it may not be read.
        UnreadableError
            If nobody answers.
        """
        if (found := cls.find(address)) is None:
            raise DataError(f"there is no {str(address)!r}, {what}")
        return found

    def head(self, n_bytes: int = _HEAD) -> bytes:
        """Read the beginning, and not the block that it is in."""
        stop = min(n_bytes, self.size)
        block = self._cache.get(self._key(0))
        return block[:stop] if block is not None and len(block) >= stop else self._fetch(0, stop)

    def read(self, start: int, stop: int) -> bytes:
        """Read bytes ``start`` to ``stop``, of which there are that many.

        Raises
        ------
        DataError
            If the file has changed or is gone.
        UnreadableError
            If it cannot be reached.
        """
        if stop <= start:
            return b""
        numbers_ = range(start // _BLOCK, (stop - 1) // _BLOCK + 1)
        blocks = {number: self._kept(number) for number in numbers_}
        lacking = [number for number in numbers_ if blocks[number] is None]
        for run in _runs(lacking, _AT_ONCE // _BLOCK):
            content = self._fetch(run[0] * _BLOCK, min((run[-1] + 1) * _BLOCK, self.size))
            for place, number in enumerate(run):
                blocks[number] = block = content[place * _BLOCK : (place + 1) * _BLOCK]
                self._cache.put(self._key(number), block)
        last = numbers_[-1]
        if self._keeps:
            self._latest = (last, blocks[last] or b"")
        first = numbers_[0] * _BLOCK
        joined = b"".join(block or b"" for block in blocks.values()) if len(blocks) > 1 else blocks[last] or b""
        return joined[start - first : stop - first]

    def kept(self, what: str) -> bytes | None:
        """Return what was made of the file and kept beside its blocks; None if there is nothing."""
        return self._cache.get(f"{self._name} {what}")

    def keep(self, what: str, content: bytes) -> None:
        """Keep what was made of the file; it goes as blocks go."""
        self._cache.put(f"{self._name} {what}", content)

    def _kept(self, number: int) -> bytes | None:
        latest, block = self._latest
        if number == latest:
            return block
        content = self._cache.get(self._key(number))
        right = min(_BLOCK, self.size - number * _BLOCK)
        return content if content is not None and len(content) == right else None

    def _fetch(self, start: int, stop: int) -> bytes:
        content = self.address.fetch(start, stop) if stop > start else b""
        # asked afterwards: what came before a change is not told from what came after it
        about = self.address.about()
        if about is None:
            raise DataError(f"{self.address} is gone since it was opened")
        if (about.size, about.stamp) != (self.size, self.stamp):
            raise DataError(
                f"{self.address} has changed since it was opened: it was {self.stamp}, and is {about.stamp}; what was "
                "read of it is of the old one. Begin again with data that stay"
            )
        return content

    def _key(self, number: int) -> str:
        return f"{self._name} {number}"


class RemoteStream(io.RawIOBase):
    """A file elsewhere as readers of zip, tar and HDF5 want it: they jump, and read what they need.

    Parameters
    ----------
    file
        A :class:`RemoteFile`, or what has ``size`` and ``read(start, stop)`` like it.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._place = file, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._file.size}[whence]
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Read as much as the buffer takes."""
        stop = max(self._place, min(self._place + len(buffer), self._file.size))
        content = self._file.read(self._place, stop) if stop > self._place else b""
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)


def _about(address: Address, info: Mapping[str, Any]) -> About:
    size = info.get("size")
    if not isinstance(size, int):
        raise DataError(f"the server of {address} does not say how long the file is, so no part of it can be asked for")
    told = [info[name] for name in _SUMS if info.get(name)][:1]
    told = told or [info[name] for name in _TIMES if info.get(name) is not None]
    return About(size, " ".join([f"{size} bytes", *(str(one).strip('"') for one in told)]), bool(told))


def known_by_size(what: object) -> ConfigError:
    """Return the error for what a cache of samples cannot tell from another content."""
    return ConfigError(
        f"{what} is known by its size alone, so that a CachedDataset cannot tell when it changes, and would go on with "
        "samples of the old content; serve it by what says an ETag (S3, nginx, Apache), or cache a copy on this machine"
    )


def _warn_of_sizes(address: Address) -> None:
    host = "/".join(str(address).split("/")[:3])
    if host in _warned:
        return
    _warned.add(host)
    _log.warning(
        "%s is known by its size alone, as nothing of %s says a checksum or the time of the last change: another "
        "content of the same size is not told from it, also by a run that goes on, and what was fetched is fetched "
        "again by who opens it anew. Give a file that changes another name, or serve it by what says an ETag (S3, "
        "nginx, Apache)",
        address, host,
    )  # fmt: skip


def _runs(numbers_: list[int], most: int) -> list[list[int]]:
    """Numbers that follow each other, together."""
    runs: list[list[int]] = []
    for number in numbers_:
        if runs and runs[-1][-1] == number - 1 and len(runs[-1]) < most:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts_in(one)]
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in _texts_in(one)]
    return [value] if isinstance(value, str) and len(value) > 5 else []
