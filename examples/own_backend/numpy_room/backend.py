"""The verbs of the contract."""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy_autograd import BatchNorm, Module, Parameter, StepDecay, Tensor, recording, save_program
from numpy_autograd import random as framework_random
from threadpoolctl import threadpool_limits

from delira.contract import Backend, Devices, Step, run_hooks
from delira.errors import ConfigError, NetworkError
from delira.models.weights import check_named_weights
from delira.utils.files import publish
from delira.utils.trees import map_leaves
from numpy_room import updates
from numpy_room.schedules import ScheduleCallback


class NumpyBackend(Backend):
    """``numpy_autograd``, on the CPU."""

    name = "numpy_autograd"
    checkpoint_suffix = ".zip"

    # ------------------------------------------------------------------ to train at all

    def devices(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        if gpu_ids or device not in (None, "auto", "cpu"):
            raise ConfigError(
                f"numpy_autograd computes on the CPU only, got gpu_ids={list(gpu_ids)}, device={device!r}"
            )
        return Devices("cpu", "cpu")

    def devices_of(self, network: Module) -> Devices:
        return Devices("cpu", "cpu")

    def place(self, network: Module, losses: Mapping[str, Any], devices: Devices) -> Module:
        return network

    def training(self, network: Module) -> AbstractContextManager[None]:
        return _mode(network, is_training=True)

    def evaluating(self, network: Module) -> AbstractContextManager[None]:
        return _mode(network, is_training=False)

    def key_mapping(self, network: Module) -> dict[str, str]:
        parameters = inspect.signature(network.forward).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        if len(needed) != 1:
            raise ConfigError(
                f"{type(network).__name__}.forward takes {[p.name for p in parameters]}, so it is not clear which of "
                "them gets the batch entry 'data'; pass key_mapping={argument: batch entry}"
            )
        return {needed[0]: "data"}

    def arguments_of(self, network: Module) -> frozenset[str] | None:
        parameters = inspect.signature(network.forward).parameters
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if is_open else frozenset(parameters)

    build_optimizers = staticmethod(updates.build_optimizers)

    def learn(self, optimizer: Any, step: Step, compute: Callable[[Step], Step], backward: Sequence[Any]) -> None:
        compute(step)
        optimizer.differentiate(updates.total(step.losses))
        run_hooks(backward, step)
        optimizer.step()

    def values(self, step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
        return map_leaves(_detached, step.predictions), map_leaves(_detached, step.losses)

    def measure(self, *what: Any) -> dict[str, Any]:
        with recording(False):
            return super().measure(*what)

    def learning_rates(self, optimizers: Mapping[str, Any]) -> dict[str, float]:
        return {"lr" if len(optimizers) == 1 else f"lr_{name}": float(o.lr) for name, o in optimizers.items()}

    def to_numpy(self, tree: Any) -> Any:
        return map_leaves(lambda leaf: leaf.data if isinstance(leaf, Tensor) else leaf, tree)

    def read_scalars(self, values: Sequence[Any]) -> np.ndarray:
        if wrong := [np.shape(value) for value in values if np.size(value) != 1]:
            raise NetworkError(
                f"a loss or training metric has the shape {wrong[0]}; the closure returns single numbers"
            )
        return np.array([value.item() if hasattr(value, "item") else value for value in values], dtype=np.float64)

    # ------------------------------------------------------------------ to begin and go on with the same bits

    def seed(self, seed: int) -> None:
        framework_random.seed(seed)

    def generator_state(self) -> Any:
        state = framework_random.GENERATOR.bit_generator.state
        # 128 bits each, more than other readers of JSON take for a number
        return {**state, "state": {name: str(number) for name, number in state["state"].items()}}

    def set_generator_state(self, state: Any) -> None:
        numbers = {name: int(number) for name, number in state["state"].items()}
        framework_random.GENERATOR.bit_generator.state = {**state, "state": numbers}

    def state_tree(self, network: Module, optimizers: Mapping[str, Any]) -> dict[str, Any]:
        model = {name: tensor.data for name, tensor in network.named_tensors()}
        return {"model": model, "optimizer": updates.optimizer_states(optimizers)}

    def load_state_tree(self, tree: Mapping[str, Any], network: Module, optimizers: Mapping[str, Any]) -> None:
        self._check(network, tree.get("model", {}))
        updates.load_optimizer_states(tree.get("optimizer", {}), optimizers)
        self._fill(network, tree["model"])

    # ------------------------------------------------------------------ updates as they are asked for

    @contextlib.contextmanager
    def step_scope(
        self, optimizers: Mapping[str, Any], n_samples: int, is_last: bool, part: bool = False
    ) -> Iterator[None]:
        for optimizer in optimizers.values():
            optimizer.begin(n_samples, is_last, part)
        yield

    def finish_epoch(self, optimizers: Mapping[str, Any]) -> None:
        for optimizer in optimizers.values():
            optimizer.flush()

    def concatenate(self, trees: Sequence[Any]) -> Any:
        last = trees[-1]
        if isinstance(last, Mapping):
            return {key: self.concatenate([tree[key] for tree in trees]) for key in last}
        if isinstance(last, (list, tuple)):
            return type(last)(map(self.concatenate, zip(*trees, strict=True)))
        return Tensor(np.concatenate([tree.data for tree in trees])) if isinstance(last, Tensor) and last.ndim else last

    def discard_parts(self, optimizers: Mapping[str, Any]) -> bool:
        answers = [optimizer.discard_parts() for optimizer in optimizers.values()]  # asks every one of them
        return all(answers)

    @contextlib.contextmanager
    def leaving_out(self, network: Module, optimizers: Mapping[str, Any]) -> Iterator[None]:
        notes = [(t, t.data.copy()) for _, t in network.named_tensors() if not isinstance(t, Parameter)]
        before = self.count_left_out(optimizers)
        yield
        if self.count_left_out(optimizers) != before:
            for tensor, data in notes:
                tensor.data[...] = data

    def count_left_out(self, optimizers: Mapping[str, Any]) -> int:
        return sum(optimizer.num_skipped for optimizer in optimizers.values())

    def build_schedules(self, optimizers: Mapping[str, Any], cls: Any, params: Mapping[str, Any]) -> list[Any]:
        if not (isinstance(cls, type) and issubclass(cls, StepDecay)):
            raise ConfigError(f"lr_scheduler_cls must be a schedule of numpy_autograd, e.g. StepDecay, got {cls!r}")
        try:
            return [ScheduleCallback(cls(optimizer, **params)) for optimizer in optimizers.values()]
        except TypeError as error:
            raise ConfigError(
                f"{cls.__name__} cannot be built from lr_scheduler_params={dict(params)}: {error}"
            ) from error

    # ------------------------------------------------------------------ guards

    def scale_rates(self, optimizers: Mapping[str, Any], factor: float) -> None:
        for optimizer in optimizers.values():
            optimizer.lr *= factor

    def average(self, average: Any, network: Module, decay: float) -> dict[str, Any]:
        weights = {name: parameter.data for name, parameter in network.named_parameters()}
        if average is None:
            return {name: array.copy() for name, array in weights.items()}
        return {name: decay * average[name] + (1 - decay) * array for name, array in weights.items()}

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

    def learned_names(self, network: Module) -> frozenset[str]:
        return frozenset(name for name, parameter in network.named_parameters() if parameter.requires_grad)

    def set_learned_names(self, network: Module, names: frozenset[str]) -> None:
        for name, parameter in network.named_parameters():
            parameter.requires_grad = name in names

    def threads(self, number: int | None) -> AbstractContextManager[Any]:
        return contextlib.nullcontext() if number is None else threadpool_limits(number)

    # ------------------------------------------------------------------ for other programs

    def named_weights(self, network: Module) -> dict[str, np.ndarray]:
        return {name: tensor.data.copy() for name, tensor in network.named_tensors()}

    def load_named_weights(self, network: Module, weights: Mapping[str, np.ndarray]) -> None:
        self._check(network, weights)
        self._fill(network, weights)

    def portable_weights(self, network: Module) -> dict[str, np.ndarray]:
        return {name: _transposed(array) for name, array in self.named_weights(network).items()}

    def load_portable_weights(self, network: Module, weights: Mapping[str, np.ndarray]) -> None:
        self.load_named_weights(network, {name: _transposed(array) for name, array in weights.items()})

    def export(self, network: Module, path: Path, example: Mapping[str, Any]) -> None:
        if path.suffix != ".npz":
            raise ConfigError(f"{path}: this room writes .npz (for numpy_autograd.run_program) and .safetensors")
        with self.evaluating(network):
            outputs = network(**example)
            if not all(isinstance(value, Tensor) for value in [*example.values(), *outputs.values()]):
                raise NetworkError(f"{type(network).__name__} has nested inputs or outputs, which .npz cannot hold")
            publish(path, lambda file: save_program(file, network, example))

    # ------------------------------------------------------------------ details

    @staticmethod
    def _check(network: Module, weights: Mapping[str, Any]) -> None:
        own = {name: (tensor.shape, tensor.dtype.name) for name, tensor in network.named_tensors()}
        check_named_weights(network, own, weights)

    @staticmethod
    def _fill(network: Module, weights: Mapping[str, np.ndarray]) -> None:
        for name, tensor in network.named_tensors():
            tensor.data[...] = weights[name]


def _normalising(network: Module) -> list[BatchNorm]:
    """The layers that follow the data."""
    return [layer for layer in network.modules() if isinstance(layer, BatchNorm)]


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _transposed(array: np.ndarray) -> np.ndarray:
    """Matrices are (inputs, outputs) here, and (outputs, inputs) where rooms exchange weights."""
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
