"""Datasets of volumes, a folder for each case."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from delira.data_loading.abstract_dataset import LoadFunction
from delira.data_loading.file_dataset import BaseCacheDataset, BaseLazyDataset, LoadingDataset
from delira.data_loading.load_utils import LoadSample
from delira.data_loading.nii import load_nii
from delira.errors import ConfigError, DataError, check_names, check_texts
from delira.utils.path import subdirs


class _LoadCase(LoadSample):
    """Loads volumes and their mask, with their geometry."""

    def __init__(self, img_files: list[str], label_file: str) -> None:
        files = {"data": img_files, "label": [label_file]}
        super().__init__(files, load_nii, {"data": np.float32, "label": np.int64}, geometry=True)

    def entry_shapes(self, path: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries; nothing but the headers of the files is read."""
        shapes = super().entry_shapes(path)
        return shapes | {"label": shapes["label"][1:]}

    def _load_entry(self, path: str, key: str, slices: tuple[slice, ...] = ()) -> np.ndarray:
        entry = super()._load_entry(path, key, slices)
        return entry[0] if key == "label" else entry


class _CaseDataset(LoadingDataset):
    """What both share: how the files of a case are found."""

    def __init__(
        self,
        data_path: object,
        load_fn: LoadFunction | None = None,
        img_files: str | Iterable[str] = (),
        label_file: str = "",
        **load_kwargs: Any,
    ) -> None:
        check_names(type(self).__name__, img_files=img_files)
        check_texts(type(self).__name__, label_file=label_file)
        self._names = [img_files] if isinstance(img_files, str) else list(img_files), label_file
        if not self._names[0] or not all(self._names[0]):
            raise ConfigError(f"{type(self).__name__}: img_files must name the volumes of a case, got {img_files!r}")
        self._are_folders = load_fn is None
        super().__init__(data_path, _LoadCase(*self._names) if load_fn is None else load_fn, **load_kwargs)

    def _list(self, path: object) -> list[Any]:
        cases = _list_cases(path, *self._names)
        return [os.path.dirname(case["img"][0]) for case in cases] if self._are_folders else cases


class Nii3DLazyDataset(_CaseDataset, BaseLazyDataset):
    """Cases of volumes with a mask, a folder for each, loaded each time they are asked for.

    A sample has ``data``, float32 of shape (number of volumes, z, y, x); ``label``, int64 of shape (z, y, x); where its
    voxels lie: ``spacing`` (3,) in mm, along (z, y, x), and ``affine`` (4, 4), see :func:`load_nii`; and ``name``, that
    of the folder. Patches read of uncompressed files their part alone.

    Parameters
    ----------
    data_path
        A directory with one folder for each case.
    load_fn
        None, or what makes samples instead: called as ``load_fn({"img": [paths], "label": path}, **load_kwargs)``.
    img_files
        Names of the volumes, the same in each folder.
    label_file
        Name of the file with the mask, or with whatever ``load_fn`` reads.
    **load_kwargs
        Handed to ``load_fn``.

    Raises
    ------
    ConfigError
        If ``data_path`` is no directory or has no folders.
    DataError
        If a file is missing; names it.

    Examples
    --------
    ``Nii3DLazyDataset("cases", img_files=["t1.nii.gz", "t2.nii.gz"], label_file="mask.nii.gz")``
    """


class Nii3DCacheDataset(_CaseDataset, BaseCacheDataset):
    """The same cases as those of :class:`Nii3DLazyDataset`, all loaded at construction.

    Parameters
    ----------
    data_path, load_fn, img_files, label_file, **load_kwargs
        As there.
    """


Nii3DCacheDatset = Nii3DCacheDataset
"""The name as it was spelt."""


def _list_cases(path: object, img_files: list[str], label_file: str) -> list[dict[str, Any]]:
    if not isinstance(path, (str, os.PathLike)) or not os.path.isdir(path):
        raise ConfigError(f"data_path={path!r} is no directory; pass one with a folder for each case")
    cases: list[dict[str, Any]] = [
        {"img": [os.path.join(folder, name) for name in img_files], "label": os.path.join(folder, label_file)}
        for folder in subdirs(os.fspath(path))
    ]
    if not cases:
        raise ConfigError(f"data_path={os.fspath(path)!r} has no folders; it needs one for each case")
    missing = [file for case in cases for file in (*case["img"], case["label"]) if not os.path.isfile(file)]
    if missing:
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise DataError(f"these files are missing: {', '.join(missing[:10])}{more}")
    return cases
