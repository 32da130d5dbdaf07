"""Folders."""

from pathlib import Path


def subdirs(folder: str | Path) -> list[str]:
    """Full paths of the sub-folders, sorted."""
    return sorted(str(entry) for entry in Path(folder).iterdir() if entry.is_dir())
