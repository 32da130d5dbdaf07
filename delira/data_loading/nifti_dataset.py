"""The historic datasets of volumes: one folder for each case."""

import os
import warnings
from collections.abc import Iterable
from typing import Any

from delira.data_loading.abstract_dataset import LoadFunction
from delira.data_loading.file_dataset import BaseCacheDataset, BaseLazyDataset, _LoadingDataset
from delira.errors import ConfigError, DataError
from delira.utils.checks import check_names, check_texts
from delira.utils.path import subdirs


class _CaseDataset(_LoadingDataset):
    """What both share: how the files of a case are found."""

    def __init__(
        self,
        data_path: object,
        load_fn: LoadFunction,
        img_files: str | Iterable[str],
        label_file: str,
        **load_kwargs: Any,
    ) -> None:
        warnings.warn(
            f"{type(self).__name__} is deprecated; use BaseLazyDataset or BaseCacheDataset with a LoadSampleLabel "
            "whose sample_fn is load_nii",
            DeprecationWarning,
            stacklevel=2,
        )
        check_names(type(self).__name__, img_files=img_files)
        check_texts(type(self).__name__, label_file=label_file)
        self._names = [img_files] if isinstance(img_files, str) else list(img_files), label_file
        if not self._names[0] or not all(self._names[0]):
            raise ConfigError(f"{type(self).__name__}: img_files must name the volumes of a case, got {img_files!r}")
        super().__init__(data_path, load_fn, **load_kwargs)

    def _list(self, path: object) -> list[Any]:
        return _list_cases(path, *self._names)


class Nii3DLazyDataset(_CaseDataset, BaseLazyDataset):
    """Loads a case each time it is asked for. Deprecated.

    ``BaseLazyDataset(data_path, LoadSampleLabel({"data": img_files}, load_nii, label_file, label_fn))`` does
    the same with any kind of file.

    Parameters
    ----------
    data_path
        A directory with one folder for each case.
    load_fn
        Called as ``load_fn({"img": [paths], "label": path}, **load_kwargs)``, e.g. ``load_sample_nii``.
    img_files
        Names of the volumes, the same in each folder.
    label_file
        Name of the file with the labels.
    **load_kwargs
        Handed to ``load_fn``.

    Raises
    ------
    ConfigError
        If ``data_path`` is no directory or has no folders.
    DataError
        If a file is missing; names it.
    """


class Nii3DCacheDataset(_CaseDataset, BaseCacheDataset):
    """Loads all cases at construction. Deprecated.

    ``BaseCacheDataset`` with :class:`LoadSampleLabel` does the same with any kind of file.

    Parameters
    ----------
    data_path, load_fn, img_files, label_file, **load_kwargs
        As in :class:`Nii3DLazyDataset`.
    """


Nii3DCacheDatset = Nii3DCacheDataset
"""The name as it was spelt."""


def _list_cases(path: object, img_files: list[str], label_file: str) -> list[Any]:
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
