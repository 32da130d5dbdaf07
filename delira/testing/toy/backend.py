"""A backend in numpy: its one optimizer, all roles, a linear network, and its trainer and experiment."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from delira import contract
from delira.contract import Builder, ByName, Compute, Hooks, Network, Scope, UpdateConfig, default_closure
from delira.contract.checkpoints import optimizer_states
from delira.errors import CheckpointError, ConfigError, DataError, check_numbers, check_whole
from delira.experiments.experiment import BaseExperiment, NetworkT
from delira.models.abstract_network import AbstractNetwork
from delira.models.weights import check_named_weights
from delira.training.trainer import BaseNetworkTrainer
from delira.utils.arrays import map_leaves


class ToyCalls(contract.CallsRole):
    """A network drops inputs while it learns."""

    backend: "ToyBackend"

    def training(self, network: Network) -> Scope:
        """Drop inputs."""
        return _dropping(network, True)

    def evaluating(self, network: Network) -> Scope:
        """Drop none."""
        return _dropping(network, False)

    def set_evaluating(self, network: Network) -> None:
        """Drop none from now on."""
        network.is_training = False

    def key_mapping(self, network: object) -> dict[str, str]:
        """The network's ``x`` is the batch's ``data``."""
        return {"x": "data"}

    def arguments_of(self, network: object) -> None:
        """Return None: the toy's networks are not asked for names of arguments."""
        return

    def call_apart(self, network: Network, inputs: Any, call: Callable[[Any], Any]) -> Any:
        """Call with copies: a network that learns zeroes some inputs, and the gradient reads what it has seen."""
        own = map_leaves(np.copy, inputs)
        if network.is_training and "x" in own:  # its argument, and no batch
            if network.dropout:
                own["x"] = own["x"] * (self.backend.generator.random(own["x"].shape) >= network.dropout)
            network.last_inputs = own["x"]
        return call(own)


@contextlib.contextmanager
def _dropping(network: Network, is_training: bool) -> Iterator[None]:
    before, network.is_training = network.is_training, is_training
    try:
        yield
    finally:
        network.is_training = before


class ToyStep(contract.StepRole):
    """Gradients by hand."""

    def learn(self, optimizer: "ToySGD", step: contract.Step, compute: Compute, backward: Hooks) -> None:
        """The gradient of the first loss by hand, whatever hooks make of it."""
        compute(step)
        contract.mark("forward")
        loss = next(iter(step.losses.values()))
        known = getattr(loss, "difference", None)  # not of a number that hooks made of it
        error = step.predictions["pred"] - step.batch[contract.DEFAULT_LOSS_KEYS[1]] if known is None else known
        with np.errstate(invalid="ignore", over="ignore"):  # a loss that is not finite is the trainer's business
            gradient = 2 * step.network.last_inputs.T @ error / error.size
        contract.run_hooks(backward, step)
        contract.mark("backward")
        optimizer.apply(gradient)
        contract.mark("update")


class ToySGD:
    """Gradient descent with momentum on one array.

    Parameters
    ----------
    weight
        The array to change in place.
    lr
        Learning rate, per step.
    momentum
        Part of the last change that is kept.

    Raises
    ------
    ConfigError
        If the weight is no array of real numbers that can be changed, or a number is impossible.
    """

    def __init__(self, weight: np.ndarray, lr: float = 0.1, momentum: float = 0.0):
        if not isinstance(weight, np.ndarray) or weight.dtype.kind != "f":
            raise ConfigError(f"ToySGD: weight is an array of float32 or float64, got {weight!r:.200}")
        check_numbers(self, at_least=0, lr=lr, momentum=momentum)
        self.weight, self.lr, self.momentum = weight, lr, momentum
        self.velocity = np.zeros_like(weight)

    def apply(self, gradient: np.ndarray) -> None:
        """Change the weight by one step."""
        self.velocity[...] = self.momentum * self.velocity + gradient
        self.weight -= self.lr * self.velocity

    def state_dict(self) -> dict[str, Any]:
        """Learning rate and velocity."""
        return {"lr": self.lr, "velocity": self.velocity.copy()}

    def load_state_dict(self, state: ByName) -> None:
        """Continue from a state."""
        self.lr = float(state["lr"])
        self.velocity[...] = state["velocity"]


class ToyOptimizers(contract.OptimizersRole):
    """One optimizer of the one weight."""

    def build(
        self, network: Network, builder: Builder, optimizer_cls: Any, optimizer_params: ByName, update: UpdateConfig
    ) -> dict[str, Any]:
        """One optimizer of the one weight."""
        if update != UpdateConfig():
            raise ConfigError(
                "the toy backend has neither mixed precision nor accumulation, clipping, skipping or micro-batches"
            )
        if builder is not None:
            return builder(network, optimizer_cls, **optimizer_params)
        try:
            return {"default": (optimizer_cls or ToySGD)(network.weight, **optimizer_params)}
        except TypeError as error:
            raise ConfigError(f"optimizer_params={dict(optimizer_params)} do not fit the optimizer: {error}") from error

    def learning_rates(self, optimizers: ByName) -> dict[str, float]:
        """The rate of the one optimizer."""
        return {"lr": float(optimizers["default"].lr)}

    def scale_rates(self, optimizers: ByName, factor: float) -> None:
        """Multiply the learning rate."""
        for optimizer in optimizers.values():
            optimizer.lr *= factor


class ToyGenerators(contract.GeneratorsRole):
    """The generator of the backend."""

    backend: "ToyBackend"

    def seed(self, seed: int) -> None:
        """Seed the backend's generator."""
        self.backend.generator = np.random.default_rng(seed)

    def state(self) -> Any:
        """State of the backend's generator; its integers are too long for JSON readers elsewhere, so as strings."""
        state = self.backend.generator.bit_generator.state
        return {**state, "state": {name: str(number) for name, number in state["state"].items()}}

    def set_state(self, state: Any) -> None:
        """Continue the backend's generator."""
        whole = {**state, "state": {name: int(number) for name, number in state["state"].items()}}
        self.backend.generator.bit_generator.state = whole


class ToyWeights(contract.WeightsRole):
    """The one weight."""

    def averaged(self, network: Network) -> dict[str, Any]:
        """The one weight."""
        return {"weight": network.weight}

    def learned_names(self, network: object) -> frozenset[str]:
        """The one weight."""
        return frozenset(["weight"])

    def named(self, network: Network) -> dict[str, np.ndarray]:
        """The one weight."""
        return {"weight": network.weight.copy()}

    def load_named(self, network: Network, weights: Mapping[str, np.ndarray]) -> None:
        """Replace the one weight."""
        check_named_weights(network, {"weight": (network.weight.shape, network.weight.dtype.name)}, weights)
        network.weight[...] = weights["weight"]


class ToyCheckpoints(contract.CheckpointsRole):
    """Weight and optimizer in the common container."""

    def state_tree(self, network: Network, optimizers: ByName) -> dict[str, Any]:
        """Weight and optimizer."""
        states = {name: optimizer.state_dict() for name, optimizer in optimizers.items()}
        return {"model": {"weight": network.weight.copy()}, "optimizer": states}

    def load_state_tree(self, tree: ByName, network: Network, optimizers: ByName) -> None:
        """Put weight and optimizer back."""
        weight = tree.get("model", {}).get("weight")
        if weight is None or weight.shape != network.weight.shape:
            found = None if weight is None else weight.shape
            raise CheckpointError(
                f"weight has shape {found} in the checkpoint and {network.weight.shape} in the network"
            )
        states = optimizer_states(tree, optimizers)
        for name, optimizer in optimizers.items():
            optimizer.load_state_dict(states[name])
        network.weight[...] = weight


class ToyBackend(contract.Backend):
    """Numpy, on the CPU, with a generator of its own."""

    name = "toy"
    title = "the toy backend"
    checkpoint_suffix = ".zip"
    roles = (ToyCalls, ToyStep, ToyOptimizers, ToyGenerators, ToyWeights, ToyCheckpoints)

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        super().__init__()


BACKEND = ToyBackend()


def mean_squared_error(prediction: np.ndarray, target: np.ndarray) -> float:
    """Mean of the squared differences; the only loss the toy backend can differentiate.

    Parameters
    ----------
    prediction, target
        Numbers of one shape.

    Raises
    ------
    DataError
        If one of them holds other things or nothing, or their shapes differ.
    """
    arrays = {"prediction": np.asarray(prediction), "target": np.asarray(target)}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or not array.size:
            raise DataError(f"mean_squared_error: {name} is an array of numbers, got {array!r:.200}")
    if arrays["prediction"].shape != arrays["target"].shape:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise DataError(f"mean_squared_error: prediction and target have one shape, got {shapes}")
    difference = np.subtract(arrays["prediction"], arrays["target"], dtype=np.float64)
    error = SquaredError(np.mean(difference**2))
    error.difference = difference
    return error


class SquaredError(float):
    """A mean squared error that knows what it is made of: prediction minus target."""

    difference: np.ndarray


class ToyNetwork(AbstractNetwork):
    """``pred = x @ weight``.

    Parameters
    ----------
    n_features
        Length of a sample.
    dropout
        Probability with which an input is left out in training.
    """

    __delira_backend__ = BACKEND

    def __init__(self, n_features: int = 3, dropout: float = 0.0):
        check_whole(self, at_least=1, n_features=n_features)
        check_numbers(self, at_least=0, at_most=1, dropout=dropout)
        super().__init__(n_features=n_features, dropout=dropout)
        self.weight = BACKEND.generator.normal(scale=0.1, size=(n_features, 1))
        self.dropout = dropout
        self.is_training = False

    def __call__(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Predict: ``x`` of shape (B, n_features) gives ``pred`` of shape (B, 1)."""
        return {"pred": x @ self.weight}

    @staticmethod
    def prepare_batch(batch: ByName, input_device: Any, output_device: Any) -> dict[str, Any]:
        """Numbers become float64; what is none (e.g. a name) passes as it is."""
        arrays = {key: np.asarray(value) for key, value in batch.items()}
        return {key: value.astype(np.float64) if value.dtype.kind in "biuf" else value for key, value in arrays.items()}

    closure = staticmethod(default_closure(BACKEND))


class ToyTrainer(BaseNetworkTrainer):
    """Trains a :class:`ToyNetwork`."""

    backend = BACKEND


class ToyExperiment(BaseExperiment[NetworkT]):
    """Runs experiments with a :class:`ToyTrainer`."""

    trainer_cls = ToyTrainer
