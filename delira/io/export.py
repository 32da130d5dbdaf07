"""A trained network as a file for other programs."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from delira.errors import ConfigError, MissingKeyError
from delira.io.weights import save_weights
from delira.utils.backend_of import find_backend
from delira.utils.files import as_target
from delira.utils.suggest import did_you_mean


def export(
    network: object,
    path: str | Path,
    example: Mapping[str, Any] | None = None,
    *,
    key_mapping: Mapping[str, str] | None = None,
) -> Path:
    """Write a network as it predicts: in evaluation mode, in its own number format, for any number of samples.

    The network is left as it is. The file appears only when it is complete, and holds no values of the example.

    Parameters
    ----------
    network
        The network of a backend.
    path
        Name of the file; an existing one is replaced. Its ending says the format: ``.safetensors`` for the
        weights alone, in every backend (:func:`delira.io.save_weights`); in the PyTorch backend ``.pt2`` for
        ``torch.export.load`` and ``.onnx``; in the TorchScript backend ``.ptj`` for ``torch.jit.load``.
    example
        A batch as a data manager gives it, prepared by the network's ``prepare_batch``; or the network's own
        arguments by name, taken as they are. Arrays with the samples first. Weights alone need none.
    key_mapping
        Argument of the network -> entry of the batch, as in training; the backend's if ``None``.

    Raises
    ------
    ConfigError
        If the backend does not write this format, or the example is missing.
    DataError
        If an input has no axis of samples, or another number of them.
    MissingBackendError
        If a package that the format needs is not installed.
    MissingKeyError
        If the example lacks an entry that ``key_mapping`` reads.
    NetworkError
        If the network, or what it returns, cannot be written in this format.
    """
    backend, path = find_backend(network), as_target(path, is_folder=True)
    if path.suffix == ".safetensors":
        return save_weights(network, path)
    if not isinstance(example, Mapping):
        raise ConfigError(
            f"exporting to {str(path)!r} needs example=batch, a dict of arrays with the samples first, got {example!r}"
        )
    backend.export.write(network, path, _inputs(network, backend, example, key_mapping))
    return path


def _inputs(
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
