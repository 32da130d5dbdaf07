"""Trained networks as a file for other programs: as they predict, or weights alone, by name, in safetensors."""

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from delira.data_loading.transforms import attached
from delira.errors import (
    CheckpointError,
    ConfigError,
    MissingKeyError,
    UnreadableError,
    check_flags,
    did_you_mean,
    import_optional,
    noting,
)
from delira.io.program import Part, Program, transformers_of
from delira.utils.files import as_path, as_target, open_regular, publish, read_patiently
from delira.utils.frameworks import find_backend


def export(
    network: object,
    path: str | Path,
    example: Mapping[str, Any] | None = None,
    *,
    key_mapping: Mapping[str, str] | None = None,
    preprocessing: bool = True,
) -> Path:
    """Write a network as it predicts: in evaluation mode, in its own number format, for any number of samples.

    What was fitted to its inputs in its training (``preprocessing=`` of an experiment) is the first layer of the
    program, where it shifts and scales each feature, as ``StandardScaler`` does; else it is refused by name. The
    estimators of scikit-learn take any, as a pipeline. The network is left as it is. The file appears only when it is
    complete, and holds no values of the example.

    Parameters
    ----------
    network
        The network of a backend; or an :class:`delira.Ensemble`, see :meth:`delira.Ensemble.export`.
    path
        Name of the file; an existing one is replaced. Its ending says the format: ``.safetensors`` for the
        weights alone, in every backend (:func:`delira.io.save_weights`); in the PyTorch backend ``.pt2`` for
        ``torch.export.load`` and ``.onnx``; in the TorchScript backend ``.ptj`` for ``torch.jit.load``.
    example
        A batch as a data manager gives it, prepared by the network's ``prepare_batch``; or the network's own
        arguments by name, taken as they are. Arrays with the samples first. Weights alone need none.
    key_mapping
        Argument of the network -> entry of the batch, as in training; the backend's if ``None``.
    preprocessing
        False: without what was fitted to the inputs, which then are to go through it before, also in the example.

    Raises
    ------
    ConfigError
        If the backend does not write this format, the example is missing, or the preprocessing cannot be a layer.
    DataError
        If an input has no axis of samples, or another number of them.
    MissingBackendError
        If a package that the format needs is not installed.
    MissingKeyError
        If the example lacks an entry that ``key_mapping`` reads.
    NetworkError
        If the network, or what it returns, cannot be written in this format.
    """
    check_flags("export", preprocessing=preprocessing)
    if hasattr(type(network), "to_program"):  # several networks, which know how they become one
        if key_mapping is not None or not preprocessing:
            raise ConfigError(f"{network!r} has key_mapping and preprocessing of its own; leave both out")
        return write_program(network.to_program, path, example)  # type: ignore[attr-defined]
    backend, path = find_backend(network), as_target(path, is_folder=True)
    if path.suffix == ".safetensors":
        return save_weights(network, path)
    example = _checked(example, path)
    inputs = inputs_of(network, backend, example, key_mapping)
    fitted = attached(network) if preprocessing else None
    if fitted is None:
        backend.export.write(network, path, inputs)
    else:
        entries = _mapping(network, backend, key_mapping)
        done = transformers_of(network, fitted, entries)
        names = {argument: argument for argument in inputs}
        part = Part(network=network, arguments=names, transformers=done, entries=entries)
        backend.export.write_program(Program(parts=[part]), path, inputs)
    return path


def write_program(
    make: Callable[[Mapping[str, Any]], tuple[Program, dict[str, Any]]],
    path: str | Path,
    example: Mapping[str, Any] | None,
) -> Path:
    """Write several networks as one program.

    Parameters
    ----------
    make
        Makes the program, and its inputs by name, of the example.
    path, example
        As of :func:`export`.

    Raises
    ------
    ConfigError
        As :func:`export` does.
    """
    path = as_target(path, is_folder=True)
    if path.suffix == ".safetensors":
        raise ConfigError(f"{path.name!r} holds the weights of one network; write several by ensemble.save(folder)")
    program, inputs = make(_checked(example, path))
    find_backend(program.parts[0].network).export.write_program(program, path, inputs)
    return path


def _checked(example: Mapping[str, Any] | None, path: Path) -> Mapping[str, Any]:
    if not isinstance(example, Mapping):
        raise ConfigError(
            f"exporting to {str(path)!r} needs example=batch, a dict of arrays with the samples first, got {example!r}"
        )
    return example


def _mapping(network: Any, backend: Any, key_mapping: Mapping[str, str] | None) -> Mapping[str, str]:
    """Argument of the network -> entry of a batch, which its preprocessing is named by."""
    if key_mapping is not None:
        return key_mapping
    with noting(f"its preprocessing is of entries of a batch, {attached(network)!r}"):
        return dict(backend.calls.key_mapping(network))


def inputs_of(
    network: Any, backend: Any, example: Mapping[str, Any], key_mapping: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the network's arguments by name, out of a batch or out of themselves."""
    known = backend.calls.arguments_of(network)
    if key_mapping is not None:
        _check_mapping(key_mapping, type(network).__name__, known)
    else:
        are_arguments = known is None or example.keys() <= known
        try:
            key_mapping = backend.calls.key_mapping(network)
        except ConfigError:
            if not are_arguments:
                raise
            return dict(example)
        if are_arguments and not example.keys() >= set(key_mapping.values()):
            return dict(example)
    _check(key_mapping, example, "the example")
    devices = backend.devices.of(network)
    prepared = network.prepare_batch(example, devices.input, devices.output)
    _check(key_mapping, prepared, "what prepare_batch made of the example")
    return {argument: prepared[key] for argument, key in key_mapping.items()}


def _check_mapping(key_mapping: Any, network: str, known: Collection[str] | None) -> None:
    is_dict = isinstance(key_mapping, Mapping)
    if not is_dict or not all(isinstance(name, str) for pair in key_mapping.items() for name in pair):
        raise ConfigError(
            f"export: key_mapping is a dict, argument of the network -> entry of the batch, got {key_mapping!r}"
        )
    if known is not None and (unknown := [name for name in key_mapping if name not in known]):
        raise ConfigError(
            f"export: key_mapping={dict(key_mapping)} names {unknown[0]!r}, which is no argument of "
            f"{network}; it takes {sorted(known)}{did_you_mean(unknown[0], known)}"
        )


def _check(key_mapping: Mapping[str, str], batch: Mapping[str, Any], what: str) -> None:
    if missing := [key for key in key_mapping.values() if key not in batch]:
        raise MissingKeyError(
            f"key_mapping={dict(key_mapping)} reads {missing[0]!r}, but {what} has only {sorted(batch)}; "
            "give a batch with this entry, or key_mapping={argument of the network: entry of the batch}"
        )


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
