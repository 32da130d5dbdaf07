"""Files of TorchScript: ``<name>_model.ptj``, the network as a program, and ``<name>_trainer_state.pt``.

``torch.jit.load`` builds the modules that the file describes, and may run TorchScript of it while it does so; the
program itself runs when the network is called. It has no access to Python, but it can compute without end and fill the
memory: load programs of people you trust only. A training that continues reads the trainer state alone, which
holds the weights too and executes nothing.
"""

import copy
import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from delira.backends.torch import export as exports
from delira.backends.torch.checkpoints import check_location, read_checkpoint, states_of, write_checkpoint
from delira.contract.export import check_samples
from delira.contract.kinds import ByName, Network
from delira.errors import CheckpointError, ConfigError
from delira.io.checkpoint import BESIDE, digest_of
from delira.io.container import check_model, verify_zip
from delira.io.program import Program
from delira.utils.arrays import map_leaves
from delira.utils.files import as_path, as_target, open_regular, publish, read_patiently

#: endings of the two files
MODEL, STATE = "_model.ptj", "_trainer_state.pt"
#: further endings of names that users give
OTHERS = (MODEL, ".pth", ".ptj", ".pt")


def write_program(file: BinaryIO, network: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Write the network as it predicts, for the CPU, with other weights than its own.

    Parameters
    ----------
    file
        An open file.
    network
        The network; it is left as it is.
    weights
        Its state as in a checkpoint.
    """
    program = _copied(network)
    program.load_state_dict(weights)
    file.write(program.save_to_buffer())  # torch.jit.save warns that it is deprecated, which nobody can change here


def _copied(network: torch.nn.Module) -> Any:
    """A copy on the CPU, in evaluation mode, of which the same weights can be learned."""
    with torch.no_grad():  # else the copied weights are results of a computation
        program = copy.deepcopy(network).cpu().eval()
    learned = {name for name, weight in network.named_parameters() if weight.requires_grad}
    for name, weight in program.named_parameters():
        weight.requires_grad_(name in learned)
    return program


def export(network: torch.nn.Module, path: Path, example: ByName) -> None:
    """Write the network as a program that ``torch.jit.load`` runs without delira, for the CPU.

    Parameters
    ----------
    network
        The network; it is left as it is.
    path
        A file ending in ``.ptj``.
    example
        Arguments of the network by name, on which it is tried.
    """
    _check_ending(path)
    inputs = map_leaves(exports.on_cpu, example)
    check_samples(inputs, (torch.Tensor,))
    program = _copied(network)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        exports.tried(program, inputs)
    # not the one that was tried: running it leaves marks of the profiling executor
    publish(path, lambda file: file.write(_copied(network).save_to_buffer()))


def export_program(program: Program, path: Path, example: ByName) -> None:
    """Write networks, with what is done to their inputs, as one program, as :func:`export` does one network.

    Parameters
    ----------
    program
        The networks, which are left as they are.
    path
        A file ending in ``.ptj``.
    example
        Inputs of the program by name.
    """
    _check_ending(path)
    inputs = map_leaves(exports.on_cpu, example)
    check_samples(inputs, (torch.Tensor,))
    copied = [dataclasses.replace(part, network=_copied(part.network)) for part in program.parts]
    module = exports.joined(dataclasses.replace(program, parts=copied), inputs).eval()
    # traced around the networks, which stay the scripts that they are; two samples, as one might be taken for fixed
    empty = map_leaves(lambda leaf: leaf.new_zeros((2, *leaf.shape[1:])), inputs)
    with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"):
        exports.tried(module, inputs)
        traced = torch.jit.trace(module, example_kwarg_inputs=empty, strict=False)
    publish(path, lambda file: file.write(traced.save_to_buffer()))


def _check_ending(path: Path) -> None:
    if path.suffix != ".ptj":
        raise ConfigError(
            f"TorchScript networks are not exported to {path.name!r}: the ending says the format, which is '.ptj' "
            "(torch.jit.load), or '.safetensors' (weights only); for '.pt2' and '.onnx' put the weights into a network "
            "of the PyTorch backend: load_named_weights(network, named_weights(this_one))"
        )
    as_target(path)


def save_checkpoint_torchscript(
    file: str | Path, model: Network = None, optimizers: ByName | None = None, epoch: int | None = None, **extra: Any
) -> Path:
    """Write ``<file>_model.ptj`` and, if there are optimizers or an epoch, ``<file>_trainer_state.pt``.

    The trainer state is written last and names the checksum of the model's file.

    Parameters
    ----------
    file
        Name of the pair; the endings ``.pt``, ``.pth`` and ``.ptj`` are taken off.
    model
        A ``torch.jit.ScriptModule``; it is saved as it is, on its device and in its mode.
    optimizers
        Optimizers by name.
    epoch
        Number of finished epochs.
    **extra
        Further plain values or tensors to keep in the trainer state.

    Returns
    -------
    Path
        The name without endings.

    Raises
    ------
    ConfigError
        If an argument is of no use, e.g. ``file`` is a folder.
    CheckpointError
        If there is what a checkpoint cannot hold; it names the place.
    """
    owner = "save_checkpoint_torchscript"
    check_model(owner, model, torch.jit.ScriptModule | None, "a torch.jit.ScriptModule")
    states = states_of(owner, optimizers, epoch)
    base = _base(as_path(file, "file"))
    for ending in (MODEL, STATE):
        as_target(_with(base, ending), "file")
    tree: dict[str, Any] = {"optimizer": states, "epoch": epoch, **extra}
    if model is not None:
        path = publish(_with(base, MODEL), lambda opened: opened.write(model.save_to_buffer()))
        tree[BESIDE] = {MODEL: digest_of(path)}
    if optimizers or epoch is not None or extra:
        publish(_with(base, STATE), lambda opened: write_checkpoint(opened, tree))
    return base


def load_checkpoint_torchscript(file: str | Path, map_location: object = "cpu") -> dict[str, Any]:
    """Verify and read a pair of files of :func:`save_checkpoint_torchscript` or of a training.

    Parameters
    ----------
    file
        Name of the pair; the endings ``.pt``, ``.pth`` and ``.ptj`` are taken off.
    map_location
        Where the tensors go, as ``torch.load`` takes it.

    Returns
    -------
    dict
        The trainer state, or ``{"optimizer": {}, "epoch": None}`` where there is none; ``"model"`` is the program, if
        there is one. It trains and predicts, but is no ``AbstractTorchScriptNetwork``: load its ``state_dict()`` into
        one to get ``closure`` and ``prepare_batch`` back. TorchScript of the file may run while it is loaded.

    Raises
    ------
    ConfigError
        If ``file`` is no path, or ``map_location`` no device.
    CheckpointError
        If both files are missing, one is damaged, or the two do not belong together.
    """
    check_location(map_location)
    base = _base(as_path(file, "file"))
    model, state = _with(base, MODEL), _with(base, STATE)
    if not model.exists() and not state.exists():
        raise CheckpointError(f"there is no checkpoint called {base}: neither {model.name} nor {state.name}")
    tree: dict[str, Any] = {"optimizer": {}, "epoch": None}
    if state.exists():
        verify_zip(state)
        tree = read_checkpoint(state, map_location)
    if model.exists():
        verify_zip(model, compressed=True)
        digest = tree.get(BESIDE, {}).get(MODEL)
        if digest is not None and digest != digest_of(model):
            raise CheckpointError(
                f"{model} is not the file that {state.name} was written with; the run was broken off between the two, "
                "or one of them was replaced. If you want the model alone, load it with torch.jit.load"
            )
        tree["model"] = read_patiently(model, lambda: _load_program(model, map_location))
    return tree


def _load_program(path: Path, map_location: object) -> Any:
    with open_regular(path) as file:  # PyTorch's own words for a file that it may not open do not say why
        return torch.jit.load(file, map_location=map_location)


def _base(path: Path) -> Path:
    ending = next((ending for ending in (STATE, *OTHERS) if path.name.endswith(ending)), "")
    return path.with_name(path.name.removesuffix(ending)) if path.name != ending else path


def _with(base: Path, ending: str) -> Path:
    return base.with_name(base.name + ending)
