"""Small trials of each framework for the tests of numbers: a line through 24 points, fitted by gradient descent."""

import importlib
from typing import Any

import numpy as np
import pytest

import delira

#: framework -> package that must be there, with the framework or beside it
PACKAGES = {"torch": "torch", "tensorflow": "keras", "jax": "flax", "sklearn": "skops"}  # skops stores estimators
DIFFERENTIABLE = ["torch", "tensorflow", "jax"]

_rng = np.random.default_rng(0)
INPUTS = _rng.normal(size=(24, 3)).astype("f4")
TARGETS = (INPUTS @ np.array([[1.0], [-2.0], [0.5]]) + 0.3 * _rng.normal(size=(24, 1))).astype("f4")


def need(framework: str) -> None:
    """Skip the test where the framework is not installed."""
    pytest.importorskip(PACKAGES[framework])


def seed(framework: str, number: int) -> None:
    """Seed the global generator as users of the framework do."""
    if framework == "torch":
        importlib.import_module("torch").manual_seed(number)
    elif framework == "tensorflow":
        importlib.import_module("keras").utils.set_random_seed(number)
    else:
        np.random.seed(number)


def next_draw(framework: str) -> float:
    """The next number of that generator."""
    if framework == "torch":
        return float(importlib.import_module("torch").rand(()))
    if framework == "tensorflow":
        return float(importlib.import_module("tensorflow").random.uniform(()))
    return float(np.random.uniform())


def line(framework: str) -> Any:
    """A linear network of three inputs and one output, whose weights are 0.1."""
    start = np.full((3, 1), 0.1, "f4")
    if framework == "torch":
        torch = importlib.import_module("torch")
        net = torch.nn.Linear(3, 1, bias=False)
        net.weight.data = torch.tensor(start.T.copy())
        return net
    if framework == "tensorflow":
        keras = importlib.import_module("keras")
        net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
        net.set_weights([start])
        return net
    if framework == "jax":
        from flax import nnx

        net = nnx.Linear(3, 1, use_bias=False, rngs=nnx.Rngs(0))
        net.kernel[...] = start
        return net
    return importlib.import_module("sklearn.linear_model").SGDRegressor(random_state=0, eta0=0.05)


def optimizer(framework: str, net: Any, rate: float = 0.05, name: str = "adam") -> Any:
    """An optimizer of the framework, of the weights of a network."""
    if framework == "torch":
        optim = importlib.import_module("torch").optim
        return {"adam": optim.Adam, "sgd": optim.SGD}[name](net.parameters(), rate)
    if framework == "tensorflow":
        optimizers = importlib.import_module("keras").optimizers
        return {"adam": optimizers.Adam, "sgd": optimizers.SGD}[name](rate)
    optax = importlib.import_module("optax")
    return {"adam": optax.adam, "sgd": optax.sgd}[name](rate)


def squared_error(prediction: Any, target: Any) -> Any:
    """The mean squared error, in the operations that all frameworks share."""
    return ((prediction - target) ** 2).mean() if hasattr(prediction, "mean") else _mean((prediction - target) ** 2)


def _mean(values: Any) -> Any:
    return importlib.import_module("tensorflow").reduce_mean(values)


def weights(framework: str, net: Any) -> np.ndarray:
    """The weights of :func:`line`, of shape ``(3,)``."""
    if framework == "torch":
        return net.weight.detach().numpy().ravel().copy()
    if framework == "tensorflow":
        return np.array(net.get_weights()[0]).ravel()
    return np.array(net.kernel[...]).ravel() if framework == "jax" else np.array(net.coef_).ravel()


def line_trial(
    framework: str, callbacks: Any = (), metrics: Any = ("loss",), *, batch_size: int = 5, **settings: Any
) -> Any:
    """A trial of :func:`line`; ``net`` and ``criterion`` replace the usual ones."""
    net = settings.pop("net") if "net" in settings else line(framework)
    criterion = settings.pop("criterion", squared_error)
    how = settings.pop("how", "adam")
    learns = framework != "sklearn"
    made = optimizer(framework, net, name=how) if learns else None
    settings.setdefault("verbose", 0)
    trial = delira.Trial(net, made, criterion if learns else _of_rows, metrics, callbacks, **settings)
    return trial.with_train_data(INPUTS, TARGETS if learns else TARGETS[:, 0], batch_size=batch_size)


def _of_rows(prediction: Any, target: Any) -> Any:
    return float(np.mean((np.asarray(prediction).ravel() - np.asarray(target).ravel()) ** 2))
