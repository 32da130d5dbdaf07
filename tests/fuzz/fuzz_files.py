"""Files that recipes read: pictures, volumes and labels; whole, damaged, missing."""

from pathlib import Path
from typing import Any

import numpy as np

PICTURE = np.random.default_rng(0).integers(0, 200, (4, 6), np.uint8)
VOLUME = np.random.default_rng(1).integers(2, 500, (3, 4, 5)).astype(np.int16)
#: what a file can be that its name does not say
DAMAGE = ["empty", "text", "half", "zeros"]


def damaged(path: Path, how: str) -> Path:
    """Damage a file, or leave it whole."""
    content = path.read_bytes()
    kinds = {"empty": b"", "text": b"not a picture", "half": content[: len(content) // 2], "zeros": bytes(len(content))}
    path.write_bytes(kinds.get(how, content))
    if how == "missing":
        path.unlink()
    return path


def picture(path: Path, values: np.ndarray = PICTURE) -> Path:
    """Write a picture, or an array."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values) if path.suffix == ".npy" else Image.fromarray(values).save(path)
    return path


def volume(path: Path, values: np.ndarray = VOLUME) -> Path:
    """Write a volume; its axes are x, y, z."""
    import nibabel

    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)
    return path


def text(path: Path, content: str = "3") -> Path:
    """Write a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def missing_said(call: Any) -> Any:
    """Make a call that tells the name of a file that is missing: the system's own error is as it should be."""

    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except FileNotFoundError as error:
            return f"missing: {Path(error.filename).name}"

    return made
