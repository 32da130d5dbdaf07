"""A place for files at a URL, by fsspec: a file there is whole, or not there."""

import contextlib
import logging
import os
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from delira.errors import ConfigError, MissingBackendError, import_optional
from delira.utils import files

_log = logging.getLogger("delira")

#: stores of which a file appears when it is complete; elsewhere one is written under another name and renamed
_APPEARS_WHOLE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
#: what stands before the path where an "@" is in that, and no password before it
_WITH_PORT = re.compile(r"[^:@]+@[^:@]+:\d+")
#: stores of whose URL a user, a container or a part of a path is what stands before an "@"; of others it is a key
_WITH_NAME = {
    *("sftp", "ssh", "scp", "ftp", "smb", "nfs", "hdfs", "hdfs3", "arrow_hdfs", "webhdfs", "webdav", "dav", "davs"),
    *("abfs", "abfss", "az", "adl", "wasb", "wasbs", "oci", "ocilake"),
    *("file", "local", "memory", "root"),
}
_OPTIONS = (
    "endpoint, keys and other options come from the environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, …) or from "
    "fsspec's configuration (~/.config/fsspec)"
)


def check_url(url: object, name: str = "mirror") -> str:
    """Return a URL, or a path, that names a store and says nothing secret; ``name`` is that of the argument.

    Raises
    ------
    ConfigError
        If it is none, or has a password, a key or options in it: it is written into logs and messages.
    """
    text = str(files.as_path(url, name)) if isinstance(url, os.PathLike) else url
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ConfigError(f"{name} must be a URL or a path, got {url!r}; write {name}='s3://bucket/folder'")
    if "://" not in text:
        return os.path.abspath(text)
    try:
        parts = urlsplit(text)
    except ValueError:  # which may show all of it
        raise ConfigError(f"{name} is no URL: its host cannot be read; write {name}='s3://bucket/folder'") from None
    has_password = _has_password(text) or ("@" in parts.netloc and parts.scheme not in _WITH_NAME)
    shown = f"{text.partition('://')[0]}://{re.split('[?#]', text.partition('://')[2].rpartition('@')[2])[0]}"
    if has_password or parts.query or parts.fragment:
        what = "a password" if has_password else "options"
        raise ConfigError(f"{name}='{shown}' was given with {what} in it, which logs would show; {_OPTIONS}")
    if "::" in text or not parts.scheme:
        raise ConfigError(f"{name}='{shown}' is no URL of one store; write {name}='s3://bucket/folder'")
    return text.rstrip("/") if parts.netloc or parts.path.strip("/") else text


def _has_password(url: str) -> bool:
    """Whether a URL has a password in it, which may hold slashes: urlsplit takes what is before one for the host."""
    before = url.partition("://")[2].rpartition("@")[0].partition("/")[0]
    return ":" in before and _WITH_PORT.fullmatch(before) is None


def is_plain(name: str) -> bool:
    """Return True if the name of a folder leads nowhere else, on whatever disk, and shows as what it is."""
    return name.isprintable() and not name.startswith(".") and "\\" not in name and Path(name).name == name != ""


class Store:
    """The files below a URL, by their keys: names with ``/`` between them.

    Parameters
    ----------
    url
        As :func:`check_url` returned it.
    name
        Of the argument that gave it, for messages.

    Raises
    ------
    ConfigError
        If fsspec does not know the protocol, or what stands behind it does not take the URL.
    MissingBackendError
        If fsspec, or the package of the protocol, is not installed; it says what to install.
    """

    def __init__(self, url: str, name: str = "mirror"):
        self.url, self._name = url, name
        self._told: set[tuple[str, str]] = set()
        """Folders that it was said are passed by."""
        fsspec = import_optional("fsspec", f"{name}={url!r}", "delira[remote]")
        try:
            # of its own: one that is shared keeps the endpoint, and the listings, that it had at first
            self._fs, root = fsspec.core.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
        except ImportError as error:
            package = getattr(error.__cause__ or error, "name", None) or url.partition(":")[0]
            raise MissingBackendError(
                f"{name}={url!r} needs the package {package!r}, which is not installed. Install it with: pip install "
                f"{package}"
            ) from error
        except Exception as error:  # of whatever package
            raise self._refused(error) from error
        self._root = root.rstrip("/")
        protocol = self._fs.protocol
        self._appears_whole = not _APPEARS_WHOLE.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)

    def _refused(self, error: Exception) -> ConfigError:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        return ConfigError(f"{self._name}={self.url!r} cannot be used: {text}; look at the URL. {_OPTIONS}")

    def probe(self) -> None:
        """Write, read, list and delete a small file.

        Raises
        ------
        ConfigError
            If one of it is not possible, saying why.
        """
        key, content = f".probe-{uuid.uuid4().hex}", uuid.uuid4().hex.encode()
        try:
            self.write(key, content)
            found, listed = self.read(key), self.sizes("")
            self.delete(key)
        except Exception as error:  # of whatever package
            raise self._refused(error) from error
        if found != content or key not in listed:
            raise ConfigError(f"{self._name}={self.url!r} does not give back what was written into it; choose another")

    def write(self, key: str, content: bytes) -> None:
        """Write a small file."""
        with self._placed(key) as path:
            self._fs.pipe_file(path, content)

    def put(self, file: Path, key: str) -> None:
        """Copy a file of the disk, and look whether all of it arrived.

        Raises
        ------
        OSError
            If another number of bytes is there.
        """
        with self._placed(key) as path:
            self._fs.put_file(str(file), path)
            self._check_size(path, file.stat().st_size)

    def copy(self, source: str, key: str, size: int) -> None:
        """Copy a file within the store."""
        with self._placed(key) as path:
            try:
                self._fs.cp_file(self._path(source), path)
            except NotImplementedError:
                with tempfile.TemporaryDirectory() as folder:
                    self._fs.get_file(self._path(source), f"{folder}/content")
                    self._fs.put_file(f"{folder}/content", path)
            self._check_size(path, size)

    def _check_size(self, path: str, size: int) -> None:
        self._fs.invalidate_cache()
        found = self._fs.info(path)["size"]
        if found != size:
            self._fs.rm_file(path)
            raise OSError(f"{found} of {size} bytes arrived at {path}")

    @contextlib.contextmanager
    def _placed(self, key: str) -> Iterator[str]:
        """Scope in which a file is written under the name that is given; after it, it has its own."""
        path = self._path(key)
        if self._appears_whole:
            yield path
            return
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        partial = f"{path}.partial-{uuid.uuid4().hex[:8]}"
        try:
            yield partial
            self._fs.mv(partial, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(partial)
            raise

    def read(self, key: str) -> bytes:
        """Return a small file.

        Raises
        ------
        FileNotFoundError
            If there is none.
        """
        content: bytes = self._fs.cat_file(self._path(key))
        return content

    def opened(self, key: str) -> Any:
        """Open a file for reading; used with ``with``."""
        return self._fs.open(self._path(key), "rb")

    def sizes(self, key: str) -> Mapping[str, int]:
        """Sizes of the files in a folder, in bytes, by name; none if there is no such folder."""
        return {name: about["size"] or 0 for name, about in self._listed(key) if about["type"] == "file"}

    def folders(self, key: str) -> list[str]:
        """Names of the folders in a folder; those that would lead out of one on a disk are left out, and told."""
        names = {name for name, about in self._listed(key) if about["type"] == "directory"}
        for name in sorted(name for name in names if not is_plain(name)):
            names.remove(name)
            if (key, name) not in self._told:
                self._told.add((key, name))
                _log.warning("%s has a folder %r, which no run has for its name; it is passed by", self.url, name)
        return sorted(names)

    def on_disk(self, key: str) -> Path | None:
        """Return where a file is on this disk; ``None`` if the store is elsewhere."""
        protocol = self._fs.protocol
        is_local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)
        return Path(self._path(key)).resolve() if is_local else None

    def _listed(self, key: str) -> list[tuple[str, Mapping[str, Any]]]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._path(key), detail=True)
        except FileNotFoundError:
            return []
        own = self._path(key).strip("/")
        named = [(str(about["name"]).rstrip("/").rpartition("/")[2], about) for about in found]
        return [(name, about) for name, about in named if name and str(about["name"]).strip("/") != own]

    def delete(self, key: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(key))

    def remove(self, key: str) -> None:
        """Delete a folder with all that is in it, if it is there."""
        self._fs.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._path(key), recursive=True)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root
