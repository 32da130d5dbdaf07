"""Networks as SavedModels: folders that TensorFlow, TensorFlow Serving and others read."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.runtime import calls, mode
from delira.backends.tensorflow.weights import refuse_lazy
from delira.contract import ByName, ExportRole, Network, named_outputs
from delira.contract.export import check_samples, noting, quiet
from delira.errors import ConfigError, DataError, NetworkError
from delira.io.program import Program
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.files import make_folder, sync_folder


class TfExport(ExportRole):
    """SavedModels."""

    def write(self, network: Network, path: Path, example: ByName) -> None:
        """Write the network as a SavedModel; the folder appears only when it is complete.

        ``tf.saved_model.load(path).signatures["serving_default"](**arrays)`` predicts; so does ``serve`` of what is
        loaded.

        Parameters
        ----------
        network
            The network.
        path
            A folder, whose name has no ending, or ``.savedmodel`` or ``.tf``.
        example
            Arguments of the network by name: tensors or arrays with the samples first.
        """
        _write([network], lambda inputs: named_outputs(network, network(**inputs)), path, example)

    def write_program(self, program: Program, path: Path, example: ByName) -> None:
        networks = program.networks
        _write(networks, lambda inputs: program.compute(networks, inputs), path, example)


def _write(
    networks: Sequence[Network], compute: Callable[[dict[str, Any]], ByName], path: Path, example: ByName
) -> None:
    """Write what ``compute(inputs)`` says, in which the networks are called."""
    if path.suffix not in ("", ".savedmodel", ".tf"):
        raise ConfigError(
            f"TensorFlow networks are not exported to {path.name!r}: a SavedModel is a folder whose name has no "
            "ending, or '.savedmodel'; '.safetensors' holds the weights only"
        )
    if path.is_file():
        raise ConfigError(f"{str(path)!r} is a file, and a SavedModel is a folder; choose another name")
    inputs = map_leaves(_tensor, dict(example))
    check_samples(inputs, (tf.Tensor,))
    note = f"while {type(networks[0]).__name__} was exported"
    with contextlib.ExitStack() as stack:
        stack.enter_context(GENERATORS.undisturbed())
        for network in networks:
            stack.enter_context(mode(network, False))
        stack.enter_context(noting(note, spared=(ConfigError, DataError, NetworkError)))
        outputs = compute(map_leaves(lambda leaf: leaf[:2], inputs))
        for network in networks:
            refuse_lazy(network, NetworkError, "so it cannot be exported")
        for name, value in outputs.items():
            if not isinstance(value, tf.Tensor):
                raise NetworkError(
                    f"output {name!r} is a {type(value).__name__}; in a SavedModel every output of the network is "
                    "a tensor"
                )
        _publish(_archive(networks, compute, inputs), path)


def _tensor(value: object) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return tf.convert_to_tensor(value.astype(np.float32) if value.dtype == np.float64 else value)
    return value


def _archive(networks: Sequence[Network], compute: Callable[[dict[str, Any]], ByName], inputs: ByName) -> tf.Module:
    """A module with one function, for any number of samples."""
    module = tf.Module()
    module.networks = [*networks]
    flat = {".".join(map(str, place)): leaf for place, leaf in iterate_leaves(inputs)}
    specs = {
        name: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype, name=name.replace(".", "_"))
        for name, leaf in flat.items()
    }

    def serve(**given: Any) -> dict[str, Any]:
        arguments = tf.nest.pack_sequence_as(dict(inputs), [given[name] for name in sorted(given)])
        with calls(networks[0], False):
            return dict(compute(arguments))

    module.serve = tf.function(serve, autograph=False)
    module.signature = module.serve.get_concrete_function(**specs)
    return module


def _publish(module: tf.Module, path: Path) -> None:
    """Write beside the folder and exchange the two."""
    if not path.parent.is_dir():
        make_folder(path.parent)
    waiting = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        with quiet(["tensorflow"]):
            tf.saved_model.save(module, str(waiting / "new"), signatures={"serving_default": module.signature})
        if path.exists():
            os.replace(path, waiting / "old")
        os.replace(waiting / "new", path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
