"""The numbers of a run beside its folds, so that a process that reads it does not draw 2,000 times again."""

import contextlib
import hashlib
import importlib.metadata
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.metrics.metric_set import TreeMetric, in_form
from delira.report import bootstrap, predictions
from delira.runs.code_of import function_identity
from delira.utils import files, references, yaml_codec
from delira.utils.arrays import iterate_leaves

FILE = "numbers.json"
FORMAT = 1
MAX_BYTES = 1 << 22
"""A larger file is none of ours."""
_PACKAGES = ("delira.", "sklearn.")
_NUMBERS = ("mean", "std", "oof", "oof_std", "ci_low", "ci_high")
_COUNTS = ("n", "n_groups", "n_rounds", "n_folds")
_TEXTS = ("undefined", "note")
_FLAGS = ("pooled", "has_oof")
_LIMIT = 2000
"""Characters of a note."""


class Keys:
    """What the numbers of each metric were computed from, as digests.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    folds
        Its folds.
    """

    def __init__(self, result: Any, folds: list[predictions.Part]):
        self.result, self.folds = result, folds
        #: of arrays that several metrics read, which are kept so that no other gets their id
        self._known: dict[int, tuple[np.ndarray, bytes]] = {}

    def of(self, name: str) -> str | None:
        """Return the digest of a metric; None if nobody can tell.

        A function of the user's own is told by its code and by what it names; where something of it cannot be told
        (:func:`~delira.runs.code_of.function_identity`), its numbers are computed anew in each process.
        Values of single cases are known, whatever computed them.
        """
        result = self.result
        identity = "" if result.is_per_case(name) else _identity((result.metrics or {}).get(name))
        if identity is None:
            return None
        return self._of_folds(
            name, identity, lambda part: predictions.arrays_of(result, name, part) if identity else []
        )

    def of_unknown(self, name: str) -> str | None:
        """The digest of a metric whatever computes it: by all that was predicted, and by its values in the folds.

        Where the function is not at hand its numbers are known by that, if it gave these very values.
        """
        return self._of_folds(name, "", lambda part: [part.values])

    def _of_folds(self, name: str, identity: str, read: Callable[[predictions.Part], Sequence[Any]]) -> str | None:
        """Return the digest of what ``read`` gives of each fold, and of what is drawn."""
        result = self.result
        if result.path is None:
            return None
        digest = hashlib.blake2b(digest_size=20)
        order = [len(self.folds), result.rounds.kind, len(result.rounds.folds)]
        facts = [FORMAT, _version(), bootstrap.N_DRAWS, result.seed, result.without_intervals, name, identity, *order]
        digest.update(json.dumps(facts, default=str).encode())
        for part in self.folds:
            arrays = [np.array([part.folds[0].fold]), part.cases, part.folds[0].metrics[name]]
            if result.groups is not None:
                arrays.append(np.asarray(result.groups)[part.cases])
            try:
                leaves = [leaf for tree in read(part) for _, leaf in iterate_leaves(tree)]
            except (LookupError, TypeError, ValueError):
                return None
            if any(not isinstance(leaf, np.ndarray) or leaf.dtype.hasobject for leaf in leaves):
                return None
            for mark in (*map(_digest, arrays), *map(self._of_leaf, leaves)):
                digest.update(mark)
        return digest.hexdigest()

    def _of_leaf(self, leaf: np.ndarray) -> bytes:
        if id(leaf) not in self._known:
            self._known[id(leaf)] = leaf, _digest(leaf)
        return self._known[id(leaf)][1]


def _digest(array: object) -> bytes:
    array = np.asarray(array)
    if array.dtype.hasobject:
        array = np.array([str(item) for item in array.ravel()])
    digest = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=20)
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
    return digest.digest()


def _version() -> str:
    try:
        return importlib.metadata.version("delira")
    except importlib.metadata.PackageNotFoundError:  # a copy of the source
        return ""


def is_of_ones_own(metric: object) -> bool:
    """Return True if another process cannot find a metric by what a file says of it: a function of the user's own.

    Parameters
    ----------
    metric
        As a result has it.
    """
    metric = in_form(metric)
    if not isinstance(metric, TreeMetric):
        return not _is_known(yaml_codec.encode(metric))
    return any(not _is_ours(part) or not _is_known(function) for part, function in _parts_of(metric))


def _parts_of(metric: TreeMetric) -> list[tuple[Any, Any]]:
    """Root and children of a metric, each with the plain form of its function."""
    (tree,) = metric.metrics.trees
    return [(part, yaml_codec.encode(getattr(part, "function", ""))) for part in (tree.root, *tree.children)]


def _is_ours(part: object) -> bool:
    return type(part).__module__.startswith(_PACKAGES)


def _identity(metric: object) -> str | None:
    """Return what a metric computes, in words that tell it from any other; None if that cannot be told."""
    if metric is None:
        return None
    metric = in_form(metric)
    if isinstance(metric, TreeMetric):
        return _of_tree(metric)
    plain = yaml_codec.encode(metric)
    return json.dumps(plain, sort_keys=True) if _is_known(plain) else function_identity(metric)


def _of_tree(metric: TreeMetric) -> str | None:
    metric.reset()
    described: list[Any] = [list(metric.criterion)]
    for part, function in _parts_of(metric):
        if not _is_ours(part) or (not _is_known(function) and (function := function_identity(part.function)) is None):
            return None
        settings = {key: yaml_codec.encode(value) for key, value in vars(part).items() if _is_setting(key, value)}
        described.append([references.class_on_disk(type(part)), settings, function])
    return json.dumps(described, sort_keys=True, default=str)


def _is_setting(key: str, value: object) -> bool:
    is_plain = value is None or isinstance(value, (bool, int, float, str, tuple))
    return is_plain and not key.startswith("_") and key != "n_samples"


def _is_known(plain: object) -> bool:
    """Return True if all that a plain form names is of delira or scikit-learn."""
    if isinstance(plain, Mapping):
        named = [str(plain[tag]) for tag in ("$object", "$call", "$partial") if tag in plain]
        return "$repr" not in plain and all(
            [*(name.startswith(_PACKAGES) for name in named), *(_is_known(value) for value in plain.values())]
        )
    return all(map(_is_known, plain)) if isinstance(plain, list) else True


# ------------------------------------------------------------------ the file


class Stored(NamedTuple):
    """The row of a metric in the file."""

    key: str
    """Digest of what it was computed from (:meth:`Keys.of`)."""
    row: dict[str, Any]
    unknown: str | None = None
    """Without the function (:meth:`Keys.of_unknown`), if that is one's own and gives the values of the folds."""


def read_rows(folder: Path | None) -> dict[str, Stored]:
    """Rows by metric; empty if there are none to be read.

    Parameters
    ----------
    folder
        Of the run.
    """
    if folder is None:
        return {}
    try:
        written = files.read_json(Path(folder) / FILE, MAX_BYTES)
        if written["format"] != FORMAT:
            return {}
        entries = {str(name): files.unsealed(entry) for name, entry in written["rows"].items()}
        return {name: Stored(str(one["key"]), _row(one["row"]), one.get("unknown")) for name, one in entries.items()}
    except (OSError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}  # they are computed again


def write_rows(folder: Path | None, rows: Mapping[str, Stored]) -> None:
    """Write them, if the folder is there and may be written; nothing depends on it.

    Parameters
    ----------
    folder
        Of the run.
    rows
        As :func:`read_rows` gives them.
    """
    if folder is None or not Path(folder).is_dir():
        return
    plain = {}
    for name, stored in rows.items():
        fields = {field: _plain(value) for field, value in stored.row.items()}
        known = {} if stored.unknown is None else {"unknown": stored.unknown}
        with contextlib.suppress(ValueError):  # an error of a metric may have lines that no file shall bring back
            _row(fields)
            plain[name] = files.sealed({"key": stored.key, "row": fields, **known})
    text = json.dumps({"format": FORMAT, "rows": plain}, indent=1, allow_nan=False)
    with contextlib.suppress(OSError):
        files.publish_text(Path(folder) / FILE, text + "\n", durable=False)


def _plain(value: object) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _row(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a file, which may hold anything.

    Raises
    ------
    ValueError, TypeError, LookupError
        If it is none.
    """
    if set(plain) != {*_NUMBERS, *_COUNTS, *_TEXTS, *_FLAGS}:
        raise ValueError("it has other fields")
    if not all(plain[field] is None or (type(plain[field]) is int and plain[field] >= 0) for field in _COUNTS):
        raise ValueError("a count is no number")
    if not all(type(plain[field]) is bool for field in _FLAGS):
        raise ValueError("a flag is neither true nor false")
    texts = [plain[field] for field in _TEXTS]
    if not all(isinstance(text, str) and text.isprintable() and len(text) <= _LIMIT for text in texts):
        raise ValueError("a note is no text")
    return {**plain, **{field: np.nan if plain[field] is None else float(plain[field]) for field in _NUMBERS}}
