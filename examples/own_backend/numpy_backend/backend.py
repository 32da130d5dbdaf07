"""The roles of the backend; that of the optimizers is in ``optimizers.py``."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy_autograd import BatchNorm, Module, Tensor, recording, save_program
from numpy_autograd import random as framework_random
from threadpoolctl import threadpool_limits

from delira.contract import (
    ArraysRole,
    Backend,
    CallsRole,
    CheckpointsRole,
    DevicesRole,
    ExportRole,
    GeneratorsRole,
    Step,
    StepRole,
    WeightsRole,
    run_hooks,
)
from delira.errors import ConfigError, NetworkError
from delira.models.weights import check_named_weights
from delira.utils.arrays import map_leaves
from delira.utils.files import publish
from numpy_backend.optimizers import NumpyOptimizers, load_optimizer_states, optimizer_states, total


class NumpyDevices(DevicesRole):
    """The CPU."""

    def threads(self, number: int | None) -> AbstractContextManager[Any]:
        return contextlib.nullcontext() if number is None else threadpool_limits(number)


class NumpyCalls(CallsRole):
    """Networks are modules with a forward."""

    def training(self, network: Module) -> AbstractContextManager[None]:
        return _mode(network, is_training=True)

    def evaluating(self, network: Module) -> AbstractContextManager[None]:
        return _mode(network, is_training=False)


class NumpyStep(StepRole):
    """Gradients are kept at the parameters."""

    def learn(self, optimizer: Any, step: Step, compute: Callable[[Step], Step], backward: Sequence[Any]) -> None:
        compute(step)
        optimizer.differentiate(total(step.losses))
        run_hooks(backward, step)
        optimizer.step()

    def values(self, step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
        return map_leaves(_detached, step.predictions), map_leaves(_detached, step.losses)

    def measure(self, *what: Any) -> dict[str, Any]:
        with recording(False):
            return super().measure(*what)


class NumpyArrays(ArraysRole):
    """Tensors."""

    kinds = (Tensor,)

    @staticmethod
    def array(value: Any) -> Any:
        return value.data if isinstance(value, Tensor) else value

    @staticmethod
    def join(arrays: Sequence[Tensor]) -> Tensor:
        return Tensor(np.concatenate([array.data for array in arrays]))


class NumpyGenerators(GeneratorsRole):
    """The framework's one."""

    def seed(self, seed: int) -> None:
        framework_random.seed(seed)

    def state(self) -> Any:
        state = framework_random.GENERATOR.bit_generator.state
        # 128 bits each, more than other readers of JSON take for a number
        return {**state, "state": {name: str(number) for name, number in state["state"].items()}}

    def set_state(self, state: Any) -> None:
        numbers = {name: int(number) for name, number in state["state"].items()}
        framework_random.GENERATOR.bit_generator.state = {**state, "state": numbers}


class NumpyWeights(WeightsRole):
    """Tensors of modules by name."""

    def learned_names(self, network: Module) -> frozenset[str]:
        return frozenset(name for name, parameter in network.named_parameters() if parameter.requires_grad)

    def set_learned_names(self, network: Module, names: frozenset[str]) -> None:
        for name, parameter in network.named_parameters():
            parameter.requires_grad = name in names

    def averaged(self, network: Module) -> dict[str, np.ndarray]:
        return {name: parameter.data for name, parameter in network.named_parameters()}

    def statistics_names(self, network: Module) -> frozenset[str]:
        kept = {id(one) for layer in _normalising(network) for one in (layer.running_mean, layer.running_var)}
        return frozenset(name for name, tensor in network.named_tensors() if id(tensor) in kept)

    def renew_statistics(self, network: Module, calls: Iterable[Callable[[], Any]]) -> None:
        layers = _normalising(network)
        before = [layer.momentum for layer in layers]
        try:
            for number, call in enumerate(calls, 1):
                for layer in layers:
                    layer.momentum = 1 / number
                call()
        finally:
            for layer, momentum in zip(layers, before, strict=True):
                layer.momentum = momentum

    def named(self, network: Module) -> dict[str, np.ndarray]:
        return {name: tensor.data.copy() for name, tensor in network.named_tensors()}

    def load_named(self, network: Module, weights: Mapping[str, np.ndarray]) -> None:
        check_weights(network, weights)
        for name, tensor in network.named_tensors():
            tensor.data[...] = weights[name]

    def portable(self, network: Module) -> dict[str, np.ndarray]:
        return {name: _transposed(array) for name, array in self.named(network).items()}

    def load_portable(self, network: Module, weights: Mapping[str, np.ndarray]) -> None:
        self.load_named(network, {name: _transposed(array) for name, array in weights.items()})


class NumpyCheckpoints(CheckpointsRole):
    """States in the common container."""

    def state_tree(self, network: Module, optimizers: Mapping[str, Any]) -> dict[str, Any]:
        model = {name: tensor.data for name, tensor in network.named_tensors()}
        return {"model": model, "optimizer": optimizer_states(optimizers)}

    def load_state_tree(self, tree: Mapping[str, Any], network: Module, optimizers: Mapping[str, Any]) -> None:
        weights = tree.get("model", {})
        check_weights(network, weights)
        load_optimizer_states(tree, optimizers)
        self.backend.weights.load_named(network, weights)


class NumpyExport(ExportRole):
    """Programs of the framework."""

    def write(self, network: Module, path: Path, example: Mapping[str, Any]) -> None:
        if path.suffix != ".npz":
            raise ConfigError(f"{path}: this backend writes .npz (for numpy_autograd.run_program) and .safetensors")
        with self.backend.calls.evaluating(network):
            outputs = network(**example)
            if not all(isinstance(value, Tensor) for value in [*example.values(), *outputs.values()]):
                raise NetworkError(f"{type(network).__name__} has nested inputs or outputs, which .npz cannot hold")
            publish(path, lambda file: save_program(file, network, example))


class NumpyBackend(Backend):
    """``numpy_autograd``, on the CPU."""

    name = "numpy_autograd"
    checkpoint_suffix = ".zip"
    roles = (
        NumpyDevices,
        NumpyCalls,
        NumpyStep,
        NumpyOptimizers,
        NumpyArrays,
        NumpyGenerators,
        NumpyWeights,
        NumpyCheckpoints,
        NumpyExport,
    )


def check_weights(network: Module, weights: Mapping[str, Any]) -> None:
    """Refuse weights of another network."""
    own = {name: (tensor.shape, tensor.dtype.name) for name, tensor in network.named_tensors()}
    check_named_weights(network, own, weights)


def _normalising(network: Module) -> list[BatchNorm]:
    """The layers that follow the data."""
    return [layer for layer in network.modules() if isinstance(layer, BatchNorm)]


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _transposed(array: np.ndarray) -> np.ndarray:
    """Matrices are (inputs, outputs) here, and (outputs, inputs) where backends exchange weights."""
    return np.ascontiguousarray(array.T) if array.ndim == 2 else array


@contextlib.contextmanager
def _mode(network: Module, is_training: bool) -> Iterator[None]:
    """Scope in which the network learns or only predicts; every layer has its own mode back afterwards."""
    modes = [(module, module.is_training) for module in network.modules()]
    with recording(is_training):
        try:
            for module, _ in modes:
                module.is_training = is_training
            yield
        finally:
            for module, before in modes:
                module.is_training = before


BACKEND = NumpyBackend()
