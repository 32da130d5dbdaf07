"""Networks as ``.stablehlo`` files: programs that ``jax.export`` reads, without delira and flax."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export as programs

from delira.backends.jax import graph
from delira.contract import ByName, ExportRole, named_outputs
from delira.contract.export import check_samples, noting
from delira.errors import ConfigError, DataError, import_optional
from delira.io.program import Program
from delira.utils.arrays import map_leaves
from delira.utils.files import as_target, publish

#: kinds of device that the program can start on
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


class JaxExport(ExportRole):
    """Programs of StableHLO."""

    def write(self, network: object, path: Path, example: ByName) -> None:
        """Write the network, as it predicts, for any number of samples.

        The program takes its inputs and gives its outputs as dicts by name::

            from jax import export

            program = export.deserialize(bytearray(open("net.stablehlo", "rb").read()))
            predictions = program.call({"x": array})

        Parameters
        ----------
        network
            The network; its weights become constants of the program.
        path
            A file ending in ``.stablehlo``.
        example
            Arguments of the network by name: arrays with the samples first, or dicts of them; only shapes and types
            are looked at.

        Raises
        ------
        ConfigError
            If the ending is another one.
        DataError
            If the inputs have no samples first, or not the same number of them.
        MissingBackendError
            If flatbuffers is not installed.
        """
        note = type(network).__name__
        _write([network], lambda copied, given: named_outputs(network, copied[0](**given)), path, example, note)

    def write_program(self, program: Program, path: Path, example: ByName) -> None:
        _write(program.networks, program.compute, path, example, "the program")


def _write(
    networks: Sequence[Any],
    compute: Callable[[Sequence[Any], ByName], ByName],
    path: Path,
    example: ByName,
    name: str,
) -> None:
    """Write what ``compute(networks, inputs)`` says; ``name`` is for messages."""
    if path.suffix != ".stablehlo":
        raise ConfigError(
            f"JAX networks are not exported to {path.name!r}: the ending says the format, which is '.stablehlo' "
            "(jax.export), or '.safetensors' (weights only)"
        )
    as_target(path)
    # jax.export fails without, at the end
    import_optional("flatbuffers", f"exporting to {path.name!r}", "delira[jax]")
    inputs = map_leaves(_as_array, example)
    check_samples(inputs, (jax.Array, np.ndarray))
    (batch,) = programs.symbolic_shape("batch")
    shapes = map_leaves(lambda leaf: jax.ShapeDtypeStruct((batch, *leaf.shape[1:]), leaf.dtype), inputs)
    with contextlib.ExitStack() as stack:
        for network in networks:
            stack.enter_context(graph.mode(network, learns=False))
        apart = [graph.parts_of(network) for network in networks]
        moulds = [(graph.Mould.of(parts), _on_host(parts.values())) for parts in apart]

        def predict(arguments: dict[str, Any]) -> dict[str, Any]:
            copied = [mould.build(values, jax.random.key(0)) for mould, values in moulds]
            return dict(compute(copied, arguments))

        with noting(
            f"while jax.export traced {name}: what its __call__ does may not depend on values or on the number of "
            "samples",
            spared=(ConfigError, DataError),
        ):
            program = programs.export(jax.jit(predict), platforms=PLATFORMS)(dict(shapes))
    content = program.serialize()
    publish(path, lambda file: file.write(content))


def _on_host(values: Sequence[Any]) -> list[Any]:
    return [None if value is None else np.asarray(value) for value in values]


def _as_array(value: object) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return value.astype(jax.dtypes.canonicalize_dtype(value.dtype))
    return value
