"""Predictions on disk: a file for each case, written when it is predicted."""

import functools
import gzip
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from delira.data_loading.transforms import FittedPreprocessing
from delira.errors import CheckpointError, ConfigError, DataError, MissingBackendError, import_optional, listed
from delira.io import estimators
from delira.prediction.cases import NAME_THEM, OtherDataError
from delira.utils import references, yaml_codec
from delira.utils.arrays import iterate_leaves
from delira.utils.files import (
    as_path,
    make_folder,
    mapping,
    parse_json,
    publish,
    publish_text,
    read_bytes,
    sweep_abandoned,
)

#: says what the predictions of a folder are of
FILE = "predictions.json"
#: says what each case was predicted of, a line for each, as ``sha256sum`` has it
CONTENTS = "inputs.txt"
_LENGTH = 64
#: seconds in which a writer has marked its file
_PATIENCE = 0.2
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
        self._found: dict[Path, None] = {}
        self._contents = _read_contents(path / CONTENTS)
        #: cases that were there, of which nobody knows of what data they are
        self.n_unknown = 0

    @property
    def files(self) -> list[Path]:
        """Of the cases, in the order in which they were predicted or found."""
        return [*self._found]

    @classmethod
    def opened(cls, path: str | Path, model: Any, asked: Mapping[str, Any]) -> Self:
        """Begin a folder, or go on in one.

        Parameters
        ----------
        path
            The folder.
        model
            What predicts.
        asked
            How, by the names of the arguments, in plain values: what decides what the predictions are.

        Raises
        ------
        ConfigError
            If there are predictions of something else.
        CheckpointError
            If nobody knows of what they are.
        """
        folder = as_path(path, "out")
        weights, reads = _digest(model), [*model.reads]
        # after these a model is loaded, and says the same in every process
        told = {"format": 1, "model": _name(model), "reads": reads, "weights": weights, "asked": dict(asked)}
        make_folder(folder)  # once the members are there
        for one in (folder, *filter(Path.is_dir, folder.iterdir())):  # others may be writing other cases
            sweep_abandoned(one, patience=_PATIENCE)
        file = folder / FILE
        if not file.exists():
            publish_text(file, json.dumps(told, indent=1) + "\n")
            return cls(folder)
        try:
            found = mapping(parse_json(read_bytes(file)))
        except ValueError as error:
            raise CheckpointError(f"{file} is damaged ({error}), so nobody knows of what its folder is") from error
        others = [name for name in told if found.get(name) != told[name] and name != "asked"]
        before = mapping(found.get("asked"))
        others += [f"{name}={one}, now {asked.get(name)}" for name, one in before.items() if one != asked.get(name)]
        if others or dict(found) != told:
            is_empty = not any(one.name.endswith((".npz", _VOLUME)) for one in folder.iterdir())
            begun = f"; none is written yet, so {FILE} can be deleted" if is_empty else ""
            raise ConfigError(
                f"{str(folder)!r} has predictions of another model, or made in another way ({listed(others, 3)}); name "
                f"another folder{begun}"
            )
        return cls(folder)

    def has(self, name: str, content: str | None = None) -> bool:
        """Whether a case is there; then it is one of the files.

        Parameters
        ----------
        name
            Of the case.
        content
            What tells its data from others, if anything does.

        Raises
        ------
        OtherDataError
            If a case of this name is there, and was predicted of other data.
        """
        found = (self.path / f"{_safe(name)}{ending}" for ending in (".npz", _VOLUME))
        path = next((one for one in found if one.is_file()), None)
        if path is None:
            return False
        before = self._contents.get(name)
        if content is not None and before is not None and content != before:
            raise OtherDataError(
                f"the case {name!r} is in {str(self.path)!r} already, predicted of other data; name another folder, or "
                f"delete {path.name} there"
            )
        if path not in self._found:
            self._found[path] = None
            self.n_unknown += content is None or before is None
        return True

    def write(
        self,
        name: str,
        outputs: Mapping[str, Any],
        where: "Where | None" = None,
        file: Path | None = None,
        content: str | None = None,
    ) -> Path:
        """Write a case, completely or not at all; of volumes each further output is in a folder of its own.

        Parameters
        ----------
        name
            Of the case.
        outputs
            Arrays by name, without an axis of samples.
        where
            Where its voxels lie. With it arrays of shape ``(z, y, x)`` and ``(C, z, y, x)`` are volumes; if there is
            any other, all are written as arrays.
        file
            The volume that was predicted, if it is a file: of NIfTI the rest of its header stays.
        content
            What tells its data from others, by which :meth:`has` compares.

        Raises
        ------
        DataError
            If an output has another shape in space than the input, or the name is none of a file.
        """
        arrays = {".".join(map(str, path)): np.asarray(leaf) for path, leaf in iterate_leaves(outputs)}
        stem = _safe(name)
        if content is not None and self._contents.get(name) != content:
            self._contents[name] = content
            _append(self.path / CONTENTS, f"{content}  {name}")
        if where is None or any(array.ndim not in (3, 4) for array in arrays.values()):
            path = publish(self.path / f"{stem}.npz", functools.partial(_write, arrays))
        else:
            volumes = {one: _as_volume(array, where, one, file) for one, array in arrays.items()}
            first, *others = volumes
            for one in others:
                publish(self.path / one.replace("/", ".") / f"{stem}{_VOLUME}", functools.partial(_put, volumes[one]))
            path = publish(self.path / f"{stem}{_VOLUME}", functools.partial(_put, volumes[first]))  # then all is there
        self._found[path] = None
        return path


class Where(NamedTuple):
    """Where the voxels of a volume lie."""

    affine: np.ndarray
    """Of shape ``(4, 4)``, from voxel (x, y, z) to mm."""
    shape: tuple[int, ...]
    """``(z, y, x)``."""


def where_in(before: Mapping[str, Any], after: Mapping[str, Any], entry: str) -> list[Where | None]:
    """Where the voxels of each case of a batch lie; None: nowhere.

    Parameters
    ----------
    before, after
        The batch before transforms and after them. Its entry ``affine`` counts if ``entry`` has three axes in space; of
        a transform that resamples only if it changes this, too.
    """
    affine = np.asarray(after.get("affine", ()))
    if affine.shape[1:] != (4, 4) or np.ndim(after[entry]) != 5:
        return [None] * len(after[entry])
    is_same = "affine" in before and np.array_equal(before["affine"], affine)
    shape = np.shape((before if is_same else after)[entry])[-3:]
    return [Where(one, shape) for one in affine]


def _put(volume: Any, file: BinaryIO) -> None:
    """Write a NIfTI file packed, without having it in memory."""
    with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed:  # equal volumes are equal files
        volume.to_stream(packed)


def _as_volume(array: np.ndarray, where: Where, name: str, file: Path | None) -> Any:
    """A NIfTI image with the values of an array of shape ``(z, y, x)`` or ``(C, z, y, x)``.

    Raises
    ------
    DataError
        If it has another shape in space than the input, or whole numbers that the file cannot hold.
    """
    nibabel = import_optional("nibabel", "writing NIfTI files", "delira[medical]")
    if array.shape[-3:] != where.shape:
        raise DataError(
            f"the output {name!r} has the shape {array.shape}, and the input {where.shape} (z, y, x), so its affine is "
            "not that of the output; predict without out=, or let the transform that resamples change 'affine' as well"
        )
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    values = array.T if array.ndim == 3 else np.moveaxis(array, 0, -1).transpose(2, 1, 0, 3)
    kept = {"?": np.uint8, "e": np.float32, "d": np.float32, "l": np.int32, "q": np.int32}.get(values.dtype.char)
    if kept is np.int32 and values.size and max(-int(values.min()), int(values.max())) > np.iinfo(np.int32).max:
        raise DataError(f"the output {name!r} has whole numbers beyond 32 bits, which its file cannot hold")
    values = values if kept is None else values.astype(kept)
    cls, header = nibabel.Nifti1Image, nibabel.Nifti1Header()
    if file is not None and file.name.lower().endswith(_OF_NIFTI):
        like = nibabel.load(file)
        cls, header = type(like), like.header.copy()
    else:
        header.set_xyzt_units("mm")
    header.set_data_dtype(values.dtype)
    header.set_slope_inter(1, 0)
    return cls(values, where.affine, header)


def _read_contents(file: Path) -> dict[str, str]:
    """What each case was predicted of, as far as it is written; the last line of a case counts."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return {}
    pairs = (line.partition("  ") for line in lines)
    return {name: content for content, _, name in pairs if len(content) == _LENGTH and name}


def _append(file: Path, line: str) -> None:
    """Add a line at once, so that other processes may add theirs; one that was broken off is left alone."""
    with file.open("ab+", buffering=0) as opened:
        if opened.seek(0, os.SEEK_END):
            opened.seek(-1, os.SEEK_END)
            line = line if opened.read(1) == b"\n" else f"\n{line}"
        opened.write(f"{line}\n".encode())


def _write(outputs: Mapping[str, Any], file: BinaryIO) -> None:
    np.savez_compressed(file, **outputs)


def _safe(name: str) -> str:
    if not name or "/" in name or "\\" in name or name in (".", ".."):
        raise DataError(f"the case is called {name!r}, which is no name of a file; {NAME_THEM}")
    return name


def _name(model: Any) -> str:
    """What a model is, the same in every process: its class, or its members and how they are combined."""
    if getattr(model, "members", None):
        return f"{model!r}, weights={model.weights}"
    return references.class_on_disk(type(model.predictor.module))


def _digest(model: Any) -> str:
    """Tells models apart: by weights, the arguments of their networks, and what was fitted to their inputs."""
    members = getattr(model, "members", None)
    networks = (model.taken(member) for member in members) if members else (model,)
    total = hashlib.sha256()
    for one in networks:
        predictor = one.predictor
        total.update(yaml_codec.fingerprint(getattr(predictor.module, "init_kwargs", {})).encode())
        if predictor.preprocessing is not None:
            total.update(_digest_of_fitted(predictor.preprocessing).encode())
        weights = predictor.backend.checkpoints.state_tree(predictor.module, {})["model"]
        for path, leaf in sorted(iterate_leaves(predictor.backend.arrays.to_numpy(dict(weights))), key=str):
            total.update(str(path).encode())
            total.update(np.ascontiguousarray(leaf).tobytes() if isinstance(leaf, np.ndarray) else repr(leaf).encode())
    return total.hexdigest()


def _digest_of_fitted(preprocessing: Any) -> str:
    """Tells what was fitted apart, in every process alike; what cannot be stored, by its representation alone."""
    if not isinstance(preprocessing, FittedPreprocessing):
        return references.safe_repr(preprocessing)
    total = hashlib.sha256()
    for entry, transformer in sorted(preprocessing.transformers.items()):
        total.update(entry.encode())
        try:
            total.update(estimators.dump(transformer)[0].tobytes())
        except (CheckpointError, MissingBackendError):
            total.update(references.safe_repr(transformer).encode())
    return total.hexdigest()
