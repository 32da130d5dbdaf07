"""Run folders that are being brought to another state from elsewhere: until that has ended they are of two moments."""

from pathlib import Path

from delira.errors import ConfigError
from delira.utils import files

#: in the folder of a run, while its files are replaced: where they come from; like all hidden names it is not mirrored
_MARK = ".fetching_from"


def begin(folder: Path, url: str) -> None:
    """Note that files of a folder are being replaced by those of a URL."""
    files.publish_text(folder / _MARK, f"{url}\n")


def end(folder: Path) -> None:
    """Note that a folder is of one moment again."""
    (folder / _MARK).unlink(missing_ok=True)
    files.sync_folder(folder)


def is_in_parts(folder: Path) -> bool:
    """Return True if a fetch into a folder has not ended."""
    return (folder / _MARK).exists()


def refuse_in_parts(folder: Path) -> None:
    """Refuse to go on from a folder that is of two moments.

    Raises
    ------
    ConfigError
        If a fetch into it has not ended.
    """
    if is_in_parts(folder):
        url = files.read_bytes(folder / _MARK).decode(errors="replace").strip()
        raise ConfigError(
            f"{str(folder)!r} has files of two moments, as bringing its newest state from {url} was broken off; bring "
            f"the rest with 'delira fetch {url} --out {folder.parent.parent}', or by the same call with the mirror= "
            "that it had"
        )
