"""What a user means who names something to resume from."""

import os
import re
from pathlib import Path

from delira.errors import ConfigError

_FOLD = re.compile(r"fold_\d+")


def locate_run(path: str | Path) -> Path:
    """Run folder of any path a user may have at hand: the folder itself, a fold's, or what is in them.

    Raises
    ------
    ConfigError
        If it is a file that is in no run.
    """
    folder = _as_path(path)
    is_file = folder.is_file()
    if is_file or (folder.name in ("logs", "report") and _is_of_run(folder.absolute().parent)):
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
    given = path = _as_path(path)
    file = given if given.is_file() else None
    if file:
        path = path.parent
    if path.name == "checkpoints":
        path = path.parent
    if folds := sorted(path.glob("fold_*")):  # of a run of another fold than 0 there is only that one
        path = folds[0]
    if not (path / "checkpoints").is_dir():
        raise ConfigError(f"there are no checkpoints to resume from in {str(given)!r}")
    return path, file
