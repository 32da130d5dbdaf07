"""The same training in numpy, with float64 and gradients by hand."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Weights = dict[str, np.ndarray]

#: shapes in the layout of the role ``weights``, as it says by ``portable``
SHAPES = {
    "mlp": {"hidden": (32, 64), "head": (10, 32)},
    "convnet": {"first": (4, 1, 3, 3), "second": (8, 4, 3, 3), "head": (10, 32)},
}


def initial_weights(network: str) -> Weights:
    """Weights by name, biases included, float32 so that every backend can hold them."""
    rng, weights = np.random.default_rng(0), {}
    for layer, shape in SHAPES[network].items():
        bound = 1 / np.sqrt(np.prod(shape[1:]))
        weights[f"{layer}.weight"] = rng.uniform(-bound, bound, shape).astype(np.float32)
        weights[f"{layer}.bias"] = rng.uniform(-bound, bound, shape[0]).astype(np.float32)
    return weights


def train(network: str, optimizer: str, lr: float, batches: Iterable[Mapping[str, Any]]) -> np.ndarray:
    """Losses of all steps, before the update of each."""
    weights = {name: array.astype(np.float64) for name, array in initial_weights(network).items()}
    gradients_of = {"mlp": _mlp, "convnet": _convnet}[network]
    update = {"SGD": _Momentum, "Adam": _Adam}[optimizer](lr)
    losses = []
    for batch in batches:
        loss, gradients = gradients_of(weights, batch["data"].astype(np.float64), batch["label"])
        update(weights, gradients)
        losses.append(loss)
    return np.array(losses)


# ------------------------------------------------------------------ networks


def _mlp(weights: Weights, x: np.ndarray, label: np.ndarray) -> tuple[float, Weights]:
    hidden = x @ weights["hidden.weight"].T + weights["hidden.bias"]
    active = np.maximum(hidden, 0)
    loss, error = _cross_entropy(active @ weights["head.weight"].T + weights["head.bias"], label)
    back = error @ weights["head.weight"] * (hidden > 0)
    return loss, {**_dense("head", error, active), **_dense("hidden", back, x)}


def _convnet(weights: Weights, x: np.ndarray, label: np.ndarray) -> tuple[float, Weights]:
    """Twice a 3x3 convolution with padding, a rectifier and 2x2 means; then a dense layer on all of it."""
    first, patches_1 = _convolve(x, weights["first.weight"], weights["first.bias"])
    pooled_1 = _means(np.maximum(first, 0))
    second, patches_2 = _convolve(pooled_1, weights["second.weight"], weights["second.bias"])
    pooled_2 = _means(np.maximum(second, 0))
    flat = pooled_2.reshape(len(x), -1)
    loss, error = _cross_entropy(flat @ weights["head.weight"].T + weights["head.bias"], label)
    gradients = _dense("head", error, flat)
    back = _spread((error @ weights["head.weight"]).reshape(pooled_2.shape)) * (second > 0)
    gradients |= _convolution("second", back, patches_2)
    back = _spread(_into_patches_of(back, weights["second.weight"], pooled_1.shape)) * (first > 0)
    return loss, {**gradients, **_convolution("first", back, patches_1)}


def _cross_entropy(logits: np.ndarray, label: np.ndarray) -> tuple[float, np.ndarray]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(label))
    error = np.exp(log_probabilities)
    error[rows, label] -= 1
    return float(-log_probabilities[rows, label].mean()), error / len(label)


def _dense(name: str, error: np.ndarray, inputs: np.ndarray) -> Weights:
    return {f"{name}.weight": error.T @ inputs, f"{name}.bias": error.sum(axis=0)}


def _convolve(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # (B, C, H, W, 3, 3)
    return np.einsum("bchwij,ocij->bohw", patches, weight) + bias[:, None, None], patches


def _convolution(name: str, error: np.ndarray, patches: np.ndarray) -> Weights:
    weight = np.einsum("bohw,bchwij->ocij", error, patches)
    return {f"{name}.weight": weight, f"{name}.bias": error.sum(axis=(0, 2, 3))}


def _into_patches_of(error: np.ndarray, weight: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of what a convolution read, shape (B, C, H, W)."""
    padded = np.zeros((*shape[:2], shape[2] + 2, shape[3] + 2))
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + shape[2], j : j + shape[3]] += np.einsum("bohw,oc->bchw", error, weight[:, :, i, j])
    return padded[:, :, 1:-1, 1:-1]


def _means(x: np.ndarray) -> np.ndarray:
    batch, channels, height, width = x.shape
    return x.reshape(batch, channels, height // 2, 2, width // 2, 2).mean(axis=(3, 5))


def _spread(error: np.ndarray) -> np.ndarray:
    return error.repeat(2, axis=2).repeat(2, axis=3) / 4


# ------------------------------------------------------------------ optimizers


class _Momentum:
    """Gradient descent with momentum 0.9."""

    def __init__(self, lr: float):
        self.lr, self.velocity = lr, {}

    def __call__(self, weights: Weights, gradients: Weights) -> None:
        for name, gradient in gradients.items():
            self.velocity[name] = 0.9 * self.velocity.get(name, 0) + gradient
            weights[name] = weights[name] - self.lr * self.velocity[name]


class _Adam:
    """Kingma and Ba (2015), with their beta1 = 0.9, beta2 = 0.999, and epsilon 1e-12."""

    def __init__(self, lr: float):
        self.lr, self.first, self.second, self.number = lr, {}, {}, 0

    def __call__(self, weights: Weights, gradients: Weights) -> None:
        self.number += 1
        for name, gradient in gradients.items():
            self.first[name] = 0.9 * self.first.get(name, 0) + 0.1 * gradient
            self.second[name] = 0.999 * self.second.get(name, 0) + 0.001 * gradient**2
            first = self.first[name] / (1 - 0.9**self.number)
            second = self.second[name] / (1 - 0.999**self.number)
            weights[name] = weights[name] - self.lr * first / (np.sqrt(second) + 1e-12)
