"""Folders."""

from pathlib import Path

from delira.errors import ConfigError, check_paths


def subdirs(folder: str | Path) -> list[str]:
    """Full paths of the sub-folders, sorted."""
    check_paths("subdirs", folder=folder)
    if not Path(folder).is_dir():
        raise ConfigError(f"subdirs: there is no folder {str(folder)!r}")
    return sorted(str(entry) for entry in Path(folder).iterdir() if entry.is_dir())
