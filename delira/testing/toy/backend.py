"""The verbs of the contract in numpy."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira.contract import DEFAULT_LOSS_KEYS, Backend, Devices, Step, UpdateConfig, mark, run_hooks
from delira.errors import CheckpointError, ConfigError, NetworkError
from delira.models.weights import check_named_weights
from delira.testing.toy.optimizers import ToySGD
from delira.utils.single_numbers import read_numbers
from delira.utils.trees import map_leaves


class ToyBackend(Backend):
    """Numpy, on the CPU, with a generator of its own."""

    name = "toy"
    checkpoint_suffix = ".zip"

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def devices(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        """The CPU."""
        if gpu_ids or device not in (None, "auto", "cpu"):
            raise ConfigError(f"the toy room computes on the CPU only, got gpu_ids={list(gpu_ids)}, device={device!r}")
        return Devices("cpu", "cpu")

    def devices_of(self, network: Any) -> Devices:
        """The CPU."""
        return Devices("cpu", "cpu")

    def place(self, network: Any, losses: Mapping[str, Any], devices: Devices) -> Any:
        """Nothing moves."""
        return network

    @contextlib.contextmanager
    def training(self, network: Any) -> Iterator[None]:
        """Drop inputs."""
        before, network.is_training = network.is_training, True
        try:
            yield
        finally:
            network.is_training = before

    @contextlib.contextmanager
    def evaluating(self, network: Any) -> Iterator[None]:
        """Drop none."""
        before, network.is_training = network.is_training, False
        try:
            yield
        finally:
            network.is_training = before

    def set_evaluating(self, network: Any) -> None:
        """Drop none from now on."""
        network.is_training = False

    def key_mapping(self, network: Any) -> dict[str, str]:
        """The network's ``x`` is the batch's ``data``."""
        return {"x": "data"}

    def build_optimizers(
        self,
        network: Any,
        builder: Callable[..., dict[str, Any]] | None,
        optimizer_cls: Any,
        optimizer_params: Mapping[str, Any],
        update: UpdateConfig,
    ) -> dict[str, Any]:
        """One optimizer of the one weight."""
        if update != UpdateConfig():
            raise ConfigError(
                "the toy room has neither mixed precision nor accumulation, clipping, skipping or micro-batches"
            )
        if builder is not None:
            return builder(network, optimizer_cls, **optimizer_params)
        try:
            return {"default": (optimizer_cls or ToySGD)(network.weight, **optimizer_params)}
        except TypeError as error:
            raise ConfigError(f"optimizer_params={dict(optimizer_params)} do not fit the optimizer: {error}") from error

    def learning_rates(self, optimizers: Mapping[str, Any]) -> dict[str, float]:
        """The rate of the one optimizer."""
        return {"lr": float(optimizers["default"].lr)}

    def call_apart(self, network: Any, inputs: Any, call: Callable[[Any], Any]) -> Any:
        """Call with copies, of which a network that learns drops inputs; the gradient is made of what it has seen."""
        own = map_leaves(np.copy, inputs)
        if network.is_training and "x" in own:  # its argument, and no batch
            if network.dropout:
                own["x"] = own["x"] * (self.generator.random(own["x"].shape) >= network.dropout)
            network.seen = own["x"]
        return call(own)

    def learn(
        self,
        optimizer: ToySGD,
        step: Step,
        compute: Callable[[Step], Step],
        backward: Sequence[Callable[[Step], None]],
    ) -> None:
        """The gradient of the first loss by hand, whatever hooks make of it."""
        compute(step)
        mark("forward")
        loss = next(iter(step.losses.values()))
        known = getattr(loss, "difference", None)  # not of a number that hooks made of it
        error = step.predictions["pred"] - step.batch[DEFAULT_LOSS_KEYS[1]] if known is None else known
        with np.errstate(invalid="ignore", over="ignore"):  # a loss that is not finite is the trainer's business
            gradient = 2 * step.network.seen.T @ error / error.size
        run_hooks(backward, step)
        mark("backward")
        optimizer.apply(gradient)
        mark("update")

    def to_numpy(self, tree: Any) -> Any:
        """Everything is numpy already."""
        return tree

    def read_scalars(self, values: Sequence[Any]) -> np.ndarray:
        """One array of the values."""
        if wrong := [np.shape(value) for value in values if np.size(value) != 1]:
            raise NetworkError(
                f"a loss or training metric has the shape {wrong[0]}; the closure returns single numbers"
            )
        return read_numbers(values)

    def seed(self, seed: int) -> None:
        """Seed the room's generator."""
        self.generator = np.random.default_rng(seed)

    def generator_state(self) -> Any:
        """State of the room's generator; its integers are too long for JSON readers elsewhere, so as strings."""
        state = self.generator.bit_generator.state
        return {**state, "state": {name: str(number) for name, number in state["state"].items()}}

    def set_generator_state(self, state: Any) -> None:
        """Continue the room's generator."""
        whole = {**state, "state": {name: int(number) for name, number in state["state"].items()}}
        self.generator.bit_generator.state = whole

    def scale_rates(self, optimizers: Mapping[str, Any], factor: float) -> None:
        """Multiply the learning rate."""
        for optimizer in optimizers.values():
            optimizer.lr *= factor

    def average(self, average: Any, network: Any, decay: float) -> dict[str, Any]:
        """Average the one weight."""
        if average is None:
            return {"weight": network.weight.copy()}
        return {"weight": decay * average["weight"] + (1 - decay) * network.weight}

    def learned_names(self, network: Any) -> frozenset[str]:
        """The one weight."""
        return frozenset(["weight"])

    def state_tree(self, network: Any, optimizers: Mapping[str, Any]) -> dict[str, Any]:
        """Weight and optimizer."""
        states = {name: optimizer.state_dict() for name, optimizer in optimizers.items()}
        return {"model": {"weight": network.weight.copy()}, "optimizer": states}

    def load_state_tree(self, tree: Mapping[str, Any], network: Any, optimizers: Mapping[str, Any]) -> None:
        """Put weight and optimizer back."""
        weight = tree.get("model", {}).get("weight")
        if weight is None or weight.shape != network.weight.shape:
            found = None if weight is None else weight.shape
            raise CheckpointError(
                f"weight has shape {found} in the checkpoint and {network.weight.shape} in the network"
            )
        states = tree.get("optimizer", {})
        if missing := sorted(optimizers.keys() - states.keys()):
            raise CheckpointError(f"the checkpoint has no optimizer {missing}; it has {sorted(states)}")
        for name, optimizer in optimizers.items():
            optimizer.load_state_dict(states[name])
        network.weight[...] = weight

    def named_weights(self, network: Any) -> dict[str, np.ndarray]:
        """The one weight."""
        return {"weight": network.weight.copy()}

    def load_named_weights(self, network: Any, weights: Mapping[str, np.ndarray]) -> None:
        """Replace the one weight."""
        check_named_weights(network, {"weight": (network.weight.shape, network.weight.dtype.name)}, weights)
        network.weight[...] = weights["weight"]


BACKEND = ToyBackend()
