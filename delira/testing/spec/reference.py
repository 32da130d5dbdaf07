"""The arithmetic of a training, by hand: float64, one layer, every step written out."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

Batch = dict[str, np.ndarray]
Gradients = list[np.ndarray]


@dataclasses.dataclass
class Dense:
    """``x @ weight + bias``."""

    weight: np.ndarray
    bias: np.ndarray
    has_bias: bool = True

    def __post_init__(self) -> None:
        self.weight, self.bias = np.array(self.weight, dtype=np.float64), np.array(self.bias, dtype=np.float64)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Predict: (n, n_features) gives (n, n_outputs)."""
        return x @ self.weight + self.bias

    def backward(self, x: np.ndarray, slope: np.ndarray) -> Gradients:
        """Gradients of weight and bias from the loss's slope in every output."""
        bias = slope.sum(axis=0) if self.has_bias else np.zeros_like(self.bias)
        return [x.T @ slope, bias]

    @property
    def parameters(self) -> list[np.ndarray]:
        """What is learned."""
        return [self.weight, self.bias]


Slope = Callable[[np.ndarray, np.ndarray], np.ndarray]


def mse(prediction: np.ndarray, target: np.ndarray) -> float:
    """Mean of the squared differences."""
    return float(np.mean((prediction - target) ** 2))


def mse_slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Derivative of :func:`mse` by every prediction."""
    return 2 * (prediction - target) / prediction.size


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """A metric whose mean over batches is not its value over all samples."""
    return float(np.sqrt(np.mean((np.asarray(y_true) - np.asarray(y_pred)) ** 2)))


class Sgd:
    """Gradient descent with momentum.

    Parameters
    ----------
    lr, momentum
        ``v = momentum * v + g``, then ``w = w - lr * v``.
    """

    def __init__(self, lr: float = 0.1, momentum: float = 0.0):
        self.lr, self.momentum = lr, momentum
        self._velocities: Gradients = []

    def update(self, parameters: Sequence[np.ndarray], gradients: Gradients) -> None:
        """Change the parameters in place."""
        self._velocities = self._velocities or [np.zeros_like(parameter) for parameter in parameters]
        for parameter, velocity, gradient in zip(parameters, self._velocities, gradients, strict=True):
            velocity[...] = self.momentum * velocity + gradient
            parameter -= self.lr * velocity


class Adam:
    """Adam (Kingma and Ba, 2015) with the factors 0.9 and 0.999.

    Parameters
    ----------
    lr
        Learning rate.
    """

    def __init__(self, lr: float):
        self.lr = lr
        self._n_updates = 0
        self._moments: list[tuple[np.ndarray, np.ndarray]] = []

    def update(self, parameters: Sequence[np.ndarray], gradients: Gradients) -> None:
        """Change the parameters in place."""
        self._moments = self._moments or [(np.zeros_like(one), np.zeros_like(one)) for one in parameters]
        self._n_updates += 1
        for parameter, (first, second), gradient in zip(parameters, self._moments, gradients, strict=True):
            first[...] = 0.9 * first + 0.1 * gradient
            second[...] = 0.999 * second + 0.001 * gradient**2
            corrected = second / (1 - 0.999**self._n_updates)
            parameter -= self.lr * first / (1 - 0.9**self._n_updates) / (np.sqrt(corrected) + 1e-12)


def descend(
    dense: Dense,
    batches: Iterable[Batch],
    optimizer: Sgd | Adam | None = None,
    slope: Slope = mse_slope,
    change: Callable[[Gradients], Gradients] = list,
) -> tuple[list[float], list[np.ndarray]]:
    """Train a layer on batches, one update for each, in place.

    Parameters
    ----------
    dense
        The layer.
    batches
        With ``data`` and ``label``.
    optimizer
        ``Sgd(0.1, 0.5)``, as :meth:`BackendUnderTest.settings` has it, unless told otherwise.
    slope
        Derivative of the loss by every prediction.
    change
        What is done to the gradients before the update.

    Returns
    -------
    tuple
        The mean squared errors and the predictions of the batches, each before its update.
    """
    optimizer = Sgd(0.1, 0.5) if optimizer is None else optimizer
    losses, predictions = [], []
    for batch in batches:
        prediction = dense(batch["data"])
        predictions.append(prediction)
        losses.append(mse(prediction, batch["label"]) if prediction.shape == batch["label"].shape else np.nan)
        optimizer.update(dense.parameters, change(dense.backward(batch["data"], slope(prediction, batch["label"]))))
    return losses, predictions


def weighted(losses: Sequence[float], batches: Sequence[Batch]) -> list[float]:
    """Mean losses of epochs of the same batches, each weighted by its number of samples."""
    sizes = [len(batch["data"]) for batch in batches]
    return np.average(np.reshape(losses, (-1, len(batches))), axis=1, weights=sizes).tolist()
