"""What a run was made with: versions, platform, command line and git commit of this process."""

import contextlib
import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from delira.frameworks import DISTRIBUTIONS

#: packages whose versions are recorded if they are installed
_RECORDED = ("delira", "numpy", "scikit-learn", *DISTRIBUTIONS, "batchgenerators")


@functools.cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _RECORDED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def timestamp() -> str:
    """Return the time, as ledgers and manifests have it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that are recorded, as far as they are installed."""
    return dict(_versions())


def environment() -> dict[str, Any]:
    """Versions, platform, command line and git commit of this process."""
    return {
        "started": timestamp(),
        "versions": versions(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "command": list(sys.argv),
        "git": git_commit(sys.argv[0]),
    }


def git_commit(script_file: str) -> dict[str, Any] | None:
    """Commit of a script's folder, or else of the working directory; ``None`` outside of a repository."""
    script = Path(script_file).resolve().parent if script_file not in ("", "-c", "-m") else Path.cwd()
    for folder in (script, Path.cwd()):
        try:
            commit = _git(folder, "rev-parse", "HEAD")
            changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
        except (OSError, subprocess.SubprocessError):
            continue
        return {"commit": commit, "changed": bool(changed)}
    return None


def _git(folder: Path, *arguments: str) -> str:
    # fsmonitor is a program that the settings of a repository name
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
