"""Networks as ``.pt2`` and ``.onnx`` files."""

import copy
import glob
import hashlib
import inspect
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from delira.contract import ByName, ExportRole, named_outputs
from delira.contract.export import check_samples, noting, quiet
from delira.errors import ConfigError, NetworkError, import_optional
from delira.io.program import Program
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.files import as_target, publish

#: bytes above which the weights of an ``.onnx`` file lie beside it: protobuf reads no message of 2 GiB
_MAX_BYTES = 2**31 - 2**24

#: smaller weights stay in the file even then
_MIN_BYTES_BESIDE = 1024

#: their loggers tell what the exporters miss, e.g. torchvision's operators
_CHATTY = ("torch.export", "torch.onnx", "onnxscript", "onnx_ir")


class TorchExport(ExportRole):
    """Programs in the formats of ``torch.export`` and of ONNX."""

    def write(self, network: torch.nn.Module, path: Path, example: ByName) -> None:
        """Write the network as a program that runs without delira; ``path`` says the format by its ending.

        It is written for the CPU, on which every program of these formats can start; the network itself may be
        anywhere.

        Parameters
        ----------
        network
            The network; a copy of it is traced.
        path
            A file ending in ``.pt2`` or ``.onnx``.
        example
            Arguments of the network by name: tensors or arrays with the samples first, or dicts of them.
        """
        if path.suffix not in (".pt2", ".onnx"):
            raise ConfigError(
                f"PyTorch networks are not exported to {path.name!r}: the ending says the format, which is '.pt2' "
                "(torch.export), '.onnx', or '.safetensors' (weights only)"
            )
        as_target(path)
        if path.suffix == ".onnx":
            import_optional("onnxscript", f"exporting to {path.name!r}", "delira[export]")
        inputs = map_leaves(on_cpu, example)
        check_samples(inputs, (torch.Tensor,))
        # tracing runs the network's Python, and must not find the original's state, mode or device
        with noting(f"while {type(network).__name__} was copied for its export"):
            network = copy.deepcopy(network).cpu().eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            outputs = tried(network, inputs)
            with quiet(_CHATTY), warnings.catch_warnings(action="ignore"):
                program = _traced(network, inputs)
                if path.suffix == ".onnx":
                    _write_onnx(program, inputs, outputs, path)
                else:
                    publish(path, lambda file: torch.export.save(program, file))

    def write_program(self, program: Program, path: Path, example: ByName) -> None:
        self.write(joined(program, example), path, example)


class _Joined(torch.nn.Module):
    """The networks of a program as one."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.networks = torch.nn.ModuleList(program.networks)

    def compute(self, inputs: ByName) -> dict[str, Any]:
        return self.program.compute([*self.networks], inputs)


def joined(program: Program, inputs: Iterable[str]) -> torch.nn.Module:
    """A program as a module whose ``forward`` takes these inputs by name."""

    def forward(self: Any, **inputs: Any) -> dict[str, Any]:
        return self.compute(inputs)  # type: ignore[no-any-return]

    # those that trace it ask for the names of its arguments
    names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *inputs)]
    forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    module: torch.nn.Module = type("Joined", (_Joined,), {"forward": forward})(program)
    return module


def on_cpu(value: object) -> Any:
    """An array or tensor as a tensor on the CPU, float64 arrays as float32; other values as they are."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        tensor = torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("=")))
        return tensor.float() if tensor.dtype is torch.float64 else tensor
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def tried(network: torch.nn.Module, inputs: ByName) -> ByName:
    """What the network returns for the first samples: that it does not take the example is said by its own error."""
    with noting(f"while {type(network).__name__} was tried on the example"):
        return named_outputs(network, network(**map_leaves(lambda leaf: leaf[:2], inputs)))


def _traced(network: torch.nn.Module, inputs: ByName) -> Any:
    """The network as a ``torch.export.ExportedProgram`` in which only the number of samples is open."""
    batch = torch.export.Dim("batch")
    # the file keeps what the network was traced with: no sample of anybody, and not 1, which would be taken for fixed
    empty = map_leaves(lambda leaf: leaf.new_zeros((2, *leaf.shape[1:])), inputs)
    with noting(
        f"while torch.export traced {type(network).__name__}: what its forward does may not depend on values or on the "
        "number of samples"
    ):
        return torch.export.export(network, (), empty, dynamic_shapes=map_leaves(lambda leaf: {0: batch}, inputs))


def _names(tree: ByName) -> dict[str, Any]:
    """What a tree holds by dotted names."""
    return {".".join(map(str, place)): leaf for place, leaf in iterate_leaves(tree)}


def _write_onnx(program: Any, inputs: ByName, outputs: ByName, path: Path) -> None:
    """Convert, name inputs and outputs (nested ones with dots) and write."""
    names, output_names = _names(inputs), _names(outputs)
    for name, leaf in output_names.items():
        if not isinstance(leaf, torch.Tensor):
            raise NetworkError(f"output {name!r} is a {type(leaf).__name__}; in ONNX every output is a tensor")
    if shared := sorted(names.keys() & output_names.keys()):
        raise NetworkError(
            f"{shared[0]!r} is both an input and an output; in ONNX every name is there once, so give the output "
            "another one"
        )
    with noting(f"while torch.onnx wrote {path}"):
        converted: Any = torch.onnx.export(program, verbose=False)
        _rename(converted.model.graph, [*names], [*output_names])
        _publish_onnx(converted.model_proto, path)


def _rename(graph: Any, inputs: list[str], outputs: list[str]) -> None:
    """Give inputs and outputs their names; values inside that have one of these names already get another."""
    taken = {*inputs, *outputs}
    for value in [value for node in graph.all_nodes() for value in node.outputs] + list(graph.initializers.values()):
        if value.name in taken and not value.is_graph_output():
            value.name = f"inside/{value.name}"
    for value, name in zip((*graph.inputs, *graph.outputs), (*inputs, *outputs), strict=True):
        value.name = name


def _publish_onnx(proto: Any, path: Path) -> None:
    """Write the model; weights that are too much for one message go to a file beside it first."""
    _name_batch_axis(proto.graph)
    weights = proto.graph.initializer
    beside = None
    if sum(len(tensor.raw_data) for tensor in weights) > _MAX_BYTES:
        large = [tensor for tensor in weights if len(tensor.raw_data) >= _MIN_BYTES_BESIDE]
        # named by its content: the previous model keeps its own until the new one is there
        digest = hashlib.sha256()
        for tensor in large:
            digest.update(tensor.raw_data)
        beside = path.with_name(f"{path.name}.{digest.hexdigest()[:16]}.data")
        helper = import_optional("onnx.external_data_helper", f"exporting to {beside.name!r}", "delira[export]")
        publish(beside, lambda file: file.writelines(tensor.raw_data for tensor in large))
        offset = 0
        for tensor in large:
            length = len(tensor.raw_data)
            helper.set_external_data(tensor, beside.name, offset, length)
            tensor.ClearField("raw_data")
            offset += length
    publish(path, lambda file: file.write(proto.SerializeToString()))
    for old in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 16}.data"):
        if old != beside:
            old.unlink()


def _name_batch_axis(graph: Any) -> None:
    """Call the open axis ``batch`` instead of ``s77``."""
    symbol = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if symbol and axis.dim_param:
                axis.dim_param = axis.dim_param.replace(symbol, "batch")
