"""Splits that were decided before: of a file that is shared, or of another result."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading._describe import case_names_of
from delira.data_loading._exact import check_range
from delira.errors import ConfigError, DataError, listed
from delira.runs.stored_run import read_facts
from delira.utils import files

#: of the file; a later one may mean something else by the same names
FORMAT = 1
_KIND = "splits of a cross-validation"


class Parts(NamedTuple):
    """Indices of one fold; without a validation part, ``val`` is ``None``."""

    train: np.ndarray
    val: np.ndarray | None
    test: np.ndarray


def write_splits(path: str | Path, result: Any) -> Path:
    """Write which cases each fold of a result trained, validated and tested on, as readable JSON.

    Parameters
    ----------
    path
        The file.
    result
        A ``KFoldResult``.

    Raises
    ------
    ConfigError
        If folds are missing.
    """
    told = _told(result)
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in told.items())
    return files.publish_text(Path(path), f"{{\n{lines}\n}}\n")


def _told(result: Any) -> dict[str, Any]:
    """Return what a file says of the splits of a result."""
    asked = result.info.get("num_splits")
    if result.info.get("train_sizes"):
        raise ConfigError("these are the folds of all sizes of a learning curve; take one size, curve.at(size)")
    if isinstance(asked, int) and asked != len(result.folds):
        raise ConfigError(f"the result has {len(result.folds)} of {asked} folds; the splits of some cannot be shared")
    if any(len(np.unique(fold.train_indices)) < len(fold.train_indices) for fold in result.folds):
        raise ConfigError(
            "a bootstrap draws cases several times, which splits= does not do; the same split_type, num_splits and "
            "random_seed give the same ones"
        )
    manifest = {} if result.path is None else read_facts(Path(result.path))[0]
    folds = [
        {
            "train": fold.train_indices.tolist(),
            "val": None if fold.val_indices is None else fold.val_indices.tolist(),
            "test": sorted([*fold.test_indices.tolist(), *_left_out_of_test(fold)]),
        }
        for fold in sorted(result.folds, key=lambda fold: fold.fold)
    ]
    return {
        "kind": _KIND,
        "format": FORMAT,
        "n_samples": result.n_samples,
        "data": files.mapping(manifest.get("fingerprint")).get("data"),
        "case_names": None if result.case_names is None else _each_once([*result.case_names]),
        "folds": folds,
    }


def _left_out_of_test(fold: Any) -> list[int]:
    """Cases of the test part that could not be loaded: they belong to it all the same."""
    others = {*fold.train_indices.tolist(), *([] if fold.val_indices is None else fold.val_indices.tolist())}
    return [index for index in fold.left_out if index not in others]


def read_splits(given: Any, dataset: Any) -> list[Parts]:
    """Return splits of a file, of a result, or of a list, for a dataset.

    Parameters
    ----------
    given
        The file; an object with ``folds`` as a ``KFoldResult`` has them; or a list of ``(train, test)`` or
        ``(train, val, test)``, indices of the dataset. Of a file that has names of cases these count, whatever
        their order in the dataset.
    dataset
        That is divided.

    Raises
    ------
    ConfigError
        If they are none, or those of other cases, saying what differs.
    """
    if isinstance(given, (str, os.PathLike)):
        return [_checked(parts, dataset) for parts in _of_file(Path(given), dataset)]
    if hasattr(given, "folds"):
        return [_checked(parts, dataset) for parts in _of_told("the result", _told(given), dataset)]
    is_list = isinstance(given, Sequence) and not isinstance(given, str) and bool(given)
    parts = [tuple(each) for each in given if isinstance(each, Sequence)] if is_list else []
    if len(parts) != len(given if is_list else [0]) or not all(len(each) in (2, 3) for each in parts):
        raise ConfigError(
            "splits must be a file that result.save_splits wrote, a result, or a list of (train, test) or (train, val, "
            f"test), indices of the dataset, got {given!r:.200}"
        )
    return [_checked(Parts(each[0], each[1] if len(each) == 3 else None, each[-1]), dataset) for each in parts]


def _checked(parts: Parts, dataset: Any) -> Parts:
    def indices(part: Any) -> np.ndarray:
        found = np.asarray(part)
        if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
            raise ConfigError(f"a part of splits must be a list of indices, whole numbers from 0, got {part!r:.100}")
        if len(np.unique(found)) < len(found):
            raise ConfigError(f"a part of splits names a sample twice: {part!r:.100}")
        return check_range(found.astype(np.int64), len(dataset), "the dataset")

    return Parts(indices(parts.train), None if parts.val is None else indices(parts.val), indices(parts.test))


def _of_file(path: Path, dataset: Any) -> list[Parts]:
    try:
        told = files.read_json(path)
        if not isinstance(told, Mapping) or told.get("kind") != _KIND:
            raise ConfigError(f"{path} has no splits: it was not written by result.save_splits")
        if told.get("format") != FORMAT:
            raise ConfigError(f"{path} has the format {told.get('format')!r}; this version of delira reads {FORMAT}")
        return _of_told(str(path), told, dataset)
    except FileNotFoundError as error:
        raise ConfigError(f"splits={str(path)!r}: there is no such file") from error
    except (ValueError, LookupError, TypeError) as error:
        if isinstance(error, (ConfigError, DataError)):
            raise
        raise ConfigError(f"{path} cannot be read as splits: {error}") from error


def _of_told(where: str, told: Mapping[str, Any], dataset: Any) -> list[Parts]:
    place = _places(where, told, dataset)
    return [Parts(*(_moved(fold[part], place) for part in Parts._fields)) for fold in told["folds"]]


def _each_once(names: list[str]) -> list[str] | None:
    """Names of cases; ``None`` of such that several cases have, as those of patients: they say nothing of a case."""
    return names if len({*names}) == len(names) else None


def planned(given: Any, dataset: Any) -> Any:
    """Return splits as a file can say them that is read elsewhere: a whole path, or lists of indices.

    Parameters
    ----------
    given, dataset
        As of :func:`read_splits`; ``None``: there are none.
    """
    if given is None or isinstance(given, (str, os.PathLike)):
        return None if given is None else str(Path(given).absolute())
    return [[None if part is None else part.tolist() for part in parts] for parts in read_splits(given, dataset)]


def _moved(part: Any, place: np.ndarray) -> Any:
    return None if part is None else place[np.asarray(part, dtype=np.int64)]


def _places(path: str, told: Mapping[str, Any], dataset: Any) -> np.ndarray:
    """Index in the dataset of each case of the file."""
    own = case_names_of(dataset)
    names, own = (None if each is None else _each_once([*each]) for each in (told.get("case_names"), own))
    if names is not None and own is not None:
        known = {name: index for index, name in enumerate(own)}
        if missing := [name for name in names if name not in known]:
            raise ConfigError(f"{path} divides cases that the dataset has not: {listed(missing, 5)}")
        if further := sorted({*own} - {*names}):
            raise ConfigError(f"the dataset has cases that {path} does not divide: {listed(further, 5)}")
        return np.array([known[name] for name in names], dtype=np.int64)
    if told["n_samples"] != len(dataset):
        raise ConfigError(f"{path} divides {told['n_samples']} samples, the dataset has {len(dataset)}")
    fingerprint = dataset.fingerprint() if hasattr(dataset, "fingerprint") else None
    if None not in (fingerprint, told.get("data")) and fingerprint != told["data"]:
        warnings.warn(
            f"{path} was written for other data (their fingerprints differ) and has no names of cases: its numbers "
            "may mean other cases here",
            stacklevel=8,
        )
    return np.arange(len(dataset))
