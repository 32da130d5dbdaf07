"""Predictions on disk: a file for each case, written when it is predicted."""

import functools
import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from delira.errors import ConfigError, DataError, import_optional
from delira.utils.arrays import iterate_leaves
from delira.utils.files import as_path, make_folder, parse_json, publish, publish_text, read_bytes, sweep_partials

#: says what the predictions of a folder are of
FILE = "predictions.json"
_VOLUME = ".nii.gz"
_OF_NIFTI = (".nii", _VOLUME)


class Folder:
    """Predictions of one model in one folder.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: Path):
        self.path = path
        #: of the cases, in the order in which they were predicted or found
        self.files: list[Path] = []

    @classmethod
    def opened(cls, path: str | Path, model: Any, asked: tuple[Any, ...]) -> Self:
        """Begin a folder, or go on in one.

        Parameters
        ----------
        path
            The folder.
        model
            What predicts.
        asked
            How, which decides what the predictions are.

        Raises
        ------
        ConfigError
            If there are predictions of something else.
        """
        folder = as_path(path, "out")
        make_folder(folder)
        sweep_partials(folder)
        told = {"format": 1, "model": repr(model), "weights": _digest(model), "asked": [repr(one) for one in asked]}
        file = folder / FILE
        if file.exists():
            found = parse_json(read_bytes(file))
            if not isinstance(found, Mapping) or dict(found) != told:
                raise ConfigError(
                    f"{str(folder)!r} has predictions of another model, or made in another way; name another folder"
                )
        else:
            publish_text(file, json.dumps(told, indent=1) + "\n")
        return cls(folder)

    def has(self, name: str) -> bool:
        """Whether a case is there; then it is one of the files."""
        found = (self.path / f"{_safe(name)}{ending}" for ending in (".npz", _VOLUME))
        path = next((one for one in found if one.is_file()), None)
        if path is not None and path not in self.files:
            self.files.append(path)
        return path is not None

    def write(self, case: Any) -> Path:
        """Write a case, completely or not at all: a file by its name, and for volumes one for each further output."""
        outputs = {".".join(map(str, path)): np.asarray(leaf) for path, leaf in iterate_leaves(case.outputs)}
        stem = _safe(case.name)
        if case.file is None or not case.file.name.lower().endswith(_OF_NIFTI):
            path = publish(self.path / f"{stem}.npz", functools.partial(_write, outputs))
        else:
            volumes = {name: _as_volume(array, case.file, name) for name, array in outputs.items()}
            first, *others = volumes
            for name in others:
                publish(self.path / f"{stem}.{name}{_VOLUME}", functools.partial(_put, volumes[name]))
            path = publish(self.path / f"{stem}{_VOLUME}", functools.partial(_put, volumes[first]))  # then all is there
        self.files.append(path)
        return path


def _put(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _as_volume(array: np.ndarray, source: Path, name: str) -> bytes:
    """A NIfTI file with the values of an array of shape ``(z, y, x)`` or ``(C, z, y, x)``, where another one lies.

    Raises
    ------
    DataError
        If it has another shape in space.
    """
    nibabel = import_optional("nibabel", "writing NIfTI files", "delira[medical]")
    like = nibabel.load(source)
    space = tuple(like.shape[:3])
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    values = (
        array.T if array.ndim == 3 else np.moveaxis(array, 0, -1).transpose(2, 1, 0, 3) if array.ndim == 4 else array
    )
    if values.shape[:3] != space:
        raise DataError(
            f"the output {name!r} has the shape {array.shape}, and the volume {source.name} has {space[::-1]} (z, y, "
            "x), so its geometry is not that of the output"
        )
    values = values.astype(np.float32) if values.dtype in (np.float16, np.float64) else values
    header = like.header.copy()
    header.set_data_dtype(values.dtype)
    header.set_slope_inter(1, 0)
    image = type(like)(values, like.affine, header)
    return gzip.compress(image.to_bytes(), compresslevel=1, mtime=0)


def _write(outputs: Mapping[str, Any], file: BinaryIO) -> None:
    np.savez_compressed(file, **outputs)


def _safe(name: str) -> str:
    if not name or "/" in name or "\\" in name or name in (".", ".."):
        raise DataError(f"the case is called {name!r}, which is no name of a file; give the data set other case_names")
    return name


def _digest(model: Any) -> str:
    """Tells the weights of models apart."""
    members = getattr(model, "members", None)
    networks = (model.taken(member) for member in members) if members else (model,)
    total = hashlib.sha256()
    for one in networks:
        predictor = one.predictor
        weights = predictor.backend.checkpoints.state_tree(predictor.module, {})["model"]
        for path, leaf in sorted(iterate_leaves(predictor.backend.arrays.to_numpy(dict(weights))), key=str):
            total.update(str(path).encode())
            total.update(np.ascontiguousarray(leaf).tobytes() if isinstance(leaf, np.ndarray) else repr(leaf).encode())
    return total.hexdigest()
