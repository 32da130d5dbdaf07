"""Estimators as bytes and back, by skops: no pickle, and nothing is built but classes that are trusted."""

import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from delira.errors import CheckpointError, import_optional

#: classes of scikit-learn itself, as skops names them (its functions and what it vendors are not among them), and
#: the sparse matrices in which it keeps what it learned, and the types of arrays: imputers note that of their data
_OF_SKLEARN = re.compile(
    r"sklearn(\.(?!externals\b|datasets\b|tests\b|_testing\b)\w+)*\._?[A-Z]\w*|scipy\.sparse\._\w+\.[a-z]+_(array|matrix)"
    r"|numpy\.dtype"
)
_SCHEMA = "schema.json"


def import_skops() -> Any:
    """``skops.io``, without which there are no checkpoints.

    Raises
    ------
    MissingBackendError
        If skops is not installed.
    """
    return import_optional("skops.io", "a checkpoint of a scikit-learn estimator", "delira[sklearn]")


def type_names(estimator: Any) -> set[str]:
    """Return names of the classes and functions that an estimator in memory is made of, as skops writes them."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    return {_name(part if isinstance(part, type) or hasattr(part, "__name__") else type(part)) for part in parts}


def _name(value: Any) -> str:
    return value if isinstance(value, str) else f"{getattr(value, '__module__', None)}.{value.__name__}"


def dump(estimator: object) -> tuple[np.ndarray, list[str]]:
    """Return an estimator as a skops file, uint8 of shape ``(n_bytes,)``, and the names in it that skops does not know.

    Raises
    ------
    CheckpointError
        If it holds what skops cannot write.
    """
    skops = import_skops()
    try:
        content = _canonical(skops.dumps(estimator))
        return np.frombuffer(content, dtype=np.uint8), skops.get_untrusted_types(data=content)
    except Exception as error:  # skops asks every object for its state, which may raise anything
        raise CheckpointError(
            f"skops cannot write the {type(estimator).__name__}: {error!r}. Objects must be of importable classes, "
            "functions importable by name (no lambdas)"
        ) from error


def strange(names: Iterable[str], trusted: Iterable[Any]) -> list[str]:
    """Return those of some names that :func:`load` would refuse.

    Parameters
    ----------
    names
        Of classes and functions, as skops writes them.
    trusted
        As of :func:`load`.
    """
    known = {_name(each) for each in trusted}
    return [name for name in names if name not in known and not _OF_SKLEARN.fullmatch(name)]


def _canonical(content: bytes) -> bytes:
    """Return the same file without addresses, random names and the time of day: equal estimators give equal bytes."""
    entries = _unpacked(content)
    numbers: dict[int, int] = {}
    names: dict[str, str] = {}

    def renamed(node: object) -> Any:
        if isinstance(node, list):
            return [renamed(item) for item in node]
        if not isinstance(node, dict):
            return node
        changed = {key: renamed(item) for key, item in node.items()}
        if isinstance(node.get("__id__"), int):
            changed["__id__"] = numbers.setdefault(node["__id__"], len(numbers))
        if isinstance(name := node.get("file"), str):
            changed["file"] = names.setdefault(name, f"{len(names)}.{name.rpartition('.')[2]}")
        return changed

    schema = json.dumps(renamed(json.loads(entries.pop(_SCHEMA))))
    # sparse arrays are archives themselves
    plain = {name: _stored(_unpacked(each)) if name.endswith(".npz") else each for name, each in entries.items()}
    return _stored({**{new: plain[old] for old, new in names.items()}, _SCHEMA: schema})


def entries_of(content: np.ndarray) -> dict[str, Any]:
    """Return what is in a file of :func:`dump` by name, without the numbers of its objects.

    Parameters
    ----------
    content
        Of shape ``(n_bytes,)``; it is not one of a stranger.
    """
    entries = _unpacked(content.tobytes())

    def unnumbered(node: object) -> Any:
        if isinstance(node, list):
            return [unnumbered(item) for item in node]
        if isinstance(node, dict):
            return {key: unnumbered(item) for key, item in node.items() if key != "__id__"}
        return node

    schema = unnumbered(json.loads(entries.pop(_SCHEMA)))
    return {_SCHEMA: schema, **{name: np.frombuffer(each, dtype=np.uint8) for name, each in entries.items()}}


def _unpacked(content: bytes) -> dict[str, bytes]:
    """Return what is in an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _stored(entries: Mapping[str, bytes | str]) -> bytes:
    """Return an archive without compression and times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def _refuse_compressed(archive: zipfile.ZipFile) -> None:
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
        raise ValueError("it is compressed, so nobody knows how large it will be")


def load(
    content: np.ndarray, trusted: Iterable[Any], vouch: str = "SklearnEstimator(estimator, trusted={names})"
) -> Any:
    """Return an estimator out of a skops file.

    Parameters
    ----------
    content
        uint8 of shape ``(n_bytes,)``.
    trusted
        Names of further classes and functions, or these themselves, that may be in it.
    vouch
        How a user says that he trusts ``{names}``, for the message.

    Raises
    ------
    CheckpointError
        If the file holds anything else, naming it, or is damaged.
    """
    skops = import_skops()
    data = content.tobytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _refuse_compressed(archive)
            for name in archive.namelist():
                if name.endswith(".npz"):  # sparse arrays
                    with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                        _refuse_compressed(inner)
        found = skops.get_untrusted_types(data=data)
        refused = strange(found, trusted)
        if not refused:
            return skops.loads(data, trusted=found)
    except Exception as error:  # a made-up file can make skops raise anything
        is_missing = isinstance(error, (AttributeError, ImportError))
        advice = ". Write functions by def and classes in a module, not as lambda or inside a function: skops finds "
        raise CheckpointError(
            f"it holds no estimator that skops can read: {error!r}" + (f"{advice}them by name" if is_missing else "")
        ) from error
    raise CheckpointError(
        f"it holds objects of {', '.join(refused)}, which could run code when loaded, so nothing was loaded. If you "
        f"trust them: {vouch.replace('{names}', repr(refused))}"
    )
