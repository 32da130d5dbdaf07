"""Losses, called as ``loss(prediction, target)``; each is a mean over samples."""

import numpy as np

from numpy_autograd.tensor import Tensor


def mean_squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of the squared differences."""
    return (_difference(prediction, target) ** 2).mean()


def mean_absolute_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of the absolute differences."""
    return _difference(prediction, target).abs().mean()


def cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of the negative logarithms of the probabilities of the true classes.

    Parameters
    ----------
    prediction
        Logits of shape (B, n_classes).
    target
        Numbers of the classes, shape (B,).
    """
    chosen = np.eye(prediction.shape[-1])[np.asarray(target.data, dtype=np.int64)]
    return -(prediction.log_softmax() * chosen).sum(axis=-1).mean()


def _difference(prediction: Tensor, target: Tensor) -> Tensor:
    if prediction.shape != target.shape:  # (n, 1) and (n,) would give (n, n), and nonsense would be learned
        raise ValueError(f"the prediction has shape {prediction.shape}, the target {target.shape}; they must be equal")
    return prediction - target
