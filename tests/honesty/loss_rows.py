"""Losses in plain numpy, in float64: what each sample, or each of its entries, has; the loss is their mean."""

from typing import Any

import numpy as np


def log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0, -x)


def at_class(scores: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The scores (n, C, ...) of the classes (n, ...)."""
    return np.take_along_axis(scores, label[:, None], 1)[:, 0]


# ---- of numbers


def squared(pred, target):
    return (pred - target) ** 2


def absolute(pred, target):
    return np.abs(pred - target)


def huber(delta: float):
    def rows(pred, target):
        error = np.abs(pred - target)
        return np.where(error < delta, error**2 / 2, delta * (error - delta / 2))

    return rows


def smooth(beta: float):
    return lambda pred, target: huber(beta)(pred, target) / beta


def log_cosh(pred, target):
    return np.log(np.cosh(pred - target))


def cosine(pred, target):
    norms = np.linalg.norm(pred, axis=-1) * np.linalg.norm(target, axis=-1)
    return (pred * target).sum(-1) / norms


# ---- of yes and no


def binary(pred, target):
    return -target * np.log(pred) - (1 - target) * np.log(1 - pred)


def binary_of_logits(positive: Any = 1.0):
    return lambda pred, target: -positive * target * log_sigmoid(pred) - (1 - target) * log_sigmoid(-pred)


def margin_of_signs(pred, target):
    return np.maximum(0, 1 - target * pred)


def hinge_embedding(pred, target):
    return np.where(target > 0, pred, np.maximum(0, 1 - pred))


def soft_margin(pred, target):
    return np.log1p(np.exp(-target * pred))


def focal(alpha: float, gamma: float, logits: bool):
    def rows(pred, target):
        p = 1 / (1 + np.exp(-pred)) if logits else pred
        return -alpha * target * (1 - p) ** gamma * np.log(p) - (1 - alpha) * (1 - target) * p**gamma * np.log(1 - p)

    return rows


# ---- of classes


def cross_entropy(pred, label):
    return -at_class(log_softmax(pred, 1), label)


def negative_log_likelihood(pred, label):
    return -at_class(pred, label)


def entropy_of_shares(pred, target):
    """Of logits and the shares of classes."""
    return -(target * log_softmax(pred)).sum(-1)


def multi_margin(weight: Any):
    def rows(pred, label):
        lack = np.maximum(0, 1 - at_class(pred, label)[:, None] + pred)
        np.put_along_axis(lack, label[:, None], 0, 1)
        return weight[label][:, None] * lack  # the mean over classes counts the right one too

    return rows


# ---- of several predictions


def gaussian(pred, target, var):
    return (np.log(var) + (pred - target) ** 2 / var) / 2


def cosine_embedding(first, second, sign):
    value = cosine(first, second)
    return np.where(sign > 0, 1 - value, np.maximum(0, value))


def ranking(first, second, sign):
    return np.maximum(0, -sign * (first - second))


def triplet(anchor, positive, negative):
    far, near = (np.linalg.norm(anchor - other + 1e-6, axis=-1) for other in (negative, positive))
    return np.maximum(0, 1 + near - far)


# ---- of masks


def masks(pred, label):
    """Softmax of the logits and the masks of the classes, both (n, C, pixels)."""
    n, n_classes = pred.shape[:2]
    shares = np.exp(log_softmax(pred, 1)).reshape(n, n_classes, -1)
    return shares, (label.reshape(n, 1, -1) == np.arange(n_classes)[:, None]).astype(float)


def dice(pred, label, axes: Any = -1):
    p, t = masks(pred, label)
    return 1 - (2 * (p * t).sum(axes) + 1e-5) / (p.sum(axes) + t.sum(axes) + 1e-5)


def dice_of_batch(pred, label):
    return dice(pred, label, (0, 2))


def tversky(pred, label, axes: Any = -1):
    p, t = masks(pred, label)
    hits = (p * t).sum(axes) + 1e-5
    return 1 - hits / (hits + 0.3 * (p * (1 - t)).sum(axes) + 0.7 * ((1 - p) * t).sum(axes))


def tversky_of_batch(pred, label):
    return tversky(pred, label, (0, 2))


def dice_and_entropy(pred, label):
    return dice(pred, label).mean(1) + cross_entropy(pred, label).reshape(len(label), -1).mean(1)
