"""Weights alone, by name, in a safetensors file: nothing in it can run, and every byte of it is checked."""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from delira.errors import CheckpointError, UnreadableError
from delira.utils.backend_of import find_backend
from delira.utils.files import as_path, as_target, publish
from delira.utils.foreign import open_regular
from delira.utils.optional import import_optional
from delira.utils.patience import read_patiently

_DIGEST = "delira_sha256"
#: stands for the digest in the bytes that the digest is of
_BLANK = b"0" * 64
#: name of a type in the file -> in numpy
_TYPES = {
    **{"BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"},
    **{"U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64"},
    **{"F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64"},
    # numpy knows these once ml_dtypes is imported
    **{"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"},
}


def save_weights(network: object, path: str | Path) -> Path:
    """Write all weights by name; any program that reads safetensors reads the file.

    The file appears only when it is complete. A SHA-256 of all its bytes is kept in its metadata, with the
    version of delira and the name of the network's class.

    Parameters
    ----------
    network
        The network of a backend.
    path
        Name of the file; an existing one is replaced.

    Raises
    ------
    ConfigError
        If ``path`` is no path of a file.
    CheckpointError
        If a weight is of a type that safetensors does not know.
    MissingBackendError
        If the package ``safetensors`` is not installed.
    """
    backend, path = find_backend(network), as_target(path)
    safetensors = import_optional("safetensors.numpy", "save_weights", "delira[export]")
    weights = backend.weights.named(network)
    known = _TYPES.values()
    if wrong := [f"{name} is {array.dtype}" for name, array in weights.items() if array.dtype.name not in known]:
        raise CheckpointError(f"{path}: safetensors cannot hold all weights of the network: {'; '.join(wrong)}")
    metadata = {
        _DIGEST: _BLANK.decode(),
        "delira_version": sys.modules["delira"].__version__,
        "network": type(network).__qualname__,
    }
    # safetensors takes the memory as it lies there
    arrays = {name: np.asarray(array, order="C") for name, array in weights.items()}
    content = safetensors.save(arrays, metadata=metadata)
    header, data = _split(content)
    digest = _sha256(header, data)

    def write(file: BinaryIO) -> None:
        file.write(header.replace(_BLANK, digest, 1))
        file.write(data)

    return publish(path, write)


def load_weights(path: str | Path, network: object = None) -> dict[str, np.ndarray]:
    """Read a file of :func:`save_weights`, after comparing its SHA-256.

    Parameters
    ----------
    path
        The file.
    network
        The network that gets the weights, if any.

    Returns
    -------
    dict of ndarray
        The weights by name; bfloat16 as ``ml_dtypes.bfloat16``.

    Raises
    ------
    ConfigError
        If ``path`` is no path.
    CheckpointError
        If the file is missing, damaged or not written by :func:`save_weights`, or does not fit the network,
        which is unchanged then.
    UnreadableError
        If the system cannot read it now.
    MissingBackendError
        If the package ``safetensors`` is not installed.
    """
    backend = None if network is None else find_backend(network)
    weights, writer = _read(as_path(path, "path"))
    if backend is not None:
        try:
            backend.weights.load_named(network, weights)
        except CheckpointError as error:
            error.add_note(f"{path} was written for a network of the class {writer}")
            raise
    return weights


def _read(path: str | Path) -> tuple[dict[str, np.ndarray], str]:
    """Return the weights, and the class of the network that they were written for."""
    safetensors = import_optional("safetensors", "load_weights", "delira[export]")
    try:
        content = read_patiently(path, lambda: _content(path))
        entries = safetensors.deserialize(content)
    except UnreadableError:
        raise
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path} is not a readable file of weights: {error}") from error
    header, data = _split(content)
    metadata = json.loads(header[8:]).get("__metadata__", {})
    if _DIGEST not in metadata:
        raise CheckpointError(
            f"{path} has no checksum of delira.io.save_weights, so damage to it would not be seen. If you trust it: "
            "delira.models.load_named_weights(network, safetensors.numpy.load_file(path))"
        )
    digest = metadata[_DIGEST].encode()
    if _sha256(header.replace(digest, _BLANK, 1), data) != digest:
        raise CheckpointError(f"{path} is damaged: its SHA-256 is not the one it was written with; use another copy")
    return {name: _array(path, name, entry) for name, entry in entries}, metadata["network"]


def _content(path: str | Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def _split(content: bytes) -> tuple[bytes, memoryview]:
    """Return the header with its length before it, and the arrays."""
    end = 8 + int.from_bytes(content[:8], "little")
    return content[:end], memoryview(content)[end:]


def _sha256(header: bytes, data: memoryview) -> bytes:
    total = hashlib.sha256(header)
    total.update(data)
    return total.hexdigest().encode()


def _array(path: str | Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    dtype = _TYPES[entry["dtype"]]
    if dtype.startswith(("bfloat", "float8")):
        import_optional("ml_dtypes", f"{path}, whose weight {name!r} is {dtype},", "delira[export]")
    return np.frombuffer(entry["data"], np.dtype(dtype)).reshape(entry["shape"])
