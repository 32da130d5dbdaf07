"""The folder of a run: settings, manifest and ledger, beside the folders of its folds."""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from delira.errors import ConfigError
from delira.utils.files import publish_text, sync_folder, writable_folder
from delira.utils.time import now

#: packages whose versions are recorded if they are installed
_RECORDED = (
    "delira",
    "numpy",
    "scikit-learn",
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "flax",
    "optax",
    "batchgenerators",
)


class RunFolder:
    """``<save_path>/<name>/<timestamp>[-k]`` with ``manifest.json``, ``ledger.jsonl`` and ``fold_<i>/``.

    Parameters
    ----------
    path
        The folder; see :meth:`create` for a new one.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @classmethod
    def create(cls, parent: str | Path) -> "RunFolder":
        """Make a new folder, named after the time; two runs of one second get different ones."""
        parent = writable_folder(parent)
        stamp = now()
        for number in range(10_000):
            path = parent / (f"{stamp}-{number}" if number else stamp)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return cls(path)
        raise ConfigError(f"{parent} already holds 10,000 runs of this second; is a clock standing still?")

    def check_fingerprint(self, wanted: Mapping[str, Any]) -> None:
        """Refuse to continue another run than the one that is asked for.

        Raises
        ------
        ConfigError
            Naming what differs. A single run of a trainer that was made alone, without a manifest, passes.
        """
        found = self.read_manifest().get("fingerprint")
        if not found and wanted["kind"] == "run":
            return
        if not found:
            raise ConfigError(f"{str(self.path)!r} is no run folder: it has no manifest that can be read")
        if found.get("kind") != wanted["kind"]:
            raise ConfigError(
                f"{str(self.path)!r} holds a {found.get('kind')} and cannot be continued by a {wanted['kind']}"
            )
        if different := [name for name in wanted if found.get(name) != wanted[name]]:
            raise ConfigError(
                f"the {wanted['kind']} in {str(self.path)!r} cannot be continued: its {' and '.join(different)} differ "
                "from what is asked for now; begin a new one"
            )

    @classmethod
    def newest_unfinished(cls, parent: Path, fingerprint: Mapping[str, Any]) -> Path | None:
        """The newest run that began with the same fingerprint and did not end."""
        if not parent.is_dir():
            return None
        for path in sorted(parent.iterdir(), key=_age, reverse=True):
            folder = cls(path)
            if folder.is_unfinished() and folder.read_manifest().get("fingerprint") == fingerprint:
                return path
        return None

    def fold(self, number: int) -> Path:
        """Folder of a fold; a single run is fold 0."""
        return self.path / f"fold_{number:02d}"

    @property
    def report(self) -> Path:
        """Folder of the report, created when it is asked for."""
        folder = self.path / "report"
        folder.mkdir(exist_ok=True)
        return folder

    def write_manifest(self, facts: Mapping[str, Any]) -> Path:
        """Record what is needed to know how the run was made, and ``facts``."""
        text = json.dumps({**environment(), **facts}, indent=2, default=str)
        return publish_text(self.path / "manifest.json", text + "\n")

    def read_manifest(self) -> dict[str, Any]:
        """The manifest; empty if there is none that can be read."""
        try:
            return json.loads((self.path / "manifest.json").read_text())
        except (OSError, ValueError):
            return {}

    def is_unfinished(self) -> bool:
        """Whether the ledger shows a run that began and did not end."""
        try:
            lines = (self.path / "ledger.jsonl").read_text().splitlines()
        except OSError:
            return False
        return not any('"event": "finished"' in line for line in lines)

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Write into the ledger how the run ends, and tell an error of it how the run can be continued."""
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(OSError):  # a full disk must not hide what happened
                self.log("broken_off", error=f"{type(error).__name__}: {error}")
            if any(self.path.glob("fold_*/checkpoints/*")):
                error.add_note(f"The run can be continued from its last checkpoint: resume={str(self.path)!r}")
            raise
        self.log("finished")

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to the ledger; it is on disk when this returns."""
        record = {
            "time": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "event": event,
            **facts,
        }
        ledger = self.path / "ledger.jsonl"
        is_new = not ledger.exists()
        with open(ledger, "a") as file:
            file.write(json.dumps(record, default=str) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self.path)


def locate_fold(path: str | Path) -> Path:
    """Folder that a trainer continues from, for any path a user may have at hand.

    Parameters
    ----------
    path
        A run folder, the folder of a fold, its ``checkpoints`` folder, or a checkpoint file.

    Raises
    ------
    ConfigError
        If there are no checkpoints.
    """
    given = path = Path(path)
    if path.is_file():
        path = path.parent
    if path.name == "checkpoints":
        path = path.parent
    if folds := sorted(path.glob("fold_*")):  # of a run of another fold than 0 there is only that one
        path = folds[0]
    if not (path / "checkpoints").is_dir():
        raise ConfigError(f"there are no checkpoints to resume from in {str(given)!r}")
    return path


def _age(path: Path) -> tuple[str, int]:
    """Sort key of run folders: the time, then the number behind it."""
    stamp, _, number = path.name[:19], path.name[19:20], path.name[20:]
    return stamp, int(number) if number.isdigit() else 0


def environment() -> dict[str, Any]:
    """Versions, platform, command line and git commit of this process."""
    versions = {"python": platform.python_version()}
    for package in _RECORDED:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "started": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": versions,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "command": list(sys.argv),
        "git": _git_commit(),
    }


def _git_commit() -> dict[str, Any] | None:
    """Commit of the script's folder, or else of the working directory; ``None`` outside of a repository."""
    script = Path(sys.argv[0]).resolve().parent if sys.argv[0] not in ("", "-c", "-m") else Path.cwd()
    for folder in (script, Path.cwd()):
        try:
            commit = _git(folder, "rev-parse", "HEAD")
            changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
        except (OSError, subprocess.SubprocessError):
            continue
        return {"commit": commit, "changed": bool(changed)}
    return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
