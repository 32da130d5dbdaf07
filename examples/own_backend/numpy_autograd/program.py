"""Networks as files: the operations of one prediction, in order, and the numbers they need."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from numpy_autograd.operations import OPERATIONS
from numpy_autograd.tensor import Tensor, history, recording


def save_program(file: BinaryIO, network: Callable[..., Mapping[str, Tensor]], example: Mapping[str, Any]) -> None:
    """Write what a network does with its arguments to an ``.npz`` file.

    Parameters
    ----------
    file
        An open file.
    network
        Takes arguments by name and returns named tensors.
    example
        Its arguments; the file holds none of their numbers, and is good for any number of samples.
    """
    with recording(True):
        inputs = {name: Tensor(np.asarray(value)) for name, value in example.items()}
        outputs = network(**inputs)
    tensors = history(*outputs.values())
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    names = {id(tensor): name for name, tensor in inputs.items()}
    arrays: dict[str, np.ndarray] = {}
    steps: list[dict[str, Any]] = []
    for number, tensor in enumerate(tensors):
        if id(tensor) in names:
            steps.append({"input": names[id(tensor)]})
        elif tensor.operation is None:
            arrays[f"array_{number}"] = tensor.data
            steps.append({"array": f"array_{number}"})
        else:
            sources = [numbers[id(source)] for source in tensor.inputs]
            steps.append({"operation": tensor.operation, "inputs": sources, "constants": tensor.constants})
    program = {"steps": steps, "outputs": {name: numbers[id(tensor)] for name, tensor in outputs.items()}}
    np.savez(file, program=np.array(json.dumps(program)), **arrays)  # type: ignore[arg-type]


def run_program(path: str | Path, **inputs: Any) -> dict[str, np.ndarray]:
    """Predict with a file of :func:`save_program`.

    Parameters
    ----------
    path
        The file.
    **inputs
        The arguments of the network, as arrays.
    """
    with np.load(path, allow_pickle=False) as file:
        program, values = json.loads(str(file["program"])), []
        for step in program["steps"]:
            if "input" in step:
                values.append(np.asarray(inputs[step["input"]]))
            elif "array" in step:
                values.append(file[step["array"]])
            else:
                sources = [values[number] for number in step["inputs"]]
                values.append(OPERATIONS[step["operation"]].forward(*sources, **step["constants"]))
    return {name: values[number] for name, number in program["outputs"].items()}
