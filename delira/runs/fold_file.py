"""A finished fold on disk: what a cross-validation that goes on reads instead of training and testing again."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import CheckpointError
from delira.io.container import read_tree, write_tree
from delira.metrics.gather import LIMIT_BYTES
from delira.runs.fold_result import FoldResult
from delira.utils.arrays import iterate_leaves
from delira.utils.files import publish, refuse_link

FILE = "result.zip"
#: of the file; a later one may mean something else by the same names
FORMAT = 1
_FIELDS = (
    "fold",
    "train_indices",
    "val_indices",
    "test_indices",
    "metrics",
    "history",
    "best_epoch",
    "best_score",
    "score_key",
    "weights_epoch",
    "raw_statistics",
    "output_readings",
    "seconds",
)
#: of some fields, where another kind would be read as something else
_KINDS: dict[str, tuple[type, ...]] = {
    "fold": (int,),
    "train_indices": (np.ndarray,),
    "val_indices": (np.ndarray, type(None)),
    "test_indices": (np.ndarray,),
    "history": (list,),
    "best_epoch": (int, type(None)),
    "best_score": (int, float, np.number, type(None)),
    "score_key": (str, type(None)),
    "weights_epoch": (int, type(None)),
    "seconds": (int, float),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredFold:
    """What was read of a fold."""

    fields: Mapping[str, Any]
    """Of a :class:`FoldResult`, but its predictions and targets."""
    outputs: Mapping[str, Any] | None
    """``predictions`` and ``targets``; ``None`` if they could not be stored: the fold is to be tested again."""
    callbacks: Mapping[str, Any]
    """States of the callbacks by name."""
    asked: Mapping[str, Any]
    """What the fold was asked for besides the fingerprint of the run, as plain JSON values."""


def write_fold(fold: FoldResult, asked: Mapping[str, Any], states: Mapping[str, Any]) -> Path:
    """Write ``result.zip`` into the folder of a fold, completely or not at all.

    Predictions and targets of more than 1 GiB, and such as are no arrays of numbers, texts and arrays, are
    left out.

    Parameters
    ----------
    fold
        The finished fold.
    asked
        What it was asked for, as plain JSON values.
    states
        States of its callbacks by name.
    """
    fields = {name: getattr(fold, name) for name in _FIELDS} | {"left_out": dict(fold.left_out)}
    outputs = {"predictions": fold.predictions, "targets": fold.targets}
    is_small = sum(_count_bytes(leaf) for _, leaf in iterate_leaves(outputs)) <= LIMIT_BYTES
    kept = {name: state for name, state in states.items() if state is None or _packed_or_none(state) is not None}
    tree = {
        "format": FORMAT,
        "asked": _pack(dict(asked)),
        "fields": _pack(fields),
        "outputs": _packed_or_none(outputs) if is_small else None,
        "callbacks": _pack(kept),
    }
    if fold.path is None:
        raise CheckpointError(f"fold {fold.fold} has no folder to be stored in")
    return publish(fold.path / FILE, lambda file: write_tree(file, tree))


def read_fold(folder: Path) -> StoredFold:
    """Read what :func:`write_fold` wrote.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged or of a later version.
    OSError
        If it is a link to somewhere else, or cannot be read now.
    """
    with _opened(folder, "fields", "outputs", "callbacks", "asked") as parts:
        stored = StoredFold(**parts)
        _check_parts(stored)
        FoldResult(**stored.fields)  # everything is there
    return stored


@contextlib.contextmanager
def _opened(folder: Path, *parts: str) -> Iterator[dict[str, Any]]:
    """Scope in which parts of the file are used; whatever goes wrong with them there means that it holds no fold."""
    path = folder / FILE
    refuse_link(path)
    tree = read_tree(path, only=("format", *parts))
    if tree.get("format") != FORMAT:
        raise CheckpointError(f"{path} has the format {tree.get('format')!r}; this version of delira reads {FORMAT}")
    try:
        yield {name: _unpack(tree[name]) for name in parts}
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold a fold: {error!r}") from error


def _check_parts(stored: StoredFold) -> None:
    """Refuse what has a place in a fold and is something else.

    Raises
    ------
    LookupError, TypeError
        If something is missing, or of another kind.
    """
    fields, outputs = stored.fields, stored.outputs
    named = {"callbacks": stored.callbacks, "asked": stored.asked, "metrics": fields["metrics"]}
    named |= {} if outputs is None else {name: outputs[name] for name in ("predictions", "targets")}
    for name, value in {**named, "left_out": fields.get("left_out", {})}.items():
        if not isinstance(value, Mapping):
            raise TypeError(f"its {name} are a {type(value).__name__}")
        if name != "left_out" and (unnamed := [key for key in value if not isinstance(key, str)]):
            raise TypeError(f"its {name} have the name {unnamed[0]!r}")
    for name, value in fields["metrics"].items():
        if np.asarray(value).dtype.kind not in "biuf":
            raise TypeError(f"its metric {name!r} is no number")
    for name, kinds in _KINDS.items():
        if not isinstance(fields.get(name), kinds):
            raise TypeError(f"its {name} is a {type(fields.get(name)).__name__}")
    _check_history(fields["history"])
    names = fields.get("raw_statistics", ())  # files of before have none
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"its raw_statistics are no names but {names!r:.40}")
    _ = stored.asked["num_epochs"], stored.asked["metrics"], stored.asked["targets"]


def _check_history(history: list[Any]) -> None:
    """Refuse epochs that are none, names that are no texts, and values that are no numbers."""
    for values in history:
        if not isinstance(values, Mapping) or not isinstance(values.get("epoch"), int):
            raise TypeError("its history has an entry that is no epoch")
        for name, value in values.items():
            if not isinstance(name, str):
                raise TypeError(f"its history has the name {name!r}")
            if value is not None and np.asarray(value).dtype.kind not in "biuf":
                raise TypeError(f"its history has the {name!r} {value!r:.40}, which is no number")


def read_means(folder: Path) -> dict[str, float]:
    """Return the metrics of a stored fold, each as one number; its predictions, which may be large, are not read.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged or of a later version.
    OSError
        If it is a link to somewhere else, or cannot be read now.
    """
    means: dict[str, float] = {}
    with _opened(folder, "fields") as parts:
        means |= {str(name): float(np.mean(value)) for name, value in parts["fields"]["metrics"].items()}
    return means


def _packed_or_none(value: object) -> Any:
    """Return None of what cannot be packed, as tensors: they belong to the checkpoint."""
    try:
        return _pack(value)
    except CheckpointError:
        return None


def _count_bytes(leaf: object) -> int:
    if isinstance(leaf, np.ndarray) and leaf.dtype.hasobject:
        return sum(_count_bytes(item) for item in leaf.flat)
    return int(getattr(leaf, "nbytes", 0))


# a container of its own around each value: keys may be numbers, tuples stay tuples, scalars keep their dtype


def _pack(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is dict:
        return {"dict": [[_pack(key), _pack(item)] for key, item in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_pack(item) for item in value]}
    if isinstance(value, np.generic) and _is_plain(value.dtype):
        return {"scalar": np.asarray(value)}
    if type(value) in (np.ndarray, np.memmap):
        if value.dtype == object:
            return {"objects": [_pack(item) for item in value.flat], "shape": [*value.shape]}
        if _is_plain(value.dtype):
            return {"array": value}
    raise CheckpointError(f"a {type(value).__name__} cannot be stored safely")


def _is_plain(dtype: np.dtype) -> bool:
    return not dtype.hasobject and dtype.type is not np.void


def _unpack(plain: object) -> Any:
    if not isinstance(plain, dict):
        return plain
    content: Any
    kind, content = next(iter(plain.items()), ("", None))
    if kind == "dict":
        return {_unpack(key): _unpack(item) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_unpack(item) for item in content]
        return items if kind == "list" else tuple(items)
    if kind == "objects":
        array = np.empty(len(content), dtype=object)
        for position, item in enumerate(content):
            array[position] = _unpack(item)
        return array.reshape(plain["shape"])
    if kind not in ("array", "scalar"):
        raise ValueError(f"unknown kind of value {kind!r}")
    return content if kind == "array" else content[()]
